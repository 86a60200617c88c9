// SPDX-License-Identifier: Apache-2.0
//
// What a stream's worker does with commands, and the stream table, where events are made of them.
#include "queue.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace bp::npu {
namespace {

std::chrono::steady_clock::time_point deadline_after(uint64_t timeout_ns) {
  // 2^62 ns is 146 years: for ever, and more would overflow the clock.
  const auto timeout = std::chrono::nanoseconds(std::min(timeout_ns, uint64_t{1} << 62));
  return std::chrono::steady_clock::now() + timeout;
}

/// Tells the user and answers the status.
bp_status report(const sdk::Host& host, const StreamFailure& failure, bp_stream* stream) {
  if (failure.status != BP_OK) {
    host.report(failure.status, failure.message, 0, failure.op_seq, stream);
  }
  return failure.status;
}

[[noreturn]] void throw_cancelled() {
  throw StreamFailure{BP_CANCELLED, "the stream was destroyed before its work was done"};
}

}  // namespace

StreamFailure failure_of_exception(uint64_t op_seq) noexcept {
  // Words that are short take no memory, which may be what is missing.
  try {
    throw;
  } catch (StreamFailure& first) {  // cancelled, or of the stream that this one waited for
    return std::move(first);
  } catch (Failure& own) {
    return {own.status, std::move(own.message), op_seq};
  } catch (const std::bad_alloc&) {
    return {BP_OUT_OF_MEMORY, "no host memory", op_seq};
  } catch (...) {
    return {BP_INTERNAL, "unknown error", op_seq};
  }
}

/// A point in a stream's order, reached once. Any-thread.
class Mark {
 public:
  void reach(const StreamFailure& failure) {
    const std::scoped_lock lock(mutex_);
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
    failure_.status = failure.status;  // Waits must be told, if need be without words.
    try {
      failure_ = failure;
    } catch (const std::bad_alloc&) {
    }
    changed_.notify_all();
  }

  /// False: the timeout came first.
  bool wait(uint64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline_after(timeout_ns), [this] { return reached_; });
  }

  /// False: a stop was asked for first.
  bool wait(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [this] { return reached_; });
  }

  // After a wait that answered true.
  const StreamFailure& failure() const { return failure_; }
  std::chrono::steady_clock::time_point time() const { return time_; }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool reached_ = false;
  StreamFailure failure_;
  std::chrono::steady_clock::time_point time_;
};

void Queue::push(Command command) {
  device_.driver_call();
  const std::scoped_lock lock(mutex_);
  if (failure_.status != BP_OK && !command.even_if_broken) {
    fail(BP_POISONED, "the stream broke before: ", failure_.message);
  }
  worker_.post([this, command = std::move(command)](const std::stop_token& stop) {
    run(command, stop);
    const std::scoped_lock finished_lock(mutex_);
    ++finished_count_;
    changed_.notify_all();
  });
  ++pushed_count_;
}

void Queue::push_transfer(std::function<Transfer()> resolve) {
  resolve();
  // The stream is in order, so its worker waits until the engine is done.
  push({.work = [this, resolve = std::move(resolve)](const std::stop_token&) {
    device_.run_dma(resolve());
  }});
}

bp_status Queue::sync(uint64_t timeout_ns) {
  device_.require_not_lost();
  std::unique_lock lock(mutex_);
  const auto is_done = [this, target = pushed_count_] { return finished_count_ >= target; };
  if (!changed_.wait_until(lock, deadline_after(timeout_ns), is_done)) return BP_TIMEOUT;
  const StreamFailure failure = failure_;
  lock.unlock();
  return report(host(), failure, static_cast<bp_stream*>(this));
}

void Queue::run(const Command& command, const std::stop_token& stop) {
  if (command.notice) return command.notice(failure_);
  if (failure_.status != BP_OK) return;
  StreamFailure failure;
  try {
    if (stop.stop_requested()) throw_cancelled();
    device_.driver_call();
    command.work(stop);
    return;
  } catch (...) {
    failure = failure_of_exception(command.op_seq);
  }
  std::unique_lock lock(mutex_);
  failure_ = std::move(failure);
  lock.unlock();
  // Cancelling is on request: nothing that a user must hear of.
  if (failure_.status != BP_CANCELLED) report(host(), failure_, static_cast<bp_stream*>(this));
}

