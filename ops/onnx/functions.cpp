// SPDX-License-Identifier: Apache-2.0
//
// A call is written out by renaming: the function's inputs and outputs become the call's, every
// other value of its body gets a name of its own, references to attributes become what the call
// gives.
#include "ops/onnx/functions.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/checked.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/quoted.hpp"
#include "ops/onnx/import.hpp"

namespace bp::onnx {
namespace {

Status bad_function(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }
Status beyond_limits(const std::string& words) { return {BP_UNSUPPORTED, words}; }

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;

std::string function_label(const FunctionProto& function) {
  const std::string_view domain = plain_domain(function.domain);
  return "function " +
         quoted((domain.empty() ? "" : std::string(domain) + ".") + std::string(function.name));
}

std::string local_name(const NodeProto& node, size_t index) {
  if (!node.name.empty()) return foreign_text(node.name);
  return foreign_text(node.op_type) + "#" + std::to_string(index);
}

/// The body of one call, or the model's graph.
struct Scope {
  const FunctionProto* function = nullptr;  // nullptr: the graph
  const Scope* caller = nullptr;
  size_t depth = 0;
  int64_t opset = 0;
  std::string prefix = {};                                             // of names
  std::unordered_map<std::string_view, std::string_view> values = {};  // by the body's names
  std::unordered_map<std::string_view, const AttributeProto*> attributes = {};  // nullptr: absent
};

class Inliner {
 public:
  Inliner(ModelProto* model, std::deque<std::string>* names) : model_(*model), names_(*names) {}
  Status run();

 private:
  Status index_functions();
  void note_names();
  const FunctionProto* called(const NodeProto& node) const;
  Status check_body(const FunctionProto& function);
  static Status cycle_error(const FunctionProto& function, const Scope& scope);
  Status check_call(const NodeProto& call, const FunctionProto& function, const Scope& scope) const;
  Status add(NodeProto node, const Scope& scope);
  Status expand(const NodeProto& call, const FunctionProto& function, const Scope& scope);
  Status bind(const NodeProto& call, Scope* scope);
  Status add_body_node(const NodeProto& node, size_t index, const Scope& scope);
  Status pass_inputs_through(const NodeProto& call, const Scope& scope);
  Result<NodeProto> resolved(const NodeProto& node, size_t index, const Scope& scope);
  Status substitute(AttributeProto* attribute, const Scope& scope, bool* out_is_absent) const;
  std::string_view new_name(const std::string& prefix, std::string_view name);
  std::string_view keep(std::string text);
  Status charge(uint64_t bytes);
  Status charge(const NodeProto& node);

