// SPDX-License-Identifier: Apache-2.0
//
// The planner. Values of the graph map to plan values, one per device they are needed on; nodes of
// a decomposition are planned in place of the node they came from, through the same functions.
#include "core/plan/planner.hpp"

#include <algorithm>
#include <span>

#include "core/base/dtype.hpp"
#include "core/dispatch/elsewhere.hpp"
#include "core/plan/segment_planner.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

/// nullptr: the kernel takes the input as it is.
const PackedInput* packed_input(const PlannedKernel& kernel, size_t index) {
  const auto packed = kernel.packed_inputs();
  const auto found = std::ranges::find(packed, index, &PackedInput::index);
  return found == packed.end() ? nullptr : &*found;
}

}  // namespace

Result<std::shared_ptr<const Segment>> Planner::run() {
  segment_->first = request_.first;
  segment_->arena_bytes.assign(request_.devices.size(), 0);
  for (const auto& [value, type] : request_.live_ins) {
    PlanValue planned;
    planned.kind = PlanValueKind::kLiveIn;
    planned.dtype = type.dtype;
    planned.sizes = type.sizes;
    planned.strides = type.strides;
    planned.offset_bytes = static_cast<int64_t>(type.offset_bytes % 256);
    planned.live_in = value;
    top_.places(value)[kChosenDevice] = new_value(std::move(planned));
  }
  NodeId id = request_.first;
  for (; id < request_.graph.nodes().size(); ++id) {
    if (must_stop(request_.graph.node(id))) break;
    const Status status = plan_top_node(id);
    if (!status.ok()) {
      const Node& node = request_.graph.node(id);
      return status.with_prefix("node '" + node.name + "'")
          .with_op(request_.graph.registry().schema(node.op).name);
    }
  }
  segment_->end = id;
  BP_TRY(finish());
  return std::shared_ptr<const Segment>(segment_);
}

bool Planner::must_stop(const Node& node) {
  const OpSchema& schema = request_.graph.registry().schema(node.op);
  bool stop = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    if (value == kNoValue) continue;
    if (bounded_[value]) stop = true;
    const ArgSchema& arg = schema.input(i);
    if (arg.host != HostNeed::kNone && host_value(top_, value) == nullptr) {
      segment_->host_values.push_back(value);
      stop = true;
    }
  }
  return stop;
}

std::shared_ptr<const HostTensor> Planner::host_value(Scope& scope, ValueId value) const {
  return &scope == &top_ ? known_.find(value) : scope.graph.value(value).constant;
}

bool Planner::work_out(const Node& node) {
  if (!known_.may_know(node)) return false;
  std::vector<TensorType> types(node.inputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    if (const auto known = known_.find(node.inputs[i])) {
      types[i] = {.dtype = known->dtype, .has_rank = true, .sizes = known->sizes};
      continue;
    }
    const PlanValueIds places = top_.places(node.inputs[i]);
    const PlanValueId at = places[place_near(places, kChosenDevice)];
    if (at == kNoPlanValue) return false;
    const PlanValue& planned = segment_->values[at];
    types[i] = {.dtype = planned.dtype, .has_rank = true, .sizes = planned.sizes};
  }
  return known_.work_out(node, types);
}

Status Planner::plan_top_node(NodeId id) {
  const Node& node = request_.graph.node(id);
  node_ = id;
  node_route_ = {.node = id, .kind = RouteKind::kKnown, .kernels = {}, .reason = {}};
  if (!work_out(node)) BP_TRY(plan_node(top_, node, kChosenDevice, &node_route_.kind));
  if (node_route_.kind == RouteKind::kView) node_route_.reason.clear();  // nothing is missing
  segment_->routes.push_back(node_route_);
  return {};
}

Result<std::shared_ptr<const Route>> Planner::resolve(Scope& scope, const Node& node,
                                                      PlanDevice where) {
  std::vector<PlanValueId> values;
  BP_TRY_ASSIGN(const std::vector<ArgType> inputs, describe_inputs(scope, node, where, &values));
  return Dispatcher::of(device(where))
      .resolve(node.op, inputs, node.attributes.data(),
               {.deterministic = request_.deterministic,
                .any_order_outputs = any_order_outputs(scope, node, where)});
}

