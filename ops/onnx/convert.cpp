// SPDX-License-Identifier: Apache-2.0
//
// Operators whose ONNX form is not ours: values as inputs that we have as attributes, lists of
// inputs, constants, and softmax as it was before operator set 13.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"
#include "ops/onnx/steps.hpp"
#include "ops/onnx/tensor.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

bool is_f8(uint32_t dtype) { return dtype >= BP_DTYPE_F8E4M3FN && dtype <= BP_DTYPE_F8E5M2FNUZ; }

/// The sizes as the shape argument of reshape; at most one may be unknown.
Result<std::vector<int64_t>> shape_values(const NodeImport& node, const Dims& sizes) {
  std::vector<int64_t> values;
  size_t unknown_count = 0;
  for (int64_t size : sizes) {
    values.push_back(is_known(size) ? size : -1);
    unknown_count += is_known(size) ? 0 : 1;
  }
  const bool empty = std::find(values.begin(), values.end(), 0) != values.end();
  if (unknown_count <= (empty ? 0 : 1)) return values;
  return node.error(BP_UNSUPPORTED,
                    "before opset 13 the operator works on a flattened matrix; its sizes " +
                        to_string(sizes) + " have too many unknowns to restore them afterwards");
}

}  // namespace

Status convert_cast(NodeImport* node) {
  const AttributeProto* to = node->attribute("to");
  if (to == nullptr) return node->error(BP_INVALID_ARGUMENT, "attribute 'to' is missing");
  const auto dtype = dtype_from_onnx(to->i);
  if (!dtype.ok()) {
    return node->error(dtype.status().code(), "attribute 'to': " + dtype.status().message());
  }
  if (is_f8(*dtype) && node->i64("saturate", 1) == 0) {
    return node->error(BP_UNSUPPORTED, "attribute 'saturate': only 1 is supported, found 0");
  }
  // It makes what it reads.
  BP_TRY(node->check_dtype("cast", 0, "attribute 'to'", *dtype));
  BP_TRY_ASSIGN(Attributes attributes, node->fields("cast"));
  BP_TRY(attributes.set_i64("to", *dtype));
  return node->finish("cast", node->inputs(), std::move(attributes));
}

Status convert_constant(NodeImport* node) {
  std::vector<const AttributeProto*> given;
  for (std::string_view name :
       {"value", "value_float", "value_floats", "value_int", "value_ints"}) {
    const AttributeProto* attribute = node->attribute(name);
    if (attribute != nullptr) given.push_back(attribute);
  }
  if (given.size() != 1) {
    return node->error(BP_INVALID_ARGUMENT, "expected one attribute with a value, found " +
                                                std::to_string(given.size()));
  }
  const AttributeProto& value = *given.front();
  auto tensor = [&]() -> Result<HostTensor> {
    switch (value.type) {
      case kTensor:
        return tensor_values(value.t, node->source());
      case kFloat:
        return tensor_of<float>(BP_DTYPE_F32, {}, {&value.f, 1});
      case kInt:
        return tensor_of<int64_t>(BP_DTYPE_I64, {}, {&value.i, 1});
      case kFloats:
        return list_of(BP_DTYPE_F32, value.floats);
      default:
        return list_of(BP_DTYPE_I64, value.ints);
    }
  }();
  if (!tensor.ok()) return node->error(tensor.status().code(), tensor.status().message());
  return node->finish(*std::move(tensor));
}

Status convert_dropout(NodeImport* node) {
  if (node->input(2) != kNoValue) {
    const HostTensor* training = node->required_constant(2);
    const bool is_off = training != nullptr && training->dtype == BP_DTYPE_BOOL &&
                        training->bytes == 1 && *static_cast<const uint8_t*>(training->data) == 0;
    if (!is_off) {
      return node->error(BP_UNSUPPORTED,
                         "input 2 ('training_mode'): only a constant false is supported");
    }
  }
  const ValueId data = node->input(0);
  if (!node->has_output(1)) return node->finish("identity", {&data, 1});
  // The mask has the data's dtype before operator set 10.
  constexpr int64_t kFirstOfBool = 10;
  const bool is_bool = node->rule().since >= kFirstOfBool;
  Steps steps(node);
  const ValueId kept = steps.scalar(is_bool ? BP_DTYPE_BOOL : node->input_type(0).dtype, 1);
  const ValueId mask = steps.op("expand", {kept, steps.op("shape", {data})});
  return steps.finish({steps.op("identity", {data}), mask});
}

