// SPDX-License-Identifier: Apache-2.0
//
// The eager journey: pick the device, describe the inputs, resolve, and run the answer.
#include "core/dispatch/call.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/base/arg_array.hpp"
#include "core/base/dtype.hpp"
#include "core/base/hazard.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/elsewhere.hpp"
#include "core/dispatch/extents.hpp"
#include "core/dispatch/launch.hpp"
#include "core/dispatch/route_cache.hpp"

namespace bp {
namespace {

Status prefix(const OpSchema& schema, const Status& status) {
  return status.with_prefix(schema.name);
}

Result<Device*> choose_device(const OpSchema& schema, const CallArgs& args) {
  Device* chosen = args.stream != nullptr ? &args.stream->device() : nullptr;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    Tensor* input = args.inputs[i];
    if (input == nullptr || input->device() == nullptr) continue;
    if (schema.input(i).host != HostNeed::kNone) continue;
    if (chosen != nullptr && input->device() != chosen) {
      const bool is_foreign = &input->device()->runtime() != &chosen->runtime();
      return Status(BP_INVALID_ARGUMENT,
                    fmt::format("{}: input {} is on {}{}, expected {}, where the {}; copy it first",
                                schema.name, schema.input(i).name, input->device()->name(),
                                is_foreign ? " of another Runtime" : "", chosen->name(),
                                args.stream != nullptr ? "stream runs" : "others are"));
    }
    chosen = input->device();
  }
  if (chosen == nullptr) chosen = args.device;
  if (chosen == nullptr) {
    return Status(BP_INVALID_ARGUMENT,
                  std::string(schema.name) + ": no input is on a device; move one there first");
  }
  BP_TRY(chosen->check_open());
  return chosen;
}

/// Gives outputs that were made at their upper bound their real sizes.
Status narrow(Stream& stream, const PlannedKernel& kernel, std::span<Ref<Tensor>> outputs,
              Storage& written) {
  Extents extents;
  uint64_t seq = 0;  // not noted: the memory is at home on this stream
  BP_TRY(extents.read(stream, {written.handle(), written.offset_bytes()}, outputs.size(),
                      outputs[0]->storage(), &seq));
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto real = extents.narrow(*outputs[i], i, kernel.sure_sizes()[i]);
    if (!real.ok()) {
      return real.status().with_prefix(kernel.title());
    }
    outputs[i] = std::move(*real);
  }
  return {};
}

/// What a launch needs beside its arguments, given back when the launch has them.
struct Extras {
  Ref<Storage> workspace;
  Ref<Storage> extents;

  Status allocate(Stream& stream, const PlannedKernel& kernel, size_t output_count) {
    Device& device = stream.device();
    if (kernel.workspace_bytes() > 0) {
      auto made =
          Storage::allocate(device, kernel.workspace_bytes(), MemoryTag::kWorkspace, stream);
      if (!made.ok()) [[unlikely]]
        return made.status().with_prefix(kernel.record().name);
      workspace = std::move(*made);
    }
    if (kernel.extents()) {
      const uint64_t bytes = output_count * BP_MAX_RANK * sizeof(int64_t);
      BP_TRY_ASSIGN(extents, Storage::allocate(device, bytes, MemoryTag::kWorkspace, stream));
    }
    return {};
  }
};

bp_mem place_of(const Ref<Storage>& storage) {
  return storage ? bp_mem{storage->handle(), storage->offset_bytes()} : bp_mem{};
}

/// On an inline stream there is nothing to note: the launch itself answered its fault, and
/// order_before() those of its inputs.
void note_uses(Stream& stream, uint64_t seq, const PlannedKernel& kernel,
               std::span<Tensor* const> inputs, std::span<const Ref<Tensor>> outputs) {
  if (stream.is_inline()) return;
  ArgArray<FaultOrigin> origins(inputs.size() + 1);
  size_t count = 0;
  if (kernel.can_fault()) origins[count++] = {nullptr, &stream, seq};
  for (Tensor* input : inputs) {
    // The launch has consumed what it was given on the host.
    if (input == nullptr || input->device() == nullptr) continue;
    input->storage().note_use(stream, seq, false);
    if (input->storage().may_fault()) origins[count++] = {&input->storage()};
  }
  for (const Ref<Tensor>& output : outputs) {
    output->note_written(stream, seq, origins.span().first(count));
  }
}

