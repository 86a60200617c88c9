// SPDX-License-Identifier: Apache-2.0
//
// Inference of running sums and products.
#include "backplane/ops/scan.h"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

Status infer_scan(const InferContext& context, TensorType* out_type) {
  const TensorType& x = context.inputs[0];
  const TensorType& axis = context.inputs[1];
  same_sizes(x, out_type);
  const bool is_list = axis.has_rank && axis.sizes.size() == 1;
  if (axis.has_rank &&
      (axis.sizes.size() > 1 || (is_list && is_known(axis.sizes[0]) && axis.sizes[0] != 1))) {
    return input_error("axis", expected_found("one value", axis.sizes));
  }
  if (!x.has_rank) return {};
  if (x.sizes.empty()) return input_error("x", "expected rank 1 or more, found rank 0");
  const auto* const known = static_cast<const int64_t*>(context.host_data[1]);
  const auto rank = static_cast<int64_t>(x.sizes.size());
  if (known == nullptr || (*known >= -rank && *known < rank)) return {};
  return input_error(
      "axis", expected_found(std::to_string(-rank) + " to " + std::to_string(rank - 1), *known));
}

}  // namespace

Status infer_cumsum(const InferContext& context, std::span<TensorType> out_types) {
  return infer_scan(context, &out_types[0]);
}

Status infer_cumprod(const InferContext& context, std::span<TensorType> out_types) {
  return infer_scan(context, &out_types[0]);
}

}  // namespace bp::ops
