// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that read or make indices.
#include "backplane/ops/indexing.h"
#include "ops/infer/common.hpp"

namespace bp::ops {

Status infer_gather(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  if (!x.has_rank || !indices.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const int64_t axis_value = attrs<bp_attrs_gather>(context.attributes).axis;
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, x.sizes.size()));
  const size_t rank = x.sizes.size() + indices.sizes.size() - 1;
  if (rank > BP_MAX_RANK) {
    return input_error("indices", "the output would have rank " + std::to_string(rank) +
                                      ", above " + std::to_string(BP_MAX_RANK));
  }
  const auto index_count = size_product(indices.sizes);
  if (x.sizes[axis] == 0 && index_count && is_known(*index_count) && *index_count > 0) {
    return input_error("x", "dimension " + std::to_string(axis) + " of " + to_string(x.sizes) +
                                " has nothing to gather from");
  }
  Dims& out_sizes = out_types[0].sizes;
  for (size_t i = 0; i < axis; ++i) out_sizes.push_back(x.sizes[i]);
  for (int64_t size : indices.sizes) out_sizes.push_back(size);
  for (size_t i = axis + 1; i < x.sizes.size(); ++i) out_sizes.push_back(x.sizes[i]);
  return {};
}

Status infer_non_zero(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    out_types[0].sizes = Dims{kUnknownDim, kUnknownDim};
    return {};
  }
  // Every element may be nonzero. A scalar has no index, only a count.
  const auto count = size_product(x.sizes);
  if (!count) {
    return input_error("x", "sizes " + to_string(x.sizes) + " have too many elements to count");
  }
  out_types[0].sizes = Dims{static_cast<int64_t>(x.sizes.size()), *count};
  return {};
}

}  // namespace bp::ops
