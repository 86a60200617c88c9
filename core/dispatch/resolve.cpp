// SPDX-License-Identifier: Apache-2.0
//
// Route: infer, then alias, kernel, simpler operators, or the host device, in that order; and
// the cache that makes a warm call one compare, or a hash and one more.
#include <algorithm>
#include <new>

#include "core/base/dtype.hpp"
#include "core/base/log.hpp"
#include "core/device/kernel_list.hpp"
#include "core/dispatch/query.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

// What a cached answer depends on in one input, wherever that is described.
struct ArgKey {
  uint32_t dtype;
  const Dims& sizes;
  const Dims& strides;
  uint64_t offset_bytes;

  friend bool operator==(const ArgKey& a, const ArgKey& b) {
    return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
           a.offset_bytes % 256 == b.offset_bytes % 256;
  }
};

ArgKey key_of(const ArgType& type) {
  return {type.dtype, type.sizes, type.strides, type.offset_bytes};
}
ArgKey key_of(const Tensor* tensor) {
  return {tensor->dtype(), tensor->sizes(), tensor->strides(), tensor->offset_bytes()};
}

/// A call as the cache knows it. Input: ArgType or Tensor*.
template <class Input>
struct CallKey {
  const OpSchema& schema;
  OpId op;
  bool deterministic;
  std::span<const Input> inputs;
  const void* attributes;

  uint64_t hash() const {
    uint64_t hash =
        mix(hash_attributes(schema, attributes), uint64_t{op} << 1 | (deterministic ? 1 : 0));
    for (const Input& input : inputs) {
      const ArgKey key = key_of(input);
      hash = mix(hash, uint64_t{key.dtype} << 16 | key.sizes.size() << 8 | key.offset_bytes % 256);
      for (size_t i = 0; i < key.sizes.size(); ++i) {
        const auto stride = static_cast<uint64_t>(key.strides[i]);
        hash = mix(hash, static_cast<uint64_t>(key.sizes[i]) + stride * 0x9e3779b97f4a7c15u);
      }
    }
    return hash;
  }
};

}  // namespace

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
  }
  return "unknown";
}

struct Dispatcher::CacheEntry {
  OpId op;
  bool deterministic;
  std::vector<ArgType> inputs;
  Attributes attributes;
  std::shared_ptr<const Route> route;

  template <class Input>
  bool answers(const CallKey<Input>& call) const {
    const auto same = [](const ArgType& a, const Input& b) { return key_of(a) == key_of(b); };
    return op == call.op && deterministic == call.deterministic &&
           std::equal(inputs.begin(), inputs.end(), call.inputs.begin(), call.inputs.end(), same) &&
           equal_attributes(call.schema, attributes.data(), call.attributes);
  }
};

Dispatcher& Dispatcher::of(Device& device) {
  return static_cast<Dispatcher&>(
      device.extension([&] { return std::unique_ptr<DeviceExtension>(new Dispatcher(device)); }));
}

