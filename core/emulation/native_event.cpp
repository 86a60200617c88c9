// SPDX-License-Identifier: Apache-2.0
//
// Events of a device that has streams but no timing: the stream itself notes the host's time, in a
// host call before each record, so that a finished record has its time.
#include <atomic>
#include <chrono>

#include "core/emulation/deadline.hpp"
#include "core/emulation/emulation.hpp"
#include "core/emulation/host_call.hpp"

namespace bp {
namespace {

struct Timestamp {
  std::atomic<bool> done{false};
  Deadline::Clock::time_point at;  // once done
};

/// Behind bp_event*.
struct NativeEvent {
  Emulation& emulation;
  const bool with_timing;
  bp_event* native = nullptr;
  std::mutex mutex;  // event_elapsed comes from any thread, beside a record
  std::shared_ptr<Timestamp> latest;

  const DeviceTable& plugin() const { return emulation.native(); }
  bp_event* handle() { return reinterpret_cast<bp_event*>(this); }
  static NativeEvent& from(bp_event* event) { return *reinterpret_cast<NativeEvent*>(event); }
};

bp_status event_create(bp_device* self, const bp_event_args* args, bp_event** out_event) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    bp_event_args plugin_args = *args;
    plugin_args.flags &= ~BP_EVENT_TIMING_BIT;
    std::unique_ptr<NativeEvent> event(
        new NativeEvent{.emulation = emulation,
                        .with_timing = (args->flags & BP_EVENT_TIMING_BIT) != 0,
                        .native = nullptr,
                        .mutex = {},
                        .latest = {}});
    const bp_status status = event->plugin().event_create(plugin_args, &event->native);
    if (status == BP_OK) *out_event = event.release()->handle();
    return status;
  });
}

bp_status event_destroy(bp_event* handle) {
  const std::unique_ptr<NativeEvent> event(&NativeEvent::from(handle));
  return event->plugin().event_destroy(event->native);
}

void note_time(void* owned, bp_status) {
  auto* const stamp = static_cast<Timestamp*>(owned);
  stamp->at = Deadline::Clock::now();
  stamp->done.store(true, std::memory_order_release);
}

bp_status event_record(bp_event* handle, bp_stream* stream) {
  NativeEvent& event = NativeEvent::from(handle);
  if (!event.with_timing) return event.plugin().event_record(event.native, stream);
  return event.emulation.guarded([&] {
    const auto stamp = std::make_shared<Timestamp>();
    std::shared_ptr<void> owned = stamp;
    bp_status status = call_host_once(event.plugin(), stream, &owned, note_time);
    if (status == BP_OK) status = event.plugin().event_record(event.native, stream);
    if (status != BP_OK) return status;
    const std::lock_guard lock(event.mutex);
    event.latest = stamp;
    return BP_OK;
  });
}

bp_status event_wait(bp_event* handle, bp_stream* stream) {
  const NativeEvent& event = NativeEvent::from(handle);
  return event.plugin().event_wait(event.native, stream);
}

bp_status event_query(bp_event* handle) {
  const NativeEvent& event = NativeEvent::from(handle);
  return event.plugin().event_query(event.native);
}

bp_status event_sync(bp_event* handle, uint64_t timeout_ns) {
  const NativeEvent& event = NativeEvent::from(handle);
  return event.plugin().event_sync(event.native, timeout_ns);
}

bp_status read_time(NativeEvent& event, Deadline::Clock::time_point* out_at) {
  std::unique_lock lock(event.mutex);
  const std::shared_ptr<Timestamp> stamp = event.latest;
  lock.unlock();
  if (stamp == nullptr) {
    return event.emulation.fail(BP_INVALID_ARGUMENT,
                                "event_elapsed: an event was not made with BP_EVENT_TIMING_BIT, "
                                "or was never recorded");
  }
  const bp_status status = event_query(event.handle());
  if (status == BP_PENDING || !stamp->done.load(std::memory_order_acquire)) return BP_PENDING;
  if (status != BP_OK) {
    return event.emulation.fail(BP_INVALID_ARGUMENT, "event_elapsed: the recorded work failed");
  }
  *out_at = stamp->at;
  return BP_OK;
}

bp_status event_elapsed(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns) {
  NativeEvent& first = NativeEvent::from(start);
  NativeEvent& second = NativeEvent::from(end);
  Deadline::Clock::time_point start_at;
  Deadline::Clock::time_point end_at;
  bp_status status = read_time(first, &start_at);
  if (status == BP_OK) status = read_time(second, &end_at);
  if (status != BP_OK) return status;
  return elapsed_between(first.emulation, start_at, end_at, out_elapsed_ns);
}

}  // namespace

void install_native_events(DeviceTable* table) {
  table->emulated_stream.event_create = event_create;
  table->emulated_stream.event_destroy = event_destroy;
  table->emulated_stream.event_record = event_record;
  table->emulated_stream.event_wait = event_wait;
  table->emulated_stream.event_sync = event_sync;
  table->emulated_stream.event_query = event_query;
  table->emulated_stream.event_elapsed = event_elapsed;
}

}  // namespace bp
