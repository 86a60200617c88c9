// SPDX-License-Identifier: Apache-2.0
//
// Inference of elementwise operators whose rows do not say it all.
#include "core/base/dtype.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

// What cast can make: the dtypes it can read.
constexpr uint64_t kCastDtypes =
    BP_DTYPE_BIT(BP_DTYPE_BOOL) | BP_DTYPE_BIT(BP_DTYPE_I8) | BP_DTYPE_BIT(BP_DTYPE_I16) |
    BP_DTYPE_BIT(BP_DTYPE_I32) | BP_DTYPE_BIT(BP_DTYPE_I64) | BP_DTYPE_BIT(BP_DTYPE_U8) |
    BP_DTYPE_BIT(BP_DTYPE_U16) | BP_DTYPE_BIT(BP_DTYPE_U32) | BP_DTYPE_BIT(BP_DTYPE_U64) |
    BP_DTYPE_BIT(BP_DTYPE_F16) | BP_DTYPE_BIT(BP_DTYPE_BF16) | BP_DTYPE_BIT(BP_DTYPE_F32) |
    BP_DTYPE_BIT(BP_DTYPE_F64);

}  // namespace

Status infer_cast(const InferContext& context, std::span<TensorType> out_types) {
  const uint32_t to = out_types[0].dtype;
  if ((kCastDtypes & BP_DTYPE_BIT(to)) == 0) {
    return attribute_error(
        "to", expected_found("a dtype of " + dtype_set_name(kCastDtypes), dtype_name(to)));
  }
  same_sizes(context.inputs[0], &out_types[0]);
  return {};
}

}  // namespace bp::ops
