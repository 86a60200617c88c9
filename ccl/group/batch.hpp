// SPDX-License-Identifier: Apache-2.0
//
// Operations that a rank called together and runs by messages, and the gate that holds its stream
// until they are over.
#ifndef BACKPLANE_CCL_GROUP_BATCH_HPP
#define BACKPLANE_CCL_GROUP_BATCH_HPP

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "ccl/group/chunked_run.hpp"
#include "ccl/group/host_run_pool.hpp"
#include "ccl/group/work.hpp"

namespace bp::ccl {

/// One operation of a batch. Driven.
struct HostItem {
  HostRunPool::Lent run;
  std::unique_ptr<ChunkedRun> chunks;  // where it is cut; ends before the run
  std::optional<uint64_t> record_id;   // of its record; none of a check, whose call has another
  bool is_last = true;  // no other piece of the operation comes after it on this rank
  bool has_entered = false;
  Clock::time_point deadline = Clock::time_point::max();  // from when it has entered

  /// Its ranks only compare what they have called.
  bool is_check() const { return !record_id; }
  const Operation& operation() const { return run->args().operation; }
  uint64_t sequence() const { return run->args().sequence; }
  /// As HostRun::advance(), to the end of the last chunk.
  Result<bool> advance(Wire& wire) {
    return chunks ? chunks->advance(*run, wire) : run->advance(wire);
  }
  /// With an error of advance().
  std::optional<uint32_t> culprit() const {
    if (chunks && chunks->has_failed()) return run->args().place.rank;
    const auto of_first = run->culprit();
    return of_first || !chunks ? of_first : chunks->second_run().culprit();
  }
  /// As HostRun's, of all its runs.
  std::vector<Wire::Queue> waits_for() const {
    std::vector<Wire::Queue> queues = run->waits_for();
    if (!chunks) return queues;
    const auto more = chunks->second_run().waits_for();
    queues.insert(queues.end(), more.begin(), more.end());
    return queues;
  }
  void cancel(Wire& wire) const {
    run->cancel(wire);
    if (chunks) chunks->second_run().cancel(wire);
  }
  /// No copy between device and host is on its way.
  bool is_at_rest() { return chunks == nullptr || chunks->is_at_rest(); }
  /// ... and it has to be asked for the end of one.
  bool looks_for_copies() const { return chunks && chunks->has_copies(); }
};

class Batch {
 public:
  Batch(Ref<Work> work, std::chrono::nanoseconds timeout)
      : work_(std::move(work)), timeout_(timeout) {}

  Work& work() const { return *work_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  boost::container::small_vector<HostItem, 1>& items() { return items_; }

  /// What the streams before it have made is there; or they failed, and it never will be. Any
  /// thread.
  void let_begin(bp_status stream_status);
  bool may_begin() const { return may_begin_.load(std::memory_order_acquire); }
  bp_status stream_status() const { return stream_status_.load(std::memory_order_relaxed); }

  /// On the stream: lets it begin, and waits until it is over.
  void hold_stream(bp_status stream_status);
  /// One of the items is over. True: it was the last.
  bool end_one() { return ++ended_count_ == items_.size(); }
  /// Whoever waits for it learns how it went. Driven.
  void end_well() noexcept;
  void end(const Failure& failure) noexcept;
  /// Driven.
  bool has_ended() const { return has_ended_; }
  /// After end(): the stream goes on, once no copy uses what comes behind it may change. False: not
  /// yet. Driven.
  bool release_stream() noexcept;
  bool has_released() const { return is_open_; }

 private:
  const Ref<Work> work_;
  const std::chrono::nanoseconds timeout_;
  boost::container::small_vector<HostItem, 1> items_;
  size_t ended_count_ = 0;
  bool has_ended_ = false;
  std::atomic<bp_status> stream_status_{BP_OK};
  std::atomic<bool> may_begin_{false};

  std::mutex gate_mutex_;
  std::condition_variable gate_;
  bool is_open_ = false;  // written by who drives
};

}  // namespace bp::ccl

#endif
