// SPDX-License-Identifier: Apache-2.0
//
// The executor's inner loop and what it needs ready-made.
#include "core/execute/run_context.hpp"

#include <algorithm>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/dispatch/launch.hpp"
#include "core/transfer/staging.hpp"

namespace bp {
namespace {

/// The tensor is the plan's: the same in all runs.
bool is_plan_owned(const PlanValue& planned) {
  return planned.kind == PlanValueKind::kConstant || planned.kind == PlanValueKind::kHost;
}

/// With the kernel that wants most of it as its workspace, if one does.
std::string words_of_arena(const Segment& segment, size_t device) {
  std::string words = "activations and workspaces of a run";
  for (const Step& step : segment.steps) {
    const bool is_here = step.device == device && step.kernel != nullptr;
    if (!is_here || step.kernel->workspace_bytes() <= segment.arena_bytes[device] / 2) continue;
    return words + ", of which the workspace of " + step.kernel->title() + " is " +
           std::to_string(step.kernel->workspace_bytes()) + " bytes";
  }
  return words;
}

}  // namespace

SegmentInstance::SegmentInstance(std::shared_ptr<const Segment> segment,
                                 std::vector<Device*> devices, std::vector<Stream*> streams,
                                 std::shared_ptr<MemoryBudget> budget)
    : segment_(std::move(segment)),
      devices_(std::move(devices)),
      streams_(std::move(streams)),
      arenas_(devices_.size()),
      arena_charge_(std::move(budget)),
      owned_(segment_->values.size()),
      last_seq_(devices_.size(), 0) {
  try {
    for (Device* device : devices_) {
      device->track(this);
    }
  } catch (...) {
    for (Device* device : devices_) {
      device->untrack(this);
    }
    throw;
  }
}

SegmentInstance::~SegmentInstance() {
  release_plugin_objects();
  for (Device* device : devices_) {
    if (!device->closed()) device->untrack(this);
  }
}

void SegmentInstance::release_plugin_objects() {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == nullptr) continue;
    const PlannedKernel& kernel = *segment_->steps[i].kernel;
    if (!kernel.device().closed()) kernel.destroy_state(states_[i]);
    states_[i] = nullptr;
  }
}

Status SegmentInstance::prepare() {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (segment_->arena_bytes[i] == 0) continue;
    BP_TRY(arena_charge_.add(segment_->arena_bytes[i],
                             "activations and workspaces on " + devices_[i]->name()));
    auto arena = Storage::allocate(*devices_[i], segment_->arena_bytes[i], MemoryTag::kActivations,
                                   *streams_[i]);
    if (!arena.ok()) return arena.status().with_prefix(words_of_arena(*segment_, i));
    arenas_[i] = std::move(*arena);
  }
  states_.assign(segment_->steps.size(), nullptr);
  for (size_t i = 0; i < segment_->steps.size(); ++i) {
    const Step& step = segment_->steps[i];
    if (step.kernel != nullptr && step.kernel->stateful()) {
      BP_TRY_ASSIGN(states_[i], step.kernel->create_state());
    }
  }
  for (PlanValueId id = 0; id < segment_->values.size(); ++id) {
    if (is_plan_owned(segment_->values[id])) owned_[id] = segment_->values[id].constant;
  }
  const size_t origin_count = segment_->fault_sources.size();
  fault_origins_.resize(origin_count);
  origins_of_value_.reserve(origin_count);
  prepare_arguments();
  return {};
}

bool SegmentInstance::is_fixed(PlanValueId id) const {
  const PlanValue& planned = segment_->values[id];
  const PlanValue& base =
      planned.kind == PlanValueKind::kView ? segment_->values[planned.base] : planned;
  return base.kind == PlanValueKind::kArena || is_plan_owned(base);
}