  ModelProto& model_;
  std::deque<std::string>& names_;
  std::map<FunctionKey, const FunctionProto*> functions_;
  std::unordered_set<std::string_view> taken_;  // names of values
  std::set<std::string> prefixes_;
  std::map<const FunctionProto*, int64_t> checked_;  // and their operator sets
  std::vector<NodeProto> nodes_;
  uint64_t spent_bytes_ = 0;
};

Status Inliner::charge(uint64_t bytes) {
  spent_bytes_ = checked_add(spent_bytes_, bytes).value_or(UINT64_MAX);
  if (spent_bytes_ <= kMaxInlinedBytes) return {};
  return beyond_limits("the model's functions, written out where they are called, take more than " +
                       std::to_string(kMaxInlinedBytes >> 20) + " MiB");
}

Status Inliner::charge(const NodeProto& node) {
  BP_TRY(charge(sizeof(NodeProto)));
  BP_TRY(charge((node.inputs.size() + node.outputs.size()) * sizeof(std::string_view)));
  for (const AttributeProto& attribute : node.attributes) {
    BP_TRY(charge(sizeof(AttributeProto)));
    BP_TRY(charge((attribute.floats.size() + attribute.ints.size()) * sizeof(int64_t)));
    BP_TRY(charge(attribute.t.dims.size() * sizeof(int64_t)));
    BP_TRY(charge(attribute.t.external_data.size() * sizeof(StringEntryProto)));
  }
  return {};
}

std::string_view Inliner::keep(std::string text) { return names_.emplace_back(std::move(text)); }

std::string_view Inliner::new_name(const std::string& prefix, std::string_view name) {
  std::string candidate = prefix + "/" + std::string(name);
  while (taken_.contains(candidate)) candidate += "'";
  const std::string_view kept = keep(std::move(candidate));
  taken_.insert(kept);
  return kept;
}

Status Inliner::index_functions() {
  for (const FunctionProto& function : model_.functions) {
    const FunctionKey key = {plain_domain(function.domain), function.name, function.overload};
    if (functions_.emplace(key, &function).second) continue;
    return bad_function(function_label(function) + " is defined twice");
  }
  return {};
}

void Inliner::note_names() {
  const GraphProto& graph = model_.graph;
  for (const TensorProto& initializer : graph.initializers) taken_.insert(initializer.name);
  for (const ValueInfoProto& input : graph.inputs) taken_.insert(input.name);
  for (const NodeProto& node : graph.nodes) {
    taken_.insert(node.inputs.begin(), node.inputs.end());
    taken_.insert(node.outputs.begin(), node.outputs.end());
  }
}

const FunctionProto* Inliner::called(const NodeProto& node) const {
  const auto found = functions_.find({plain_domain(node.domain), node.op_type, node.overload});
  return found == functions_.end() ? nullptr : found->second;
}

Status Inliner::check_body(const FunctionProto& function) {
  if (checked_.contains(&function)) return {};
  std::unordered_set<std::string_view> made;
  const auto make = [&](std::string_view name, const std::string& what) -> Status {
    if (name.empty()) return {};
    if (made.insert(name).second) return {};
    return bad_function("the name " + quoted(name) + " is given twice, the second time by " + what);
  };
  for (std::string_view input : function.inputs) BP_TRY(make(input, "an input"));
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    for (std::string_view output : function.nodes[i].outputs) {
      BP_TRY(make(output, "node " + quoted(local_name(function.nodes[i], i))));
    }
  }
  const auto need = [&](std::string_view name, const std::string& what) -> Status {
    if (name.empty() || made.contains(name)) return {};
    return bad_function(what + " " + quoted(name) +
                        " is missing: no input or node of the function has this name");
  };
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const NodeProto& node = function.nodes[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      BP_TRY(need(node.inputs[k],
                  "node " + quoted(local_name(node, i)) + ": input " + std::to_string(k)));
    }
  }
  std::unordered_set<std::string_view> outputs;
  for (std::string_view output : function.outputs) {
    if (output.empty()) return bad_function("an output has no name");
    if (!outputs.insert(output).second) return bad_function("two outputs named " + quoted(output));
    BP_TRY(need(output, "output"));
  }
  BP_TRY_ASSIGN(const int64_t opset, default_opset(function.opset_imports));
  checked_.emplace(&function, opset);
  return {};
}

Status Inliner::cycle_error(const FunctionProto& function, const Scope& scope) {
  constexpr size_t kMaxNames = 8;
  std::string path = function_label(function);
  size_t count = 0;
  for (const Scope* each = &scope; each->function != &function; each = each->caller) {
    if (++count > kMaxNames) continue;
    path = function_label(*each->function) + " calls " + path;
  }
  if (count > kMaxNames) path = "... calls " + path;
  return bad_function("a function calls itself: " + function_label(function) + " calls " + path);
}