/// A graph's outputs are contiguous; so is what another device than the chosen one makes, since
/// copies to and from it have no order to choose; and what is narrowed.
uint32_t Planner::any_order_outputs(const Scope& scope, const Node& node, PlanDevice where) const {
  if (where != kChosenDevice || scope.graph.registry().schema(node.op).extents) return 0;
  uint32_t outputs = 0;
  for (size_t i = 0; i < node.outputs.size() && i < 32; ++i) {
    const ValueId value = node.outputs[i];
    if (value != kNoValue && !scope.is_answer[value]) outputs |= uint32_t{1} << i;
  }
  return outputs;
}

Status Planner::plan_node(Scope& scope, const Node& node, PlanDevice where,
                          RouteKind* out_placement) {
  BP_TRY_ASSIGN(const std::shared_ptr<const Route> resolved, resolve(scope, node, where));
  *out_placement = resolved->kind;
  if (resolved->kind == RouteKind::kFallback) {
    return plan_elsewhere(scope, node, where, *resolved);
  }
  return plan_resolved(scope, node, where, *resolved, out_placement);
}

Status Planner::plan_resolved(Scope& scope, const Node& node, PlanDevice where,
                              const Route& resolved, RouteKind* out_placement) {
  switch (resolved.kind) {
    case RouteKind::kView:
      return plan_view(scope, node, where, resolved);
    case RouteKind::kNative:
      return plan_native(scope, node, where, resolved);
    case RouteKind::kDecomposed:
      if (node_route_.reason.empty()) node_route_.reason = resolved.reason;
      return plan_graph(scope, node, where, resolved, out_placement);
    case RouteKind::kFallback:
    case RouteKind::kKnown:
      break;
  }
  return Status(BP_INTERNAL, "a node that falls back was planned in place");
}

Result<std::vector<ArgType>> Planner::describe_inputs(Scope& scope, const Node& node,
                                                      PlanDevice where,
                                                      std::vector<PlanValueId>* out_values) {
  const OpSchema& schema = scope.graph.registry().schema(node.op);
  std::vector<ArgType> inputs(node.inputs.size());
  out_values->assign(node.inputs.size(), kNoPlanValue);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    if (value == kNoValue) continue;
    const ArgSchema& arg = schema.input(i);
    const auto host = host_value(scope, value);
    if (host != nullptr && arg.host != HostNeed::kNone) {
      inputs[i] = {.dtype = host->dtype,
                   .sizes = host->sizes,
                   .strides = contiguous_strides(host->sizes),
                   .offset_bytes = 0,
                   .host_data = host->data};
      continue;
    }
    // Types do not depend on the device, so a value is described where it is: no copy is planned
    // for an operator that then runs elsewhere.
    const PlanValueIds places = scope.places(value);
    PlanValueId at = places[place_near(places, where)];
    if (at == kNoPlanValue) {
      BP_TRY_ASSIGN(at, value_on(scope, value, where));
    }
    (*out_values)[i] = at;
    const PlanValue& planned = segment_->values[at];
    inputs[i] = {.dtype = planned.dtype,
                 .sizes = planned.sizes,
                 .strides = planned.strides,
                 .offset_bytes = alignment_of(planned),
                 .host_data = nullptr,
                 .is_constant = stays_constant(scope, value, planned, where)};
  }
  return inputs;
}

