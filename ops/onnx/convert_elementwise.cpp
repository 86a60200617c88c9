// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators whose ONNX form is not ours: lists of inputs, bounds that may be missing,
// attributes that choose between two of our operators, inputs of different dtypes.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quoted.hpp"
#include "core/op/scalar.hpp"
#include "ops/onnx/node_import.hpp"
#include "ops/onnx/steps.hpp"

namespace bp::onnx {
namespace {

/// The text of an attribute, or what it is where the node does not have it.
std::string_view text_of(const NodeImport& node, std::string_view name, std::string_view absent) {
  const AttributeProto* attribute = node.attribute(name);
  return attribute == nullptr ? absent : std::string_view(attribute->s);
}

Status bad_text(const NodeImport& node, std::string_view name, std::string_view expected,
                std::string_view found) {
  return node.error(BP_INVALID_ARGUMENT, "attribute '" + std::string(name) + "': expected " +
                                             std::string(expected) + ", found " + quoted(found));
}

/// op(op(a, b), c) of all inputs but the last pair, which is left for the caller.
Result<std::vector<ValueId>> last_pair(NodeImport* node, std::string_view op) {
  const auto inputs = node->inputs();
  std::vector<ValueId> pair = {inputs[0], inputs[1]};
  for (size_t i = 2; i < inputs.size(); ++i) {
    BP_TRY_ASSIGN(pair[0], node->step(op, pair));
    pair[1] = inputs[i];
  }
  return pair;
}

/// A bound of clip: the input, before operator set 11 the attribute; kNoValue: there is none.
Result<ValueId> bound(NodeImport* node, size_t index, std::string_view name) {
  const AttributeProto* attribute = node->attribute(name);
  if (attribute == nullptr) return node->input(index);
  return node->scalar(node->input_type(0).dtype, double{attribute->f});
}

}  // namespace

Status convert_chain(NodeImport* node) {
  const std::string_view op = node->rule().op;
  BP_TRY(node->check_dtype(op, 0, "input 0", node->input_type(0).dtype));
  if (node->inputs().size() == 1) return node->finish("identity", node->inputs());
  BP_TRY_ASSIGN(const std::vector<ValueId> pair, last_pair(node, op));
  return node->finish(op, pair);
}

Status convert_mean(NodeImport* node) {
  const size_t count = node->inputs().size();
  const uint32_t dtype = node->input_type(0).dtype;
  BP_TRY(node->check_dtype("div", 0, "input 0", dtype));
  if (count == 1) return node->finish("identity", node->inputs());
  BP_TRY_ASSIGN(const std::vector<ValueId> pair, last_pair(node, "add"));
  BP_TRY_ASSIGN(const ValueId sum, node->step("add", pair));
  BP_TRY_ASSIGN(const ValueId divisor, node->scalar(dtype, static_cast<double>(count)));
  return node->finish("div", std::array{sum, divisor});
}

Status convert_cast_like(NodeImport* node) {
  const uint32_t to = node->input_type(1).dtype;
  BP_TRY(node->check_dtype("cast", 0, "input 1", to));
  BP_TRY_ASSIGN(Attributes attributes, node->attributes_of("cast"));
  BP_TRY(attributes.set_i64("to", to));
  const ValueId x = node->input(0);
  return node->finish("cast", {&x, 1}, std::move(attributes));
}

Status convert_gelu(NodeImport* node) {
  const std::string_view form = text_of(*node, "approximate", "none");
  if (form != "none" && form != "tanh") {
    return bad_text(*node, "approximate", "none or tanh", form);
  }
  return node->finish(form == "tanh" ? "gelu_tanh" : "gelu", node->inputs());
}

Status convert_mod(NodeImport* node) {
  return node->finish(node->i64("fmod", 0) != 0 ? "fmod" : "mod", node->inputs());
}

Status convert_bit_shift(NodeImport* node) {
  const std::string_view direction = text_of(*node, "direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return bad_text(*node, "direction", "LEFT or RIGHT", direction);
  }
  return node->finish(direction == "LEFT" ? "shift_left" : "shift_right", node->inputs());
}

/// A bound that is missing takes its half of the operator with it.
Status convert_clip(NodeImport* node) {
  const ValueId x = node->input(0);
  BP_TRY_ASSIGN(const ValueId low, bound(node, 1, "min"));
  BP_TRY_ASSIGN(const ValueId high, bound(node, 2, "max"));
  if (low != kNoValue && high != kNoValue) return node->finish("clip", std::array{x, low, high});
  if (low != kNoValue) return node->finish("max", std::array{x, low});
  if (high != kNoValue) return node->finish("min", std::array{x, high});
  BP_TRY(node->check_dtype("clip", 0, "input 0", node->type(x).dtype));
  return node->finish("identity", {&x, 1});
}

bool is_unsigned_dtype(uint32_t dtype) {
  return dtype == BP_DTYPE_U8 || dtype == BP_DTYPE_U16 || dtype == BP_DTYPE_U32 ||
         dtype == BP_DTYPE_U64;
}

/// The dtype in which a power is computed. A float base takes the exponent in its own dtype; an
/// integer base with a float exponent is computed in f64, as its results are whole numbers only
/// after a cast. An integer exponent that does not fit the base's dtype would be another number
/// there; the low bits of a power need no more than the low bits of its base.
uint32_t power_dtype(uint32_t base, uint32_t exponent) {
  if (base == exponent || is_float_dtype(base)) return base;
  if (is_float_dtype(exponent)) return BP_DTYPE_F64;
  const bool is_shorter = dtype_bits(exponent) < dtype_bits(base);
  if (is_shorter && (is_unsigned_dtype(exponent) || !is_unsigned_dtype(base))) return base;
  return exponent == BP_DTYPE_U64 ? BP_DTYPE_U64 : BP_DTYPE_I64;
}

/// x^2 of floats with the sizes of x: exact as a product and many times quicker. Exporters write
/// the squares of normalizations so.
bool is_square(const NodeImport& node) {
  const TensorType& base = node.input_type(0);
  const HostTensor* exponent = node.input_constant(1);
  if (!is_float_dtype(base.dtype) || exponent == nullptr) return false;
  const size_t rank = exponent->sizes.size();
  if (rank > 0 && (!base.has_rank || rank > base.sizes.size())) return false;
  std::array<std::byte, sizeof(double)> two{};
  return exponent->bytes == dtype_bits(exponent->dtype) / 8 && exponent->bytes <= two.size() &&
         write_scalar(exponent->dtype, 2, two.data()).ok() &&
         std::memcmp(exponent->data, two.data(), exponent->bytes) == 0;
}

/// Ours has one dtype.
Status convert_pow(NodeImport* node) {
  const uint32_t base = node->input_type(0).dtype;
  const uint32_t exponent = node->input_type(1).dtype;
  for (const size_t i : {size_t{0}, size_t{1}}) BP_TRY(node->check_number(i));
  if (is_square(*node)) return node->finish("mul", std::array{node->input(0), node->input(0)});
  const uint32_t work = power_dtype(base, exponent);
  Steps steps(node);
  const ValueId a = steps.cast(node->input(0), work);
  const ValueId b = steps.cast(node->input(1), work);
  return steps.finish({steps.cast(steps.op("pow", {a, b}), base)});
}

/// Ours truncates the attributes where x has integers, which is right for a lambd from 0 on. What
/// is right with a fraction alone is computed in f64, and the result truncated.
Status convert_shrink(NodeImport* node) {
  const uint32_t dtype = node->input_type(0).dtype;
  BP_TRY(node->check_dtype("shrink", 0, "input 0", dtype));
  BP_TRY_ASSIGN(Attributes attributes, node->fields("shrink"));
  const auto value_of = [node](std::string_view name, float absent) {
    const AttributeProto* attribute = node->attribute(name);
    return attribute == nullptr ? absent : attribute->f;
  };
  const float bias = value_of("bias", 0.0f);
  const float lambd = value_of("lambd", 0.5f);
  const bool fits = std::trunc(bias) == bias && bias >= 0 && lambd >= 0;
  if (is_float_dtype(dtype) || fits) {
    return node->finish("shrink", node->inputs(), std::move(attributes));
  }
  Steps steps(node);
  const ValueId shrunk =
      steps.op("shrink", {steps.cast(node->input(0), BP_DTYPE_F64)}, std::move(attributes));
  return steps.finish({steps.cast(shrunk, dtype)});
}

}  // namespace bp::onnx