/// Inputs as the kernel takes them; NULL: absent.
[[gnu::always_inline]] inline Status launch_native(Stream& stream, const Route& route,
                                                   std::span<Tensor* const> inputs,
                                                   std::span<Ref<Tensor>> out_outputs) {
  const std::span<const OutputPlan> plans = route.output_plans;
  ArgArray<bp_tensor> tensors(inputs.size() + plans.size());
  bp_tensor* next = tensors.data();
  for (Tensor* input : inputs) {
    bp_tensor* const tensor = next++;
    if (input == nullptr) {
      *tensor = {};
      continue;
    }
    input->write_abi(tensor);
    if (input->device() != nullptr) BP_TRY(input->storage().order_before(stream, Access::kRead));
  }
  Device& device = stream.device();
  for (size_t i = 0; i < plans.size(); ++i) {
    const OutputPlan& plan = plans[i];
    BP_TRY_ASSIGN(Ref<Storage> storage,
                  Storage::allocate(device, plan.bytes, MemoryTag::kActivations, stream));
    out_outputs[i] =
        Ref<Tensor>::make(std::move(storage), plan.dtype, plan.sizes, plan.strides, uint64_t{0});
    out_outputs[i]->write_abi(next++);
  }
  return launch_planned(stream, route.kernel, tensors.data(), inputs, out_outputs);
}

// One call in progress.
class Call {
 public:
  Call(Runtime& runtime, const CallArgs& args, Device& device, Stream& stream)
      : runtime_(runtime),
        schema_(runtime.registry().schema(args.op)),
        args_(args),
        device_(device),
        stream_(stream),
        inputs_(args.inputs.size()),
        types_(args.inputs.size()) {}

  Status run(std::span<Ref<Tensor>> out_outputs) {
    BP_TRY(prepare_inputs());
    BP_TRY_ASSIGN(const std::shared_ptr<const Route> route,
                  Dispatcher::of(device_).resolve(args_.op, types_.span(), args_.attributes,
                                                  {.deterministic = args_.deterministic}));
    switch (route->kind) {
      case RouteKind::kView:
        return run_view(*route, out_outputs);
      case RouteKind::kNative:
        return run_native(*route, out_outputs);
      case RouteKind::kDecomposed:
        return run_graph(*route, out_outputs);
      case RouteKind::kFallback:
        return run_on_host(*route, out_outputs);
      case RouteKind::kKnown:  // of plans alone
        break;
    }
    return {BP_INTERNAL, "a call has no route"};
  }

 private:
  Status prepare_inputs();
  Status run_view(const Route& route, std::span<Ref<Tensor>> out_outputs);
  Status run_native(const Route& route, std::span<Ref<Tensor>> out_outputs);
  Status run_graph(const Route& route, std::span<Ref<Tensor>> out_outputs);
  Status run_on_host(const Route& route, std::span<Ref<Tensor>> out_outputs);

  Runtime& runtime_;
  const OpSchema& schema_;
  const CallArgs& args_;
  Device& device_;
  Stream& stream_;
  ArgArray<Ref<Tensor>> inputs_;
  ArgArray<ArgType> types_;
  std::vector<HostTensor> host_values_;
};

Status Call::prepare_inputs() {
  for (size_t i = 0; i < args_.inputs.size(); ++i) {
    if (args_.inputs[i] == nullptr) continue;
    inputs_[i] = Ref<Tensor>(args_.inputs[i]);
    ArgType& type = types_[i];
    if (schema_.input(i).host != HostNeed::kNone) {
      // Inference needs the values here; from a device that is a wait, and counted as a copy.
      const bool on_host = inputs_[i]->device() == nullptr && inputs_[i]->contiguous();
      if (!on_host) {
        // It may be another Runtime's, which has not been asked yet whether it is being closed.
        if (Device* source = inputs_[i]->device()) BP_TRY(source->runtime().check_open());
        BP_TRY_ASSIGN(HostTensor value, copy_to_host(inputs_[i]));
        host_values_.push_back(value);
        inputs_[i] = Tensor::wrap_host(std::move(value));
      }
      type.host_data = reinterpret_cast<const char*>(inputs_[i]->storage().handle()) +
                       inputs_[i]->offset_bytes();
    } else if (inputs_[i]->device() == nullptr) {
      BP_TRY_ASSIGN(inputs_[i],
                    copy_to_device(inputs_[i], device_, stream_, MemoryTag::kActivations));
    }
    type.dtype = inputs_[i]->dtype();
    type.sizes = inputs_[i]->sizes();
    type.strides = inputs_[i]->strides();
    type.offset_bytes = inputs_[i]->offset_bytes();
  }
  return {};
}

Status Call::run_view(const Route& route, std::span<Ref<Tensor>> out_outputs) {
  device_.counters().view_ops.fetch_add(1, std::memory_order_relaxed);
  if (route.view_of_contiguous) {
    BP_TRY_ASSIGN(inputs_[0], make_contiguous(inputs_[0], stream_));
  }
  const TensorType& output = route.outputs[0];
  out_outputs[0] =
      inputs_[0]->view_as(output.dtype, output.sizes, route.view.strides, route.view.offset);
  return {};
}

