// SPDX-License-Identifier: Apache-2.0
//
// What holds for every node: arguments and attributes are checked against the rule before any
// converter runs, so converters only meet what they know.
#include "ops/onnx/node_import.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/quoted.hpp"

namespace bp::onnx {
namespace {

std::string attribute_type_name(int32_t type) {
  switch (type) {
    case kFloat:
      return "FLOAT";
    case kInt:
      return "INT";
    case kString:
      return "STRING";
    case kTensor:
      return "TENSOR";
    case 5:
      return "GRAPH";
    case kFloats:
      return "FLOATS";
    case kInts:
      return "INTS";
    case kStrings:
      return "STRINGS";
    case kSparseTensor:
      return "SPARSE_TENSOR";
    default:
      return "type " + std::to_string(type);
  }
}

const AttributeRule* find_attribute_rule(const OpRule& rule, std::string_view name) {
  const auto found = std::find_if(rule.attributes.begin(), rule.attributes.end(),
                                  [&](const AttributeRule& row) { return row.name == name; });
  return found == rule.attributes.end() ? nullptr : &*found;
}

std::string known_attributes(const OpRule& rule) {
  if (rule.attributes.empty()) return "it has none";
  std::string text = "it has";
  for (const AttributeRule& row : rule.attributes) text += " " + std::string(row.name);
  return text;
}

}  // namespace

Status NodeImport::error(bp_status code, const std::string& words) const {
  return {code, "node " + quoted(name_) + " (" + std::string(proto_.op_type) + ", opset " +
                    std::to_string(proto_.opset) + "): " + words};
}

Status NodeImport::check_attribute(const AttributeProto& attribute) const {
  const std::string label = "attribute " + quoted(attribute.name);
  const AttributeRule* row = find_attribute_rule(*rule_, attribute.name);
  if (row == nullptr) {
    return error(BP_UNSUPPORTED, label + " is not known; " + known_attributes(*rule_));
  }
  if (this->attribute(attribute.name) != &attribute) {
    return error(BP_INVALID_ARGUMENT, label + " is given twice");
  }
  if (!attribute.ref_attr_name.empty()) {
    return error(BP_INVALID_ARGUMENT, label +
                                          " refers to an attribute of a function, expected a "
                                          "value");
  }
  if (attribute.type != row->type || (row->type == kTensor && !attribute.has_t)) {
    return error(BP_INVALID_ARGUMENT, label + ": expected " + attribute_type_name(row->type) +
                                          ", found " + attribute_type_name(attribute.type));
  }
  const bool is_bool = row->use == Use::kFlag || row->use == Use::kReadFlag;
  if (is_bool && attribute.i != 0 && attribute.i != 1) {
    return error(BP_INVALID_ARGUMENT,
                 label + ": expected 0 or 1, found " + std::to_string(attribute.i));
  }
  if (row->use == Use::kRefused) return error(BP_UNSUPPORTED, label + " is not supported");
  if (row->use == Use::kMustBe && attribute.i != row->value) {
    return error(BP_UNSUPPORTED, label + ": only " + std::to_string(row->value) +
                                     " is supported, found " + std::to_string(attribute.i));
  }
  return {};
}

Status NodeImport::check_arguments() const {
  const size_t count = inputs_.size();
  if (count < rule_->min_inputs || count > rule_->max_inputs) {
    std::string expected = std::to_string(rule_->min_inputs);
    if (rule_->max_inputs == SIZE_MAX) {
      expected += " or more";
    } else if (rule_->max_inputs != rule_->min_inputs) {
      expected += " to " + std::to_string(rule_->max_inputs);
    }
    return error(BP_INVALID_ARGUMENT,
                 "expected " + expected + " inputs, found " + std::to_string(count));
  }
  for (size_t i = 0; i < count; ++i) {
    const bool optional = i >= rule_->min_inputs && rule_->max_inputs != SIZE_MAX;
    if (inputs_[i] != kNoValue || optional) continue;
    return error(BP_INVALID_ARGUMENT, "input " + std::to_string(i) + " is missing");
  }
  const size_t most = rule_->max_outputs;
  for (size_t i = most; i < proto_.outputs.size(); ++i) {
    if (proto_.outputs[i].empty()) continue;
    return error(BP_UNSUPPORTED,
                 "output " + std::to_string(i) + " (" + quoted(proto_.outputs[i]) +
                     ") is not supported, only " +
                     (most == 1 ? "output 0 is" : "the first " + std::to_string(most) + " are"));
  }
  return {};
}

Status NodeImport::run(const OpRule& rule, std::vector<ValueId> inputs) {
  rule_ = &rule;
  inputs_ = std::move(inputs);
  BP_TRY(check_arguments());
  for (const AttributeProto& attribute : proto_.attributes) BP_TRY(check_attribute(attribute));
  if (rule.convert != nullptr) return rule.convert(this);
  BP_TRY_ASSIGN(Attributes attributes, fields(rule.op));
  return finish(rule.op, inputs_, std::move(attributes));
}

const HostTensor* NodeImport::input_constant(size_t index) const {
  const ValueId id = input(index);
  return id == kNoValue || defaults_.contains(id) ? nullptr : graph_->value(id).constant.get();
}

const HostTensor* NodeImport::required_constant(size_t index) const {
  const ValueId id = input(index);
  if (id == kNoValue || graph_->value(id).constant == nullptr) return nullptr;
  required_constants_.push_back(id);
  return graph_->value(id).constant.get();
}

const AttributeProto* NodeImport::attribute(std::string_view name) const {
  for (const AttributeProto& attribute : proto_.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

int64_t NodeImport::i64(std::string_view name, int64_t default_value) const {
  const AttributeProto* found = attribute(name);
  return found == nullptr ? default_value : found->i;
}

std::span<const int64_t> NodeImport::i64s(std::string_view name) const {
  const AttributeProto* found = attribute(name);
  if (found == nullptr) return {};
  return found->ints;
}

Result<OpId> NodeImport::find_op(std::string_view op) const {
  const auto found = graph_->registry().find(op);
  if (found) return *found;
  return error(BP_UNSUPPORTED, "operator " + quoted(op) + " is not registered");
}

Result<Attributes> NodeImport::attributes_of(std::string_view op) const {
  BP_TRY_ASSIGN(const OpId id, find_op(op));
  return Attributes(graph_->registry().schema(id));
}

Result<Attributes> NodeImport::fields(std::string_view op) const {
  BP_TRY_ASSIGN(Attributes attributes, attributes_of(op));
  for (const AttributeProto& attribute : proto_.attributes) {
    const AttributeRule& row = *find_attribute_rule(*rule_, attribute.name);
    if (row.use == Use::kFlag) {
      BP_TRY(attributes.set_i64(row.field, attribute.i));
    }
    if (row.use != Use::kField) continue;
    if (row.type == kFloat) BP_TRY(attributes.set_f64(row.field, double{attribute.f}));
    if (row.type == kInt) BP_TRY(attributes.set_i64(row.field, attribute.i));
    if (row.type == kString) BP_TRY(attributes.set_str(row.field, attribute.s));
    if (row.type == kInts) BP_TRY(attributes.set_i64s(row.field, attribute.ints));
  }
  return attributes;
}

Status NodeImport::check_dtype(std::string_view op, size_t index, const std::string& label,
                               uint32_t dtype) const {
  BP_TRY_ASSIGN(const OpId id, find_op(op));
  const OpSchema& schema = graph_->registry().schema(id);
  const int32_t type_var = schema.input(index).type_var;
  if (type_var < 0) return {};
  const uint64_t mask = schema.type_vars[static_cast<size_t>(type_var)].dtype_mask;
  if ((mask & BP_DTYPE_BIT(dtype)) != 0) return {};
  return error(BP_UNSUPPORTED, label + ": expected a dtype of " + dtype_set_name(mask) +
                                   ", found " + std::string(dtype_name(dtype)));
}

Status NodeImport::check_number(size_t index) const {
  const uint32_t dtype = input_type(index).dtype;
  if (dtype != BP_DTYPE_BOOL) return {};
  return error(BP_INVALID_ARGUMENT,
               "input " + std::to_string(index) + ": expected a number, found bool");
}

Result<NodeId> NodeImport::add(std::string_view op, const std::string& name,
                               std::span<const ValueId> inputs, Attributes attributes,
                               std::span<const std::string> output_names) {
  BP_TRY_ASSIGN(const OpId id, find_op(op));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == kNoValue) continue;
    const std::string_view argument = graph_->registry().schema(id).input(i).name;
    BP_TRY(check_dtype(op, i, "input " + quoted(argument), graph_->type(inputs[i]).dtype));
  }
  return graph_->add_node(id, name, inputs, std::move(attributes), output_names);
}

Result<std::vector<ValueId>> NodeImport::step_outputs(std::string_view op,
                                                      std::span<const ValueId> inputs,
                                                      Attributes attributes) {
  // Shortened: a file can ask for any number of steps with one long name.
  const std::string name = foreign_text(name_) + "/" + std::string(op);
  BP_TRY_ASSIGN(const NodeId node, add(op, name, inputs, std::move(attributes), {}));
  return graph_->node(node).outputs;
}

Result<ValueId> NodeImport::step(std::string_view op, std::span<const ValueId> inputs,
                                 Attributes attributes) {
  BP_TRY_ASSIGN(const auto outputs, step_outputs(op, inputs, std::move(attributes)));
  return outputs[0];
}

Status NodeImport::finish(std::string_view op, std::span<const ValueId> inputs,
                          Attributes attributes) {
  BP_TRY_ASSIGN(const OpId id, find_op(op));
  BP_TRY_ASSIGN(const size_t count,
                bp::output_count(graph_->registry().schema(id), attributes.data()));
  std::vector<std::string> names(count);
  for (size_t i = 0; i < names.size() && i < proto_.outputs.size(); ++i) {
    names[i] = proto_.outputs[i];
  }
  BP_TRY_ASSIGN(const NodeId node, add(op, name_, inputs, std::move(attributes), names));
  outputs_ = graph_->node(node).outputs;
  return {};
}

Status NodeImport::finish(HostTensor tensor) {
  BP_TRY_ASSIGN(const ValueId value, graph_->add_constant(proto_.outputs[0], std::move(tensor)));
  outputs_ = {value};
  return {};
}

Status NodeImport::finish(std::vector<ValueId> outputs) {
  outputs_ = std::move(outputs);
  return {};
}

}  // namespace bp::onnx
