// SPDX-License-Identifier: Apache-2.0
//
// The operations of one group that run by messages on this rank: collectives one after the other,
// in the order in which they were called; beside them, sends and recvs in that of each pair and
// direction. What arrives early waits here.
#ifndef BACKPLANE_CCL_GROUP_LANES_HPP
#define BACKPLANE_CCL_GROUP_LANES_HPP

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ccl/group/batch.hpp"
#include "ccl/group/messenger.hpp"
#include "ccl/watch/recorder.hpp"

namespace bp::ccl {

/// An operation that its ranks should have ended by now.
struct Overdue {
  Operation operation;
  uint64_t sequence = 0;
  std::chrono::nanoseconds timeout{0};
  std::vector<uint32_t> waits_for;
};

/// Payloads of operations that this rank has begun to send and to receive; what ranks tell each
/// other beside them is not counted. Read on any thread.
struct WireCounters {
  std::atomic<uint64_t> sent_messages{0};
  std::atomic<uint64_t> sent_bytes{0};
  std::atomic<uint64_t> received_messages{0};
  std::atomic<uint64_t> received_bytes{0};
};

/// Driven, but for submit().
class Lanes final : public Wire {
 public:
  struct Args {
    Messenger& messenger;
    Recorder& recorder;
    RankPlace place;
    std::vector<uint32_t> peers;     // the messenger's number of each rank
    std::vector<std::string> names;  // "rank 2 (npu:0)", for people
  };
  explicit Lanes(Args args);

  struct Entry {
    std::shared_ptr<Batch> batch;
    size_t item;
    HostItem& get() const { return batch->items()[item]; }
  };
  using Lane = std::list<Entry>;
  /// What a batch takes in the lanes, made before other ranks may see it: later there is no way
  /// back where memory is short. Any thread.
  static Lane prepare(const std::shared_ptr<Batch>& batch);
  /// Of this group's batches in the order of calls. Any thread. `is_driven`: the caller will drive
  /// at once.
  void submit(Lane* prepared, bool is_driven) noexcept;

  /// A collective whose caller drives until it is over, called while this was idle: it needs no
  /// batch, and comes before all that is submitted later. Its record has started, and its deadline
  /// stands.
  struct Direct {
    HostItem item;
    std::chrono::nanoseconds timeout{0};
    Failure failure;  // once it is over
    std::atomic<bool> is_over{false};
  };
  /// In the order of calls, as submit(). Any thread; the caller drives at once.
  void submit_direct(Direct* direct) noexcept { direct_.store(direct, std::memory_order_release); }

  /// `bytes`: of the payload itself, whatever the header says.
  void message_arrived(uint32_t rank, const Header& header, uint64_t bytes, uint64_t token);
  void rank_lost(uint32_t rank, const Status& why);

  /// Goes as far as it can, or to a failure. `*out_moved`: something happened.
  std::optional<Failure> advance(Clock::time_point now, bool* out_moved);
  /// False: overdue() would find none.
  bool may_be_overdue(Clock::time_point now) const {
    const Direct* const direct = direct_.load(std::memory_order_acquire);
    return (direct != nullptr && now >= direct->item.deadline) || !collectives_.empty() ||
           two_count_ > 0;
  }
  /// The oldest operation past its deadline.
  std::optional<Overdue> overdue(Clock::time_point now) const;
  /// When advance() is to be called at the latest, whatever arrives.
  Clock::time_point next_look(Clock::time_point now) const;
  /// All batches end by the failure, and no message uses their memory any more. Where copies do,
  /// their streams go on at a later call: until then this is not idle.
  void end_all(const Failure& failure);

  /// No operation is in progress. Any thread.
  bool is_idle() const {
    return open_count_.load(std::memory_order_acquire) == 0 &&
           direct_.load(std::memory_order_acquire) == nullptr;
  }
  /// How far the collectives are.
  uint64_t entered() const { return entered_; }
  uint64_t completed() const { return completed_; }
  /// The collective whose call is being compared; 0: none.
  uint64_t checking() const { return checking_; }
  std::string latest_operation() const { return latest_ ? describe(*latest_) : std::string(); }
  const WireCounters& wire() const { return wire_; }

  void send(uint32_t rank, const Header& header, const void* data, Transfer* transfer) override;
  const Arrival* front(const Queue& queue) override;
  void receive_front(const Queue& queue, void* into, Transfer* transfer) override;
  void cancel(Transfer* transfer) override;
  std::string rank_name(uint32_t rank) const override { return args_.names[rank]; }

 private:
  struct Rank {
    std::deque<Arrival> collectives;  // payloads that no run has taken
    std::deque<Arrival> sends;
    std::optional<Status> lost;
    Lane sends_to;  // operations with that rank
    Lane recvs_from;
  };
  std::deque<Arrival>& waiting_of(const Queue& queue);
  void take_submitted();
  Lane& lane_of(const Operation& operation);
  std::optional<Failure> advance_lane(Lane* lane, Clock::time_point now, bool* out_moved);
  std::optional<Failure> advance_item(HostItem& item, bool* out_done);
  std::optional<Failure> advance_direct(Clock::time_point now, bool* out_moved);
  void end_direct(const Failure& failure) noexcept;
  void enter(HostItem* item);
  std::optional<Failure> begin(Entry& entry, Clock::time_point now);
  Failure failure_of(const HostItem& item, const Status& status,
                     std::optional<uint32_t> culprit) const;
  std::optional<Failure> find_lost(const HostItem& item);
  Failure failure_of_lost(const HostItem& item, uint32_t rank, const char* relation) const;
  void note_ended(const HostItem& item, Clock::time_point now);
  const HostItem* collective_in_progress() const;
  bool disagrees(uint32_t rank) const;
  void look_who_disagrees();
  Failure failure_of_disagreement(uint32_t rank) const;
  void end_entry(Entry& entry, Clock::time_point now);
  template <class Visit>
  void for_each_lane(Visit visit) const;
  template <class Visit>
  void for_each_lane(Visit visit);

  const Args args_;
  std::mutex submit_mutex_;
  Lane submitted_;  // under submit_mutex_
  std::atomic<bool> has_submitted_{false};
  std::atomic<size_t> open_count_{0};  // batches that have not ended
  std::atomic<Direct*> direct_{nullptr};
  Lane collectives_;
  Lane ending_;  // of batches that have failed, and wait for copies
  std::vector<Rank> ranks_;
  uint32_t lost_count_ = 0;            // of ranks
  std::optional<uint32_t> dead_rank_;  // the first that did not leave in order
  uint32_t two_count_ = 0;             // sends and recvs in lanes
  uint64_t entered_ = 0;
  uint64_t completed_ = 0;
  uint64_t checking_ = 0;
  uint64_t taken_ = 0;          // the latest collective all of whose messages have been taken
  uint64_t arrival_count_ = 0;  // messages of collectives that no run has taken
  std::optional<uint32_t> disagreeing_rank_;  // the first that sent one which none will
  std::optional<Operation> latest_;           // collective that was entered
  WireCounters wire_;
};

}  // namespace bp::ccl

#endif
