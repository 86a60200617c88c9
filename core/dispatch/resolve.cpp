// SPDX-License-Identifier: Apache-2.0
//
// Route: infer, then alias, kernel, simpler operators, or the host device, in that order.
#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/base/options.hpp"
#include "core/device/kernel_list.hpp"
#include "core/dispatch/query.hpp"
#include "core/dispatch/route_cache.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

std::string_view route_name(RouteKind kind) {
  switch (kind) {
    case RouteKind::kView:
      return "view";
    case RouteKind::kNative:
      return "native";
    case RouteKind::kDecomposed:
      return "decomposed";
    case RouteKind::kFallback:
      return "fallback";
    case RouteKind::kKnown:
      return "known";
  }
  return "unknown";
}

namespace {

/// What a plugin lists for nothing: one line of the log, with the first.
struct UnusedKernels {
  const char* words;
  size_t count = 0;
  std::string first = {};

  void add(const KernelRecord& record, const std::string& why) {
    if (++count == 1) first = record.name + " " + why;
  }
  void tell(const Device& device) const {
    if (count == 0) return;
    log(BP_LOG_WARNING,
        device.name() + ": " + std::to_string(count) + " " + words + "; the first is " + first);
  }
};

/// What rules the kernel out for every call. A set may have more than the operator takes: a newer
/// version of it may take them.
std::string dtype_misfit(const KernelRecord& record, const OpSchema& schema) {
  const size_t count = schema.type_vars.size();
  if (record.dtype_masks.size() != count) {
    return "has " + std::to_string(record.dtype_masks.size()) + " dtype sets; " +
           std::string(schema.name) + " has " + std::to_string(count);
  }
  for (size_t var = 0; var < count; ++var) {
    if ((record.dtype_masks[var] & schema.type_vars[var].dtype_mask) != 0) continue;
    return "lists " + dtype_set_name(record.dtype_masks[var]) + " for " +
           std::string(schema.type_vars[var].name) + "; " + std::string(schema.name) + " takes " +
           dtype_set_name(schema.type_vars[var].dtype_mask);
  }
  return {};
}

}  // namespace

ArgType arg_of(const Graph& graph, ValueId id) {
  if (id == kNoValue) return {};
  const Value& value = graph.value(id);
  return {.dtype = value.type.dtype,
          .sizes = value.type.sizes,
          .strides = contiguous_strides(value.type.sizes),
          .offset_bytes = 0,
          .host_data = value.constant ? value.constant->data : nullptr};
}

Dispatcher& Dispatcher::make(Device& device) {
  return static_cast<Dispatcher&>(device.extension(DevicePart::kDispatch, [&] {
    return std::unique_ptr<DeviceExtension>(new Dispatcher(device));
  }));
}

Dispatcher::Dispatcher(Device& device)
    : device_(device),
      registry_(device.runtime().registry()),
      routes_(std::make_unique<RouteCache>(registry_.size(), RouteCache::kCapacity)) {
  auto kernels = list_kernels(device.plugin(), device.table());
  if (kernels.ok()) {
    kernels_ = std::move(*kernels);
  } else {
    // Then there is no dispatcher yet, and the next call asks again.
    if (kernels.status().code() == BP_OUT_OF_MEMORY) throw NoMemory(kernels.status());
    list_failure_ = device.name() + " offers no kernels: " + kernels.status().to_string();
    const bool is_news = !device.table().gate->is_abandoned();
    log(is_news ? BP_LOG_ERROR : BP_LOG_INFO, list_failure_);
    kernels_.refused.push_back(list_failure_);
  }
  sort_kernels_by_op();
}

