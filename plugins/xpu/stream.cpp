// SPDX-License-Identifier: Apache-2.0
//
// The stream and event table.
#include "stream.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <string>
#include <thread>

#include "options.hpp"
#include "transfer.hpp"

namespace bp::xpu {
namespace {

using sdk::slot;
using Clock = std::chrono::steady_clock;

/// OpenCL has no wait with a deadline, so it is polled: first without sleeping, since most waits
/// are short, then so that a wait ends at most an eighth later than it could. Returns false when
/// the time is over.
template <class Done>
bool poll(uint64_t timeout_ns, Done&& done) {
  constexpr auto kAwake = std::chrono::microseconds(20);
  constexpr auto kLongest = std::chrono::microseconds(1000);
  constexpr uint64_t kFarAwayNs = uint64_t{1} << 60;  // keeps the addition below from overflowing
  const auto start = Clock::now();
  const auto deadline = start + std::chrono::nanoseconds(std::min(timeout_ns, kFarAwayNs));
  while (!done()) {
    const auto now = Clock::now();
    if (now >= deadline) return false;
    if (now - start < kAwake) {
      std::this_thread::yield();
    } else {
      const auto pause = std::min<Clock::duration>((now - start) / 8, kLongest);
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    }
  }
  return true;
}

/// Waits until `done`, which `event` brings about; false when the time is over.
template <class Done>
bool await(const Driver& driver, const Owned<cl_event>& event, uint64_t timeout_ns, Done&& done) {
  if (timeout_ns == BP_TIMEOUT_FOREVER && event) driver.wait(event.get());
  return poll(timeout_ns, done);
}

/// BP_PENDING, or the failure of what an event has recorded, reported, or BP_OK.
bp_status outcome(const Event& event, const Mark& mark) {
  if (!mark.source->is_settled(mark.seq)) return BP_PENDING;
  const auto failure = mark.source->failure_up_to(mark.seq);
  if (failure == nullptr) return BP_OK;
  event.device().host().report(failure->status, failure->words, failure->code, failure->op_seq);
  return failure->status;
}

uint64_t end_time_ns(const Driver& driver, const Mark& mark) {
  cl_ulong time_ns = 0;
  const cl_int code = driver.clGetEventProfilingInfo(mark.event.get(), CL_PROFILING_COMMAND_END,
                                                     sizeof(time_ns), &time_ns, nullptr);
  if (code == CL_PROFILING_INFO_NOT_AVAILABLE) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "event_elapsed: an event was recorded on a wrapped queue that was made "
                       "without CL_QUEUE_PROFILING_ENABLE"};
  }
  check(code, "clGetEventProfilingInfo");
  return time_ns;
}

}  // namespace

Stream::Stream(bp_device& device)
    : device_(device),
      queue_(device.make_queue()),
      is_shared_(false),
      tracker_(std::make_shared<Tracker>(device.driver())),
      host_calls_(device.driver(), tracker_) {}

Stream::Stream(bp_device& device, Owned<cl_command_queue> queue)
    : device_(device),
      queue_(std::move(queue)),
      is_shared_(true),
      tracker_(std::make_shared<Tracker>(device.driver())),
      host_calls_(device.driver(), tracker_) {}

// Work behind a host call waits for it, so the queue drains only once the calls are made.
Stream::~Stream() {
  host_calls_.close();
  if (!is_shared_) {
    device_.driver().clFinish(queue_.get());
  } else if (const Owned<cl_event> last = tracker_->last_event()) {
    // Not clFinish: what the application has enqueued behind may wait for the application.
    device_.driver().wait(last.get());
  }
  tracker_->close();
}

bp_status Stream::report(bp_status status, const StreamFailure& failure) const {
  auto* self = const_cast<bp_stream*>(static_cast<const bp_stream*>(this));
  const std::string words =
      status == BP_POISONED ? "the stream failed before: " + failure.words : failure.words;
  device_.host().report(status, words, failure.code, failure.op_seq, self);
  return status;
}

bp_status Stream::check_healthy() {
  const auto failure = tracker_->failure();
  return failure == nullptr ? BP_OK : report(BP_POISONED, *failure);
}

uint64_t Stream::track(Command command) {
  const uint64_t seq = tracker_->add(std::move(command));
  device_.driver().clFlush(queue_.get());
  return seq;
}

Owned<cl_event> Stream::enqueue_marker() {
  cl_event event = nullptr;
  check(device_.driver().clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &event),
        "clEnqueueMarkerWithWaitList");
  return {device_.driver(), event};
}

Owned<cl_event> Stream::enqueue_barrier(const Owned<cl_event>& waited) {
  const cl_event awaited = waited.get();
  cl_event event = nullptr;
  check(device_.driver().clEnqueueBarrierWithWaitList(queue_.get(), 1, &awaited, &event),
        "clEnqueueBarrierWithWaitList");
  return {device_.driver(), event};
}

