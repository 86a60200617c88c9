// SPDX-License-Identifier: Apache-2.0
//
// Opening and closing a device, its streams and events, and the copies that every layer uses.
#include "core/runtime/device.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/base/log.hpp"
#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/runtime/copy_args.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

/// Devices that an abandoned call may still use, for those who look for leaks.
constinit std::atomic<Device*> kept_for_ever{nullptr};

}  // namespace

Device::Device(Runtime& runtime, std::shared_ptr<const LoadedPlugin> plugin, uint32_t index,
               DeviceTable table)
    : runtime_(runtime),
      plugin_(std::move(plugin)),
      name_(plugin_->id() + ":" + std::to_string(index)),
      table_(table),
      emulation_(emulate_missing(&table_)) {
  if (emulation_ == nullptr) throw std::bad_alloc();
  allocator_ = std::make_unique<Allocator>(
      table_, name_,
      [this](Allocator::Need need) {
        return need == Allocator::Need::kRoom ? quiesce() : quiesce_unless_ranks_wait();
      },
      [this](bp_status code, std::string_view what) {
        return failure_of(code, name_ + ": " + std::string(what));
      });
}

Device::~Device() { close(); }

Result<Ref<Device>> Device::open(Runtime& runtime, std::shared_ptr<const LoadedPlugin> plugin,
                                 uint32_t index, const std::vector<OptionSetting>& options) {
  BP_TRY_ASSIGN(DeviceTable table, open_device(*plugin, index, options));
  table.gate->set_timeout(runtime.wait_timeout());
  if (runtime.checks_arithmetic()) table.gate->set_checks_arithmetic();
  Ref<Device> device;
  const Status made = contain([&] { device = Ref<Device>::make(runtime, plugin, index, table); });
  if (!made.ok()) {
    table.warn(Slot::kDeviceClose, table.device_close());
    return made;
  }
  if (device->is_inline()) {
    device->streams_.push_back(std::make_unique<Stream>(*device, nullptr, 0));
  } else {
    BP_TRY(device->make_stream());
  }
  device->default_stream_ = device->streams_.front().get();
  return device;
}

std::chrono::nanoseconds Device::wait_timeout() const { return runtime_.wait_timeout(); }

// Without the lock: a create that hangs holds up its own thread only.
Result<Stream*> Device::make_stream() {
  bp_stream_args args{};
  args.struct_size = sizeof(args);
  bp_stream* handle = nullptr;
  const bp_status code = table_.stream_create(args, &handle);
  if (code != BP_OK) return failure(code, Slot::kStreamCreate);
  std::lock_guard lock(streams_mutex_);
  return own_stream(handle, StreamOrigin::kCreated);
}

bp_status Device::end_queue(bp_stream* handle) {
  const bp_status code = table_.stream_destroy(handle);
  plugin().host().drop_stream_reports(handle);
  return code;
}

Result<Stream*> Device::own_stream(bp_stream* handle, StreamOrigin origin) {
  const Status made = contain([&] {
    streams_.reserve(streams_.size() + 1);
    idle_streams_.reserve(streams_.size() + 1);  // all may be given back
    broken_streams_.reserve(streams_.size() + 1);
    ended_streams_.reserve(streams_.size() + 1);
    streams_.push_back(std::make_unique<Stream>(*this, handle, streams_.size(), origin));
  });
  if (made.ok()) return streams_.back().get();
  warn(end_queue(handle), Slot::kStreamDestroy);
  return made;
}

Result<Stream*> Device::acquire_stream() {
  BP_TRY(check_open());
  std::unique_lock lock(streams_mutex_);
  while (!idle_streams_.empty()) {
    Stream* stream = idle_streams_.back();
    idle_streams_.pop_back();
    if (stream->is_healthy()) {
      stream->begin_lease();
      return stream;
    }
    broken_streams_.push_back(stream);
  }
  if (!broken_streams_.empty()) {
    Stream* stream = broken_streams_.back();
    broken_streams_.pop_back();
    lock.unlock();
    if (contain([&] { return stream->reset(); }).ok()) {
      stream->begin_lease();
      return stream;
    }
    lock.lock();
    broken_streams_.push_back(stream);
  }
  lock.unlock();
  return make_stream();
}

