// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks in one process, and where their operations meet: whoever comes last moves the
// data of all. What ranks on real links learn from each other over wires they find here under one
// lock.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_GROUP_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_GROUP_HPP

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "collective/operation.hpp"
#include "device.hpp"
#include "queue.hpp"

namespace bp::npu {

/// What one stream waits with, whatever the number of groups that it waits for.
class Waiter {
 public:
  void wake();
  /// Until the next wake() since the last wait. False: a stop was asked for first.
  bool wait(const std::stop_token& stop);
  /// ... or this long.
  void wait_for(std::chrono::nanoseconds time, const std::stop_token& stop);

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_woken_ = false;
};

/// What a rank brings to the meetings of its group: operations, each with its number there.
struct Posting {
  uint32_t rank;
  std::vector<Operation> operations;
  std::vector<uint64_t> numbers;  // of collectives, or of a peer and direction; one an operation
  std::shared_ptr<Waiter> waiter;
  Mismatch mismatch = Mismatch::kFails;
  bool stays_away = false;         // its operations are in no meeting (CollectiveFault)
  std::byte* spoilt_in = nullptr;  // what is received and wrong afterwards
  // Under the group's lock.
  size_t open_count = 0;  // operations that have not met
  bool is_over = false;   // done, failed or withdrawn
};

/// How a rank fares.
struct RankState {
  bool is_ready = false;
  uint64_t withheld_number = 0;  // of the collective that never comes; 0: none
  StreamFailure failure;
  uint32_t culprit = 0;  // 1 + a rank
};

/// Any-thread.
class Group {
 public:
  explicit Group(uint32_t rank_count) : members_(rank_count) {}

  uint32_t rank_count() const { return static_cast<uint32_t>(members_.size()); }
  /// Throws Failure for a rank that is taken.
  void join(uint32_t rank);
  RankState state(uint32_t rank);
  /// Fails this rank, and tells no other.
  void abort(uint32_t rank) noexcept;
  /// The rank is gone, and fails with these words. Operations of others that take it fail.
  void leave(uint32_t rank, bp_status status, std::string_view words) noexcept;

  /// Brings the operations; wakes the posting's waiter when it is over.
  void post(Posting* posting);
  /// Takes out of the meetings what has not met; its rank fails by `why`.
  void withdraw(Posting* posting, const StreamFailure& why) noexcept;
  /// Throws StreamFailure of a posting that failed. False: not over yet.
  bool is_over(const Posting& posting);

 private:
  struct Member {
    bool has_joined = false;
    bool has_left = false;
    uint64_t withheld_number = 0;
    StreamFailure failure;
    uint32_t culprit = 0;
    std::vector<Posting*> postings;
  };
  /// Whose operations meet: all ranks', or those from one rank to another; and the number.
  struct MeetingKey {
    uint32_t from;
    uint32_t to;
    uint64_t number;
    auto operator<=>(const MeetingKey&) const = default;
  };
  struct Arrival {
    uint32_t rank;
    const Operation* operation;
    Posting* posting;
  };
  using Meeting = std::vector<Arrival>;

  // All with the lock.
  MeetingKey key_of(const Posting& posting, size_t index) const;
  void arrive(Posting* posting, size_t index);
  void meet(const MeetingKey& key);
  bool agree(Meeting* meeting);
  void fail_all(const Arrival& first, const Arrival& other);
  void end_one(Posting* posting);
  void end(Posting* posting) noexcept;
  /// `words()` makes the message. Where memory is short the status has to tell.
  template <class Words>
  void fail_rank(uint32_t rank, bp_status status, uint32_t culprit, Words words) noexcept;
  void fail_for_one_that_left(uint32_t rank, uint32_t left) noexcept;
  bool waits_for(uint32_t rank, uint32_t other) const;

  std::mutex mutex_;
  std::vector<Member> members_;
  uint32_t joined_count_ = 0;
  std::map<MeetingKey, Meeting> meetings_;
};

/// A group's id, which no other group of any process has.
struct GroupId {
  std::array<uint64_t, 4> words;
  auto operator<=>(const GroupId&) const = default;
};

GroupId new_group_id();
/// The group of an id, made by whoever comes first. nullptr: the id is none of new_group_id()'s, or
/// another process's.
std::shared_ptr<Group> find_group(const GroupId& id, uint32_t rank_count);
/// Names what the NPUs of this process have in common, and no other process's.
std::string link_domain();

}  // namespace bp::npu

#endif
