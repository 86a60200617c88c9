// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks in one process: who has come, what each wants to do next, and what went wrong.
// What ranks on several hosts learn from each other over a network they find here under one lock.
#ifndef BACKPLANE_TESTS_SKETCHES_COLLECTIVE_MOCK_GROUP_HPP
#define BACKPLANE_TESTS_SKETCHES_COLLECTIVE_MOCK_GROUP_HPP

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "backplane/sketch/collective.h"
#include "queue.hpp"

namespace bp::sketch {

using Clock = std::chrono::steady_clock;

/// An operation with its memory found.
struct Operation {
  bp_collective what;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// What one rank brings to a meeting.
struct Arrival {
  uint64_t sequence = 0;
  const std::vector<Operation>* operations = nullptr;
};

class Group {
 public:
  explicit Group(uint32_t rank_count) : rank_count_(rank_count), joined_(rank_count) {}

  uint32_t rank_count() const { return rank_count_; }
  /// Throws Failure for a rank that is taken.
  void join(uint32_t rank, Clock::time_point deadline);
  /// What comm_poll tells; a rank that is missing at the deadline fails the group.
  npu::StreamFailure poll(bool* out_ready);
  void fail(bp_status status, const std::string& message);

  /// Comes back when every rank has arrived with operations that fit together and all data has
  /// been moved. Throws StreamFailure on all ranks alike.
  void meet(uint32_t rank, const Arrival& arrival, Clock::time_point deadline,
            const std::stop_token& stop);

 private:
  using Lock = std::unique_lock<std::mutex>;
  void fail_locked(bp_status status, const std::string& message);
  void throw_if_failed() const;
  std::string missing(const std::vector<bool>& there) const;
  std::string disagreement() const;
  void move_data() const;

  const uint32_t rank_count_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<bool> joined_;
  uint32_t joined_count_ = 0;
  Clock::time_point join_deadline_{};
  npu::StreamFailure failure_;
  // The meeting in progress.
  std::map<uint32_t, Arrival> arrivals_;  // by rank
  uint64_t meeting_ = 0;                  // those that are over
};

/// The group of an id, made by whoever comes first. nullptr: the id is none of uid_create's.
std::shared_ptr<Group> find_group(uint64_t id, uint32_t rank_count);
uint64_t new_group_id();

}  // namespace bp::sketch

#endif