Result<Stream*> Device::wrap_stream(std::string_view kind, uint64_t handle) {
  BP_TRY(check_open());
  if (!table_.has_native(BP_FEATURE_NATIVE_BIT)) return no_native_streams();
  bp_stream_wrap_args args{};
  args.struct_size = sizeof(args);
  args.handle = handle;
  args.kind = {kind.data(), kind.size()};
  bp_stream* wrapped = nullptr;
  const bp_status code = table_.stream_wrap(args, &wrapped);
  if (code != BP_OK) return failure(code, Slot::kStreamWrap);
  std::lock_guard lock(streams_mutex_);
  if (ended_streams_.empty()) return own_stream(wrapped, StreamOrigin::kWrapped);
  // Applications may wrap a queue for each piece of work, so what is left of earlier ones is used
  // again: its marks name work that is done, and its numbers go on.
  Stream* stream = ended_streams_.back();
  const Status begun = contain([&] { return stream->begin(wrapped); });
  if (begun.ok()) {
    ended_streams_.pop_back();
    stream->begin_lease();
    return stream;
  }
  warn(end_queue(wrapped), Slot::kStreamDestroy);
  return begun;
}

Status Device::no_native_streams() const {
  return Status(BP_UNSUPPORTED, name_ +
                                    " has no native queue behind such a stream, and can wrap "
                                    "none (feature native_streams)");
}

void Device::release_stream(Stream* stream) {
  if (closed()) return;
  if (stream->is_wrapped()) {
    const Status ended = contain([&] { return stream->end(); });
    if (!ended.ok()) {
      [[maybe_unused]] const Status logged = contain(
          [&] { log(BP_LOG_WARNING, "a wrapped stream is released: " + ended.to_string()); });
      return;
    }
    std::lock_guard lock(streams_mutex_);
    ended_streams_.push_back(stream);
    return;
  }
  Status status = contain([&] { return stream->sync(); });
  if (!status.ok()) status = contain([&] { return stream->reset(); });
  std::lock_guard lock(streams_mutex_);
  (status.ok() ? idle_streams_ : broken_streams_).push_back(stream);
}

Stream* Device::stream_at(uint64_t index) {
  std::lock_guard lock(streams_mutex_);
  return index < streams_.size() ? streams_[index].get() : nullptr;
}

std::vector<Stream*> Device::all_streams() {
  std::vector<Stream*> streams;
  std::lock_guard lock(streams_mutex_);
  for (const auto& stream : streams_) streams.push_back(stream.get());
  return streams;
}

std::vector<Mark> Device::work_so_far() {
  std::vector<Mark> marks;
  for (Stream* stream : all_streams()) {
    if (!stream->is_inline()) marks.push_back({stream, stream->issued_seq()});
  }
  return marks;
}

bool Device::is_given_back(const Stream* stream) {
  std::lock_guard lock(streams_mutex_);
  return std::count(idle_streams_.begin(), idle_streams_.end(), stream) +
             std::count(broken_streams_.begin(), broken_streams_.end(), stream) >
         0;
}

Status Device::quiesce() {
  Status first;
  for (Stream* stream : all_streams()) {
    const uint64_t issued = stream->issued_seq();
    first = stream->sync();
    if (first.code() == BP_TIMEOUT) break;
    // Where memory is short it may not even have begun to wait.
    if (first.code() == BP_OUT_OF_MEMORY && !stream->is_over(issued)) break;
    first = {};
  }
  deferred_free_.release_done();
  return first;
}

// Asks, and waits in no call: what may wait for other ranks can be enqueued at any time.
Status Device::quiesce_unless_ranks_wait() {
  constexpr auto kPause = std::chrono::microseconds(50);
  const auto deadline = std::chrono::steady_clock::now() + wait_timeout();
  for (Stream* stream : all_streams()) {
    Status idle = stream->query();
    while (idle.code() == BP_PENDING) {
      if (rank_wait_count_.load(std::memory_order_seq_cst) != 0) return idle;
      if (std::chrono::steady_clock::now() >= deadline) return stream->timed_out();
      std::this_thread::sleep_for(kPause);
      idle = stream->query();
    }
    // A failure is told before the work is over.
    if (idle.ok() || stream->is_over(stream->issued_seq())) continue;
    idle = stream->sync();
    if (idle.code() == BP_TIMEOUT || idle.code() == BP_OUT_OF_MEMORY) return idle;
  }
  deferred_free_.release_done();
  return {};
}

