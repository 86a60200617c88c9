// SPDX-License-Identifier: Apache-2.0
//
// Inference of elementwise operators: sizes broadcast or stay.
#include "core/base/dtype.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

Status infer_binary(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[1];
  if (!a.has_rank || !b.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  BP_TRY_ASSIGN(out_types[0].sizes, broadcast(a.sizes, b.sizes, "inputs 'a' and 'b'"));
  return {};
}

Status infer_unary(const InferContext& context, std::span<TensorType> out_types) {
  same_sizes(context.inputs[0], &out_types[0]);
  return {};
}

// What cast can make: the dtypes it can read.
constexpr uint64_t kCastDtypes =
    BP_DTYPE_BIT(BP_DTYPE_BOOL) | BP_DTYPE_BIT(BP_DTYPE_I8) | BP_DTYPE_BIT(BP_DTYPE_I16) |
    BP_DTYPE_BIT(BP_DTYPE_I32) | BP_DTYPE_BIT(BP_DTYPE_I64) | BP_DTYPE_BIT(BP_DTYPE_U8) |
    BP_DTYPE_BIT(BP_DTYPE_U16) | BP_DTYPE_BIT(BP_DTYPE_U32) | BP_DTYPE_BIT(BP_DTYPE_U64) |
    BP_DTYPE_BIT(BP_DTYPE_F16) | BP_DTYPE_BIT(BP_DTYPE_BF16) | BP_DTYPE_BIT(BP_DTYPE_F32) |
    BP_DTYPE_BIT(BP_DTYPE_F64);

}  // namespace

Status infer_add(const InferContext& context, std::span<TensorType> out_types) {
  return infer_binary(context, out_types);
}
Status infer_sub(const InferContext& context, std::span<TensorType> out_types) {
  return infer_binary(context, out_types);
}
Status infer_mul(const InferContext& context, std::span<TensorType> out_types) {
  return infer_binary(context, out_types);
}
Status infer_div(const InferContext& context, std::span<TensorType> out_types) {
  return infer_binary(context, out_types);
}
Status infer_max(const InferContext& context, std::span<TensorType> out_types) {
  return infer_binary(context, out_types);
}
Status infer_relu(const InferContext& context, std::span<TensorType> out_types) {
  return infer_unary(context, out_types);
}
Status infer_exp(const InferContext& context, std::span<TensorType> out_types) {
  return infer_unary(context, out_types);
}
Status infer_sqrt(const InferContext& context, std::span<TensorType> out_types) {
  return infer_unary(context, out_types);
}
Status infer_reciprocal(const InferContext& context, std::span<TensorType> out_types) {
  return infer_unary(context, out_types);
}

Status infer_cast(const InferContext& context, std::span<TensorType> out_types) {
  const uint32_t to = out_types[0].dtype;
  if ((kCastDtypes & BP_DTYPE_BIT(to)) == 0) {
    return attribute_error(
        "to", expected_found("a dtype of " + dtype_set_name(kCastDtypes), dtype_name(to)));
  }
  return infer_unary(context, out_types);
}

}  // namespace bp::ops