bp_mem SegmentInstance::place_of(PlanValueId id) const {
  const PlanValue& planned = segment_->values[id];
  const PlanValueId base_id = planned.kind == PlanValueKind::kView ? planned.base : id;
  const PlanValue& base = segment_->values[base_id];
  const auto view_offset =
      static_cast<uint64_t>(planned.kind == PlanValueKind::kView ? planned.offset_bytes : 0);
  if (base.kind == PlanValueKind::kArena) {
    const Storage& arena = *arenas_[base.device];
    return {arena.handle(), arena.offset_bytes() + base.arena_offset + view_offset};
  }
  const Tensor& tensor = *owned_[base_id];
  return {tensor.storage().handle(),
          tensor.storage().offset_bytes() + tensor.offset_bytes() + view_offset};
}

void SegmentInstance::point(PlanValueId id, bp_tensor* argument) const {
  const bp_mem place = place_of(id);
  argument->handle = place.handle;
  argument->offset_bytes = place.offset_bytes;
  const PlanValue& planned = segment_->values[id];
  const PlanValueId base_id = planned.kind == PlanValueKind::kView ? planned.base : id;
  const PlanValue& base = segment_->values[base_id];
  if (base.kind == PlanValueKind::kArena) {
    argument->storage_bytes = place_of(base_id).offset_bytes + base.bytes;
  } else {
    const Storage& storage = owned_[base_id]->storage();
    argument->storage_bytes = storage.offset_bytes() + storage.bytes();
  }
}

void SegmentInstance::prepare_arguments() {
  for (const Step& step : segment_->steps) {
    first_argument_.push_back(arguments_.size());
    for (PlanValueId id : step.args) {
      bp_tensor argument{};
      if (id != kNoPlanValue) {
        const PlanValue& planned = segment_->values[id];
        argument.dtype = planned.dtype;
        argument.rank = static_cast<uint32_t>(planned.sizes.size());
        argument.sizes = planned.sizes.data();
        argument.strides = planned.strides.data();
        if (planned.kind == PlanValueKind::kHost) argument.flags = BP_TENSOR_HOST_BIT;
        if (is_fixed(id)) {
          point(id, &argument);
        } else {
          patches_.push_back({arguments_.size(), id});
        }
      }
      arguments_.push_back(argument);
    }
  }
}

/// Another live-out lies in the same memory.
bool SegmentInstance::is_shared(const LiveOut& out) const {
  return std::any_of(segment_->live_outs.begin(), segment_->live_outs.end(),
                     [&](const LiveOut& other) {
                       const PlanValue& planned = segment_->values[other.plan_value];
                       const PlanValueId base =
                           planned.kind == PlanValueKind::kView ? planned.base : other.plan_value;
                       return &other != &out && base == out.plan_value;
                     });
}

Status SegmentInstance::use_bound(std::span<const Ref<Tensor>> bound) {
  if (bound.empty()) return {};
  for (const LiveOut& out : segment_->live_outs) {
    const Ref<Tensor>& tensor = bound[out.value];
    const PlanValue& planned = segment_->values[out.plan_value];
    const size_t where = planned.device;
    const bool direct = tensor && planned.kind == PlanValueKind::kOwned &&
                        out.extents == kNoPlanValue && tensor->device() == devices_[where] &&
                        tensor->sizes() == planned.sizes && is_plan_aligned(*tensor) &&
                        is_contiguous(planned.sizes, planned.strides) && !is_shared(out);
    if (!direct) continue;
    BP_TRY(tensor->order_before_write(*streams_[where]));
    owned_[out.plan_value] = tensor;
  }
  return {};
}

Status SegmentInstance::make_owned(MemoryCharge* charge) {
  for (PlanValueId id = 0; id < segment_->values.size(); ++id) {
    const PlanValue& planned = segment_->values[id];
    if (planned.kind != PlanValueKind::kOwned || owned_[id]) continue;
    const size_t where = planned.device;
    BP_TRY(charge->add(planned.bytes, "outputs"));
    BP_TRY_ASSIGN(owned_[id], Tensor::allocate(*devices_[where], planned.dtype, planned.sizes,
                                               MemoryTag::kIo, *streams_[where]));
    if (is_contiguous(planned.sizes, planned.strides)) continue;
    owned_[id] = owned_[id]->view_as(planned.dtype, planned.sizes, planned.strides, 0);
  }
  return {};
}

