// SPDX-License-Identifier: Apache-2.0
//
// Inside core/plan: the planner of one segment. planner.cpp plans nodes, planner_values.cpp finds
// and copies their values.
#ifndef BACKPLANE_CORE_PLAN_SEGMENT_PLANNER_HPP
#define BACKPLANE_CORE_PLAN_SEGMENT_PLANNER_HPP

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/plan/known_values.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/scope.hpp"

namespace bp {

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        segment_(std::make_shared<Segment>()),
        known_(request),
        top_(request.graph, request.devices.size()),
        bounded_(request.graph.values().size(), false) {}

  Result<std::shared_ptr<const Segment>> run();

 private:
  Device& device(PlanDevice where) const { return *request_.devices[where]; }
  bool must_stop(const Node& node);
  Status plan_top_node(NodeId id);
  Status plan_node(Scope& scope, const Node& node, PlanDevice where, RouteKind* out_placement);
  Result<std::shared_ptr<const Route>> resolve(Scope& scope, const Node& node, PlanDevice where);
  uint32_t any_order_outputs(const Scope& scope, const Node& node, PlanDevice where) const;
  Status plan_resolved(Scope& scope, const Node& node, PlanDevice where, const Route& resolved,
                       RouteKind* out_placement);
  Status plan_elsewhere(Scope& scope, const Node& node, PlanDevice where, const Route& refused);
  Status plan_native(Scope& scope, const Node& node, PlanDevice where, const Route& resolved);
  Status plan_graph(Scope& scope, const Node& node, PlanDevice where, const Route& resolved,
                    RouteKind* out_placement);
  Status plan_view(Scope& scope, const Node& node, PlanDevice where, const Route& resolved);

  Result<PlanValueId> value_on(Scope& scope, ValueId value, PlanDevice where);
  PlanValueId new_host_value(PlanDevice where, Ref<Tensor> tensor);
  /// Whether the value, described by `planned`, is a constant's still where it is used.
  bool stays_constant(const Scope& scope, ValueId value, const PlanValue& planned,
                      PlanDevice where) const;
  Result<PlanValueId> pack(const PlannedKernel& kernel, const PackedInput& input,
                           PlanValueId constant);
  Result<PlanValueId> bring_value(PlanValueId from, PlanDevice where);
  Result<PlanValueId> copy_value(PlanValueId from, PlanDevice where);
  Result<PlanValueId> copy_range(PlanValueId from, PlanDevice where);
  Result<PlanValueId> copy_by_kernel(PlanValueId from);
  Result<PlanValueId> make_contiguous(PlanValueId from);
  Result<PlanValueId> contiguous(PlanValueId from);
  Result<PlanValueId> copy_constant(ValueId value, PlanValueId from);
  PlanValueId add_copy(PlanValueId from, PlanValueId to);
  PlanValueId new_value(PlanValue planned);
  PlanValueId new_memory(PlanDevice where, uint32_t dtype, const Dims& sizes);
  PlanValueId base_of(PlanValueId id) const;
  uint64_t alignment_of(const PlanValue& planned) const;
  Result<std::vector<ArgType>> describe_inputs(Scope& scope, const Node& node, PlanDevice where,
                                               std::vector<PlanValueId>* out_values);
  std::shared_ptr<const HostTensor> host_value(Scope& scope, ValueId value) const;
  bool work_out(const Node& node);
  Status finish();
  Status add_live_out(ValueId value, bool is_answer, bool last);
  void own_live_outs();

  const PlanRequest& request_;
  std::shared_ptr<Segment> segment_;
  KnownValues known_;
  Scope top_;
  std::vector<bool> bounded_;  // values whose real sizes are known only after this segment
  std::unordered_map<ValueId, LiveOut> extents_of_;
  std::unordered_map<PlanValueId, PlanValueId> contiguous_of_;  // copies, for all who want one
  NodeId node_ = kNoNode;
  NodeRoute node_route_;
};

}  // namespace bp

#endif
