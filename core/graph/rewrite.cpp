// SPDX-License-Identifier: Apache-2.0
//
// The half of Graph that changes and checks finished graphs: what passes and plans call.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/graph/graph.hpp"

namespace bp {
namespace {

bool same_type(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.has_rank == b.has_rank && a.sizes == b.sizes;
}

Status internal(const std::string& words) { return {BP_INTERNAL, "broken graph: " + words}; }

}  // namespace

void Graph::replace_with_constant(ValueId id, HostTensor tensor) {
  replace_with_constant(id, std::make_shared<const HostTensor>(std::move(tensor)));
}

void Graph::replace_with_constant(ValueId id, std::shared_ptr<const HostTensor> constant) {
  Value& value = values_[id];
  if (value.producer != kNoNode) {
    auto& outputs = nodes_[value.producer].outputs;
    std::replace(outputs.begin(), outputs.end(), id, kNoValue);
    value.producer = kNoNode;
  }
  value.type = {.dtype = constant->dtype, .has_rank = true, .sizes = constant->sizes};
  value.constant = std::move(constant);
}

Status Graph::replace_node(NodeId id, Node node) {
  if (node.outputs != nodes_[id].outputs)
    return internal("a node replaced by one of other outputs");
  nodes_[id] = std::move(node);
  return infer_again(id);
}

void Graph::replace_uses(std::span<const ValueId> replacement) {
  const auto replace = [&](std::vector<ValueId>* ids) {
    for (ValueId& id : *ids) {
      if (id != kNoValue) id = replacement[id];
    }
  };
  for (Node& node : nodes_) {
    replace(&node.inputs);
    for (Region& region : node.regions) replace(&region.captures);
  }
  replace(&outputs_);
}

std::vector<bool> Graph::live_values(std::vector<bool>* out_live_nodes) const {
  std::vector<bool> live(values_.size(), false);
  out_live_nodes->assign(nodes_.size(), false);
  const auto mark = [&](std::span<const ValueId> ids) {
    for (ValueId id : ids) {
      if (id != kNoValue) live[id] = true;
    }
  };
  mark(inputs_);
  mark(outputs_);
  for (const DefaultInput& input : default_inputs_) live[input.value] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const Node& node = nodes_[i];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return id != kNoValue && live[id]; });
    if (!needed) continue;
    (*out_live_nodes)[i] = true;
    mark(node.inputs);
    mark(node.outputs);
    for (const Region& region : node.regions) mark(region.captures);
  }
  return live;
}

void Graph::remove_dead() {
  std::vector<bool> live_nodes;
  const std::vector<bool> live = live_values(&live_nodes);
  std::vector<ValueId> new_ids(values_.size(), kNoValue);
  std::vector<Value> values;
  by_name_.clear();
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (!live[id]) continue;
    new_ids[id] = static_cast<ValueId>(values.size());
    if (!values_[id].name.empty()) by_name_.emplace(values_[id].name, new_ids[id]);
    values.push_back(std::move(values_[id]));
  }
  values_ = std::move(values);

  std::vector<Node> nodes;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (!live_nodes[id]) continue;
    Node& node = nodes_[id];
    for (ValueId& output : node.outputs) {
      if (output == kNoValue) continue;
      output = new_ids[output];
      values_[output].producer = static_cast<NodeId>(nodes.size());
    }
    nodes.push_back(std::move(node));
  }
  nodes_ = std::move(nodes);
  for (ValueId& input : inputs_) input = new_ids[input];
  for (DefaultInput& input : default_inputs_) input.value = new_ids[input.value];
  replace_uses(new_ids);
}

Status Graph::infer_again(NodeId id) {
  const Node& node = nodes_[id];
  std::vector<TensorType> types;
  BP_TRY(infer_node(node, &types));
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.outputs[i] != kNoValue) values_[node.outputs[i]].type = types[i];
  }
  return {};
}

Status Graph::infer_all() {
  for (NodeId id = 0; id < nodes_.size(); ++id) BP_TRY(infer_again(id));
  return {};
}

Status Graph::bind_input(ValueId input, const Dims& sizes, std::vector<int64_t>* symbol_sizes) {
  Value& value = values_[input];
  const auto refuse = [&](const std::string& words) {
    return Status(BP_INVALID_ARGUMENT, "input '" + value.name + "': expected " +
                                           to_string(value.type) + ", found sizes " +
                                           bp::to_string(sizes) + words);
  };
  if (!value.type.has_rank) {
    value.type.has_rank = true;
    value.type.sizes.resize(sizes.size(), kUnknownDim);
  }
  if (value.type.sizes.size() != sizes.size()) return refuse("");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t declared = value.type.sizes[i];
    if (!is_known(sizes[i])) continue;
    if (is_known(declared) && declared != sizes[i]) return refuse("");
    const auto symbol = symbol_index(declared);
    if (!symbol || *symbol >= symbol_sizes->size()) continue;
    int64_t& bound = (*symbol_sizes)[*symbol];
    if (is_known(bound) && bound != sizes[i]) {
      return refuse("; " + symbols_[*symbol] + " is " + std::to_string(bound) + " already");
    }
    bound = sizes[i];
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (is_known(sizes[i])) value.type.sizes[i] = sizes[i];
  }
  return {};
}