Status SegmentInstance::order_live_ins(std::span<const Ref<Tensor>> values) {
  for (PlanValueId id = 0; id < segment_->values.size(); ++id) {
    const PlanValue& planned = segment_->values[id];
    if (planned.kind != PlanValueKind::kLiveIn) continue;
    owned_[id] = values[planned.live_in];
    BP_TRY(owned_[id]->storage().order_before(*streams_[0], Access::kRead));
  }
  for (size_t i = 0; i < fault_origins_.size(); ++i) {
    const FaultSource& source = segment_->fault_sources[i];
    if (source.live_in == kNoPlanValue) continue;
    fault_origins_[i].contents = &owned_[source.live_in]->storage();
  }
  return {};
}

Status SegmentInstance::run(const Graph& graph, RunState* state, std::vector<Ref<Tensor>>* values) {
  std::fill(last_seq_.begin(), last_seq_.end(), 0);
  std::fill(fault_origins_.begin(), fault_origins_.end(), FaultOrigin{});
  const Status status = contain([&] { return run_steps(graph, state, values); });
  // What is in the queues uses this memory, however the run ended. If there is no memory to note
  // it, it is waited for.
  if (!status.ok() && !contain([&] { note_uses(); }).ok()) {
    for (Stream* stream : streams_) {
      [[maybe_unused]] const Status ended = contain([&] { return stream->sync(); });
    }
  }
  // Also after a failure: what one run used must not live on in the context.
  for (PlanValueId id = 0; id < segment_->values.size(); ++id) {
    if (!is_plan_owned(segment_->values[id])) owned_[id] = nullptr;
  }
  return status;
}

Status SegmentInstance::run_steps(const Graph& graph, RunState* state,
                                  std::vector<Ref<Tensor>>* values) {
  BP_TRY(order_live_ins(*values));
  BP_TRY(use_bound(state->bound));
  BP_TRY(make_owned(&state->charge));
  for (const Patch& patch : patches_) point(patch.plan_value, &arguments_[patch.argument]);
  const RunControl* control = state->control;
  for (size_t i = 0; i < segment_->steps.size(); ++i) {
    if (control != nullptr) [[unlikely]]
      BP_TRY(control->check());
    const bool is_timed = control != nullptr && control->on_step;
    const Status status = is_timed ? timed_step(i, *control) : run_step(i);
    if (!status.ok()) [[unlikely]] {
      const NodeId id = segment_->steps[i].node;
      if (id == kNoNode) return status;  // a copy of what no node makes
      const Node& node = graph.node(id);
      return status.with_prefix("node '" + node.name + "'")
          .with_op(graph.registry().schema(node.op).name);
    }
  }
  return collect(values);
}

Status SegmentInstance::timed_step(size_t index, const RunControl& control) {
  const Step& step = segment_->steps[index];
  const auto begin = RunControl::Clock::now();
  BP_TRY(run_step(index));
  BP_TRY(control.wait(*streams_[step.device]));
  const auto taken = RunControl::Clock::now() - begin;
  control.on_step(step.kernel != nullptr ? std::string_view(step.kernel->record().name) : "",
                  std::chrono::duration_cast<std::chrono::nanoseconds>(taken));
  return {};
}

Status SegmentInstance::run_step(size_t index) {
  const Step& step = segment_->steps[index];
  return step.kind == StepKind::kCopy ? copy_step(step) : launch_step(index);
}

