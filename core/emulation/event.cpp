// SPDX-License-Identifier: Apache-2.0
//
// Events for a device without the band ASYNC. Each record is a counted object of its own: who waits
// holds the record that was the latest when the wait was asked for, so the event may be recorded
// anew or destroyed meanwhile. A record that ends in failure passes it on to who waits.
#include <chrono>
#include <string>

#include "core/emulation/deadline.hpp"
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

class Record {
 public:
  void finish(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    time_ = Deadline::Clock::now();
    done_ = true;
    finished_.notify_all();
  }

  /// False: not finished before the deadline.
  bool wait(const Deadline& deadline, Failure* out_failure) {
    std::unique_lock lock(mutex_);
    if (!deadline.wait(finished_, lock, [this] { return done_; })) return false;
    *out_failure = failure_;
    return true;
  }

  /// BP_OK, BP_PENDING or the failure. The time only with BP_OK.
  bp_status query(Deadline::Clock::time_point* out_time = nullptr) {
    const std::lock_guard lock(mutex_);
    if (!done_) return BP_PENDING;
    if (out_time != nullptr) *out_time = time_;
    return failure_.status;
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  Failure failure_;
  Deadline::Clock::time_point time_;
};

/// Behind bp_event*.
class EmulatedEvent {
 public:
  EmulatedEvent(Emulation& owner, bool with_timing) : emulation(owner), timing(with_timing) {}

  bp_event* handle() { return reinterpret_cast<bp_event*>(this); }
  static EmulatedEvent& from(bp_event* event) { return *reinterpret_cast<EmulatedEvent*>(event); }

  /// nullptr: never recorded.
  std::shared_ptr<Record> latest() {
    const std::lock_guard lock(mutex_);
    return latest_;
  }
  void set_latest(std::shared_ptr<Record> record) {
    const std::lock_guard lock(mutex_);
    latest_.swap(record);
  }

  Emulation& emulation;
  const bool timing;

 private:
  std::mutex mutex_;  // queries and waits come from any thread, beside a record
  std::shared_ptr<Record> latest_;
};

bp_status event_create(bp_device* self, const bp_event_args* args, bp_event** out_event) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    if ((args->flags & ~BP_EVENT_TIMING_BIT) != 0) {
      return emulation.fail(BP_UNSUPPORTED, "event_create: unknown flags " +
                                                std::to_string(args->flags) +
                                                "; expected 0 or BP_EVENT_TIMING_BIT");
    }
    const bool timing = (args->flags & BP_EVENT_TIMING_BIT) != 0;
    *out_event = std::make_unique<EmulatedEvent>(emulation, timing).release()->handle();
    return BP_OK;
  });
}

bp_status event_destroy(bp_event* handle) {
  const std::unique_ptr<EmulatedEvent> event(&EmulatedEvent::from(handle));
  return BP_OK;
}

/// Streams of one device take events of that device alone.
bp_status check_same_device(bp_event* event, bp_stream* stream, const char* what) {
  const Emulation& own = EmulatedStream::from(stream).emulation;
  if (&EmulatedEvent::from(event).emulation == &own) return BP_OK;
  return own.fail(BP_UNSUPPORTED, std::string(what) + ": the event is of another device", stream);
}

bp_status event_record(bp_event* handle, bp_stream* stream) {
  return EmulatedStream::from(stream).emulation.guarded([&] {
    const bp_status same = check_same_device(handle, stream, "event_record");
    if (same != BP_OK) return same;
    auto record = std::make_shared<Record>();
    // On a stream that fails before it gets here, the record must still end, with the failure.
    auto task = make_task([record](Failure* failure) { record->finish(*failure); });
    const bp_status status = EmulatedStream::from(stream).queue->enqueue(std::move(task));
    if (status == BP_OK) EmulatedEvent::from(handle).set_latest(std::move(record));
    return status;
  });
}

bp_status event_wait(bp_event* handle, bp_stream* stream) {
  TaskQueue& queue = *EmulatedStream::from(stream).queue;
  const std::shared_ptr<Record> record = EmulatedEvent::from(handle).latest();
  return EmulatedStream::from(stream).emulation.guarded([&] {
    const bp_status same = check_same_device(handle, stream, "event_wait");
    if (same != BP_OK) return same;
    if (record == nullptr || record->query() == BP_OK) {
      return queue.failure().failed() ? BP_POISONED : BP_OK;
    }
    return queue.enqueue(make_task([record](Failure* failure) {
      if (!failure->failed()) record->wait(Deadline(BP_TIMEOUT_FOREVER), failure);
    }));
  });
}

bp_status event_sync(bp_event* handle, uint64_t timeout_ns) {
  const std::shared_ptr<Record> record = EmulatedEvent::from(handle).latest();
  if (record == nullptr) return BP_OK;
  Failure failure;
  return record->wait(Deadline(timeout_ns), &failure) ? failure.status : BP_TIMEOUT;
}

bp_status event_query(bp_event* handle) {
  const std::shared_ptr<Record> record = EmulatedEvent::from(handle).latest();
  return record == nullptr ? BP_OK : record->query();
}

bp_status event_elapsed(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns) {
  const Emulation& emulation = EmulatedEvent::from(start).emulation;
  Deadline::Clock::time_point times[2];
  size_t index = 0;
  for (bp_event* handle : {start, end}) {
    EmulatedEvent& event = EmulatedEvent::from(handle);
    const std::shared_ptr<Record> record = event.latest();
    if (!event.timing || record == nullptr) {
      return emulation.fail(BP_INVALID_ARGUMENT,
                            "event_elapsed: an event was not made with BP_EVENT_TIMING_BIT, or "
                            "was never recorded");
    }
    const bp_status status = record->query(&times[index++]);
    if (status == BP_PENDING) return BP_PENDING;
    if (status != BP_OK) {
      return emulation.fail(BP_INVALID_ARGUMENT, "event_elapsed: the recorded work failed");
    }
  }
  return elapsed_between(emulation, times[0], times[1], out_elapsed_ns);
}

}  // namespace

bp_status elapsed_between(const Emulation& emulation, std::chrono::steady_clock::time_point start,
                          std::chrono::steady_clock::time_point end, uint64_t* out_elapsed_ns) {
  if (end < start) {
    return emulation.fail(BP_INVALID_ARGUMENT, "event_elapsed: the end was done before the start");
  }
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start);
  *out_elapsed_ns = static_cast<uint64_t>(elapsed.count());
  return BP_OK;
}

void install_emulated_events(DeviceTable* table) {
  table->emulated_stream.event_create = event_create;
  table->emulated_stream.event_destroy = event_destroy;
  table->emulated_stream.event_record = event_record;
  table->emulated_stream.event_wait = event_wait;
  table->emulated_stream.event_sync = event_sync;
  table->emulated_stream.event_query = event_query;
  table->emulated_stream.event_elapsed = event_elapsed;
}

}  // namespace bp