Status Device::sync() {
  Status first;
  for (Stream* stream : all_streams()) {
    Status status = stream->sync();
    // The failure of a stream without a user has no owner: the one that gave it back was told, and
    // the one that gets it next gets it reset.
    if (!status.ok() && is_given_back(stream)) continue;
    if (status.ok()) status = stream->claim_fault(0, UINT64_MAX);
    if (first.ok()) first = status;
  }
  deferred_free_.release_done();
  return first;
}

Result<bp_event*> Device::take_event() {
  {
    std::lock_guard lock(streams_mutex_);
    if (!idle_events_.empty()) {
      bp_event* event = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
    idle_events_.reserve(event_count_ + 1);  // all may be given back
    ++event_count_;
  }
  bp_event_args args{};
  args.struct_size = sizeof(args);
  bp_event* event = nullptr;
  const bp_status code = table_.event_create(args, &event);
  if (code == BP_OK) return event;
  {
    std::lock_guard lock(streams_mutex_);
    --event_count_;
  }
  return failure(code, Slot::kEventCreate);
}

void Device::give_event(bp_event* event) {
  {
    std::lock_guard lock(streams_mutex_);
    if (!are_streams_ended_) return idle_events_.push_back(event);
  }
  warn(table_.event_destroy(event), Slot::kEventDestroy);
}

Status Device::insert_wait(Stream& waiter, Stream& producer) {
  BP_TRY_ASSIGN(bp_event * event, take_event());
  Status held;
  bp_status code = BP_OK;
  bool is_over = false;
  uint64_t covered = 0;
  {
    TimedLock lock;
    held = producer.hold(lock);
    is_over = producer.handle() == nullptr;  // a wrapped stream that ended, after its work
    // A failure that the plugin does not know of would not travel with the wait.
    const bool was_failed = producer.was_failed_.load(std::memory_order_acquire);
    if (was_failed) code = BP_POISONED;
    if (held.ok() && !is_over && !was_failed) {
      code = table_.event_record(event, producer.handle());
    }
    covered = producer.issued_seq();
  }
  if (!held.ok()) {
    give_event(event);
    return held;
  }
  if (is_over) {
    give_event(event);
    return {};
  }
  // A producer that failed cannot be recorded any more: the host learns of it by a wait.
  if (code == BP_POISONED) {
    give_event(event);
    const Status status = producer.sync();
    return status.ok() ? producer.failure(code, Slot::kEventRecord) : status;
  }
  Slot slot = Slot::kEventRecord;
  if (code == BP_OK) {
    TimedLock lock;
    held = waiter.hold(lock);
    is_over = waiter.handle() == nullptr;
    if (held.ok() && !is_over) code = table_.event_wait(event, waiter.handle());
    slot = Slot::kEventWait;
    if (held.ok() && !is_over && code == BP_OK) {
      counters_.stream_waits.fetch_add(1, std::memory_order_relaxed);
      waiter.note_wait(producer, covered);
    }
  }
  // The wait captured the record, so the event can be recorded anew at once.
  give_event(event);
  // The producer failed before the wait was noted, and was not told of it.
  if (producer.was_failed_.load(std::memory_order_acquire)) {
    const Status failure = producer.sync();
    if (!failure.ok()) waiter.fail(waiter.done_seq_.load() + 1, failure);
  }
  BP_TRY(held);
  // Memory that was at home on a wrapped stream may go back after the stream has ended.
  if (is_over) return producer.sync();
  return code == BP_OK ? Status() : failure(code, slot);
}

void Device::spread_failure(Stream& failed, uint64_t seq, const Status& status) {
  Stream* stream = nullptr;
  for (uint64_t i = 0; (stream = stream_at(i)) != nullptr; ++i) {
    if (stream == &failed || !stream->has_waited_from(failed, seq)) continue;
    // What is done did not depend on it.
    stream->fail(stream->done_seq_.load(std::memory_order_acquire) + 1, status);
  }
}

Result<uint64_t> Device::note_native_work(Stream& stream) {
  BP_TRY(check_open());
  if (stream.is_inline()) return uint64_t{0};
  // Plugins learn of such work by a record: without one, a sync might not know of it.
  BP_TRY_ASSIGN(bp_event * event, take_event());
  Status healthy;
  bp_status code = BP_OK;
  uint64_t seq = 0;
  {
    TimedLock lock;
    healthy = stream.hold(lock);
    if (healthy.ok()) healthy = stream.check_healthy();
    if (healthy.ok()) {
      seq = stream.next_seq();
      code = table_.event_record(event, stream.handle());
    }
  }
  give_event(event);
  BP_TRY(healthy);
  if (code != BP_OK) return stream.failure(code, Slot::kEventRecord);
  return seq;
}

Status Device::copy_in(Stream& stream, bp_mem dst, const void* src, uint64_t bytes) {
  counters_.host_to_device_copies.fetch_add(1, std::memory_order_relaxed);
  return copy_after(stream, copy_args(BP_COPY_HOST_TO_DEVICE, dst, host_end(src), bytes));
}

// The host waits for the stream and then for the copy. A copy in the stream's queue could outlive a
// wait that ends at its deadline, and the caller's memory with it.
Status Device::copy_after(Stream& stream, const bp_copy_args& args) {
  if (!stream.is_inline()) {
    {
      TimedLock lock;
      BP_TRY(stream.hold(lock));
      BP_TRY(stream.check_healthy());
    }
    // The application fills a wrapped queue too.
    const bool is_idle = !stream.is_wrapped() && stream.known_done(stream.issued_seq());
    if (!is_idle) BP_TRY(stream.sync());
  }
  return copy_now(args);
}

Status Device::copy_now(const bp_copy_args& args, std::string_view what) {
  if (!is_inline()) counters_.waits.fetch_add(1, std::memory_order_relaxed);
  const bp_status code = table_.mem_copy(args);
  return code == BP_OK ? Status() : failure(code, Slot::kMemCopy, nullptr, what);
}

Status Device::copy_out(Stream& stream, void* dst, bp_mem src, uint64_t bytes) {
  counters_.device_to_host_copies.fetch_add(1, std::memory_order_relaxed);
  return copy_after(stream, copy_args(BP_COPY_DEVICE_TO_HOST, host_end(dst), src, bytes));
}

Status Device::read(void* dst, bp_mem src, uint64_t bytes) {
  counters_.device_to_host_copies.fetch_add(1, std::memory_order_relaxed);
  return copy_now(copy_args(BP_COPY_DEVICE_TO_HOST, host_end(dst), src, bytes));
}

Status Device::allocate_host_memory(uint64_t bytes, void** out_ptr) {
  bp_host_alloc_args args{};
  args.struct_size = sizeof(args);
  args.bytes = bytes;
  const bp_status code = table_.host_alloc(args, out_ptr);
  return code == BP_OK ? Status() : failure(code, Slot::kHostAlloc);
}

void Device::free_host_memory(void* ptr) {
  // On an abandoned device the late call, and work behind it, may use it for ever.
  if (ptr != nullptr && !table_.gate->is_abandoned()) warn(table_.host_free(ptr), Slot::kHostFree);
}

Status Device::fill_zero(Stream& stream, bp_mem dst, uint64_t bytes) {
  bp_fill_args args{};
  args.struct_size = sizeof(args);
  args.dst = dst;
  args.bytes = bytes;
  args.pattern_bytes = 1;
  args.stream = stream.handle();
  const bp_status code = table_.mem_fill(args);
  return code == BP_OK ? Status() : failure(code, Slot::kMemFill);
}

Status Device::failure(bp_status code, CallTitle title, const bp_kernel* kernel,
                       std::string_view more) const {
  std::string what = table_.gate->call_name(title, kernel);
  if (!more.empty()) what += " " + std::string(more);
  return failure_of(code, what);
}

Status Device::failure_of(bp_status code, std::string_view what) const {
  if (code == BP_DEVICE_LOST) mark_lost();
  return plugin_->host().to_status(code, what);
}

void Device::mark_lost() const {
  State open = State::kOpen;
  if (!state_.compare_exchange_strong(open, State::kLost)) return;
  if (table_.gate->is_abandoned()) return;  // which was told
  [[maybe_unused]] const Status logged = contain([&] {
    log(BP_LOG_ERROR, name_ + " is lost; its calls fail from now on, other devices go on");
  });
}

Status Device::explain_state() const {
  if (const std::string why = table_.gate->why_abandoned(); !why.empty()) {
    return Status(closed() ? BP_GONE : BP_DEVICE_LOST, why);
  }
  if (lost()) return Status(BP_DEVICE_LOST, name_ + " is lost: only releasing objects still works");
  return Status(BP_GONE, name_ + " was closed with its Runtime");
}

void Device::warn(bp_status code, Slot slot, const bp_kernel* kernel) const {
  if (code == BP_OK || table_.gate->is_abandoned()) return;
  [[maybe_unused]] const Status logged =
      contain([&] { log(BP_LOG_WARNING, failure(code, slot, kernel).to_string()); });
}

void Device::warn_of_detour(const Status& status, Slot slot) {
  switch (status.code()) {
    case BP_OK:
    case BP_OUT_OF_MEMORY:  // which is why there is another way
    case BP_TIMEOUT:        // these three the other way comes upon too
    case BP_POISONED:
    case BP_DEVICE_LOST:
      return;
    default:
      break;
  }
  if (told_detours_[static_cast<size_t>(slot)].exchange(true)) return;
  [[maybe_unused]] const Status logged = contain([&] {
    log(BP_LOG_WARNING, status.to_string() + "; the core goes on without, and tells this once");
  });
}

void Device::close_streams() {
  // Wrapped streams first: they may stand for queues of the device's own streams.
  for (const bool wrapped : {true, false}) {
    for (const auto& stream : streams_) {
      if (stream->handle() == nullptr || stream->is_wrapped() != wrapped) continue;
      warn(end_queue(stream->handle()), Slot::kStreamDestroy);
    }
  }
  std::vector<bp_event*> events;
  {
    // Threads of collectives may give theirs back until their holders have been asked to.
    std::lock_guard lock(streams_mutex_);
    events.swap(idle_events_);
    are_streams_ended_ = true;
  }
  for (bp_event* event : events) warn(table_.event_destroy(event), Slot::kEventDestroy);
}

void Device::track(PluginObjectHolder* holder) {
  std::lock_guard lock(holders_mutex_);
  holders_.insert(holder);
}

void Device::untrack(PluginObjectHolder* holder) {
  std::lock_guard lock(holders_mutex_);
  holders_.erase(holder);
}

void Device::close() {
  if (closed()) return;
  for (size_t i = 0; i < streams_.size() && !lost(); ++i) {
    const Status idle = contain([&] { return streams_[i]->sync_and_claim(); });
    if (idle.ok() || table_.gate->is_abandoned()) continue;
    [[maybe_unused]] const Status logged =
        contain([&] { log(BP_LOG_WARNING, "closing " + name_ + ": " + idle.to_string()); });
  }
  // Before plans and states go: if that wait ended early, work that uses them ends here.
  close_streams();
  {
    std::lock_guard lock(holders_mutex_);
    for (const bool states : {true, false}) {
      for (PluginObjectHolder* holder : holders_) {
        if (holder->holds_states() == states) holder->release_plugin_objects();
      }
    }
    holders_.clear();
  }
  table_.gate->forget_kernels();
  for (size_t part = extensions_.size(); part-- > 0;) {
    made_extensions_[part].store(nullptr, std::memory_order_release);
    extensions_[part].reset();
  }
  for (const auto& stream : streams_) stream->release_host_memory();
  state_.store(State::kClosed, std::memory_order_release);
  // What owners run as they go may end tensors and streams: they find the device closed by now.
  deferred_free_.clear();
  allocator_->close();
  if (!table_.gate->is_abandoned()) warn(table_.device_close(), Slot::kDeviceClose);
  if (table_.gate->is_abandoned()) {
    // The late call, and work behind it, may still use these.
    static_cast<void>(emulation_.release());
    retain();
    next_kept_ = kept_for_ever.exchange(this);
  }
  emulation_.reset();
  plugin_.reset();
}

}  // namespace bp