namespace {

bp_status stream_create(bp_device* device, const bp_stream_args* args, bp_stream** out_stream) {
  return slot("stream_create", device, {args, out_stream}, [&] {
    device->require(BP_FEATURE_ASYNC_BIT);
    device->driver_call();
    read_args(args, 0);
    *out_stream = new bp_stream(*device);
  });
}

bp_status stream_destroy(bp_stream* stream) {
  return slot("stream_destroy", stream, {}, [&] { delete stream; });
}

bp_status stream_sync(bp_stream* stream, uint64_t timeout_ns) {
  return slot("stream_sync", stream, {}, [&] { return stream->sync(timeout_ns); });
}

/// A query is a sync that doesn't wait; only its word for "not yet" differs.
bp_status as_query(bp_status status) { return status == BP_TIMEOUT ? BP_PENDING : status; }

bp_status stream_query(bp_stream* stream) { return as_query(stream_sync(stream, 0)); }

bp_status event_create(bp_device* device, const bp_event_args* args, bp_event** out_event) {
  return slot("event_create", device, {args, out_event}, [&] {
    device->require(BP_FEATURE_ASYNC_BIT);
    device->driver_call();
    const bool timing = (read_args(args, BP_EVENT_TIMING_BIT).flags & BP_EVENT_TIMING_BIT) != 0;
    *out_event = new bp_event{*device, timing, nullptr};
  });
}

bp_status event_destroy(bp_event* event) {
  return slot("event_destroy", event, {}, [&] { delete event; });
}

/// Streams of one device take events of that device alone, here as on hardware.
void require_same_device(const bp_event& event, const bp_stream& stream) {
  if (&event.device != &stream.device()) fail(BP_UNSUPPORTED, "the event is of another device");
}

bp_status event_record(bp_event* event, bp_stream* stream) {
  return slot("event_record", event, {stream}, [&] {
    require_same_device(*event, *stream);
    auto mark = std::make_shared<Mark>();
    stream->push({.notice = [mark](const StreamFailure& failure) { mark->reach(failure); }});
    event->mark = std::move(mark);
  });
}

bp_status event_wait(bp_event* event, bp_stream* stream) {
  return slot("event_wait", event, {stream}, [&] {
    require_same_device(*event, *stream);
    // Without a record there is nothing to wait for, but the stream may have failed.
    stream->push({.work = [mark = event->mark](const std::stop_token& stop) {
      if (mark == nullptr) return;
      if (!mark->wait(stop)) throw_cancelled();
      if (mark->failure().status != BP_OK) throw StreamFailure(mark->failure());
    }});
  });
}

bp_status event_sync(bp_event* event, uint64_t timeout_ns) {
  return slot("event_sync", event, {}, [&]() -> bp_status {
    event->device.require_not_lost();
    if (event->mark == nullptr) return BP_OK;
    if (!event->mark->wait(timeout_ns)) return BP_TIMEOUT;
    return report(event->host(), event->mark->failure(), nullptr);
  });
}

bp_status event_query(bp_event* event) { return as_query(event_sync(event, 0)); }

bp_status mem_copy_async(bp_stream* stream, const bp_copy_args* args) {
  return slot("mem_copy_async", stream, {args}, [&] {
    stream->push_transfer([&memory = stream->device().memory(), copy = read_args(args, 0)] {
      return resolve(memory, copy);
    });
  });
}

bp_status stream_host_call(bp_stream* stream, bp_host_fn fn, void* user) {
  return slot("stream_host_call", stream, {}, [&] {
    if (fn == nullptr) refuse("stream_host_call: fn is NULL");
    const auto call = [fn, user](const StreamFailure& failure) { fn(user, failure.status); };
    stream->push({.notice = call, .even_if_broken = true});
  });
}

bp_status event_elapsed(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns) {
  return slot("event_elapsed", start, {end, out_elapsed_ns}, [&]() -> bp_status {
    start->device.require(BP_FEATURE_TIMING_BIT);
    for (const bp_event* event : {start, end}) {
      if (!event->timing) refuse("event_elapsed: an event was made without timing");
      if (event->mark == nullptr) refuse("event_elapsed: an event was never recorded");
      if (!event->mark->wait(0)) return BP_PENDING;
      if (event->mark->failure().status != BP_OK) refuse("event_elapsed: the work failed");
    }
    const std::chrono::nanoseconds elapsed = end->mark->time() - start->mark->time();
    if (elapsed.count() < 0) refuse("event_elapsed: the end came before the start");
    *out_elapsed_ns = static_cast<uint64_t>(elapsed.count());
    return BP_OK;
  });
}

}  // namespace

constinit const bp_stream_api kStreamApi = {
    .struct_size = sizeof(bp_stream_api),
    .flags = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .stream_query = stream_query,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_sync = event_sync,
    .event_query = event_query,
    .mem_copy_async = mem_copy_async,
    .stream_host_call = stream_host_call,
    .event_elapsed = event_elapsed,
    .stream_native_handle = nullptr,
    .stream_wrap = nullptr,
};

}  // namespace bp::npu
