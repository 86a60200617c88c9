// SPDX-License-Identifier: Apache-2.0
//
// Quantization as elementwise operators on parameters that are brought to where they broadcast.
// The cast to an integer saturates, and makes 0 of NaN.
#include <vector>

#include "backplane/ops/quantization.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// A parameter so that it broadcasts to x. Errors: UNSUPPORTED for sizes that are not known.
class Parameters {
 public:
  Parameters(Builder& builder, const InferContext& context, int64_t axis, int64_t block)
      : builder_(builder), context_(context), axis_(axis), block_(block) {}

  Result<ValueId> broadcast(size_t input, ValueId value) {
    const TensorType& x = context_.inputs[0];
    const TensorType& type = context_.inputs[input];
    if (!x.has_rank || !type.has_rank) return Status(BP_UNSUPPORTED, "a rank is not known");
    if (type.sizes.empty()) return value;
    if (type.sizes.size() == 1 && type.sizes[0] == 1) return builder_.reshape(value, {});
    BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_, x.sizes.size()));
    if (block_ == 0) {
      std::vector<int64_t> shape(x.sizes.size(), 1);
      shape[axis] = type.sizes[0];
      if (!is_known(shape[axis])) return Status(BP_UNSUPPORTED, "the size of axis is not known");
      Attributes keeps_zero = builder_.attributes("reshape");
      builder_.check(keeps_zero.set_i64("allow_zero", 1));
      return builder_.op("reshape", {value, builder_.list(shape)}, std::move(keeps_zero));
    }
    if (!is_known(x.sizes[axis])) return Status(BP_UNSUPPORTED, "the size of axis is not known");
    std::vector<int64_t> indices = builder_.counted(x.sizes[axis]);
    for (int64_t& index : indices) index /= block_;
    Attributes along = builder_.attributes("gather");
    builder_.check(along.set_i64("axis", static_cast<int64_t>(axis)));
    return builder_.op("gather", {value, builder_.list(indices)}, std::move(along));
  }

 private:
  Builder& builder_;
  const InferContext& context_;
  int64_t axis_;
  int64_t block_;
};

}  // namespace

Status decompose_quantize_linear(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_quantize_linear>(context.attributes);
  Builder builder(context, {"x", "scale", "zero_point"}, graph);
  Parameters parameters(builder, context, attributes.axis, attributes.block_size);
  const uint32_t work = working_dtype(builder.dtype(0));
  BP_TRY_ASSIGN(const ValueId scale, parameters.broadcast(1, builder.cast(builder.input(1), work)));
  BP_TRY_ASSIGN(const ValueId zero, parameters.broadcast(2, builder.cast(builder.input(2), work)));
  const ValueId quotient = builder.op("div", {builder.cast(builder.input(0), work), scale});
  const ValueId y = builder.op("add", {builder.op("round", {quotient}), zero});
  return builder.finish(builder.cast(y, builder.dtype(2)));
}

// The difference of two i32 may need 33 bits.
Status decompose_dequantize_linear(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_dequantize_linear>(context.attributes);
  Builder builder(context, {"x", "scale", "zero_point"}, graph);
  Parameters parameters(builder, context, attributes.axis, attributes.block_size);
  const uint32_t work = working_dtype(builder.dtype(1));
  BP_TRY_ASSIGN(const ValueId scale, parameters.broadcast(1, builder.cast(builder.input(1), work)));
  ValueId difference = builder.input(0);
  if (builder.input(2) != kNoValue) {
    BP_TRY_ASSIGN(const ValueId zero,
                  parameters.broadcast(2, builder.cast(builder.input(2), BP_DTYPE_I64)));
    difference = builder.op("sub", {builder.cast(difference, BP_DTYPE_I64), zero});
  }
  const ValueId y = builder.op("mul", {builder.cast(difference, work), scale});
  return builder.finish(builder.cast(y, builder.dtype(1)));
}

}  // namespace bp::ops
