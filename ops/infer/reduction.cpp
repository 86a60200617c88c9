// SPDX-License-Identifier: Apache-2.0
//
// Inference of reductions.
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

Status infer_reduce(const TensorType& x, bp_i64_span axes, bool keep_dims, TensorType* out_type) {
  if (!x.has_rank) {
    // Over all dimensions without keeping them, the rank is 0 whatever it was.
    if (keep_dims || axes.count > 0) unknown_rank(out_type);
    return {};
  }
  BP_TRY_ASSIGN(const uint32_t mask, resolve_axes("axes", values(axes), x.sizes.size()));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    const bool reduced = (mask >> i & 1) != 0;
    if (!reduced) {
      out_type->sizes.push_back(x.sizes[i]);
    } else if (keep_dims) {
      out_type->sizes.push_back(1);
    }
  }
  return {};
}

}  // namespace

Status infer_reduce_max(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_reduce_max>(context.attributes);
  return infer_reduce(context.inputs[0], attributes.axes, attributes.keepdims != 0, &out_types[0]);
}

Status infer_reduce_sum(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_reduce_sum>(context.attributes);
  return infer_reduce(context.inputs[0], attributes.axes, attributes.keepdims != 0, &out_types[0]);
}

}  // namespace bp::ops
