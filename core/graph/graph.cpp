// SPDX-License-Identifier: Apache-2.0
//
// Building and printing graphs. Types are inferred as nodes arrive, so an error names the node
// that brought it and nothing wrong is ever in a graph.
#include "core/graph/graph.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/options.hpp"
#include "core/base/quoted.hpp"
#include "core/op/scalar.hpp"

namespace bp {
namespace {

Status invalid(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }

}  // namespace

int64_t Graph::symbol(std::string_view name) {
  const auto next = symbol_dim(static_cast<int64_t>(symbols_.size()));
  const auto [entry, is_new] = symbol_by_name_.emplace(std::string(name), next);
  if (is_new) symbols_.emplace_back(name);
  return entry->second;
}

std::string_view Graph::symbol_name(int64_t size) const {
  const auto index = symbol_index(size);
  if (!index || *index >= symbols_.size()) return "";
  return symbols_[*index];
}

Status Graph::check_name(std::string_view name) const {
  if (name.empty() || find_value(name) == kNoValue) return {};
  return invalid("the name " + quoted(name) + " is taken by another value of the graph");
}

ValueId Graph::add_value(std::string_view name, TensorType type) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back(Value{std::string(name), std::move(type), kNoNode, nullptr});
  if (!name.empty()) by_name_.emplace(std::string(name), id);
  return id;
}

Result<ValueId> Graph::add_input(std::string_view name, TensorType type) {
  BP_TRY(check_name(name));
  const Status fits = check_sizes(type);
  if (!fits.ok()) return fits.with_prefix("input " + quoted(name));
  const ValueId id = add_value(name, std::move(type));
  inputs_.push_back(id);
  return id;
}

Result<ValueId> Graph::add_constant(std::string_view name, HostTensor tensor) {
  BP_TRY(check_name(name));
  const auto count = checked_element_count(std::as_const(tensor).sizes);
  if (!count || dtype_storage_bytes(tensor.dtype, *count) != tensor.bytes) {
    return invalid("constant " + quoted(name) + ": " + std::to_string(tensor.bytes) +
                   " bytes are not " + std::string(dtype_name(tensor.dtype)) +
                   bp::to_string(tensor.sizes));
  }
  TensorType type = {.dtype = tensor.dtype, .has_rank = true, .sizes = tensor.sizes};
  const Status fits = check_sizes(type);
  if (!fits.ok()) return fits.with_prefix("constant " + quoted(name));
  const ValueId id = add_value(name, std::move(type));
  values_[id].constant = std::make_shared<const HostTensor>(std::move(tensor));
  return id;
}

Result<ValueId> Graph::add_scalar(uint32_t dtype, double value) {
  void* memory = nullptr;
  BP_TRY_ASSIGN(HostTensor tensor, HostTensor::allocate(dtype, {}, &memory));
  BP_TRY(write_scalar(dtype, value, memory));
  return add_constant("", std::move(tensor));
}

std::string Graph::node_label(const Node& node) const { return "node " + quoted(node.name); }

std::string Graph::value_label(ValueId id) const {
  if (id == kNoValue) return "-";
  return values_[id].name.empty() ? "%" + std::to_string(id) : values_[id].name;
}

CallInputs::CallInputs(std::span<const Value> values, std::span<const ValueId> inputs) {
  for (ValueId id : inputs) {
    types.push_back(id == kNoValue ? TensorType{} : values[id].type);
    const bool known = id != kNoValue && values[id].constant != nullptr;
    host_data.push_back(known ? values[id].constant->data : nullptr);
  }
}

Status Graph::infer_bounds(const Node& node, std::vector<TensorType>* out_types) const {
  const CallInputs inputs(values_, node.inputs);
  return infer_types(registry_->schema(node.op), inputs.context(node.attributes), out_types)
      .with_prefix(node_label(node));
}

Status Graph::infer_node(const Node& node, std::vector<TensorType>* out_types) const {
  BP_TRY(infer_bounds(node, out_types));
  const OpSchema& schema = registry_->schema(node.op);
  if (!schema.extents) return {};
  // Sizes that depend on values are upper bounds, which no later node may take for sizes.
  const CallInputs inputs(values_, node.inputs);
  return infer_sure_types(schema, inputs.context(node.attributes), out_types)
      .with_prefix(node_label(node));
}

Result<NodeId> Graph::add_node(OpId op, std::string_view name, std::span<const ValueId> inputs,
                               Attributes attributes, std::span<const std::string> output_names) {
  auto made = make_node(op, name, inputs, std::move(attributes), output_names);
  if (!made.ok()) return made.status().with_op(registry_->schema(op).name);
  return made;
}