Status Call::run_native(const Route& route, std::span<Ref<Tensor>> out_outputs) {
  ArgArray<Tensor*> inputs(args_.inputs.size());
  for (size_t i = 0; i < args_.inputs.size(); ++i) {
    // A value that inference needed on the host is there; most kernels want it on the device.
    const bool is_on_host = inputs_[i] && inputs_[i]->device() == nullptr;
    if (is_on_host && !route.kernel->host_inputs().contains(i)) {
      BP_TRY_ASSIGN(inputs_[i],
                    copy_to_device(inputs_[i], device_, stream_, MemoryTag::kActivations));
    }
    if (route.kernel->contiguous_inputs().contains(i) && inputs_[i]) {
      BP_TRY_ASSIGN(inputs_[i], make_contiguous(inputs_[i], stream_));
    }
    inputs[i] = inputs_[i].get();
  }
  return launch_native(stream_, route, inputs.span(), out_outputs);
}

/// How often each value is read, as an input of a node or as an output of the graph.
std::vector<size_t> use_counts(const Graph& graph) {
  std::vector<size_t> counts(graph.values().size());
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.inputs) {
      if (id != kNoValue) ++counts[id];
    }
  }
  for (ValueId id : graph.outputs()) ++counts[id];
  return counts;
}

Status Call::run_graph(const Route& route, std::span<Ref<Tensor>> out_outputs) {
  device_.counters().decomposed_ops.fetch_add(1, std::memory_order_relaxed);
  const Graph& graph = *route.graph;
  std::vector<Ref<Tensor>> values(graph.values().size());
  for_each_part_input(
      graph, inputs_.span(), [](const Ref<Tensor>& input) { return input.get() != nullptr; },
      [&](const Ref<Tensor>& input, ValueId value) { values[value] = input; });
  for (ValueId id = 0; id < values.size(); ++id) {
    if (graph.value(id).constant) values[id] = Tensor::wrap_host(*graph.value(id).constant);
  }
  // Memory goes back behind the last node that reads it: what is between many steps would not fit.
  std::vector<size_t> uses_left = use_counts(graph);
  for (const Node& node : graph.nodes()) {
    std::vector<Tensor*> inputs;
    for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : values[id].get());
    std::vector<Ref<Tensor>> outputs(node.outputs.size());
    const CallArgs part{.op = node.op,
                        .inputs = inputs,
                        .attributes = node.attributes.data(),
                        .stream = &stream_,
                        .device = &device_,
                        .deterministic = args_.deterministic};
    const Status status = call(runtime_, part, outputs);
    if (!status.ok()) return status.with_prefix("decomposed");
    for (ValueId id : node.inputs) {
      if (id != kNoValue && --uses_left[id] == 0) values[id] = {};
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (uses_left[id] > 0) values[id] = std::move(outputs[i]);
    }
  }
  for (size_t i = 0; i < out_outputs.size(); ++i) {
    const Ref<Tensor>& output = values[graph.outputs()[i]];
    BP_TRY_ASSIGN(out_outputs[i],
                  copy_to_device(output, device_, stream_, MemoryTag::kActivations));
  }
  return {};
}

Status Call::run_on_host(const Route& route, std::span<Ref<Tensor>> out_outputs) {
  Device* host = runtime_.host_device();
  const std::span<Device* const> others(&host, host != nullptr ? 1 : 0);
  BP_TRY(route_elsewhere({schema_.name, device_, route.reason, others}, [&](size_t) {
    return Dispatcher::of(*host).resolve(args_.op, types_.span(), args_.attributes,
                                         {.deterministic = args_.deterministic});
  }));
  device_.counters().fallback_ops.fetch_add(1, std::memory_order_relaxed);
  runtime_.note_fallback(device_, args_.op, route.reason);
  Stream& host_stream = host->default_stream();
  std::vector<Ref<Tensor>> copies(args_.inputs.size());
  std::vector<Tensor*> inputs(args_.inputs.size());
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!inputs_[i]) continue;
    copies[i] = inputs_[i];
    if (schema_.input(i).host == HostNeed::kNone) {
      BP_TRY_ASSIGN(copies[i],
                    copy_to_device(inputs_[i], *host, host_stream, MemoryTag::kActivations));
    }
    inputs[i] = copies[i].get();
  }
  std::vector<Ref<Tensor>> outputs(out_outputs.size());
  const CallArgs on_host{.op = args_.op,
                         .inputs = inputs,
                         .attributes = args_.attributes,
                         .stream = nullptr,
                         .device = host,
                         .deterministic = args_.deterministic};
  BP_TRY(call(runtime_, on_host, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    BP_TRY_ASSIGN(out_outputs[i],
                  copy_to_device(outputs[i], device_, stream_, MemoryTag::kActivations));
  }
  return {};
}

}  // namespace

