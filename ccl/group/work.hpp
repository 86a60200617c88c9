// SPDX-License-Identifier: Apache-2.0
//
// What a caller has of operations in progress: whether they are over, why they failed, and a wait
// with a deadline. Tensors carry marks of the work too, so that a caller who only computes on with
// the results needs none of this.
#ifndef BACKPLANE_CCL_GROUP_WORK_HPP
#define BACKPLANE_CCL_GROUP_WORK_HPP

#include <atomic>
#include <boost/container/small_vector.hpp>
#include <memory>
#include <mutex>
#include <string>

#include "ccl/bridge/device_hold.hpp"
#include "ccl/group/message.hpp"
#include "ccl/group/messenger.hpp"
#include "ccl/watch/record.hpp"
#include "core/base/ref.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

using KeptTensors = boost::container::small_vector<Ref<Tensor>, 2>;

/// How long behind the deadline of an operation its group tells why it failed: it asks the ranks
/// first. Who waits as long as the operation may take waits for that, too.
inline constexpr std::chrono::seconds kVerdictComesWithin{2};
/// How long who waits for an operation of this timeout does: for what is before it in its stream,
/// for other ranks, and for the group's words. What takes longer is stuck.
inline std::chrono::nanoseconds patience(const Runtime& runtime, std::chrono::nanoseconds timeout) {
  return runtime.wait_timeout() + timeout + kVerdictComesWithin;
}

/// Any thread.
class Work : public Counted<Work> {
 public:
  struct Args {
    uint64_t sequence = 0;  // of the first collective; of sends and recvs alone, of their pair
    Operation operation;    // the first
    size_t more_count = 0;  // operations behind it
    OperationPath path = OperationPath::kHost;
    bool is_queued = true;  // else its caller runs it
    std::shared_ptr<Messenger> messenger;
    Ref<Runtime> runtime;  // keeps the device
  };

  /// Over, well or not. Never waits.
  bool test();
  /// Waits until it is over; drives the messenger meanwhile. Errors: TIMEOUT, and it goes on; why
  /// it failed.
  Status wait(Clock::time_point deadline);
  /// ok(): it did not, or is not over.
  Failure failure() const;
  /// Work enqueued later on the stream comes after it. Errors: those of the stream's waits.
  Status order_before(Stream& stream);

  uint64_t sequence() const { return args_.sequence; }
  /// "all_reduce sum f32 3", and how many more.
  std::string operation() const;
  OperationPath path() const { return args_.path; }
  Messenger& messenger() const { return *args_.messenger; }
  /// Where it is in the order of a queue; without a stream: nowhere.
  Mark mark() const { return mark_; }

  // For the group.

  /// Where it is in a queue. Before anybody else has the work.
  void set_queue(Mark mark) {
    mark_ = mark;
    last_seq_ = mark.seq;
  }
  void set_last_seq(uint64_t seq) { last_seq_ = seq; }
  /// Tensors that stay until it is over: whoever drops one that is in use may have to wait. Before
  /// anybody else has the work.
  void keep(Ref<Tensor> tensor) { kept_.push_back(std::move(tensor)); }
  /// What it holds of the device, with an event behind it. Before a caller has the work.
  void set_hold(std::shared_ptr<DeviceHold> hold) noexcept {
    const std::lock_guard lock(mutex_);
    hold_ = std::move(hold);
  }
  /// What other ranks had to do with it is over.
  void end_well() noexcept { ranks_are_over_.store(true, std::memory_order_release); }
  /// ... or the group has failed. What has ended before has not.
  void end(const Failure& failure) noexcept;
  /// What the device says of its end of it: BP_OK, BP_PENDING, or why it failed.
  bp_status ask_queue();
  /// The device's end of it is over; what it holds goes. The first failure stays. Answers the
  /// tensors that it kept, for whoever may wait to drop.
  KeptTensors end_queue(const Failure& failure) noexcept;
  /// The same, and it keeps them.
  void end_queue_keeping(const Failure& failure) noexcept;
  bool queue_is_over() const { return queue_is_over_.load(std::memory_order_acquire); }
  /// The last of its work in the queue.
  Mark last_mark() const { return {mark_.stream, last_seq_}; }
  /// Queued copies may use what it holds, and do not end.
  void keep_for_ever();
  /// What the device's answer means, where nobody knows more. Without memory for its words: a few.
  Failure explain(bp_status answer) const noexcept;

 private:
  friend class Counted<Work>;
  friend class Ref<Work>;
  explicit Work(Args args)
      : args_(std::move(args)),
        ranks_are_over_(args_.path == OperationPath::kNative),
        queue_is_over_(!args_.is_queued) {}
  ~Work() = default;
  bool ranks_are_over() const { return ranks_are_over_.load(std::memory_order_acquire); }
  std::shared_ptr<DeviceHold> hold() const;
  /// The device's end of it has ended well.
  void note_over();
  void keep_failure(const Failure& failure) noexcept;  // under mutex_

  const Args args_;
  Mark mark_;
  uint64_t last_seq_ = 0;
  std::atomic<bool> ranks_are_over_{false};
  std::atomic<bool> queue_is_over_{false};
  std::atomic<bool> has_failed_{false};  // failure_ is set
  mutable std::mutex mutex_;
  Failure failure_;                   // under mutex_
  KeptTensors kept_;                  // under mutex_ once the work is given out
  std::shared_ptr<DeviceHold> hold_;  // under mutex_ once the work is given out
};

}  // namespace bp::ccl

#endif
