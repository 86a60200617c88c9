// SPDX-License-Identifier: Apache-2.0
//
// One run: take a context, bring the inputs over, walk the segments, answer or fill the outputs,
// wait where the caller wants to be able to stop.
#include <algorithm>
#include <chrono>
#include <iterator>

#include "core/base/dtype.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/dispatch/call.hpp"
#include "core/execute/default_inputs.hpp"
#include "core/execute/run_context.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp {
namespace {

constexpr uint64_t kAllWork = UINT64_MAX;  // of a stream, as a sequence number
/// A token wakes no thread: how often a wait looks whether the run is to stop.
constexpr std::chrono::milliseconds kControlPause{2};

HostCopy copy_into_host(const Ref<Tensor>& source, const Tensor& target) {
  const Storage& storage = target.storage();
  return {
      source,
      reinterpret_cast<void*>(storage.handle() + storage.offset_bytes() + target.offset_bytes()),
      dtype_storage_bytes(target.dtype(), target.element_count())};
}

struct RunInProgress {
  Runtime& runtime;
  ~RunInProgress() { runtime.end_run(); }
};

}  // namespace

/// One of the places of a session for runs at once, and the context in it. However the run ends,
/// also by an exception, the place is free again.
class Session::ContextPlace {
 public:
  explicit ContextPlace(Session& session) : session_(session) {}
  ~ContextPlace();
  ContextPlace(const ContextPlace&) = delete;
  ContextPlace& operator=(const ContextPlace&) = delete;

  /// Waits for a place. Errors: BUSY at the Runtime's deadline; those of `control`, if there is
  /// one; those of making a context.
  Status take(const RunControl* control);
  /// Not after renew() has failed.
  bool has_context() const { return context_ != nullptr; }
  RunContext& context() const { return *context_; }
  /// Ends what earlier runs of the session left for later ones, and takes a new context. False:
  /// they left nothing. Errors: those of making a context.
  Result<bool> renew();
  /// The next run may have the context; else it ends here.
  void keep_context() { is_reusable_ = true; }

 private:
  Session& session_;
  std::unique_ptr<RunContext> context_;
  bool is_taken_ = false;
  bool is_used_ = false;  // by earlier runs
  bool is_reusable_ = false;
};

Result<std::vector<Ref<Tensor>>> Session::run(std::span<const NamedTensor> inputs,
                                              const RunOptions& options) {
  BP_TRY(runtime_->check_open());
  BP_TRY(device_->check_open());
  if (default_inputs_ != nullptr && default_inputs_->any_of(inputs)) [[unlikely]] {
    return run_with_defaults(inputs, options);
  }
  BP_TRY_ASSIGN(std::vector<Ref<Tensor>> ordered, order_inputs(inputs));
  BP_TRY(check_bound(options.outputs, ordered));
  if (options.control != nullptr) BP_TRY(options.control->check());
  BP_TRY(runtime_->begin_run());
  const RunInProgress in_progress{*runtime_};
  ContextPlace place(*this);
  BP_TRY(place.take(options.control));
  auto outputs = contain([&] { return run_to_end(place, ordered, options); });
  if (outputs.status().code() == BP_POISONED && place.has_context()) {
    // A step behind one that failed in this very run: that one's failure is what the caller needs.
    Status first = place.context().sync();
    if (!first.ok()) outputs = std::move(first);
  }
  // A run that was stopped, or that waited for too long, leaves work in the queues, which uses what
  // the context holds. The next run there comes after it.
  const bool stopped =
      outputs.status().code() == BP_CANCELLED || outputs.status().code() == BP_TIMEOUT;
  if (outputs.ok() || stopped) place.keep_context();
  return outputs;
}

Result<std::vector<Ref<Tensor>>> Session::run_with_defaults(std::span<const NamedTensor> inputs,
                                                            const RunOptions& options) {
  BP_TRY_ASSIGN(const Ref<Session> other, default_inputs_->session_for(*runtime_, inputs, budget_));
  BP_TRY_ASSIGN(auto outputs, other->run(inputs, options));
  Ref<Session> earlier = other;
  const std::lock_guard lock(newest_run_mutex_);
  std::swap(earlier, newest_session_);
  return outputs;
}

