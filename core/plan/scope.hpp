// SPDX-License-Identifier: Apache-2.0
//
// Inside core/plan: a graph while it is planned, and where its values are.
#ifndef BACKPLANE_CORE_PLAN_SCOPE_HPP
#define BACKPLANE_CORE_PLAN_SCOPE_HPP

#include <algorithm>
#include <span>
#include <vector>

#include "core/plan/plan.hpp"

namespace bp {

/// One value's plan values, by device; kNoPlanValue where it is not.
using PlanValueIds = std::span<PlanValueId>;

/// `where` if the value is there, else the first device that it is on, else `where`.
inline PlanDevice place_near(PlanValueIds places, PlanDevice where) {
  if (places[where] != kNoPlanValue) return where;
  const auto found =
      std::find_if(places.begin(), places.end(), [](PlanValueId at) { return at != kNoPlanValue; });
  return found == places.end() ? where : static_cast<PlanDevice>(found - places.begin());
}

/// A graph being planned and its values' plan values: the session's, or a decomposition's.
struct Scope {
  const Graph& graph;
  const size_t device_count;
  std::vector<PlanValueId> all_places;
  std::vector<bool> is_answer;  // the graph's outputs, and what they may be views of
  Scope(const Graph& g, size_t devices)
      : graph(g),
        device_count(devices),
        all_places(g.values().size() * devices, kNoPlanValue),
        is_answer(g.values().size(), false) {
    for (const ValueId value : g.outputs()) is_answer[value] = true;
    for (NodeId id = static_cast<NodeId>(g.nodes().size()); id-- > 0;) {
      const Node& node = g.node(id);
      const bool is_view = g.registry().schema(node.op).view != nullptr;
      if (is_view && node.outputs[0] != kNoValue && is_answer[node.outputs[0]]) {
        is_answer[node.inputs[0]] = true;
      }
    }
  }
  PlanValueIds places(ValueId value) {
    return {all_places.data() + value * device_count, device_count};
  }
};

}  // namespace bp

#endif