bp_status Stream::sync(uint64_t timeout_ns) {
  const uint64_t seq = tracker_->last_seq();
  const bool settled = await(device_.driver(), tracker_->last_event(), timeout_ns,
                             [&] { return tracker_->is_settled(seq); });
  if (!settled) return BP_TIMEOUT;
  const auto failure = tracker_->failure();
  return failure != nullptr ? report(failure->status, *failure) : BP_OK;
}

bp_status Stream::query() {
  if (!tracker_->is_settled(tracker_->last_seq())) return BP_PENDING;
  const auto failure = tracker_->failure();
  return failure != nullptr ? report(failure->status, *failure) : BP_OK;
}

bp_status Stream::record(Event* event) {
  const bp_status status = check_healthy();
  if (status != BP_OK) return status;
  tracker_->reserve(1);
  Owned<cl_event> marker = enqueue_marker();
  Mark mark{.event = share(device_.driver(), marker), .source = tracker_, .seq = 0};
  mark.seq = track({.event = std::move(marker), .what = "event_record", .op_seq = 0, .waited = {}});
  event->set(std::move(mark));
  return BP_OK;
}

bp_status Stream::wait(Mark mark) {
  const bp_status status = check_healthy();
  // A stream is always behind its own records.
  if (status != BP_OK || mark.source == nullptr || mark.source == tracker_) return status;
  const auto failure = mark.source->failure_up_to(mark.seq);
  if (failure != nullptr) {
    // Not left to the driver: PoCL 3.1 never ends a command that waits for an event which has
    // failed before.
    tracker_->adopt(failure);
    return BP_OK;
  }
  tracker_->reserve(1);
  Owned<cl_event> barrier = enqueue_barrier(mark.event);
  track(
      {.event = std::move(barrier), .what = "event_wait", .op_seq = 0, .waited = std::move(mark)});
  return BP_OK;
}

bp_status Stream::host_call(bp_host_fn fn, void* user) {
  host_calls_.start();
  std::list<HostCall> calls(1);
  HostCall& call = calls.front();
  call.fn = fn;
  call.user = user;
  if (tracker_->failure() == nullptr) {
    const Driver& driver = device_.driver();
    tracker_->reserve(2);
    cl_int code = CL_SUCCESS;
    const cl_event user_event = driver.clCreateUserEvent(device_.context(), &code);
    check(code, "clCreateUserEvent");
    call.after = {driver, user_event};
    Owned<cl_event> before;
    Owned<cl_event> barrier;
    try {
      before = enqueue_marker();
      call.before = share(driver, before);
      // Once this is enqueued the stream stands still until the call is made: nothing may fail.
      barrier = enqueue_barrier(call.after);
    } catch (...) {
      // Drivers may keep what comes later behind a user event that is released before its end.
      driver.clSetUserEventStatus(user_event, CL_COMPLETE);
      throw;
    }
    constexpr const char* kWhat = "stream_host_call";
    call.before_seq = track({.event = std::move(before), .what = kWhat, .op_seq = 0, .waited = {}});
    track({.event = std::move(barrier), .what = kWhat, .op_seq = 0, .waited = {}});
  } else {
    call.before = tracker_->last_event();
    call.before_seq = tracker_->last_seq();
  }
  host_calls_.push(std::move(calls));
  return BP_OK;
}

void Event::set(Mark mark) {
  const std::lock_guard lock(mutex_);
  std::swap(mark_, mark);
}

Mark Event::latest() const {
  const std::lock_guard lock(mutex_);
  return {share(device_.driver(), mark_.event), mark_.source, mark_.seq};
}