Status Session::check_bound(std::span<const Ref<Tensor>> outputs,
                            std::span<const Ref<Tensor>> inputs) const {
  if (outputs.empty()) return {};
  if (outputs.size() != outputs_.size()) {
    return Status(BP_INVALID_ARGUMENT, std::to_string(outputs.size()) +
                                           " outputs are bound, expected " +
                                           std::to_string(outputs_.size()));
  }
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i)
    BP_TRY(check_io("input", inputs_[i], *inputs[i], &symbols));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const Tensor& tensor = *outputs[i];
    BP_TRY(check_io("output", outputs_[i], tensor, &symbols));
    if (!tensor.contiguous()) {
      return Status(BP_INVALID_ARGUMENT,
                    "output '" + outputs_[i].name + "': expected a contiguous tensor, found " +
                        tensor.describe() + " with strides " + to_string(tensor.strides()));
    }
    for (size_t j = 0; j < i; ++j) {
      if (!outputs[j] || !may_overlap(tensor, *outputs[j])) continue;
      return Status(BP_INVALID_ARGUMENT, "outputs '" + outputs_[j].name + "' and '" +
                                             outputs_[i].name + "' are bound to the same memory");
    }
  }
  return {};
}

std::vector<Ref<Tensor>> Session::bound_values(std::span<const Ref<Tensor>> outputs,
                                               std::span<const Ref<Tensor>> inputs) const {
  if (outputs.empty()) return {};
  std::vector<Ref<Tensor>> bound(graph_.values().size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Ref<Tensor>& tensor = outputs[i];
    Ref<Tensor>& place = bound[graph_.outputs()[i]];
    if (!tensor || place) continue;
    // Memory that the run still reads is written at its end only.
    const bool is_read = std::any_of(inputs.begin(), inputs.end(), [&](const Ref<Tensor>& input) {
      return may_overlap(*tensor, *input);
    });
    if (!is_read) place = tensor;
  }
  return bound;
}

Result<std::vector<Ref<Tensor>>> Session::compute(RunContext& context,
                                                  std::span<const Ref<Tensor>> inputs,
                                                  const RunOptions& options) {
  RunState state{.control = options.control,
                 .bound = bound_values(options.outputs, inputs),
                 .charge = MemoryCharge(budget_)};
  std::vector<Ref<Tensor>> values(graph_.values().size());
  if (options.stream != nullptr) BP_TRY(context.stream().wait_for(*options.stream, kAllWork));
  BP_TRY(upload(inputs, context, &state, &values));
  BP_TRY(run_segments(context, &state, &values));
  std::vector<Ref<Tensor>> outputs;
  for (const ValueId value : graph_.outputs()) outputs.push_back(values[value]);
  return outputs;
}

// What idle contexts and plans hold must not be the reason that a run is refused. So far the run
// has written to no memory that an input lies in.
Result<std::vector<Ref<Tensor>>> Session::compute_with_room(ContextPlace& place,
                                                            std::span<const Ref<Tensor>> inputs,
                                                            const RunOptions& options) {
  auto outputs = contain([&] { return compute(place.context(), inputs, options); });
  if (outputs.status().code() != BP_OUT_OF_MEMORY) return outputs;
  BP_TRY_ASSIGN(const bool has_room, place.renew());
  if (!has_room) return outputs;
  log(BP_LOG_INFO,
      "a run on " + device_->name() +
          " began anew without the session's idle plans: " + outputs.status().message());
  return compute(place.context(), inputs, options);
}

Result<std::vector<Ref<Tensor>>> Session::run_to_end(ContextPlace& place,
                                                     std::span<const Ref<Tensor>> inputs,
                                                     const RunOptions& options) {
  BP_TRY_ASSIGN(std::vector<Ref<Tensor>> outputs, compute_with_room(place, inputs, options));
  RunContext& context = place.context();
  // Before outputs are copied, since a copy waits without being stoppable; and after.
  if (options.control != nullptr) BP_TRY(context.wait(*options.control));
  BP_TRY(fill_bound(context, options.outputs, &outputs));
  if (options.stream != nullptr) BP_TRY(options.stream->wait_for(context.stream(), kAllWork));
  if (options.control == nullptr) return outputs;
  BP_TRY(context.wait(*options.control));
  for (const Ref<Tensor>& output : outputs) BP_TRY(output->storage().wait_on_host(false));
  return outputs;
}

Status Session::upload(std::span<const Ref<Tensor>> inputs, RunContext& context, RunState* state,
                       std::vector<Ref<Tensor>>* values) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (input.device() != device_) {
      BP_TRY(state->charge.add(dtype_storage_bytes(input.dtype(), input.element_count()),
                               "copies of inputs"));
    }
    auto moved = copy_to_device(inputs[i], *device_, context.stream(), MemoryTag::kIo);
    if (!moved.ok()) return moved.status().with_prefix("input '" + inputs_[i].name + "'");
    (*values)[graph_.inputs()[i]] = std::move(*moved);
  }
  return {};
}

