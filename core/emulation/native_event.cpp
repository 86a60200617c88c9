// SPDX-License-Identifier: Apache-2.0
//
// Native events that cannot go out as they are: the device takes one call at a time, or it has
// streams but no timing. Then the stream itself notes the host's time, in a host call before each
// record, so that a finished record has its time.
#include <atomic>
#include <chrono>

#include "core/emulation/deadline.hpp"
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

struct Timestamp {
  std::atomic<bool> done{false};
  Deadline::Clock::time_point at;  // once done
};

/// Behind bp_event*.
struct NativeEvent {
  Emulation& emulation;
  const bool host_timing;
  bp_event* native = nullptr;
  std::mutex mutex;  // event_elapsed comes from any thread, beside a record
  std::shared_ptr<Timestamp> latest;

  const bp_stream_api& api() const { return emulation.native().stream; }
  bp_event* handle() { return reinterpret_cast<bp_event*>(this); }
  static NativeEvent& from(bp_event* event) { return *reinterpret_cast<NativeEvent*>(event); }
};

bp_status event_create(bp_device* self, const bp_event_args* args, bp_event** out_event) {
  Emulation& emulation = Emulation::from(self);
  return guarded([&] {
    const bool timing = (args->flags & BP_EVENT_TIMING_BIT) != 0;
    const bool host_timing = timing && emulation.emulates(BP_FEATURE_TIMING_BIT);
    bp_event_args plugin_args = *args;
    if (host_timing) plugin_args.flags &= ~BP_EVENT_TIMING_BIT;
    std::unique_ptr<NativeEvent> event(new NativeEvent{.emulation = emulation,
                                                       .host_timing = host_timing,
                                                       .native = nullptr,
                                                       .mutex = {},
                                                       .latest = {}});
    const auto lock = emulation.lock_call();
    const bp_status status =
        event->api().event_create(emulation.native().device, &plugin_args, &event->native);
    if (status == BP_OK) *out_event = event.release()->handle();
    return status;
  });
}

bp_status event_destroy(bp_event* handle) {
  const std::unique_ptr<NativeEvent> event(&NativeEvent::from(handle));
  const auto lock = event->emulation.lock_call();
  return event->api().event_destroy(event->native);
}

void note_time(void* user, bp_status) {
  const std::unique_ptr<std::shared_ptr<Timestamp>> stamp(
      static_cast<std::shared_ptr<Timestamp>*>(user));
  (*stamp)->at = Deadline::Clock::now();
  (*stamp)->done.store(true, std::memory_order_release);
}

bp_status record_with_time(NativeEvent& event, bp_stream* native_stream) {
  auto stamp = std::make_shared<Timestamp>();
  auto user = std::make_unique<std::shared_ptr<Timestamp>>(stamp);
  bp_status status = event.api().stream_host_call(native_stream, note_time, user.get());
  if (status != BP_OK) return status;
  static_cast<void>(user.release());  // note_time owns it now
  status = event.api().event_record(event.native, native_stream);
  if (status != BP_OK) return status;
  const std::lock_guard lock(event.mutex);
  event.latest = std::move(stamp);
  return BP_OK;
}

bp_status event_record(bp_event* handle, bp_stream* stream) {
  NativeEvent& event = NativeEvent::from(handle);
  bp_stream* native_stream = unwrap_stream(event.emulation.serialised(), stream);
  return guarded([&] {
    const auto lock = event.emulation.lock_call();
    return event.host_timing ? record_with_time(event, native_stream)
                             : event.api().event_record(event.native, native_stream);
  });
}

bp_status event_wait(bp_event* handle, bp_stream* stream) {
  const NativeEvent& event = NativeEvent::from(handle);
  const auto lock = event.emulation.lock_call();
  return event.api().event_wait(event.native, unwrap_stream(event.emulation.serialised(), stream));
}

bp_status event_query(bp_event* handle) {
  const NativeEvent& event = NativeEvent::from(handle);
  const auto lock = event.emulation.lock_call();
  return event.api().event_query(event.native);
}

bp_status event_sync(bp_event* handle, uint64_t timeout_ns) {
  const NativeEvent& event = NativeEvent::from(handle);
  if (!event.emulation.serialised()) return event.api().event_sync(event.native, timeout_ns);
  return poll([=] { return event_query(handle); }, timeout_ns);
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
  if (!first.emulation.emulates(BP_FEATURE_TIMING_BIT)) {
    const auto lock = first.emulation.lock_call();
    return first.api().event_elapsed(first.native, second.native, out_elapsed_ns);
  }
  Deadline::Clock::time_point start_at;
  Deadline::Clock::time_point end_at;
  bp_status status = read_time(first, &start_at);
  if (status == BP_OK) status = read_time(second, &end_at);
  if (status != BP_OK) return status;
  return elapsed_between(first.emulation, start_at, end_at, out_elapsed_ns);
}

/// With native streams that go out as they are, under a self that is the emulation's.
bp_status stream_create(bp_device* self, const bp_stream_args* args, bp_stream** out_stream) {
  const DeviceTable& native = Emulation::from(self).native();
  return native.stream.stream_create(native.device, args, out_stream);
}
bp_status stream_wrap(bp_device* self, const bp_stream_wrap_args* args, bp_stream** out_stream) {
  const DeviceTable& native = Emulation::from(self).native();
  return native.stream.stream_wrap(native.device, args, out_stream);
}

}  // namespace

void install_native_events(Emulation& emulation, DeviceTable* table) {
  table->stream_self = emulation.self();
  if (!emulation.serialised()) {
    table->stream.stream_create = stream_create;
    if (table->has_native(BP_FEATURE_NATIVE_BIT)) table->stream.stream_wrap = stream_wrap;
  }
  table->stream.event_create = event_create;
  table->stream.event_destroy = event_destroy;
  table->stream.event_record = event_record;
  table->stream.event_wait = event_wait;
  table->stream.event_sync = event_sync;
  table->stream.event_query = event_query;
  table->stream.event_elapsed = event_elapsed;
}

}  // namespace bp
