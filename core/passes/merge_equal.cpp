// SPDX-License-Identifier: Apache-2.0
//
// One walk in the order of the graph: the inputs of a node are merged before it is looked at, so
// that whole chains go at once.
#include "core/passes/merge_equal.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/hash.hpp"

namespace bp {
namespace {

// Shapes, axes, scalars. Larger ones are weights, which differ, and take time to compare.
constexpr uint64_t kMostConstantBytes = 1024;
// Of different things with one hash: a model that is made so would take time without end.
constexpr size_t kMostCandidates = 8;

/// The first of each, by hash.
using Firsts = std::unordered_map<uint64_t, std::vector<uint32_t>>;

/// Of the things there that are the same as this one, or the place where it is kept as the first.
template <class IsSame>
uint32_t find_first(Firsts* firsts, uint64_t hash, uint32_t id, IsSame is_same) {
  std::vector<uint32_t>& candidates = (*firsts)[hash];
  const auto found = std::find_if(candidates.begin(), candidates.end(), is_same);
  if (found != candidates.end()) return *found;
  if (candidates.size() < kMostCandidates) candidates.push_back(id);
  return id;
}

class Merger {
 public:
  explicit Merger(Graph* graph)
      : graph_(*graph), replacement_(graph->values().size()), is_kept_(replacement_.size(), false) {
    std::iota(replacement_.begin(), replacement_.end(), ValueId{0});
    for (const ValueId id : graph->outputs()) is_kept_[id] = true;
    for (const DefaultInput& input : graph->default_inputs()) is_kept_[input.value] = true;
  }

  void run() {
    for (ValueId id = 0; id < graph_.values().size(); ++id) merge_constant(id);
    for (NodeId id = 0; id < graph_.nodes().size(); ++id) merge_node(id);
    graph_.replace_uses(replacement_);
    graph_.remove_dead();
  }

 private:
  void merge_constant(ValueId id) {
    const auto& constant = graph_.value(id).constant;
    if (constant == nullptr || constant->bytes > kMostConstantBytes || is_kept_[id]) return;
    const std::string_view bytes(static_cast<const char*>(constant->data), constant->bytes);
    uint64_t hash = mix(constant->dtype, std::hash<std::string_view>()(bytes));
    for (const int64_t size : constant->sizes) hash = mix(hash, static_cast<uint64_t>(size));
    replacement_[id] = find_first(&constants_, hash, id, [&](ValueId other) {
      const HostTensor& first = *graph_.value(other).constant;
      return first.dtype == constant->dtype && first.sizes == constant->sizes &&
             first.bytes == constant->bytes &&
             (first.bytes == 0 || std::memcmp(first.data, constant->data, first.bytes) == 0);
    });
  }

  ValueId merged(ValueId id) const { return id == kNoValue ? kNoValue : replacement_[id]; }

  bool is_same(const Node& first, const Node& node) const {
    return first.op == node.op && first.outputs.size() == node.outputs.size() &&
           std::equal(first.inputs.begin(), first.inputs.end(), node.inputs.begin(),
                      node.inputs.end(),
                      [this](ValueId a, ValueId b) { return merged(a) == merged(b); }) &&
           std::equal(first.outputs.begin(), first.outputs.end(), node.outputs.begin(),
                      [](ValueId a, ValueId b) { return a != kNoValue || b == kNoValue; }) &&
           first.attributes.equals(node.attributes);
  }

  void merge_node(NodeId id) {
    const Node& node = graph_.node(id);
    // A node without inputs need not give the same result twice.
    if (node.inputs.empty() || !node.regions.empty()) return;
    uint64_t hash = mix(node.op, node.attributes.hash());
    for (const ValueId input : node.inputs) hash = mix(hash, merged(input));
    const NodeId first = find_first(
        &nodes_, hash, id, [&](NodeId other) { return is_same(graph_.node(other), node); });
    if (first == id) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output != kNoValue && !is_kept_[output]) {
        replacement_[output] = graph_.node(first).outputs[i];
      }
    }
  }

  Graph& graph_;
  std::vector<ValueId> replacement_;
  std::vector<bool> is_kept_;
  Firsts constants_;
  Firsts nodes_;
};

}  // namespace

void merge_equal(Graph* graph) { Merger(graph).run(); }

}  // namespace bp