Result<NodeId> Graph::make_node(OpId op, std::string_view name, std::span<const ValueId> inputs,
                                Attributes attributes, std::span<const std::string> output_names) {
  const OpSchema& schema = registry_->schema(op);
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node = {op, std::string(name), {inputs.begin(), inputs.end()}, {}, {}, {}};
  if (name.empty()) node.name = std::string(schema.name) + "#" + std::to_string(id);
  for (ValueId input : inputs) {
    if (input == kNoValue || input < values_.size()) continue;
    return invalid(node_label(node) + ": there is no value " + std::to_string(input));
  }
  for (size_t i = inputs.size(); i < schema.inputs.size() && schema.inputs[i].optional; ++i) {
    node.inputs.push_back(kNoValue);
  }
  node.inputs.resize(schema.told_input_count<ValueId>(node.inputs, kNoValue));
  if (attributes.data() == nullptr) attributes = Attributes(schema);
  const Status complete = attributes.validate();
  if (!complete.ok()) return complete.with_prefix(node_label(node));
  node.attributes = std::move(attributes);

  std::vector<TensorType> types;
  BP_TRY(infer_node(node, &types));
  if (!output_names.empty() && output_names.size() != types.size()) {
    return invalid(node_label(node) + ": expected " + std::to_string(types.size()) +
                   " output names, found " + std::to_string(output_names.size()));
  }
  std::unordered_set<std::string_view> own_names;
  for (const std::string& output_name : output_names) {
    const Status free = check_name(output_name);
    if (!free.ok()) return free.with_prefix(node_label(node));
    if (!output_name.empty() && !own_names.insert(output_name).second) {
      return invalid(node_label(node) + ": two outputs named " + quoted(output_name));
    }
  }
  for (size_t i = 0; i < types.size(); ++i) {
    node.outputs.push_back(add_value(output_names.empty() ? "" : output_names[i], types[i]));
    values_.back().producer = id;
  }
  nodes_.push_back(std::move(node));
  return id;
}

Result<std::vector<ValueId>> Graph::op_outputs(std::string_view op_name,
                                               std::span<const ValueId> inputs,
                                               Attributes attributes) {
  const auto op = registry_->find(op_name);
  if (!op) {
    const auto near = nearest_match(op_name, registry_->names());
    return invalid("there is no operator " + quoted(op_name) +
                   (near ? "; did you mean " + quoted(*near) + "?" : ""));
  }
  BP_TRY_ASSIGN(const NodeId id, add_node(*op, "", inputs, std::move(attributes)));
  return nodes_[id].outputs;
}

Result<ValueId> Graph::op(std::string_view op_name, std::span<const ValueId> inputs) {
  return this->op(op_name, inputs, Attributes());
}

Status Graph::set_outputs(std::vector<ValueId> outputs, std::vector<std::string> names) {
  if (outputs.size() != names.size()) {
    return invalid(std::to_string(outputs.size()) + " outputs with " +
                   std::to_string(names.size()) + " names");
  }
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] >= values_.size()) {
      return invalid("output " + quoted(names[i]) + ": there is no value " +
                     std::to_string(outputs[i]));
    }
    if (!seen.insert(names[i]).second) return invalid("two outputs named " + quoted(names[i]));
  }
  outputs_ = std::move(outputs);
  output_names_ = std::move(names);
  return {};
}

void Graph::add_default_input(ValueId constant, TensorType type) {
  default_inputs_.push_back({constant, std::move(type)});
}

ValueId Graph::find_value(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? kNoValue : found->second;
}

std::string Graph::to_string(const TensorType& type) const {
  std::string text(dtype_name(type.dtype));
  return text + (type.has_rank ? to_string(type.sizes) : "[...]");
}

std::string Graph::to_string(const Dims& sizes) const {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    const std::string_view symbol = symbol_name(sizes[i]);
    if (!symbol.empty()) {
      text += symbol;
    } else {
      text += is_known(sizes[i]) ? std::to_string(sizes[i]) : "?";
    }
  }
  return text + "]";
}

std::string Graph::to_string() const {
  std::string text;
  for (ValueId id : inputs_) {
    text += "input " + value_label(id) + ": " + to_string(values_[id].type) + "\n";
  }
  for (const Node& node : nodes_) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      text += (i > 0 ? ", " : "") + value_label(id);
      if (id != kNoValue) text += ": " + to_string(values_[id].type);
    }
    text += " = " + std::string(registry_->schema(node.op).name) + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text += (i > 0 ? ", " : "") + value_label(node.inputs[i]);
    }
    text += ")";
    const std::string attributes = node.attributes.to_string();
    if (!attributes.empty()) text += " {" + attributes + "}";
    text += "  # " + node.name + "\n";
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    text += "output " + output_names_[i] + ": " + value_label(outputs_[i]) + "\n";
  }
  return text;
}

}  // namespace bp
