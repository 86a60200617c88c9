// SPDX-License-Identifier: Apache-2.0
//
// Matrix products with more to them as small graphs of primitives.
#include <cmath>

#include "backplane/ops/linalg.h"
#include "core/base/dtype.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/decompose/epilogue.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// Whether a constant of the dtype holds the factor as the operator means it: integers wrap, and a
/// constant out of range would saturate.
bool holds_factor(uint32_t dtype, double factor) {
  if (is_float_dtype(dtype)) return true;
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
  return builder.finish(
      apply_activation(activation_of(attributes), builder.cast(y, dtype), dtype, &builder));
}

std::optional<Absorbed> absorb_gemm(const AbsorbContext& context) {
  return absorb_epilogue(context, [](const Dims&, const Dims&) { return false; });
}

Status decompose_matmul(const InferContext& context, GraphBuilder* graph) {
  return decompose_epilogue(context, "matmul", {"a", "b", "addend"}, graph);
}

std::optional<Absorbed> absorb_matmul(const AbsorbContext& context) {
  return absorb_epilogue(context, [](const Dims& addend, const Dims& output) {
    bool fits = addend.size() <= output.size();
    for (size_t i = 0; fits && i < addend.size(); ++i) {
      const int64_t target = output[output.size() - addend.size() + i];
      fits = addend[i] == 1 || (addend[i] == target && target != kUnknownDim);
    }
    return fits;
  });
}

}  // namespace bp::ops