namespace {

/// Of bool there are maximum and minimum, which are the same of 0 and 1.
bool is_of_bool(const NodeImport& node) {
  const std::string_view op = node.rule().op;
  return node.input_type(0).dtype == BP_DTYPE_BOOL && (op == "reduce_max" || op == "reduce_min");
}

/// The reduction; of numbers, where it is of bool.
Status finish_reduction(NodeImport* node, std::string_view op, std::vector<ValueId> inputs,
                        Attributes attributes) {
  if (!is_of_bool(*node)) return node->finish(op, inputs, std::move(attributes));
  Steps steps(node);
  inputs[0] = steps.cast(inputs[0], BP_DTYPE_U8);
  BP_TRY(steps.status());
  BP_TRY_ASSIGN(const ValueId reduced, node->step(op, inputs, std::move(attributes)));
  return steps.finish({steps.cast(reduced, BP_DTYPE_BOOL)});
}

/// Axes that are known only when the model runs.
Status convert_reduction_over_input(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes attributes, node->attributes_of("reduce"));
  BP_TRY(attributes.set_str("kind", node->rule().op));
  BP_TRY(attributes.set_i64("keepdims", node->i64("keepdims", 1)));
  BP_TRY(attributes.set_i64("noop_with_empty_axes", node->i64("noop_with_empty_axes", 0)));
  if (!is_of_bool(*node)) {
    BP_TRY(node->check_dtype(node->rule().op, 0, "input 0", node->input_type(0).dtype));
  }
  const auto inputs = node->inputs();
  return finish_reduction(node, "reduce", {inputs.begin(), inputs.end()}, std::move(attributes));
}

}  // namespace

Status convert_reduction(NodeImport* node) {
  if (node->input(1) != kNoValue && node->input_constant(1) == nullptr) {
    return convert_reduction_over_input(node);
  }
  std::vector<int64_t> axes;
  if (node->input(1) != kNoValue) {
    BP_TRY_ASSIGN(axes, constant_list(*node, 1, "axes"));
  }
  const ValueId data = node->input(0);
  if (axes.empty() && node->i64("noop_with_empty_axes", 0) != 0) {
    // Each element is reduced alone: what is left is what is done to it beside that.
    constexpr std::string_view kOfEach[] = {"reduce_l1", "reduce_l2", "reduce_log_sum",
                                            "reduce_sum_square"};
    if (std::ranges::count(kOfEach, node->rule().op) != 0) {
      return convert_reduction_over_input(node);
    }
    return node->finish("identity", {&data, 1});
  }
  BP_TRY_ASSIGN(Attributes attributes, node->fields(node->rule().op));
  BP_TRY(attributes.set_i64s("axes", axes));
  return finish_reduction(node, node->rule().op, {data}, std::move(attributes));
}

/// softmax, log_softmax or hardmax over dimension 1 of [product of the sizes before axis, product
/// of the rest].
Status convert_softmax_of_matrix(NodeImport* node) {
  const std::string_view op = node->rule().op;  // of the softmax family
  const TensorType type = node->input_type(0);  // by value: adding nodes moves the graph's types
  if (!type.has_rank) return node->error(BP_UNSUPPORTED, "its input's rank is not known");
  const auto rank = static_cast<int64_t>(type.sizes.size());
  const int64_t given = node->i64("axis", 1);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'axis': expected a dimension of " +
                                                to_string(type.sizes) + ", found " +
                                                std::to_string(given));
  }
  BP_TRY_ASSIGN(Attributes attributes, node->fields(op));
  const bool rest_is_one = std::all_of(type.sizes.begin() + axis + 1, type.sizes.end(),
                                       [](int64_t size) { return size == 1; });
  if (rest_is_one) {
    BP_TRY(attributes.set_i64("axis", axis));
    return node->finish(op, node->inputs(), std::move(attributes));
  }
  BP_TRY_ASSIGN(const auto shape, shape_values(*node, type.sizes));
  BP_TRY_ASSIGN(Attributes flatten, node->attributes_of("flatten"));
  BP_TRY(flatten.set_i64("axis", axis));
  BP_TRY_ASSIGN(const ValueId matrix, node->step("flatten", node->inputs(), std::move(flatten)));
  BP_TRY(attributes.set_i64("axis", 1));
  BP_TRY_ASSIGN(const ValueId soft, node->step(op, {&matrix, 1}, std::move(attributes)));
  BP_TRY_ASSIGN(HostTensor sizes, list_of(BP_DTYPE_I64, shape));
  BP_TRY_ASSIGN(const ValueId shape_id, node->constant(std::move(sizes)));
  BP_TRY_ASSIGN(Attributes reshape, node->attributes_of("reshape"));
  BP_TRY(reshape.set_i64("allow_zero", std::find(shape.begin(), shape.end(), 0) != shape.end()));
  const ValueId arguments[] = {soft, shape_id};
  return node->finish("reshape", arguments, std::move(reshape));
}

}  // namespace bp::onnx
