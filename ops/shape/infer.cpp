// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that look at the sizes of their input alone.
#include "ops/infer/common.hpp"
#include "ops/shape/dimension_range.hpp"

namespace bp::ops {

Status infer_shape(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  out_types[0].sizes = {kUnknownDim};
  if (!x.has_rank) return {};
  const auto [begin, end] = dimension_range(attrs<bp_attrs_shape>(context.attributes),
                                            static_cast<int64_t>(x.sizes.size()));
  out_types[0].sizes = {end - begin};
  return {};
}

Status infer_size(const InferContext&, std::span<TensorType> out_types) {
  out_types[0].sizes = {};
  return {};
}

}  // namespace bp::ops