Result<Graph> Graph::with_input_sizes(std::span<const Dims> sizes) const {
  if (sizes.size() != inputs_.size()) {
    return Status(BP_INVALID_ARGUMENT, "expected sizes for " + std::to_string(inputs_.size()) +
                                           " inputs, found " + std::to_string(sizes.size()));
  }
  Graph sized = *this;
  std::vector<int64_t> symbol_sizes(symbols_.size(), kUnknownDim);
  for (size_t i = 0; i < sizes.size(); ++i) {
    BP_TRY(sized.bind_input(inputs_[i], sizes[i], &symbol_sizes));
  }
  // A symbol that one input fixed is fixed in the others too.
  for (ValueId input : inputs_) {
    for (int64_t& size : sized.values_[input].type.sizes) {
      const auto symbol = symbol_index(size);
      const bool is_symbol = symbol && *symbol < symbol_sizes.size();
      if (is_symbol && is_known(symbol_sizes[*symbol])) size = symbol_sizes[*symbol];
    }
  }
  BP_TRY(sized.infer_all());
  return sized;
}

Result<Graph> Graph::with_default_inputs(std::span<const ValueId> given) const {
  Graph graph = *this;
  graph.default_inputs_.clear();
  for (const DefaultInput& input : default_inputs_) {
    if (std::find(given.begin(), given.end(), input.value) == given.end()) continue;
    Value& value = graph.values_[input.value];
    value.constant = nullptr;
    value.type = input.type;
    graph.inputs_.push_back(input.value);
  }
  if (!given.empty()) BP_TRY(graph.infer_all());
  return graph;
}

Status Graph::verify_values() const {
  size_t named = 0;
  for (ValueId id = 0; id < values_.size(); ++id) {
    const Value& value = values_[id];
    if (!value.name.empty()) ++named;
    if (!value.name.empty() && find_value(value.name) != id) {
      return internal("two values named '" + value.name + "'");
    }
    if (value.producer != kNoNode && value.constant != nullptr) {
      return internal("value " + value_label(id) + " is a constant and has a producer");
    }
    if (value.producer != kNoNode && value.producer >= nodes_.size()) {
      return internal("value " + value_label(id) + " has a producer that is not there");
    }
  }
  if (named != by_name_.size()) return internal("names of values that are not there");
  return {};
}

Status Graph::verify_node(NodeId id, std::vector<bool>* made) const {
  const Node& node = nodes_[id];
  const auto check_use = [&](ValueId used) -> Status {
    if (used == kNoValue || (used < values_.size() && (*made)[used])) return {};
    return internal(node_label(node) + " uses value " +
                    (used < values_.size() ? value_label(used) : std::to_string(used)) +
                    " before it is made");
  };
  for (ValueId input : node.inputs) BP_TRY(check_use(input));
  for (const Region& region : node.regions) {
    for (ValueId capture : region.captures) BP_TRY(check_use(capture));
  }
  std::vector<TensorType> types;
  const Status inferred = infer_node(node, &types);
  if (!inferred.ok()) return internal(inferred.message());
  if (types.size() != node.outputs.size()) {
    return internal(node_label(node) + " has " + std::to_string(node.outputs.size()) +
                    " outputs, expected " + std::to_string(types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId output = node.outputs[i];
    if (output == kNoValue) continue;
    if (output >= values_.size() || values_[output].producer != id || (*made)[output]) {
      return internal(node_label(node) + " does not alone make its output " + std::to_string(i));
    }
    if (!same_type(types[i], values_[output].type)) {
      return internal(node_label(node) + " makes " + to_string(types[i]) + ", value " +
                      value_label(output) + " is " + to_string(values_[output].type));
    }
    (*made)[output] = true;
  }
  return {};
}

Status Graph::verify() const {
  BP_TRY(verify_values());
  std::vector<bool> made(values_.size(), false);
  for (ValueId input : inputs_) {
    if (input >= values_.size()) return internal("an input that is not there");
    made[input] = true;
  }
  for (ValueId id = 0; id < values_.size(); ++id) {
    if (values_[id].constant != nullptr) made[id] = true;
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) BP_TRY(verify_node(id, &made));
  if (outputs_.size() != output_names_.size()) return internal("outputs without names");
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] < values_.size() && made[outputs_[i]]) continue;
    return internal("nothing makes output '" + output_names_[i] + "'");
  }
  return {};
}

}  // namespace bp