Status Session::run_segments(RunContext& context, RunState* state,
                             std::vector<Ref<Tensor>>* all_values) {
  std::vector<Ref<Tensor>>& values = *all_values;
  HostValues host_values;
  std::vector<std::shared_ptr<const Segment>> segments;
  NodeId first = 0;
  bool done = false;
  while (!done) {
    BP_TRY_ASSIGN(const std::shared_ptr<const Segment> segment,
                  segment_for({first, values, host_values}, context));
    BP_TRY_ASSIGN(SegmentInstance * instance, context.instance_of(segment));
    BP_TRY(instance->run(graph_, state, &values));
    segments.push_back(segment);
    done = segment->end == graph_.nodes().size();
    if (state->control != nullptr && !segment->host_values.empty()) {
      BP_TRY(context.wait(*state->control));
    }
    std::vector<Ref<Tensor>> wanted;
    for (const ValueId value : segment->host_values) wanted.push_back(values[value]);
    BP_TRY_ASSIGN(std::vector<HostTensor> found, copy_to_host(wanted));
    for (size_t i = 0; i < found.size(); ++i) {
      host_values[segment->host_values[i]] = std::move(found[i]);
    }
    for (const auto& [value, known] : segment->known_values) host_values[value] = known;
    if (!done && segment->end == first && segment->host_values.empty()) {
      const Node& node = graph_.node(first);
      return Status(BP_INTERNAL, "node '" + node.name + "' cannot be planned")
          .with_op(graph_.registry().schema(node.op).name);
    }
    first = segment->end;
    for (ValueId value = 0; value < values.size(); ++value) {
      if (last_use_[value] > first) continue;
      values[value] = nullptr;
      host_values.erase(value);  // or every later plan would depend on it
    }
  }
  Ref<Session> earlier;  // whose end may take long
  const std::lock_guard lock(newest_run_mutex_);
  if (newest_run_ != segments) newest_run_ = std::move(segments);
  std::swap(earlier, newest_session_);
  return {};
}

/// An output may be a view of an input, whose memory another one is bound to, or its own.
Status Session::part_from_bound(const RunContext& context, std::span<const Ref<Tensor>> bound,
                                std::vector<Ref<Tensor>>* outputs) const {
  std::vector<const Tensor*> written;  // by a copy, at the end
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i] && (*outputs)[i] != bound[i]) written.push_back(bound[i].get());
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    Ref<Tensor>& output = (*outputs)[i];
    const bool is_apart = std::none_of(written.begin(), written.end(), [&](const Tensor* target) {
      return may_overlap(*target, *output);
    });
    if (is_apart || output->device() == nullptr) continue;
    Stream& stream = context.stream_of(*output->device());
    BP_TRY_ASSIGN(Ref<Tensor> own, Tensor::allocate(*output->device(), output->dtype(),
                                                    output->sizes(), MemoryTag::kIo, stream));
    const Status status = copy_into(output, own, true, stream);
    if (!status.ok()) return status.with_prefix("output '" + outputs_[i].name + "'");
    output = std::move(own);
  }
  return {};
}

Status Session::fill_bound(const RunContext& context, std::span<const Ref<Tensor>> bound,
                           std::vector<Ref<Tensor>>* outputs) const {
  BP_TRY(part_from_bound(context, bound, outputs));
  std::vector<HostCopy> to_host;  // together, by one wait
  std::vector<size_t> host_outputs;
  std::vector<size_t> device_outputs;
  for (size_t i = 0; i < bound.size(); ++i) {
    Ref<Tensor>& output = (*outputs)[i];
    const Ref<Tensor>& target = bound[i];
    if (!target || output == target) continue;
    if (output->sizes() != target->sizes()) {
      return Status(BP_INVALID_ARGUMENT, "output '" + outputs_[i].name + "': the run made " +
                                             output->describe() + ", and the bound tensor is " +
                                             target->describe());
    }
    Device& counted = target->device() != nullptr ? *target->device() : *output->device();
    counted.counters().output_copies.fetch_add(1, std::memory_order_relaxed);
    (target->device() != nullptr ? device_outputs : host_outputs).push_back(i);
    if (target->device() == nullptr) to_host.push_back(copy_into_host(output, *target));
  }
  const auto named = [this](const Status& status, size_t output) {
    return status.with_prefix("output '" + outputs_[output].name + "'");
  };
  size_t failed = 0;
  const Status read = copy_to_host(to_host, &failed);
  if (!read.ok()) return named(read, host_outputs[failed]);
  for (const size_t i : device_outputs) {
    const Ref<Tensor>& target = bound[i];
    const Status status = copy_into((*outputs)[i], target, is_plan_aligned(*target),
                                    context.stream_of(*target->device()));
    if (!status.ok()) return named(status, i);
  }
  for (const auto& filled : {host_outputs, device_outputs}) {
    for (const size_t i : filled) (*outputs)[i] = bound[i];
  }
  return {};
}

