// SPDX-License-Identifier: Apache-2.0
//
// The inference rules that rows name; see rules.hpp.
#include "ops/infer/rules.hpp"

namespace bp::ops {

Status broadcast_inputs(const InferContext& context, std::string_view what, TensorType* out_type) {
  for (const TensorType& input : context.inputs) {
    if (!input.has_rank) {
      unknown_rank(out_type);
      return {};
    }
  }
  Dims sizes = context.inputs[0].sizes;
  for (const TensorType& input : context.inputs.subspan(1)) {
    BP_TRY_ASSIGN(sizes, broadcast(sizes, input.sizes, what));
  }
  out_type->sizes = sizes;
  return {};
}

Status like_input(const InferContext& context, size_t index, TensorType* out_type) {
  same_sizes(context.inputs[index], out_type);
  return {};
}

Status reduce_input(const InferContext& context, bp_i64_span axes, bool keep_dims,
                    TensorType* out_type) {
  const TensorType& x = context.inputs[0];
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

}  // namespace bp::ops