void Dispatcher::sort_kernels_by_op() {
  kernels_by_op_.resize(registry_.size());
  UnusedKernels unknown{"kernels for unknown operators are never used"};
  UnusedKernels misfits{"kernels do not fit their operators and are never used"};
  for (const KernelRecord& record : kernels_.kernels) {
    const auto op = registry_.find(record.op);
    if (!op) {
      const std::string name = foreign_text(record.op);
      const auto near = nearest_match(name, registry_.names());
      unknown.add(record, "for '" + name + "'" + (near ? "; did you mean " + *near + "?" : ""));
      continue;
    }
    const OpSchema& schema = registry_.schema(*op);
    if (const std::string misfit = dtype_misfit(record, schema); !misfit.empty()) {
      misfits.add(record, "which " + misfit);
    }
    kernels_by_op_[*op].push_back(&record);
  }
  for (const UnusedKernels& unused : {unknown, misfits}) unused.tell(device_);
  for (auto& records : kernels_by_op_) {
    std::stable_sort(records.begin(), records.end(),
                     [](const KernelRecord* a, const KernelRecord* b) {
                       return a->kernel.priority > b->kernel.priority;
                     });
  }
}

Dispatcher::~Dispatcher() = default;

std::vector<std::string> Dispatcher::kernel_names(OpId op) const {
  std::vector<std::string> names;
  for (const KernelRecord* record : kernels_by_op_[op]) names.emplace_back(record->name);
  return names;
}

Result<RoutePtr> Dispatcher::resolve(OpId op, std::span<const ArgType> inputs,
                                     const void* attributes, CallMode mode) {
  const OpSchema& schema = registry_.schema(op);
  const CallKey<ArgType> call{schema, op, mode, inputs, attributes};
  if (RoutePtr found = routes_->find_shared(call)) return found;
  resolved_count_.fetch_add(1, std::memory_order_relaxed);
  BP_TRY_ASSIGN(Attributes owned, Attributes::copy_from(schema, attributes));
  bool cacheable = true;
  BP_TRY_ASSIGN(Route resolved, resolve_anew(op, inputs, owned, mode, &cacheable));
  auto route = std::make_shared<const Route>(std::move(resolved));
  if (cacheable) routes_->insert(call, std::move(owned), route);
  drain_deferred();
  return route;
}

// Plans of dropped answers end after the work that was queued with them. A program that never waits
// would pile them up, so a call that makes a new one waits at times.
void Dispatcher::drain_deferred() {
  DeferredFree& deferred = device_.deferred_free();
  if (deferred.count() < drain_above_.load(std::memory_order_relaxed)) return;
  device_.counters().host_waits.fetch_add(1, std::memory_order_relaxed);
  [[maybe_unused]] const Status waited = contain([&] { return device_.quiesce(); });
  // What a stuck queue holds on to must not stop each further call.
  drain_above_.store(std::max(kMostDeferred, 2 * deferred.count()), std::memory_order_relaxed);
}

Result<Route> Dispatcher::resolve_anew(OpId op, std::span<const ArgType> inputs,
                                       const Attributes& attributes, CallMode mode,
                                       bool* out_cacheable) {
  const OpSchema& schema = registry_.schema(op);
  BP_TRY(attributes.validate());
  std::vector<TensorType> types;
  std::vector<const void*> host_data;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back({.dtype = inputs[i].dtype, .has_rank = true, .sizes = inputs[i].sizes});
    const bool wanted = i < schema.inputs.size() && schema.inputs[i].host != HostNeed::kNone;
    host_data.push_back(wanted ? inputs[i].host_data : nullptr);
    if (wanted) *out_cacheable = false;
  }
  const InferContext context{types, host_data, attributes.data()};
  Route route;
  BP_TRY(infer_types(schema, context, &route.outputs));
  for (const TensorType& output : route.outputs) {
    if (!output.has_rank || !all_known(output.sizes)) {
      return Status(BP_INVALID_ARGUMENT, std::string(schema.name) +
                                             ": sizes stayed unknown: " + to_string(output.sizes));
    }
  }
  const bool may_be_view = schema.view != nullptr;
  if (may_be_view && resolve_view(schema, context, inputs[0].strides, &route)) return route;
  std::string refusal = "it is on the BACKPLANE_HOST_OPS list";
  const bool forced =
      device_.runtime().is_host_op(op) && &device_ != device_.runtime().host_device();
  if (!forced) {
    auto planned = plan_kernel(op, inputs, route.outputs, attributes.data(), mode);
    if (planned.ok()) {
      route.kind = RouteKind::kNative;
      route.kernel = std::move(*planned);
      route.is_straight = route.kernel->contiguous_inputs().empty();
      for (const TensorType& output : route.outputs) {
        route.output_plans.push_back(
            {output.dtype, output.sizes, contiguous_strides(output.sizes),
             dtype_storage_bytes(output.dtype, element_count(output.sizes))});
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        if ((arg_rule(route.kernel->record(), i).flags & kHostArgBits) != 0) {
          *out_cacheable = false;
        }
      }
      return route;
    }
    if (planned.status().code() != BP_UNSUPPORTED) return planned.status();
    refusal = planned.status().message();
    BP_TRY(resolve_composite(op, context, &refusal, mode.deterministic, &route));
    if (route.kind == RouteKind::kDecomposed) return route;
  }
  route.kind = RouteKind::kFallback;
  route.reason = std::move(refusal);
  return route;
}

