// SPDX-License-Identifier: Apache-2.0
//
// One walk in the order of the graph. The call that absorbs takes the place of the reader, whose
// other inputs are made before it, and the node that it stood for has no reader left. It may then
// be absorbed itself, so a chain is absorbed link by link.
#include "core/passes/absorb_readers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/op/absorb.hpp"

namespace bp {
namespace {

class Absorber {
 public:
  Absorber(Graph* graph, const HasKernelFn& has_kernel)
      : graph_(*graph), has_kernel_(has_kernel), use_counts_(graph->values().size(), 0) {
    for (const Node& node : graph->nodes()) {
      count(node.inputs);
      for (const Region& region : node.regions) count(region.captures);
    }
    count(graph->outputs());
  }

  Status run() {
    for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
      const Node& node = graph_.node(id);
      if (!node.regions.empty() || node.outputs.size() != 1) continue;
      bool is_absorbed = true;
      while (is_absorbed) {
        BP_TRY_ASSIGN(is_absorbed, absorb_into_a_maker(id));
      }
    }
    graph_.remove_dead();
    return {};
  }

 private:
  void count(std::span<const ValueId> ids, int sign = 1) {
    for (const ValueId id : ids) {
      if (id != kNoValue) use_counts_[id] += sign;
    }
  }

  Result<bool> absorb_into_a_maker(NodeId id) {
    for (const size_t input : latest_first(graph_.node(id))) {
      BP_TRY_ASSIGN(const bool is_absorbed, absorb(id, input));
      if (is_absorbed) return true;
    }
    return false;
  }

  /// Inputs that this node alone reads, of nodes that may absorb it. The latest of two such nodes
  /// moves least, and keeps its own inputs alive for the shortest time.
  std::vector<size_t> latest_first(const Node& node) const {
    std::vector<size_t> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || use_counts_[id] != 1 || graph_.value(id).producer == kNoNode) continue;
      const Node& maker = graph_.node(graph_.value(id).producer);
      const bool may_absorb = graph_.registry().schema(maker.op).absorb != nullptr;
      if (may_absorb && maker.outputs.size() == 1 && maker.regions.empty()) inputs.push_back(i);
    }
    std::sort(inputs.begin(), inputs.end(), [&](size_t a, size_t b) {
      return graph_.value(node.inputs[a]).producer > graph_.value(node.inputs[b]).producer;
    });
    return inputs;
  }

  Result<bool> absorb(NodeId reader_id, size_t reader_input) {
    const Node& reader = graph_.node(reader_id);
    const Value& between = graph_.value(reader.inputs[reader_input]);
    const Node& maker = graph_.node(between.producer);
    const OpSchema& schema = graph_.registry().schema(maker.op);
    const CallInputs call_inputs(graph_.values(), maker.inputs);
    const CallInputs reader_inputs(graph_.values(), reader.inputs);
    const InferContext call = call_inputs.context(maker.attributes);
    const InferContext reader_call = reader_inputs.context(reader.attributes);
    auto absorbed = schema.absorb({.registry = graph_.registry(),
                                   .schema = schema,
                                   .call = call,
                                   .output = between.type,
                                   .reader = graph_.registry().schema(reader.op),
                                   .reader_call = reader_call,
                                   .reader_input = reader_input,
                                   .call_values = maker.inputs,
                                   .reader_values = reader.inputs});
    if (!absorbed) return false;
    const OpId op = absorbed->op.value_or(maker.op);
    const OpSchema& op_schema = graph_.registry().schema(op);
    std::vector<ValueId> inputs = maker.inputs;
    inputs.resize(op_schema.inputs.size(), kNoValue);
    for (const auto& [from, to] : absorbed->inputs) inputs[to] = reader.inputs[from];
    inputs.resize(op_schema.told_input_count<ValueId>(inputs, kNoValue));
    const CallInputs whole(graph_.values(), inputs);
    const TensorType& output = graph_.value(reader.outputs[0]).type;
    if (!has_kernel_(op, whole.types, {&output, 1}, absorbed->attributes)) return false;
    count(reader.inputs, -1);
    count(maker.inputs, -1);  // has no reader any more
    count(inputs);
    BP_TRY(graph_.replace_node(reader_id, {.op = op,
                                           .name = maker.name,
                                           .inputs = std::move(inputs),
                                           .outputs = reader.outputs,
                                           .attributes = std::move(absorbed->attributes),
                                           .regions = {}}));
    return true;
  }

  Graph& graph_;
  const HasKernelFn& has_kernel_;
  std::vector<int64_t> use_counts_;
};

}  // namespace

Status absorb_readers(Graph* graph, const HasKernelFn& has_kernel) {
  return has_kernel ? Absorber(graph, has_kernel).run() : Status();
}

}  // namespace bp