Status Session::wait_for_place(std::unique_lock<std::mutex>& lock, const RunControl* control) {
  using Clock = RunControl::Clock;
  const auto is_free = [this] { return !idle_contexts_.empty() || contexts_made_ < max_contexts_; };
  const auto give_up = Clock::now() + runtime_->wait_timeout();
  while (!is_free()) {
    if (control != nullptr) BP_TRY(control->check());
    const auto now = Clock::now();
    if (now >= give_up) {
      return Status(BP_BUSY, "all " + std::to_string(max_contexts_) +
                                 " run contexts of the session stayed in use (BACKPLANE_TIMEOUT)");
    }
    auto until = give_up;
    if (control != nullptr) until = std::min({until, control->deadline, now + kControlPause});
    context_returned_.wait_until(lock, until, is_free);
  }
  return {};
}

Status Session::ContextPlace::take(const RunControl* control) {
  BP_TRY(check_not_forked());
  {
    std::unique_lock lock(session_.contexts_mutex_);
    BP_TRY(session_.wait_for_place(lock, control));
    auto& idle = session_.idle_contexts_;
    if (!idle.empty()) {
      context_ = std::move(idle.back());
      idle.pop_back();
    } else {
      ++session_.contexts_made_;
    }
    is_taken_ = true;
    idle.reserve(session_.contexts_made_);  // all may be given back
  }
  // Work failed after its run had returned: readers of its results were told, this run is new.
  if (context_ != nullptr && !context_->is_healthy()) context_ = nullptr;
  is_used_ = context_ != nullptr;
  if (is_used_) return {};
  BP_TRY_ASSIGN(context_, session_.make_context());
  return {};
}

Result<bool> Session::ContextPlace::renew() {
  std::vector<std::unique_ptr<RunContext>> idle;
  {
    const std::lock_guard lock(session_.contexts_mutex_);
    auto& all = session_.idle_contexts_;  // its room stays, for those in use
    idle.reserve(all.size());
    std::move(all.begin(), all.end(), std::back_inserter(idle));
    all.clear();
    session_.contexts_made_ -= static_cast<uint32_t>(idle.size());
  }
  if (idle.empty() && !is_used_) return false;
  idle.clear();
  context_ = nullptr;
  session_.plans_.clear();
  BP_TRY_ASSIGN(context_, session_.make_context());
  return true;
}

Session::ContextPlace::~ContextPlace() {
  if (!is_taken_) return;
  // After a failure the stream may be poisoned; a new context gets a new one.
  if (!is_reusable_) context_ = nullptr;
  {
    std::lock_guard lock(session_.contexts_mutex_);
    if (context_ != nullptr) {
      session_.idle_contexts_.push_back(std::move(context_));
    } else {
      --session_.contexts_made_;
    }
  }
  session_.context_returned_.notify_one();
}

Result<std::unique_ptr<RunContext>> Session::make_context() {
  std::vector<Stream*> streams;
  streams.reserve(devices_.size());
  Status status;
  for (Device* device : devices_) {
    // Runs do not share a queue with eager calls.
    auto stream = device->is_inline() ? Result<Stream*>(&device->default_stream())
                                      : contain([&] { return device->acquire_stream(); });
    status = stream.status();
    if (!status.ok()) break;
    streams.push_back(*stream);
  }
  if (status.ok()) {
    auto context = contain([&]() -> Result<std::unique_ptr<RunContext>> {
      return std::make_unique<RunContext>(devices_, streams, budget_);
    });
    if (context.ok()) return context;
    status = context.status();
  }
  for (Stream* stream : streams) {
    if (!stream->is_inline()) stream->device().release_stream(stream);
  }
  return status;
}

}  // namespace bp