Status Inliner::check_call(const NodeProto& call, const FunctionProto& function,
                           const Scope& scope) const {
  for (const Scope* each = &scope; each->function != nullptr; each = each->caller) {
    if (each->function == &function) return cycle_error(function, scope);
  }
  if (scope.depth >= kMaxCallDepth) {
    return beyond_limits("functions call each other more than " + std::to_string(kMaxCallDepth) +
                         " deep: " + function_label(function));
  }
  const auto most = [](std::string_view what, size_t expected, size_t found) {
    return bad_function("expected at most " + std::to_string(expected) + " " + std::string(what) +
                        ", found " + std::to_string(found));
  };
  if (call.inputs.size() > function.inputs.size()) {
    return most("inputs", function.inputs.size(), call.inputs.size());
  }
  if (call.outputs.size() > function.outputs.size()) {
    return most("outputs", function.outputs.size(), call.outputs.size());
  }
  if (call.attributes.empty()) return {};
  std::set<std::string_view> known(function.attribute_names.begin(),
                                   function.attribute_names.end());
  for (const AttributeProto& attribute : function.default_attributes) known.insert(attribute.name);
  std::set<std::string_view> given;
  for (const AttributeProto& attribute : call.attributes) {
    if (!known.contains(attribute.name)) {
      return bad_function("attribute " + quoted(attribute.name) + " is not one of the function's");
    }
    if (!given.insert(attribute.name).second) {
      return bad_function("attribute " + quoted(attribute.name) + " is given twice");
    }
  }
  return {};
}

/// The names and attributes that the call gives to the function's body.
Status Inliner::bind(const NodeProto& call, Scope* scope) {
  const FunctionProto& function = *scope->function;
  // So that calls of what has many arguments and does nothing are counted as well.
  constexpr uint64_t kArgumentBytes = 64;
  BP_TRY(charge((function.inputs.size() + function.outputs.size() +
                 function.attribute_names.size() + function.default_attributes.size()) *
                kArgumentBytes));
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    scope->values[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
  }
  for (size_t i = 0; i < function.outputs.size() && i < call.outputs.size(); ++i) {
    // An input that is an output too keeps its name, and is copied to the call's output.
    if (!call.outputs[i].empty()) scope->values.emplace(function.outputs[i], call.outputs[i]);
  }
  for (const NodeProto& node : function.nodes) {
    for (std::string_view output : node.outputs) {
      if (output.empty() || scope->values.contains(output)) continue;
      BP_TRY(charge(scope->prefix.size() + output.size() + sizeof(std::string)));
      scope->values.emplace(output, new_name(scope->prefix, output));
    }
  }
  for (std::string_view name : function.attribute_names) scope->attributes[name] = nullptr;
  for (const AttributeProto& attribute : function.default_attributes) {
    scope->attributes[attribute.name] = &attribute;
  }
  for (const AttributeProto& attribute : call.attributes) {
    scope->attributes[attribute.name] = &attribute;
  }
  return {};
}

/// A reference becomes the call's attribute, or the default; without either it is left out.
Status Inliner::substitute(AttributeProto* attribute, const Scope& scope,
                           bool* out_is_absent) const {
  *out_is_absent = false;
  if (scope.function == nullptr || attribute->ref_attr_name.empty()) return {};
  const auto found = scope.attributes.find(attribute->ref_attr_name);
  if (found == scope.attributes.end()) {
    return bad_function("attribute " + quoted(attribute->name) + " refers to " +
                        quoted(attribute->ref_attr_name) +
                        ", which is not an attribute of the function");
  }
  *out_is_absent = found->second == nullptr;
  if (*out_is_absent) return {};
  const std::string_view name = attribute->name;
  *attribute = *found->second;
  attribute->name = name;
  return {};
}

Result<NodeProto> Inliner::resolved(const NodeProto& node, size_t index, const Scope& scope) {
  NodeProto copy = node;
  for (std::string_view& input : copy.inputs) {
    if (!input.empty()) input = scope.values.at(input);
  }
  for (std::string_view& output : copy.outputs) {
    if (!output.empty()) output = scope.values.at(output);
  }
  copy.attributes.clear();
  for (const AttributeProto& attribute : node.attributes) {
    AttributeProto value = attribute;
    bool is_absent = false;
    const Status status = substitute(&value, scope, &is_absent);
    if (!status.ok()) return status.with_prefix("node " + quoted(local_name(node, index)));
    if (!is_absent) copy.attributes.push_back(std::move(value));
  }
  std::string name = scope.prefix + "/" + local_name(node, index);
  BP_TRY(charge(name.size() + sizeof(std::string)));
  copy.name = keep(std::move(name));
  return copy;
}

