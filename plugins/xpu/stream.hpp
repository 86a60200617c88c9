// SPDX-License-Identifier: Apache-2.0
//
// Streams are in-order queues with a Tracker beside them; events are markers. Every command is
// flushed at once: the core polls, and a driver that batches would otherwise never start.
#ifndef BACKPLANE_PLUGINS_XPU_STREAM_HPP
#define BACKPLANE_PLUGINS_XPU_STREAM_HPP

#include <cstdint>
#include <memory>
#include <mutex>

#include "device.hpp"
#include "host_calls.hpp"
#include "tracker.hpp"

namespace bp::xpu {

class Event;

class Stream {
 public:
  explicit Stream(bp_device& device);
  /// Over a queue of the application's, shared with it.
  Stream(bp_device& device, Owned<cl_command_queue> queue);
  /// Waits for the work and for the host calls; on a shared queue not for the application's.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bp_device& device() const { return device_; }
  const sdk::Host& host() const { return device_.host(); }
  cl_command_queue queue() const { return queue_.get(); }

  /// BP_OK, or BP_POISONED with the first failure's words reported.
  bp_status check_healthy();
  /// Enqueues one command. `enqueue(queue, out_event)` returns an OpenCL code; if it is an error
  /// sdk::Failure is thrown and the stream is as before. Stream-ordered.
  template <class Enqueue>
  bp_status submit(const char* what, uint64_t op_seq, Enqueue&& enqueue) {
    const bp_status status = check_healthy();
    if (status != BP_OK) return status;
    tracker_->reserve(1);
    cl_event event = nullptr;
    check(enqueue(queue_.get(), &event), what);
    track({.event = {device_.driver(), event}, .what = what, .op_seq = op_seq, .waited = {}});
    return BP_OK;
  }

  bp_status sync(uint64_t timeout_ns);
  bp_status query();
  bp_status record(Event* event);
  bp_status wait(Mark mark);
  bp_status host_call(bp_host_fn fn, void* user);

 private:
  bp_status report(bp_status status, const StreamFailure& failure) const;
  /// Keeps an enqueued command, which reserve made room for, and gets it started.
  uint64_t track(Command command);
  Owned<cl_event> enqueue_marker();
  Owned<cl_event> enqueue_barrier(const Owned<cl_event>& waited);

  bp_device& device_;
  Owned<cl_command_queue> queue_;
  const bool is_shared_;
  std::shared_ptr<Tracker> tracker_;
  HostCalls host_calls_;
};

/// A mark that streams record. Any thread.
class Event {
 public:
  Event(Device& device, bool timing) : device_(device), timing_(timing) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Device& device() const { return device_; }
  const sdk::Host& host() const { return device_.host(); }
  bool has_timing() const { return timing_; }
  void set(Mark mark);
  /// The latest record; without an event if there is none.
  Mark latest() const;

 private:
  Device& device_;
  const bool timing_;
  mutable std::mutex mutex_;
  Mark mark_;
};

extern const bp_stream_api kStreamApi;

/// Enqueues on `stream`, or with nullptr runs now on the calling thread's behalf.
template <class Enqueue>
bp_status submit(Device& device, Stream* stream, const char* what, uint64_t op_seq,
                 Enqueue&& enqueue) {
  if (stream != nullptr) return stream->submit(what, op_seq, enqueue);
  device.run_now(what, enqueue);
  return BP_OK;
}

}  // namespace bp::xpu

// The ABI's opaque types are these classes under another name.
struct bp_stream final : bp::xpu::Stream {
  using Stream::Stream;
};
struct bp_event final : bp::xpu::Event {
  using Event::Event;
};

#endif
