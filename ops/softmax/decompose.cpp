// SPDX-License-Identifier: Apache-2.0
//
// What softmax's relatives are made of.
#include "backplane/ops/softmax.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
Status decompose_log_softmax(const InferContext& context, GraphBuilder* graph) {
  const int64_t axis = attrs<bp_attrs_log_softmax>(context.attributes).axis;
  Builder builder(context, {"x"}, graph);
  const uint32_t dtype = context.inputs[0].dtype;
  const ValueId x = builder.cast(builder.input(0), working_dtype(dtype));
  const ValueId below = builder.op("sub", {x, builder.reduce_axis("reduce_max", x, axis)});
  const ValueId sum = builder.reduce_axis("reduce_sum", builder.op("exp", {below}), axis);
  return builder.finish(builder.cast(builder.op("sub", {below, builder.op("log", {sum})}), dtype));
}

Status decompose_hardmax(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  const int64_t given = attrs<bp_attrs_hardmax>(context.attributes).axis;
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", given, x.sizes.size()));
  if (!is_known(x.sizes[axis])) return {BP_UNSUPPORTED, "the size of the axis is not known"};
  Builder builder(context, {"x"}, graph);
  Attributes along = builder.attributes("argmax");
  builder.check(along.set_i64("axis", static_cast<int64_t>(axis)));
  const ValueId highest = builder.op("argmax", {builder.input(0)}, std::move(along));
  Dims sizes;
  sizes.resize(x.sizes.size() - axis, 1);
  sizes[0] = x.sizes[axis];
  const ValueId here = builder.integers(sizes, builder.counted(x.sizes[axis]));
  return builder.finish(builder.cast(builder.op("equal", {highest, here}), x.dtype));
}

}  // namespace bp::ops
