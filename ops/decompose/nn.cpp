// SPDX-License-Identifier: Apache-2.0
//
// Neural-network operators as small graphs of primitives. Each gives the operator's values up to
// rounding of intermediate results; half types are computed in f32 where a step in the half type
// could overflow or lose what the whole operator keeps.
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/dtype.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

bool is_float(uint32_t dtype) { return dtype >= BP_DTYPE_F16 && dtype <= BP_DTYPE_F64; }

/// Whether a constant of the dtype holds the factor as the operator means it: integers wrap, and a
/// constant out of range would saturate.
bool holds_factor(uint32_t dtype, double factor) {
  if (is_float(dtype)) return true;
  const bool is_signed = dtype >= BP_DTYPE_I8 && dtype <= BP_DTYPE_I64;
  const int value_bits = static_cast<int>(dtype_bits(dtype)) - (is_signed ? 1 : 0);
  const double limit = std::ldexp(1.0, value_bits);
  return factor < limit && factor >= (is_signed ? -limit : 0.0);
}

ValueId transposed(Builder& builder, ValueId value, bool wanted) {
  return wanted ? builder.op("transpose", {value}) : value;
}

ValueId scaled(Builder& builder, ValueId value, uint32_t dtype, double factor) {
  return factor == 1.0 ? value : builder.op("mul", {value, builder.scalar(dtype, factor)});
}

/// Reduces one axis and keeps it with size 1.
ValueId reduced(Builder& builder, std::string_view op_name, ValueId value, int64_t axis) {
  Attributes attributes = builder.attributes(op_name);
  const std::array<int64_t, 1> axes{axis};
  builder.check(attributes.set_i64s("axes", axes));
  builder.check(attributes.set_i64("keepdims", 1));
  return builder.op(op_name, {value}, std::move(attributes));
}

}  // namespace

// alpha * A' B' + beta * c. c is left out where beta is 0, as the operator never reads it then.
Status decompose_gemm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_gemm>(context.attributes);
  const uint32_t dtype = context.inputs[0].dtype;
  if (!holds_factor(dtype, attributes.alpha) || !holds_factor(dtype, attributes.beta)) {
    return {BP_UNSUPPORTED, "alpha or beta does not fit " + std::string(dtype_name(dtype))};
  }
  Builder builder(context, {"a", "b", "c"}, graph);
  const bool adds_c = builder.input(2) != kNoValue && attributes.beta != 0;
  // Without factors a half product is kept: the matrix product is what half types are fast at, and
  // one more rounding before the bias is what frameworks accept. A factor could have to bring an
  // overflowed product back.
  const bool has_factor = attributes.alpha != 1 || (adds_c && attributes.beta != 1);
  const uint32_t work = has_factor ? working_dtype(dtype) : dtype;
  const ValueId a =
      transposed(builder, builder.cast(builder.input(0), work), attributes.trans_a != 0);
  const ValueId b =
      transposed(builder, builder.cast(builder.input(1), work), attributes.trans_b != 0);
  ValueId y = scaled(builder, builder.op("matmul", {a, b}), work, attributes.alpha);
  if (adds_c) {
    const ValueId c = scaled(builder, builder.cast(builder.input(2), work), work, attributes.beta);
    y = builder.op("add", {y, c});
  }
  return builder.finish(builder.cast(y, dtype));
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
  const ValueId highest = reduced(builder, "reduce_max", x, axis);
  const ValueId powers = builder.op("exp", {builder.op("sub", {x, highest})});
  const ValueId sum = reduced(builder, "reduce_sum", powers, axis);
  return builder.finish(builder.cast(builder.op("div", {powers, sum}), dtype));
}

// The same values for every x; only the sign of a zero may differ.
Status decompose_relu(const InferContext& context, GraphBuilder* graph) {
  Builder builder(context, {"x"}, graph);
  const ValueId zero = builder.scalar(context.inputs[0].dtype, 0);
  return builder.finish(builder.op("max", {builder.input(0), zero}));
}

}  // namespace bp::ops