bool Dispatcher::resolve_view(const OpSchema& schema, const InferContext& call,
                              const Dims& x_strides, Route* out) const {
  const Dims& out_sizes = out->outputs[0].sizes;
  out->view = schema.view(call, x_strides, out_sizes);
  if (!out->view.possible) {
    out->view = schema.view(call, contiguous_strides(call.inputs[0].sizes), out_sizes);
    out->view_of_contiguous = true;
  }
  if (out->view.possible) out->kind = RouteKind::kView;
  return out->view.possible;
}

Status Dispatcher::resolve_composite(OpId op, const InferContext& context, std::string* refusal,
                                     bool deterministic, Route* out) {
  const OpSchema& schema = registry_.schema(op);
  if (schema.decompose == nullptr) return {};
  auto graph = std::make_shared<Graph>(registry_);
  const Status status = schema.decompose(context, graph.get());
  if (status.code() == BP_UNSUPPORTED) {
    // A primitive is decomposed for the sake of some attributes alone.
    if (!schema.primitive) *refusal += "; it is not decomposed: " + status.message();
    return {};
  }
  BP_TRY(status);
  const auto there =
      std::count_if(context.inputs.begin(), context.inputs.end(),
                    [](const TensorType& type) { return type.dtype != BP_DTYPE_NONE; });
  if (graph->inputs().size() != static_cast<size_t>(there)) {
    return Status(BP_INTERNAL, std::string(schema.name) + ": its decomposition has " +
                                   std::to_string(graph->inputs().size()) + " inputs, the call " +
                                   std::to_string(there));
  }
  // Parts that would each fall back cost more copies than the whole operator falling back once. On
  // the host device there is nothing to fall back to, so parts are tried all the same.
  const bool last_resort =
      &device_ == device_.runtime().host_device() || device_.runtime().host_device() == nullptr;
  const std::string lacks = last_resort ? "" : refused_parts(*graph, deterministic);
  if (!lacks.empty()) {
    *refusal += "; it is not decomposed, as that needs " + lacks;
    return {};
  }
  out->kind = RouteKind::kDecomposed;
  out->graph = std::move(graph);
  out->reason = *refusal;
  return {};
}

std::string Dispatcher::refused_parts(const Graph& graph, bool deterministic) {
  std::vector<std::string> refused;
  for (const Node& node : graph.nodes()) {
    std::vector<ArgType> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(arg_of(graph, id));
    const auto route =
        resolve(node.op, inputs, node.attributes.data(), {.deterministic = deterministic});
    const bool is_native = route.ok() && (*route)->kind != RouteKind::kFallback;
    if (is_native) continue;
    const std::string& why = route.ok() ? (*route)->reason : route.status().message();
    std::string part = std::string(registry_.schema(node.op).name) + " (" + why + ")";
    if (std::ranges::find(refused, part) == refused.end()) refused.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(refused, ", "));
}

}  // namespace bp