Status Planner::plan_view(Scope& scope, const Node& node, PlanDevice where, const Route& resolved) {
  // A view follows its input: on whichever device that is.
  const PlanDevice at = place_near(scope.places(node.inputs[0]), where);
  BP_TRY_ASSIGN(PlanValueId input, value_on(scope, node.inputs[0], at));
  if (resolved.view_of_contiguous) {
    BP_TRY_ASSIGN(input, contiguous(input));
  }
  const PlanValue& source = segment_->values[input];
  PlanValue view;
  view.kind = PlanValueKind::kView;
  view.device = at;
  view.dtype = resolved.outputs[0].dtype;
  view.sizes = resolved.outputs[0].sizes;
  view.strides = resolved.view.strides;
  view.base = base_of(input);
  view.offset_bytes = (source.kind == PlanValueKind::kView ? source.offset_bytes : 0) +
                      resolved.view.offset * static_cast<int64_t>(dtype_bits(source.dtype)) / 8;
  scope.places(node.outputs[0])[at] = new_value(std::move(view));
  return {};
}

Status Planner::plan_native(Scope& scope, const Node& node, PlanDevice where,
                            const Route& resolved) {
  Step step;
  step.node = node_;
  step.device = where;
  step.kernel = resolved.kernel;
  step.input_count = static_cast<uint32_t>(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) {
      step.args.push_back(kNoPlanValue);
      continue;
    }
    if (resolved.kernel->host_inputs().contains(i)) {
      // Known: the route was resolved with it.
      const auto known = host_value(scope, node.inputs[i]);
      step.args.push_back(new_host_value(where, Tensor::wrap_host(*known)));
      continue;
    }
    BP_TRY_ASSIGN(PlanValueId input, value_on(scope, node.inputs[i], where));
    if (const PackedInput* const packed = packed_input(*resolved.kernel, i)) {
      BP_TRY_ASSIGN(input, pack(*resolved.kernel, *packed, input));
    } else if (resolved.kernel->contiguous_inputs().contains(i)) {
      BP_TRY_ASSIGN(input, contiguous(input));
    }
    step.args.push_back(input);
  }
  const bool extents = resolved.kernel->extents();
  if (extents && &scope != &top_) {
    return Status(BP_UNSUPPORTED, "a decomposition holds an operator with data-dependent shapes");
  }
  if (extents) {
    const auto rows = static_cast<int64_t>(node.outputs.size());
    step.extents = new_memory(where, BP_DTYPE_I64, {rows, BP_MAX_RANK});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& type = resolved.outputs[i];
    const PlanValueId output = new_memory(where, type.dtype, type.sizes);
    const auto chosen_strides = resolved.kernel->out_strides();
    if (!chosen_strides.empty()) segment_->values[output].strides = chosen_strides[i];
    step.args.push_back(output);
    if (node.outputs[i] == kNoValue) continue;  // a pass dropped the value; the kernel still writes
    const PlanValueIds places = scope.places(node.outputs[i]);
    std::fill(places.begin(), places.end(), kNoPlanValue);
    places[where] = output;
    if (extents) {
      bounded_[node.outputs[i]] = true;
      extents_of_[node.outputs[i]] = {.value = node.outputs[i],
                                      .plan_value = output,
                                      .extents = step.extents,
                                      .extents_index = static_cast<uint32_t>(i)};
    }
  }
  node_route_.kernels.push_back(resolved.kernel->record().name);
  segment_->steps.push_back(std::move(step));
  return {};
}

/// A decomposition into views alone is one, and *out_placement then says so.
Status Planner::plan_graph(Scope& scope, const Node& node, PlanDevice where, const Route& resolved,
                           RouteKind* out_placement) {
  std::vector<std::shared_ptr<const HostTensor>> known;
  for (const ValueId input : node.inputs) {
    known.push_back(input == kNoValue ? nullptr : host_value(scope, input));
  }
  BP_TRY_ASSIGN(const std::shared_ptr<const Graph> parts,
                fold_parts(known, node, resolved.graph, request_.fold));
  const Graph& graph = *parts;
  Scope inner(graph, scope.device_count);
  const auto share = [](PlanValueIds from, PlanValueIds to) {
    std::copy(from.begin(), from.end(), to.begin());
  };
  for_each_part_input(
      graph, node.inputs, [](ValueId input) { return input != kNoValue; },
      [&](ValueId input, ValueId part) { share(scope.places(input), inner.places(part)); });
  bool has_only_views = !graph.nodes().empty();
  for (const Node& part : graph.nodes()) {
    RouteKind kind = RouteKind::kNative;
    BP_TRY(plan_node(inner, part, where, &kind));
    has_only_views = has_only_views && kind == RouteKind::kView;
  }
  if (has_only_views) *out_placement = RouteKind::kView;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    BP_TRY(value_on(inner, graph.outputs()[i], where));
    share(inner.places(graph.outputs()[i]), scope.places(node.outputs[i]));
  }
  return {};
}