namespace {

bp_status stream_create(bp_device* device, const bp_stream_args* args, bp_stream** out_stream) {
  return slot("stream_create", device, {args, out_stream}, [&] {
    *out_stream = nullptr;
    check_flags(sdk::read_args(args).flags, 0, "bp_stream_args");
    *out_stream = new bp_stream(*device);
  });
}

bp_status stream_destroy(bp_stream* stream) {
  return slot("stream_destroy", stream, {}, [&] { delete stream; });
}

bp_status stream_sync(bp_stream* stream, uint64_t timeout_ns) {
  return slot("stream_sync", stream, {}, [&] { return stream->sync(timeout_ns); });
}

bp_status stream_query(bp_stream* stream) {
  return slot("stream_query", stream, {}, [&] { return stream->query(); });
}

bp_status event_create(bp_device* device, const bp_event_args* args, bp_event** out_event) {
  return slot("event_create", device, {args, out_event}, [&] {
    *out_event = nullptr;
    const uint32_t flags = sdk::read_args(args).flags;
    check_flags(flags, device->has_profiling() ? BP_EVENT_TIMING_BIT : 0, "bp_event_args");
    *out_event = new bp_event(*device, (flags & BP_EVENT_TIMING_BIT) != 0);
  });
}

bp_status event_destroy(bp_event* event) {
  return slot("event_destroy", event, {}, [&] { delete event; });
}

/// Queues order events of their own context only.
void check_same_device(const bp_event& event, const bp_stream& stream) {
  if (&event.device() == &stream.device()) return;
  throw sdk::Failure{BP_UNSUPPORTED, "the event belongs to another device than the stream"};
}

bp_status event_record(bp_event* event, bp_stream* stream) {
  return slot("event_record", event, {stream}, [&] {
    check_same_device(*event, *stream);
    return stream->record(event);
  });
}

bp_status event_wait(bp_event* event, bp_stream* stream) {
  return slot("event_wait", event, {stream}, [&] {
    check_same_device(*event, *stream);
    return stream->wait(event->latest());
  });
}

bp_status event_sync(bp_event* event, uint64_t timeout_ns) {
  return slot("event_sync", event, {}, [&]() -> bp_status {
    const Mark mark = event->latest();
    if (!mark.event) return BP_OK;
    const bool settled = await(event->device().driver(), mark.event, timeout_ns,
                               [&] { return mark.source->is_settled(mark.seq); });
    return settled ? outcome(*event, mark) : BP_TIMEOUT;
  });
}

bp_status event_query(bp_event* event) {
  return slot("event_query", event, {}, [&]() -> bp_status {
    const Mark mark = event->latest();
    if (!mark.event) return BP_OK;
    return outcome(*event, mark);
  });
}

bp_status mem_copy_async(bp_stream* stream, const bp_copy_args* args) {
  return slot("mem_copy_async", stream, {args},
              [&] { return copy(stream->device(), stream, sdk::read_args(args)); });
}

bp_status stream_host_call(bp_stream* stream, bp_host_fn fn, void* user) {
  return slot("stream_host_call", stream, {}, [&] {
    if (fn == nullptr) sdk::refuse("stream_host_call: fn is NULL");
    return stream->host_call(fn, user);
  });
}

/// The time of an event's record. Throws, or answers BP_PENDING or the work's failure.
bp_status read_time(const bp_event& event, const char* name, uint64_t* out_time_ns) {
  const Mark mark = event.latest();
  if (!event.has_timing() || !mark.event) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       std::string("event_elapsed: the ") + name + " event " +
                           (event.has_timing() ? "was never recorded" : "was made without timing")};
  }
  const bp_status status = outcome(event, mark);
  if (status == BP_OK) *out_time_ns = end_time_ns(event.device().driver(), mark);
  return status;
}

bp_status event_elapsed(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns) {
  return slot("event_elapsed", start, {end, out_elapsed_ns}, [&] {
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    bp_status status = read_time(*start, "start", &start_ns);
    if (status == BP_OK) status = read_time(*end, "end", &end_ns);
    if (status != BP_OK) return status;
    if (end_ns < start_ns) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "event_elapsed: the end event is " +
                                                  std::to_string(start_ns - end_ns) +
                                                  " ns before the start event"};
    }
    *out_elapsed_ns = end_ns - start_ns;
    return BP_OK;
  });
}

constexpr std::string_view kQueueKind = "opencl.command_queue";

bp_status stream_native_handle(bp_stream* stream, bp_native_stream* out_native) {
  return slot("stream_native_handle", stream, {out_native}, [&] {
    bp_native_stream native{};
    native.handle = reinterpret_cast<uintptr_t>(stream->queue());
    native.kind = sdk::str(kQueueKind);
    sdk::write_out(out_native, native);
  });
}

bp_status stream_wrap(bp_device* device, const bp_stream_wrap_args* args, bp_stream** out_stream) {
  return slot("stream_wrap", device, {args, out_stream}, [&] {
    *out_stream = nullptr;
    const bp_stream_wrap_args wanted = sdk::read_args(args);
    check_flags(wanted.flags, 0, "bp_stream_wrap_args");
    const std::string_view kind = sdk::view(wanted.kind);
    if (kind != kQueueKind) {
      throw sdk::Failure{BP_UNSUPPORTED, "stream_wrap: queues are of kind '" +
                                             std::string(kQueueKind) + "', not '" +
                                             std::string(kind) + "'"};
    }
    const auto queue = reinterpret_cast<cl_command_queue>(wanted.handle);
    *out_stream = new bp_stream(*device, device->share_queue(queue));
  });
}

}  // namespace

constinit const bp_stream_api kStreamApi{
    .struct_size = sizeof(bp_stream_api),
    .flags = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_NATIVE_BIT,
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
    .stream_native_handle = stream_native_handle,
    .stream_wrap = stream_wrap};

}  // namespace bp::xpu