Status Inliner::add_body_node(const NodeProto& node, size_t index, const Scope& scope) {
  auto copy = resolved(node, index, scope);
  if (!copy.ok()) return copy.status().with_prefix(function_label(*scope.function));
  BP_TRY(charge(*copy));
  return add(*std::move(copy), scope);
}

/// Outputs of a function that are its inputs: nothing in the body makes them.
Status Inliner::pass_inputs_through(const NodeProto& call, const Scope& scope) {
  const FunctionProto& function = *scope.function;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const std::string_view output = function.outputs[i];
    const bool is_input =
        std::find(function.inputs.begin(), function.inputs.end(), output) != function.inputs.end();
    if (!is_input || call.outputs[i].empty()) continue;
    NodeProto copy;
    copy.name = keep(scope.prefix + "/" + foreign_text(output));
    copy.op_type = "Identity";
    copy.inputs = {scope.values.at(output)};
    copy.outputs = {call.outputs[i]};
    copy.opset = kNewestOpset;
    BP_TRY(charge(copy));
    nodes_.push_back(std::move(copy));
  }
  return {};
}

Status Inliner::expand(const NodeProto& call, const FunctionProto& function, const Scope& scope) {
  const std::string label = "node " + quoted(call.name) + " (" + foreign_text(call.op_type) + ")";
  const Status is_right = check_call(call, function, scope);
  if (!is_right.ok()) return is_right.with_prefix(label);
  const Status body = check_body(function);
  if (!body.ok()) return body.with_prefix(function_label(function));
  Scope inner{.function = &function,
              .caller = &scope,
              .depth = scope.depth + 1,
              .opset = checked_.at(&function)};
  inner.prefix = call.name;
  while (!prefixes_.insert(inner.prefix).second) {
    inner.prefix += "#" + std::to_string(prefixes_.size());
  }
  BP_TRY(bind(call, &inner));
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    BP_TRY(add_body_node(function.nodes[i], i, inner));
  }
  return pass_inputs_through(call, inner);
}

Status Inliner::add(NodeProto node, const Scope& scope) {
  if (const FunctionProto* function = called(node)) return expand(node, *function, scope);
  if (plain_domain(node.domain).empty() && scope.opset == 0) {
    const std::string words = " names no operator set (opset_import) of the default domain";
    return bad_function(
        (scope.function == nullptr ? "the model" : function_label(*scope.function)) + words);
  }
  node.opset = scope.opset;
  nodes_.push_back(std::move(node));
  return {};
}

Status Inliner::run() {
  BP_TRY(index_functions());
  note_names();
  Scope scope;
  BP_TRY_ASSIGN(scope.opset, default_opset(model_.opset_imports));
  for (size_t i = 0; i < model_.graph.nodes.size(); ++i) {
    NodeProto& node = model_.graph.nodes[i];
    // The graph's own nodes keep their names, and get one for what they bring.
    if (node.name.empty() && called(node) != nullptr) node.name = keep(local_name(node, i));
    BP_TRY(add(std::move(node), scope));
  }
  model_.graph.nodes = std::move(nodes_);
  return {};
}

}  // namespace

std::string_view plain_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

Result<int64_t> default_opset(const std::vector<OpsetImport>& imports) {
  std::unordered_set<std::string_view> domains;
  int64_t opset = 0;
  for (const OpsetImport& import : imports) {
    const std::string_view domain = plain_domain(import.domain);
    if (!domains.insert(domain).second) {
      return bad_function("the operator set of domain " + quoted(domain) + " is given twice");
    }
    if (!domain.empty()) continue;
    opset = import.version;
    if (opset < kOldestOpset || opset > kNewestOpset) {
      return beyond_limits("opset " + std::to_string(opset) + ": expected " +
                           std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset));
    }
  }
  return opset;
}

Status inline_functions(ModelProto* model, std::deque<std::string>* names) {
  return Inliner(model, names).run();
}

}  // namespace bp::onnx
