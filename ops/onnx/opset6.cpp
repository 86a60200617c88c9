// SPDX-License-Identifier: Apache-2.0
#include "ops/onnx/opset6.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/base/dims.hpp"

namespace bp::onnx {
namespace {

constexpr std::string_view kBroadcasting[] = {"Add", "And", "Div", "Equal", "Greater", "Less",
                                              "Mul", "Or",  "Pow", "Sub",   "Xor"};

/// The attribute's value, and the node without it.
std::optional<int64_t> take(NodeProto* node, std::string_view name) {
  const auto found = std::find_if(node->attributes.begin(), node->attributes.end(),
                                  [&](const AttributeProto& a) { return a.name == name; });
  if (found == node->attributes.end()) return std::nullopt;
  const int64_t value = found->i;
  node->attributes.erase(found);
  return value;
}

/// The value with dimensions of size 1 at its end.
Result<ValueId> with_trailing_ones(ValueId value, size_t count, Graph* graph) {
  std::vector<int64_t> shape;
  const Dims sizes = graph->value(value).type.sizes;
  for (const int64_t size : sizes) {
    if (!is_known(size)) {
      return Status(BP_UNSUPPORTED,
                    "before opset 7 its second input is broadcast by dimension, "
                    "and the sizes " +
                        to_string(sizes) + " of it are not known");
    }
    shape.push_back(size);
  }
  shape.insert(shape.end(), count, 1);
  void* data = nullptr;
  BP_TRY_ASSIGN(HostTensor list,
                HostTensor::allocate(BP_DTYPE_I64, {static_cast<int64_t>(shape.size())}, &data));
  std::memcpy(data, shape.data(), shape.size() * sizeof(int64_t));
  BP_TRY_ASSIGN(const ValueId shape_id, graph->add_constant("", std::move(list)));
  const ValueId arguments[] = {value, shape_id};
  return graph->op("reshape", arguments);
}

/// Dimension 0 of the second input is dimension `axis` of the first.
Status align(int64_t axis, std::vector<ValueId>* inputs, Graph* graph) {
  const TensorType& a = graph->value((*inputs)[0]).type;
  const TensorType& b = graph->value((*inputs)[1]).type;
  if (!a.has_rank || !b.has_rank) {
    return {BP_UNSUPPORTED, "attribute 'axis': the ranks of the inputs are not known"};
  }
  const auto rank = static_cast<int64_t>(a.sizes.size());
  const auto given = axis < 0 ? axis + rank : axis;
  const auto trailing = rank - given - static_cast<int64_t>(b.sizes.size());
  if (given < 0 || trailing < 0) {
    return {BP_INVALID_ARGUMENT, "attribute 'axis': expected room for " + to_string(b.sizes) +
                                     " in " + to_string(a.sizes) + ", found " +
                                     std::to_string(axis)};
  }
  if (trailing == 0) return {};
  BP_TRY_ASSIGN((*inputs)[1],
                with_trailing_ones((*inputs)[1], static_cast<size_t>(trailing), graph));
  return {};
}

/// The slopes of PRelu are one for each channel.
Status align_slopes(std::vector<ValueId>* inputs, Graph* graph) {
  const TensorType& x = graph->value((*inputs)[0]).type;
  const TensorType& slope = graph->value((*inputs)[1]).type;
  if (!x.has_rank || !slope.has_rank || slope.sizes.size() != 1 || slope.sizes[0] == 1) return {};
  return x.sizes.size() > 2 ? align(1, inputs, graph) : Status();
}

}  // namespace

Status adapt_to_opset7(NodeProto* node, std::vector<ValueId>* inputs, Graph* graph) {
  const bool both = inputs->size() == 2 && (*inputs)[0] != kNoValue && (*inputs)[1] != kNoValue;
  const auto* const end = std::end(kBroadcasting);
  if (std::find(std::begin(kBroadcasting), end, node->op_type) != end) {
    const auto axis = take(node, "axis");
    const bool broadcast = take(node, "broadcast").value_or(0) != 0;
    return axis && broadcast && both ? align(*axis, inputs, graph) : Status();
  }
  if (node->op_type == "Gemm") take(node, "broadcast");
  if (node->op_type == "PRelu" && both) return align_slopes(inputs, graph);
  if (node->op_type == "BatchNormalization" || node->op_type == "Dropout") {
    if (take(node, "is_test").value_or(0) == 0) {
      return {BP_UNSUPPORTED, "attribute 'is_test': only 1 is supported, found 0"};
    }
  }
  return {};
}

}  // namespace bp::onnx