Dispatcher::Dispatcher(Device& device)
    : device_(device),
      registry_(device.runtime().registry()),
      latest_(device.runtime().registry().size()) {
  auto kernels = list_kernels(device.plugin(), device.table());
  if (kernels.ok()) {
    kernels_ = std::move(*kernels);
  } else {
    // Then there is no dispatcher yet, and the next call asks again.
    if (kernels.status().code() == BP_OUT_OF_MEMORY) throw std::bad_alloc();
    // Callers are told why all is refused.
    kernels_.refused.push_back(device.name() +
                               " offers no kernels: " + kernels.status().to_string());
    log(BP_LOG_ERROR, kernels_.refused.back());
  }
  kernels_by_op_.resize(registry_.size());
  for (const KernelRecord& record : kernels_.kernels) {
    if (const auto op = registry_.find(record.op)) {
      kernels_by_op_[*op].push_back(&record);
    } else {
      log(BP_LOG_WARNING, device.name() + ": kernel " + std::string(record.name) +
                              " is for operator '" + std::string(record.op) +
                              "', which is not known; it is never used");
    }
  }
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

const Route* Dispatcher::find(OpId op, std::span<Tensor* const> inputs, const void* attributes,
                              bool deterministic) const {
  for (const Tensor* input : inputs) {
    if (input == nullptr || input->device() != &device_) return nullptr;
  }
  const CallKey<Tensor*> call{registry_.schema(op), op, deterministic, inputs, attributes};
  const CacheEntry* entry = latest_[op].load(std::memory_order_acquire);
  if (entry != nullptr && entry->answers(call)) return entry->route.get();
  entry = cache_[call.hash() % kCacheSlots].load(std::memory_order_acquire);
  if (entry == nullptr || !entry->answers(call)) return nullptr;
  latest_[op].store(entry, std::memory_order_release);
  return entry->route.get();
}

Result<std::shared_ptr<const Route>> Dispatcher::resolve(OpId op, std::span<const ArgType> inputs,
                                                         const void* attributes,
                                                         bool deterministic) {
  const OpSchema& schema = registry_.schema(op);
  const CallKey<ArgType> call{schema, op, deterministic, inputs, attributes};
  std::atomic<const CacheEntry*>& slot = cache_[call.hash() % kCacheSlots];
  const CacheEntry* entry = slot.load(std::memory_order_acquire);
  if (entry != nullptr && entry->answers(call)) {
    return entry->route;
  }
  BP_TRY_ASSIGN(Attributes owned, Attributes::copy_from(schema, attributes));
  bool cacheable = true;
  BP_TRY_ASSIGN(Route resolved, resolve_anew(op, inputs, owned, deterministic, &cacheable));
  auto route = std::make_shared<const Route>(std::move(resolved));
  std::lock_guard lock(mutex_);
  // Entries are never freed before the dispatcher, because readers hold no lock; a program with
  // more shapes than the limit resolves the others anew each time.
  if (cacheable && cache_entries_.size() < kCacheLimit) {
    std::vector<ArgType> kept(inputs.begin(), inputs.end());
    for (ArgType& input : kept) input.host_data = nullptr;
    cache_entries_.push_back(std::make_unique<const CacheEntry>(
        CacheEntry{op, deterministic, std::move(kept), std::move(owned), route}));
    slot.store(cache_entries_.back().get(), std::memory_order_release);
  }
  return route;
}

Result<Route> Dispatcher::resolve_anew(OpId op, std::span<const ArgType> inputs,
                                       const Attributes& attributes, bool deterministic,
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
      return Status(BP_INTERNAL, std::string(schema.name) +
                                     ": sizes stayed unknown: " + to_string(output.sizes));
    }
  }
  if (resolve_view(schema, inputs, attributes, &route)) return route;
  std::string refusal = "is on the BACKPLANE_HOST_OPS list";
  const bool forced =
      device_.runtime().is_host_op(op) && &device_ != device_.runtime().host_device();
  if (!forced) {
    auto planned = plan_kernel(op, inputs, route.outputs, attributes.data(), deterministic);
    if (planned.ok()) {
      route.kind = RouteKind::kNative;
      route.kernel = std::move(*planned);
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
    BP_TRY(resolve_composite(op, context, refusal, deterministic, &route));
    if (route.kind == RouteKind::kDecomposed) return route;
  }
  route.kind = RouteKind::kFallback;
  route.reason = std::move(refusal);
  return route;
}

bool Dispatcher::resolve_view(const OpSchema& schema, std::span<const ArgType> inputs,
                              const Attributes& attributes, Route* out) const {
  if (schema.view == nullptr) return false;
  const Dims& sizes = inputs[0].sizes;
  const Dims& out_sizes = out->outputs[0].sizes;
  out->view = schema.view(sizes, inputs[0].strides, attributes.data(), out_sizes);
  if (!out->view.possible) {
    out->view = schema.view(sizes, contiguous_strides(sizes), attributes.data(), out_sizes);
    out->view_of_contiguous = true;
  }
  if (out->view.possible) out->kind = RouteKind::kView;
  return out->view.possible;
}

Status Dispatcher::resolve_composite(OpId op, const InferContext& context, std::string_view refusal,
                                     bool deterministic, Route* out) {
  const OpSchema& schema = registry_.schema(op);
  if (schema.decompose == nullptr) return {};
  auto graph = std::make_shared<Graph>(registry_);
  const Status status = schema.decompose(context, graph.get());
  if (status.code() == BP_UNSUPPORTED) return {};
  BP_TRY(status);
  // Parts that would each fall back cost more copies than the whole operator falling back once. On
  // the host device there is nothing to fall back to, so parts are tried all the same.
  const bool last_resort =
      &device_ == device_.runtime().host_device() || device_.runtime().host_device() == nullptr;
  if (!last_resort && !all_native(*graph, deterministic)) return {};
  out->kind = RouteKind::kDecomposed;
  out->graph = std::move(graph);
  out->reason = refusal;
  return {};
}

bool Dispatcher::all_native(const Graph& graph, bool deterministic) {
  for (const Node& node : graph.nodes()) {
    std::vector<ArgType> inputs;
    for (ValueId id : node.inputs) {
      if (id == kNoValue) {
        inputs.emplace_back();
        continue;
      }
      const Value& value = graph.value(id);
      const TensorType& type = value.type;
      inputs.push_back({.dtype = type.dtype,
                        .sizes = type.sizes,
                        .strides = contiguous_strides(type.sizes),
                        .offset_bytes = 0,
                        .host_data = value.constant ? value.constant->data : nullptr});
    }
    const auto route = resolve(node.op, inputs, node.attributes.data(), deterministic);
    if (!route.ok() || (*route)->kind == RouteKind::kFallback) return false;
  }
  return true;
}

}  // namespace bp
