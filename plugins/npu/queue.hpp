// SPDX-License-Identifier: Apache-2.0
//
// Streams and events. A stream is a queue of commands that its own thread runs in order; an event
// names a point in that order. The first command that fails breaks its stream for good: later work
// is not run, but waits (events, host calls) are always told.
#ifndef BACKPLANE_PLUGINS_NPU_QUEUE_HPP
#define BACKPLANE_PLUGINS_NPU_QUEUE_HPP

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "backplane/stream.h"
#include "device.hpp"
#include "worker.hpp"

namespace bp::npu {

/// Why a stream broke. BP_OK: it did not.
struct StreamFailure {
  bp_status status = BP_OK;
  std::string message;
  uint64_t op_seq = 0;  // of the launch that failed; 0: no launch
};
/// For a catch block: what is being thrown. `op_seq`: of the launch, where that is not told.
StreamFailure failure_of_exception(uint64_t op_seq) noexcept;

class Mark;  // one record of an event

/// Either work, which throws to break the stream and ends its waits when the token says so; or a
/// notice, which is told once how the stream fares here, even if it broke or is being destroyed.
struct Command {
  std::function<void(const std::stop_token&)> work = {};
  std::function<void(const StreamFailure&)> notice = {};
  uint64_t op_seq = 0;
  bool even_if_broken = false;  // may still be pushed then
};

/// A stream. Destroyed with commands pending, it ends the running one and drops the others. Pushing
/// is stream-ordered, the rest any-thread.
class Queue {
 public:
  explicit Queue(Device& device) : device_(device) {}

  /// Throws Failure BP_POISONED on a broken stream.
  void push(Command command);
  /// resolve() is called now, so that the caller learns of a bad range, and again when the transfer
  /// runs: only then does the memory have to be there.
  void push_transfer(std::function<Transfer()> resolve);
  /// BP_OK, BP_TIMEOUT, or the stream's first failure, reported again.
  bp_status sync(uint64_t timeout_ns);

  Device& device() const { return device_; }
  const sdk::Host& host() const { return device_.host(); }

 private:
  void run(const Command& command, const std::stop_token& stop);

  Device& device_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t pushed_count_ = 0;
  uint64_t finished_count_ = 0;
  StreamFailure failure_;  // written by the worker alone
  Worker worker_;          // Last: ends first.
};

extern const bp_stream_api kStreamApi;

}  // namespace bp::npu

// The ABI's opaque types: what the core's pointers point to.
struct bp_stream final : bp::npu::Queue {
  using Queue::Queue;
};
struct bp_event final {
  bp::npu::Device& device;
  const bool timing;
  std::shared_ptr<bp::npu::Mark> mark;  // The latest; shared, so that waits outlive the event.

  const bp::sdk::Host& host() const { return device.host(); }
};

#endif
