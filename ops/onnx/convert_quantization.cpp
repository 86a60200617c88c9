// SPDX-License-Identifier: Apache-2.0
//
// Quantization of ONNX: dtypes that differ, a zero point that is left out, and the dynamic form.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "ops/onnx/steps.hpp"
#include "ops/onnx/tensor.hpp"

namespace bp::onnx {
namespace {

/// What x and scale are divided in: their dtype if it is one, else one that has both.
uint32_t common_float(uint32_t x, uint32_t scale) {
  if (x == scale) return x;
  const bool is_half = x == BP_DTYPE_F16 || x == BP_DTYPE_BF16;
  return is_half || x == BP_DTYPE_F32 ? BP_DTYPE_F32 : BP_DTYPE_F64;
}

Result<uint32_t> output_dtype(const NodeImport& node, uint32_t default_dtype) {
  const int64_t given = node.i64("output_dtype", 0);
  if (given == 0) return default_dtype;
  const auto dtype = dtype_from_onnx(static_cast<int32_t>(given));
  if (dtype.ok()) return *dtype;
  return node.error(dtype.status().code(), "attribute 'output_dtype': " + dtype.status().message());
}

Result<ValueId> zero_of(NodeImport* node, uint32_t dtype) {
  BP_TRY(node->check_dtype("quantize_linear", 2, "attribute 'output_dtype'", dtype));
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor zero, HostTensor::allocate(dtype, {}, &data));
  std::memset(data, 0, zero.bytes);
  return node->constant(std::move(zero));
}

}  // namespace

Status convert_quantize(NodeImport* node) {
  for (const size_t i : {size_t{0}, size_t{1}}) BP_TRY(node->check_number(i));
  BP_TRY_ASSIGN(Attributes attributes, node->fields("quantize_linear"));
  ValueId zero = node->input(2);
  BP_TRY_ASSIGN(const uint32_t dtype,
                output_dtype(*node, zero == kNoValue ? BP_DTYPE_U8 : node->type(zero).dtype));
  if (zero == kNoValue) {
    BP_TRY_ASSIGN(zero, zero_of(node, dtype));
  } else if (node->type(zero).dtype != dtype) {
    return node->error(BP_INVALID_ARGUMENT,
                       "attribute 'output_dtype': expected that of y_zero_point, " +
                           std::string(dtype_name(node->type(zero).dtype)) + ", found " +
                           std::string(dtype_name(dtype)));
  }
  const uint32_t work = common_float(node->input_type(0).dtype, node->input_type(1).dtype);
  Steps steps(node);
  const ValueId inputs[] = {steps.cast(node->input(0), work), steps.cast(node->input(1), work),
                            zero};
  BP_TRY(steps.status());
  return node->finish("quantize_linear", inputs, std::move(attributes));
}

/// The steps of the ONNX operator's own definition. Where all of x is 0 so is the scale; the
/// quotients are NaN then, and give a zero point and a y of 0.
Status convert_dynamic_quantize(NodeImport* node) {
  constexpr uint32_t kWork = BP_DTYPE_F32;
  BP_TRY_ASSIGN(const ValueId zero, node->scalar(kWork, 0));
  Steps steps(node);
  const auto extreme = [&](std::string_view reduction, std::string_view pair) {
    Attributes all = steps.attributes(reduction);
    steps.check(all.set_i64("keepdims", 0));
    return steps.op(pair, {steps.op(reduction, {node->input(0)}, std::move(all)), zero});
  };
  const ValueId lowest = extreme("reduce_min", "min");
  const ValueId highest = extreme("reduce_max", "max");
  const ValueId most = steps.scalar(kWork, 255);
  const ValueId scale = steps.op("div", {steps.op("sub", {highest, lowest}), most});
  const ValueId offset = steps.op("sub", {zero, steps.op("div", {lowest, scale})});
  // The cast saturates to 0 to 255.
  const ValueId zero_point = steps.cast(steps.op("round", {offset}), BP_DTYPE_U8);
  const ValueId y = steps.op("quantize_linear", {node->input(0), scale, zero_point});
  return steps.finish({y, scale, zero_point});
}

Status convert_dequantize(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->fields("dequantize_linear"));
  const uint32_t of_scale = node->input_type(1).dtype;
  BP_TRY_ASSIGN(const uint32_t dtype, output_dtype(*node, of_scale));
  if (dtype == of_scale) {
    return node->finish("dequantize_linear", node->inputs(), std::move(attributes));
  }
  // A wider result is worked out in its own dtype; a narrower one is rounded at the end.
  BP_TRY(node->check_dtype("dequantize_linear", 1, "attribute 'output_dtype'", dtype));
  const uint32_t work = common_float(dtype, of_scale);
  Steps steps(node);
  const ValueId y = steps.op("dequantize_linear",
                             {node->input(0), steps.cast(node->input(1), work), node->input(2)},
                             std::move(attributes));
  return steps.finish({steps.cast(y, dtype)});
}

}  // namespace bp::onnx