Status Planner::plan_elsewhere(Scope& scope, const Node& node, PlanDevice where,
                               const Route& refused) {
  std::vector<Device*> others;
  for (const PlanDevice other : request_.fallbacks) others.push_back(&device(other));
  BP_TRY_ASSIGN(
      const Elsewhere found,
      route_elsewhere({.op = scope.graph.registry().schema(node.op).name,
                       .device = device(where),
                       .reason = refused.reason,
                       .others = others,
                       .is_chosen = request_.fallback_chosen},
                      [&](size_t i) { return resolve(scope, node, request_.fallbacks[i]); }));
  node_route_.reason = refused.reason;
  if (!request_.fallback_chosen) {
    device(where).runtime().warn_of_fallback(device(where), node.op, refused.reason);
  }
  RouteKind there = RouteKind::kFallback;  // the node stays one that falls back
  return plan_resolved(scope, node, request_.fallbacks[found.index], *found.route, &there);
}

Status Planner::finish() {
  // What later segments need is put on the chosen device; the user's outputs stay where they are.
  const bool last = segment_->end == request_.graph.nodes().size();
  std::vector<bool> answered(request_.graph.values().size(), false);
  for (ValueId value : request_.graph.outputs()) answered[value] = true;
  std::vector<bool> needed = answered;
  for (NodeId id = segment_->end; id < request_.graph.nodes().size(); ++id) {
    for (ValueId value : request_.graph.node(id).inputs) {
      if (value != kNoValue) needed[value] = true;
    }
  }
  for (ValueId value = 0; value < needed.size(); ++value) {
    if (needed[value]) BP_TRY(add_live_out(value, answered[value], last));
  }
  own_live_outs();
  BP_TRY(bring_constants(request_, segment_.get()));
  trace_faults(request_, segment_.get());
  return lay_out_arenas(segment_.get());
}

Status Planner::add_live_out(ValueId value, bool is_answer, bool last) {
  const PlanValueIds places = top_.places(value);
  const bool here =
      std::any_of(places.begin(), places.end(), [](PlanValueId at) { return at != kNoPlanValue; });
  const bool constant = request_.graph.value(value).constant != nullptr;
  const auto known = constant ? nullptr : known_.find(value);
  if (known != nullptr && !last) segment_->known_values.emplace(value, *known);
  if (!here && !constant && known == nullptr) return {};
  if (!last && (constant || !here)) return {};
  LiveOut out;
  if (const auto found = extents_of_.find(value); found != extents_of_.end()) out = found->second;
  out.value = value;
  const PlanDevice where = last ? place_near(places, kChosenDevice) : kChosenDevice;
  BP_TRY_ASSIGN(out.plan_value, value_on(top_, value, where));
  if (is_answer && segment_->values[base_of(out.plan_value)].kind == PlanValueKind::kConstant) {
    BP_TRY_ASSIGN(out.plan_value, copy_constant(value, out.plan_value));
  }
  segment_->live_outs.push_back(out);
  return {};
}

void Planner::own_live_outs() {
  const auto own = [this](PlanValueId id) {
    PlanValue& base = segment_->values[base_of(id)];
    if (base.kind == PlanValueKind::kArena) base.kind = PlanValueKind::kOwned;
  };
  for (const LiveOut& out : segment_->live_outs) {
    own(out.plan_value);
    if (out.extents != kNoPlanValue) own(out.extents);
  }
}

Result<std::shared_ptr<const Segment>> plan_segment(const PlanRequest& request) {
  return Planner(request).run();
}

}  // namespace bp