Status SegmentInstance::launch_step(size_t index) {
  const Step& step = segment_->steps[index];
  const size_t where = step.device;
  bp_mem workspace{};
  if (step.kernel->workspace_bytes() > 0) {
    const Storage& arena = *arenas_[where];
    workspace = {arena.handle(), arena.offset_bytes() + step.workspace_offset};
  }
  const LaunchRequest request{
      .kernel = *step.kernel,
      .tensors = arguments_.data() + first_argument_[index],
      .input_count = step.input_count,
      .output_count = static_cast<uint32_t>(step.args.size()) - step.input_count,
      .keep_alive = step.kernel,
      .state = states_[index],
      .workspace = workspace,
      .out_extents = step.extents != kNoPlanValue ? place_of(step.extents) : bp_mem{}};
  auto seq = launch(*streams_[where], request);
  if (!seq.ok()) [[unlikely]]
    return seq.status();
  last_seq_[where] = *seq;
  if (step.fault_source != kNoFaultSource) {
    fault_origins_[step.fault_source] = {nullptr, streams_[where], *seq};
  }
  return {};
}

template <class Copy>
Status SegmentInstance::note_copy(size_t where, Copy copy) {
  uint64_t seq = 0;
  const Status status = copy(*streams_[where], &seq);
  last_seq_[where] = std::max(last_seq_[where], seq);
  return status;
}

Status SegmentInstance::copy_step(const Step& step) {
  // One end is host memory, so a copy is the other device's own copy in or out. Of two such ends it
  // is a copy in, since what is read may lie in memory of the model that no device has given out.
  const PlanValue& source = segment_->values[step.args[0]];
  const bp_mem from = place_of(step.args[0]);
  const bp_mem to = place_of(step.args[1]);
  const uint64_t bytes = segment_->values[step.args[1]].bytes;
  if (bytes == 0) return {};
  const size_t here = source.device;
  const size_t there = step.device;
  if (!devices_[here]->is_host_like()) {
    void* target = reinterpret_cast<void*>(to.handle + to.offset_bytes);
    BP_TRY(note_copy(here, [&](Stream& stream, uint64_t* seq) {
      return copy_out(stream, target, from, bytes, seq);
    }));
    for (const FaultOrigin& origin : origins_of(step.fault_sources)) BP_TRY(origin.report());
    return {};
  }
  const auto* host_source = reinterpret_cast<const void*>(from.handle + from.offset_bytes);
  return note_copy(there, [&](Stream& stream, uint64_t* seq) {
    return copy_in(stream, to, host_source, bytes, seq);
  });
}

Status SegmentInstance::collect(std::vector<Ref<Tensor>>* values) {
  note_uses();
  Extents extents;
  PlanValueId read = kNoPlanValue;  // where they are from
  for (const LiveOut& out : segment_->live_outs) {
    if (out.extents != kNoPlanValue && out.extents != read) {
      BP_TRY(read_extents(out.extents, &extents));
      read = out.extents;
    }
    BP_TRY_ASSIGN((*values)[out.value], live_out_tensor(out, extents));
  }
  return {};
}

void SegmentInstance::note_uses() {
  for (PlanValueId id = 0; id < segment_->values.size(); ++id) {
    const PlanValue& planned = segment_->values[id];
    if (!owned_[id]) continue;
    if (is_plan_owned(planned)) continue;  // constants carry no marks
    Stream& stream = *streams_[planned.device];
    const uint64_t seq = last_seq_[planned.device];
    if (planned.kind == PlanValueKind::kOwned) {
      owned_[id]->note_written(stream, seq, origins_of(planned.fault_sources));
    } else if (seq != 0) {
      owned_[id]->storage().note_use(stream, seq, false);
    }
  }
}

/// Of those sources that the run has come to. Until the next call.
std::span<const FaultOrigin> SegmentInstance::origins_of(std::span<const uint32_t> sources) {
  origins_of_value_.clear();
  for (const uint32_t index : sources) {
    const FaultOrigin& origin = fault_origins_[index];
    if (origin.contents != nullptr || origin.stream != nullptr) origins_of_value_.push_back(origin);
  }
  return origins_of_value_;
}

