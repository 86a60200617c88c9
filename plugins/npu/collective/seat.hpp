// SPDX-License-Identifier: Apache-2.0
//
// One rank's place in a meeting, as its own process knows it: how the rank fares.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_SEAT_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_SEAT_HPP

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "collective/meeting.hpp"
#include "queue.hpp"

namespace bp::npu {

/// How a rank fares.
struct RankState {
  bool is_ready = false;
  uint64_t withheld_number = 0;  // of the collective that never comes; 0: none
  StreamFailure failure;
  uint32_t culprit = 0;  // 1 + a rank
};

/// Any-thread. A rank fails once, and stays failed by its first failure.
class Seat {
 public:
  Seat(const GroupId& id, RankPlace place) : id_(id), place_(place) {}

  const GroupId& id() const { return id_; }
  RankPlace place() const { return place_; }
  /// Joins, or is to join when the group's memory is there. Throws Failure.
  void come(bool joins);
  /// Joins, if the memory is there by now.
  RankState state();
  /// Throws StreamFailure where the rank has failed.
  void check();
  /// Once the rank was ready.
  Meeting& meeting() const { return *meeting_; }

  /// Fails this rank, and tells no other.
  void abort() noexcept;
  void fail(bp_status status, std::string_view words) noexcept;
  /// The rank is gone, and fails with these words. Operations of others that take it fail.
  void leave(bp_status status, std::string_view words) noexcept;
  /// Fails all ranks, each when it looks.
  void disagree(const Disagreement& found) noexcept;
  /// `other` is gone, and an operation takes it.
  void miss(uint32_t other, bool is_dead) noexcept;
  /// Fails where another rank has found that two disagree.
  void look_for_disagreement() noexcept;
  void withhold(uint64_t number);

 private:
  // With the lock.
  void join();
  void adopt_disagreement() noexcept;
  /// `words()` makes the message. Where memory is short the status has to tell.
  template <class Words>
  void fail_for(bp_status status, uint32_t culprit, Words words) noexcept;

  const GroupId id_;
  const RankPlace place_;
  std::mutex mutex_;
  std::unique_ptr<Meeting> meeting_;  // made once, under mutex_
  bool is_liar_ = false;              // never joins
  RankState own_;                     // but for is_ready
};

}  // namespace bp::npu

#endif
