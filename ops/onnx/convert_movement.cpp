// SPDX-License-Identifier: Apache-2.0
//
// Operators that move elements: values that were attributes in older operator sets, indices of i32,
// and Split, whose sizes may be known only when the model runs.
#include <string>
#include <utility>
#include <vector>

#include "ops/onnx/steps.hpp"
#include "ops/onnx/tensor.hpp"
#include "ops/onnx/values.hpp"

namespace bp::onnx {
namespace {

ValueId number(Steps& steps, int64_t value) { return steps.i64_list({&value, 1}); }

/// Each part of x along `axis`, from one edge to the next.
Status finish_parts(NodeImport* node, Steps& steps, int64_t axis, std::span<const ValueId> edges) {
  const ValueId axes = number(steps, axis);
  std::vector<ValueId> outputs;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const bool is_wanted = node->has_output(i);
    outputs.push_back(is_wanted ? steps.op("slice", {node->input(0), edges[i], edges[i + 1], axes})
                                : kNoValue);
  }
  return steps.finish(std::move(outputs));
}

/// Before operator set 18 the parts are equal. What else is wrong the operator's inference tells.
Status check_equal_parts(const NodeImport& node, int64_t axis) {
  const TensorType& type = node.input_type(0);
  if (node.rule().since >= 18 || !type.has_rank) return {};
  const auto rank = static_cast<int64_t>(type.sizes.size());
  if (axis < -rank || axis >= rank) return {};
  const int64_t size = type.sizes[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  const auto count = static_cast<int64_t>(node.output_count());
  if (!is_known(size) || size % count == 0) return {};
  return node.error(BP_INVALID_ARGUMENT, "input 0: expected a dimension that has " +
                                             std::to_string(count) + " equal parts, found size " +
                                             std::to_string(size));
}

/// Sizes that are known when the model runs, as slices: each edge is the one before and a size.
Status split_by_values(NodeImport* node, int64_t axis) {
  Steps steps(node);
  std::vector<ValueId> edges = {number(steps, 0)};
  for (int64_t i = 0; i < static_cast<int64_t>(node->output_count()); ++i) {
    const ValueId part =
        steps.op("slice", {node->input(1), number(steps, i), number(steps, i + 1)});
    edges.push_back(steps.op("add", {edges.back(), part}));
  }
  return finish_parts(node, steps, axis, edges);
}

/// A dtype that the first input of our operator may have, which it then makes.
Result<uint32_t> dtype_attribute(const NodeImport& node, std::string_view op,
                                 const AttributeProto& given) {
  const std::string label = "attribute '" + std::string(given.name) + "'";
  const auto dtype = dtype_from_onnx(given.i);
  if (!dtype.ok()) {
    return node.error(dtype.status().code(), label + ": " + dtype.status().message());
  }
  BP_TRY(node.check_dtype(op, 0, label, *dtype));
  return *dtype;
}

}  // namespace

/// Squeeze and Unsqueeze before operator set 13.
Status convert_axes_attribute(NodeImport* node) {
  Steps steps(node);
  const std::string_view op = node->rule().op;
  const bool has_axes = node->attribute("axes") != nullptr;
  if (!has_axes && op == "unsqueeze") {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'axes' is missing");
  }
  const ValueId axes = has_axes ? steps.i64_list(node->i64s("axes")) : kNoValue;
  BP_TRY(steps.status());
  const ValueId inputs[] = {node->input(0), axes};
  return node->finish(op, inputs);
}

/// Squeeze, Unsqueeze and Expand, whose second input says what becomes of the dimensions.
Status convert_list_input(NodeImport* node) {
  BP_TRY_ASSIGN(const ValueId list, list_input(node, 1));
  const ValueId inputs[] = {node->input(0), list};
  return node->finish(node->rule().op, inputs);
}

/// Slice before operator set 10.
Status convert_slice_attributes(NodeImport* node) {
  Steps steps(node);
  std::vector<ValueId> inputs = {node->input(0)};
  for (std::string_view name : {"starts", "ends", "axes"}) {
    const bool is_given = node->attribute(name) != nullptr;
    if (!is_given && name != "axes") {
      return node->error(BP_INVALID_ARGUMENT, "attribute '" + std::string(name) + "' is missing");
    }
    inputs.push_back(is_given ? steps.i64_list(node->i64s(name)) : kNoValue);
  }
  BP_TRY(steps.status());
  return node->finish("slice", inputs);
}

Status convert_slice(NodeImport* node) {
  std::vector<ValueId> inputs = {node->input(0)};
  for (size_t i = 1; i < node->inputs().size(); ++i) {
    BP_TRY_ASSIGN(const ValueId list, index_input(node, i));
    inputs.push_back(list);
  }
  return node->finish("slice", inputs);
}

Status convert_split(NodeImport* node) {
  const int64_t axis = node->i64("axis", 0);
  const bool has_input = node->input(1) != kNoValue;
  const AttributeProto* count = node->attribute("num_outputs");
  if (has_input && count != nullptr) {
    return node->error(BP_INVALID_ARGUMENT,
                       "input 1 ('split') and attribute 'num_outputs' exclude each other");
  }
  if (count != nullptr && count->i != static_cast<int64_t>(node->output_count())) {
    return node->error(BP_INVALID_ARGUMENT,
                       "attribute 'num_outputs': expected " + std::to_string(node->output_count()) +
                           ", as there are outputs, found " + std::to_string(count->i));
  }
  if (has_input && node->input_constant(1) == nullptr) return split_by_values(node, axis);
  const bool has_sizes = has_input || node->attribute("split") != nullptr;
  std::vector<int64_t> sizes(node->i64s("split").begin(), node->i64s("split").end());
  if (has_input) {
    BP_TRY_ASSIGN(sizes, constant_list(*node, 1, "split"));
  }
  if (has_sizes && sizes.size() != node->output_count()) {
    return node->error(BP_INVALID_ARGUMENT,
                       "'split': expected " + std::to_string(node->output_count()) +
                           " sizes, one for each output, found " + std::to_string(sizes.size()));
  }
  if (!has_sizes) BP_TRY(check_equal_parts(*node, axis));
  BP_TRY_ASSIGN(Attributes parts, node->fields("split"));
  BP_TRY(parts.set_i64("num_outputs", static_cast<int64_t>(node->output_count())));
  BP_TRY(parts.set_i64s("sizes", sizes));
  const ValueId inputs[] = {node->input(0)};
  return node->finish("split", inputs, std::move(parts));
}

Status convert_bit_cast(NodeImport* node) {
  const AttributeProto* to = node->attribute("to");
  if (to == nullptr) return node->error(BP_INVALID_ARGUMENT, "attribute 'to' is missing");
  BP_TRY_ASSIGN(const uint32_t dtype, dtype_attribute(*node, "bit_cast", *to));
  BP_TRY_ASSIGN(Attributes fields, node->fields("bit_cast"));
  BP_TRY(fields.set_i64("to", dtype));
  return node->finish("bit_cast", node->inputs(), std::move(fields));
}

Status convert_constant_of_shape(NodeImport* node) {
  Steps steps(node);
  const AttributeProto* given = node->attribute("value");
  ValueId value = kNoValue;
  if (given == nullptr) {
    value = steps.scalar(BP_DTYPE_F32, 0);
  } else {
    auto tensor = tensor_values(given->t, node->source());
    if (!tensor.ok()) return node->error(tensor.status().code(), tensor.status().message());
    if (element_count({tensor->sizes.data(), tensor->sizes.size()}) != 1) {
      return node->error(BP_INVALID_ARGUMENT, "attribute 'value': expected one element, found " +
                                                  to_string(tensor->sizes));
    }
    tensor->sizes = {};
    BP_TRY_ASSIGN(value, node->constant(*std::move(tensor)));
  }
  BP_TRY(steps.status());
  const ValueId inputs[] = {value, node->input(0)};
  return node->finish("expand", inputs);
}

/// Pad before operator set 11.
Status convert_pad_attributes(NodeImport* node) {
  Steps steps(node);
  if (node->attribute("pads") == nullptr) {
    return node->error(BP_INVALID_ARGUMENT, "attribute 'pads' is missing");
  }
  const ValueId pads = steps.i64_list(node->i64s("pads"));
  const AttributeProto* given = node->attribute("value");
  const double value = given == nullptr ? 0 : double{given->f};
  const ValueId inputs[] = {node->input(0), pads, steps.scalar(node->input_type(0).dtype, value)};
  Attributes fields = steps.fields("pad");
  BP_TRY(steps.status());
  return node->finish("pad", inputs, std::move(fields));
}

/// axes may be i32.
Status convert_pad(NodeImport* node) {
  BP_TRY_ASSIGN(const ValueId axes, index_input(node, 3));
  BP_TRY_ASSIGN(Attributes fields, node->fields("pad"));
  const ValueId inputs[] = {node->input(0), node->input(1), node->input(2), axes};
  return node->finish("pad", inputs, std::move(fields));
}

/// Without an attribute the dtype is that of x.
Status convert_eye_like(NodeImport* node) {
  BP_TRY_ASSIGN(Attributes fields, node->fields("eye_like"));
  uint32_t dtype = node->input_type(0).dtype;
  if (const AttributeProto* given = node->attribute("dtype")) {
    BP_TRY_ASSIGN(dtype, dtype_attribute(*node, "eye_like", *given));
  }
  BP_TRY(fields.set_i64("dtype", dtype));
  return node->finish("eye_like", node->inputs(), std::move(fields));
}

}  // namespace bp::onnx