Status launch_with_extras(Stream& stream, LaunchRequest request, std::span<Tensor* const> inputs,
                          std::span<Ref<Tensor>> outputs) {
  PlannedKernel& kernel = *request.keep_alive;
  Extras extras;
  BP_TRY(extras.allocate(stream, kernel, outputs.size()));
  request.workspace = place_of(extras.workspace);
  request.out_extents = place_of(extras.extents);
  BP_TRY_ASSIGN(request.state, kernel.borrow_state(stream));
  const auto seq = contain([&] { return launch(stream, request); });
  kernel.return_state(stream, request.state);
  BP_TRY(seq);
  const Status noted = contain([&] { note_uses(stream, *seq, kernel, inputs, outputs); });
  if (!noted.ok()) [[unlikely]] {
    // Memory whose use is not noted could be given to others too early: the work ends first.
    [[maybe_unused]] const Status ended = contain([&] { return stream.sync(); });
    return noted;
  }
  return extras.extents ? narrow(stream, kernel, outputs, *extras.extents) : Status();
}

namespace {

Status call_checked(Runtime& runtime, const OpSchema& schema, const CallArgs& args,
                    std::span<Ref<Tensor>> out_outputs) {
  if (runtime.closed()) return Status(BP_GONE, "the Runtime was closed");
  const size_t most = schema.inputs.size();
  const bool variadic = most > 0 && schema.inputs.back().variadic;
  if (args.inputs.size() > most && !variadic) {
    return Status(BP_INVALID_ARGUMENT, std::string(schema.name) + ": expected at most " +
                                           std::to_string(most) + " inputs, found " +
                                           std::to_string(args.inputs.size()));
  }
  const size_t told = schema.told_input_count<Tensor*>(args.inputs, nullptr);
  if (told < args.inputs.size()) {
    CallArgs told_args = args;
    told_args.inputs = args.inputs.first(told);
    return call(runtime, told_args, out_outputs);
  }
  if (const Status status = check_attributes(schema, args.attributes); !status.ok()) {
    return prefix(schema, status);
  }
  const auto count = output_count(schema, args.attributes);
  if (!count.ok()) return prefix(schema, count.status());
  if (out_outputs.size() != *count) {
    return Status(BP_INVALID_ARGUMENT, std::string(schema.name) + ": expected room for " +
                                           std::to_string(*count) + " outputs, found " +
                                           std::to_string(out_outputs.size()));
  }
  BP_TRY_ASSIGN(Device * device, choose_device(schema, args));
  Stream& stream = args.stream != nullptr ? *args.stream : device->default_stream();
  const Status status = Call(runtime, args, *device, stream).run(out_outputs);
  return status.ok() ? status : prefix(schema, status);
}

// Apart from the warm way: what a Call has on its stack is large.
[[gnu::noinline]] Status call_anew(Runtime& runtime, const CallArgs& args,
                                   std::span<Ref<Tensor>> out_outputs) {
  const OpSchema& schema = runtime.registry().schema(args.op);
  Status status = call_checked(runtime, schema, args, out_outputs);
  if (!status.ok()) [[unlikely]]
    status = status.with_op(schema.name);
  return status;
}

/// The device where a call runs if all its inputs lie on it; nullptr: none is known.
Device* likely_device(const CallArgs& args) {
  if (args.stream != nullptr) return &args.stream->device();
  return args.inputs.empty() || args.inputs[0] == nullptr ? nullptr : args.inputs[0]->device();
}

}  // namespace

Status call(Runtime& runtime, const CallArgs& args, std::span<Ref<Tensor>> out_outputs) {
  // The warm way: everything is where it is wanted, and how to run it is known. An answer is kept
  // for calls that have passed all checks, so that one like them needs none.
  Device* const device = likely_device(args);
  const OpSchema& schema = runtime.registry().schema(args.op);
  if (device == nullptr || runtime.closed() || !device->check_open().ok() ||
      !check_attributes(schema, args.attributes).ok()) {
    return call_anew(runtime, args, out_outputs);
  }
  Hazard hazard;
  const Route* const known = Dispatcher::of(*device).find(args.op, args.inputs, args.attributes,
                                                          args.deterministic, &hazard);
  if (known == nullptr || !known->is_straight || known->output_plans.size() != out_outputs.size()) {
    return call_anew(runtime, args, out_outputs);
  }
  Stream& stream = args.stream != nullptr ? *args.stream : device->default_stream();
  // By its two words: the caller has just written them one by one, and a copy of the span would
  // read both at once, for which the processor waits.
  const std::span inputs(args.inputs.data(), args.inputs.size());
  Status status = launch_native(stream, *known, inputs, out_outputs);
  if (!status.ok()) [[unlikely]]
    status = prefix(schema, status).with_op(schema.name);
  return status;
}

}  // namespace bp
