// SPDX-License-Identifier: Apache-2.0
//
// Neural-network operators as small graphs of primitives. Each gives the operator's values up to
// rounding of intermediate results; half types are computed in f32 where a step in the half type
// could overflow or lose what the whole operator keeps.
#include <algorithm>

#include "backplane/ops/nn.h"
#include "ops/decompose/builder.hpp"
#include "ops/decompose/epilogue.hpp"
#include "ops/infer/common.hpp"
#include "ops/nn/window.hpp"

namespace bp::ops {
Status decompose_conv(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_conv>(context.attributes);
  const TensorType& w = context.inputs[1];
  if (!w.has_rank) return {BP_UNSUPPORTED, "the rank of w is not known"};
  const Dims kernel(std::span(w.sizes.data(), w.sizes.size()).subspan(2));
  BP_TRY_ASSIGN(const Window window, resolve_window(kernel, "input 'w'",
                                                    {.strides = attributes.strides,
                                                     .pads = attributes.pads,
                                                     .dilations = attributes.dilations,
                                                     .auto_pad = attributes.auto_pad}));
  if (window.auto_pad == AutoPad::kNone) {
    return decompose_epilogue(context, "conv", {"x", "w", "b", "addend"}, graph);
  }
  return decompose_auto_pad(context, "conv", {"x", "w", "b", "addend"}, window, graph);
}

std::optional<Absorbed> absorb_conv(const AbsorbContext& context) {
  return absorb_epilogue(context, [](const Dims& addend, const Dims& output) {
    return addend == output && std::count(output.begin(), output.end(), kUnknownDim) == 0;
  });
}

// x * s + t with s = scale / sqrt(var + epsilon) and t = bias - mean * s: with constant parameters
// only the multiplication and the addition are left after folding.
Status decompose_batch_norm(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  const double epsilon = attrs<bp_attrs_batch_norm>(context.attributes).epsilon;
  Builder builder(context, {"x", "scale", "bias", "mean", "var"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const auto param = [&](size_t i) { return builder.cast(builder.input(i), work); };

  const ValueId shifted = builder.op("add", {param(4), builder.scalar(work, epsilon)});
  const ValueId inverse = builder.op("reciprocal", {builder.op("sqrt", {shifted})});
  const ValueId scale = builder.op("mul", {param(1), inverse});
  const ValueId shift = builder.op("sub", {param(2), builder.op("mul", {param(3), scale})});
  // Channels are dimension 1: [C, 1, 1, ...] broadcasts against [N, C, spatial...].
  Dims shape;
  shape.resize(x.sizes.size() - 1, 1);
  shape[0] = -1;
  const std::span<const int64_t> shape_span(shape.data(), shape.size());
  const ValueId product = builder.op("mul", {param(0), builder.reshape(scale, shape_span)});
  const ValueId y = builder.op("add", {product, builder.reshape(shift, shape_span)});
  return builder.finish(builder.cast(y, x.dtype));
}

Status decompose_softmax(const InferContext& context, GraphBuilder* graph) {
  const int64_t axis = attrs<bp_attrs_softmax>(context.attributes).axis;
  Builder builder(context, {"x"}, graph);
  const uint32_t dtype = context.inputs[0].dtype;
  const ValueId x = builder.cast(builder.input(0), working_dtype(dtype));
  const ValueId highest = builder.reduce_axis("reduce_max", x, axis);
  const ValueId powers = builder.op("exp", {builder.op("sub", {x, highest})});
  const ValueId sum = builder.reduce_axis("reduce_sum", powers, axis);
  return builder.finish(builder.cast(builder.op("div", {powers, sum}), dtype));
}

}  // namespace bp::ops