Result<Ref<Tensor>> SegmentInstance::live_out_tensor(const LiveOut& out, const Extents& extents) {
  const PlanValue& planned = segment_->values[out.plan_value];
  const PlanValueId base_id = planned.kind == PlanValueKind::kView ? planned.base : out.plan_value;
  const Tensor& base = *owned_[base_id];
  if (out.extents == kNoPlanValue) {
    if (planned.kind != PlanValueKind::kView) return owned_[base_id];
    const auto element_bits = static_cast<int64_t>(dtype_bits(planned.dtype));
    return base.view_as(planned.dtype, planned.sizes, planned.strides,
                        planned.offset_bytes * 8 / element_bits);
  }
  const auto step = std::find_if(segment_->steps.begin(), segment_->steps.end(),
                                 [&](const Step& made) { return made.extents == out.extents; });
  const PlannedKernel& kernel = *step->kernel;
  auto real = extents.narrow(base, out.extents_index, kernel.sure_sizes()[out.extents_index]);
  if (real.ok()) return real;
  return real.status().with_prefix(kernel.title()).with_op(kernel.op_name());
}

Status SegmentInstance::read_extents(PlanValueId written, Extents* out_extents) {
  const PlanValue& planned = segment_->values[written];
  const auto count = static_cast<size_t>(planned.sizes[0]);
  return note_copy(planned.device, [&](Stream& stream, uint64_t* seq) {
    return out_extents->read(stream, place_of(written), count, owned_[written]->storage(), seq);
  });
}

RunContext::~RunContext() {
  // Kernel states may still be in use by work in the queues. A failure was reported to the run.
  if (sync().code() == BP_TIMEOUT) keep_instances();
  instances_.clear();
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (streams_[i]->is_inline()) continue;
    devices_[i]->release_stream(streams_[i]);
  }
}

// Work that outlasts the wait uses weights, states and arenas still: they stay until it is over, or
// for ever where there is no memory to note that.
void RunContext::keep_instances() noexcept {
  std::shared_ptr<const void> kept;
  const Status noted = contain([&] {
    kept = std::make_shared<const std::vector<std::unique_ptr<SegmentInstance>>>(
        std::exchange(instances_, {}));
  });
  if (!noted.ok()) {
    for (std::unique_ptr<SegmentInstance>& instance : instances_) {
      static_cast<void>(instance.release());
    }
    return;
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (streams_[i]->is_inline() || devices_[i]->closed()) continue;
    const Mark latest{streams_[i], streams_[i]->issued_seq()};
    devices_[i]->deferred_free().keep({.owner = kept, .last_write = latest, .last_reads = {}});
  }
}

Status RunContext::sync() const {
  Status first;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (streams_[i]->is_inline() || devices_[i]->closed()) continue;
    Status status = contain([&] { return streams_[i]->sync(); });
    if (first.ok()) first = status;
  }
  return first;
}

bool RunContext::is_healthy() const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (streams_[i]->is_inline()) continue;
    const Status status = streams_[i]->query();
    if (!status.ok() && status.code() != BP_PENDING) return false;
  }
  return true;
}

Status RunContext::wait(const RunControl& control) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (streams_[i]->is_inline()) continue;
    BP_TRY(control.wait(*streams_[i]));
  }
  return {};
}

Stream& RunContext::stream_of(Device& device) const {
  const auto found = std::find(devices_.begin(), devices_.end(), &device);
  if (found == devices_.end()) return device.default_stream();
  return *streams_[static_cast<size_t>(found - devices_.begin())];
}

Result<SegmentInstance*> RunContext::instance_of(const std::shared_ptr<const Segment>& segment) {
  const auto found = std::find_if(instances_.begin(), instances_.end(), [&](const auto& instance) {
    return &instance->segment() == segment.get();
  });
  if (found != instances_.end()) {
    std::rotate(found, found + 1, instances_.end());
    return instances_.back().get();
  }
  if (instances_.size() == kMaxInstances) {
    // States of the evicted instance may still be in use by work in the queue.
    BP_TRY(sync());
    instances_.erase(instances_.begin());
  }
  auto instance = std::make_unique<SegmentInstance>(segment, devices_, streams_, budget_);
  BP_TRY(instance->prepare());
  instances_.push_back(std::move(instance));
  return instances_.back().get();
}

}  // namespace bp
