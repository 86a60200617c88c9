// SPDX-License-Identifier: Apache-2.0
//
// An ordered queue of one device. A device's default stream is inline on inline devices (no queue
// at all: work is done when the call returns) and a real or emulated stream elsewhere.
#ifndef BACKPLANE_CORE_RUNTIME_STREAM_HPP
#define BACKPLANE_CORE_RUNTIME_STREAM_HPP

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "backplane/device_api.h"
#include "core/base/status.hpp"
#include "core/dispatch/schema.hpp"

namespace bp {

class Device;

class Stream {
 public:
  /// `handle` nullptr: the inline stream. Made by Device only.
  Stream(Device& device, bp_stream* handle, uint64_t index);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  bp_stream* handle() const { return handle_; }
  bool is_inline() const { return handle_ == nullptr; }

  /// Holds the stream while a sequence number is taken and its work is enqueued.
  std::mutex& mutex() { return mutex_; }
  /// The number of the next piece of work. Under mutex().
  uint64_t next_seq() { return ++issued_seq_; }
  /// A name for the launch with this number in reports: unique within the process's device.
  uint64_t op_seq(uint64_t seq) const { return (index_ << kSeqBits) | seq; }
  /// Remembers which operator a launch ran, for error messages. Under mutex().
  void note_launch(uint64_t seq, OpId op) { recent_ops_[seq % kRecentOps] = {seq, op}; }

  /// The fault word of this stream, zeroed device memory; made at first use. Under mutex().
  Result<bp_mem> fault_word();

  /// Work enqueued from now on waits for `producer`'s work up to `seq`. Between devices, and when
  /// this stream is inline, the host waits (counted). Not under mutex().
  Status wait_for(Stream& producer, uint64_t seq);
  /// The host waits for everything enqueued, at most the Runtime's deadline; then reads the fault
  /// word if a launch may have written it. Errors: TIMEOUT; the stream's failure, naming the
  /// operator; a data fault, reported once. Any thread.
  Status sync();
  /// True if work up to `seq` is known to be done, without asking the device.
  bool known_done(uint64_t seq) const { return seq <= done_seq_.load(std::memory_order_acquire); }
  /// An error of a call on this stream in words: the plugin's, and the operator's name.
  Status failure(bp_status code, std::string_view what);

 private:
  static constexpr uint64_t kSeqBits = 40;
  static constexpr uint64_t kSeqMask = (uint64_t{1} << kSeqBits) - 1;
  static constexpr size_t kRecentOps = 256;
  struct RecentOp {
    uint64_t seq = 0;
    OpId op = 0;
  };

  Status check_fault();
  std::string culprit(uint64_t op_seq);

  Device& device_;
  bp_stream* const handle_;
  const uint64_t index_;
  std::mutex mutex_;
  uint64_t issued_seq_ = 0;
  std::atomic<uint64_t> done_seq_{0};
  std::array<RecentOp, kRecentOps> recent_ops_{};
  bp_mem fault_{};
  std::atomic<bool> fault_armed_{false};
};

}  // namespace bp

#endif
