// SPDX-License-Identifier: Apache-2.0
//
// One rank of a group on one device: what bp_comm points to.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_COMMUNICATOR_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_COMMUNICATOR_HPP

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "collective/seat.hpp"

namespace bp::npu {

/// What makes operations of several ranks meet.
class OperationNumbers {
 public:
  /// The number of the next operation; `sequence` goes on where it is a collective.
  uint64_t next(const bp_collective_op& what, uint64_t* sequence) {
    if (is_between_two(what.kind)) return ++between_two_[{what.kind, what.peer}];
    return last_collective_ = (*sequence)++;
  }
  uint64_t last_collective() const { return last_collective_; }

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> between_two_;  // by SEND or RECV, and peer
  uint64_t last_collective_ = 0;
};

/// Object-exclusive, but for what only asks.
class Communicator {
 public:
  Communicator(Device& device, std::shared_ptr<Seat> seat)
      : device_(device), seat_(std::move(seat)) {}

  Device& device() const { return device_; }
  const sdk::Host& host() const { return device_.host(); }
  Seat& seat() const { return *seat_; }
  std::shared_ptr<Seat> shared_seat() const { return seat_; }
  RankPlace place() const { return seat_->place(); }
  RankState state() const { return seat_->state(); }

  /// Those of the operations enqueued so far.
  const OperationNumbers& numbers() const { return numbers_; }
  void set_numbers(OperationNumbers numbers) noexcept {
    numbers_ = std::move(numbers);
    enqueued_sequence_ = numbers_.last_collective();
  }
  uint64_t enqueued_sequence() const { return enqueued_sequence_; }

  /// Batches that are enqueued and not over; batches keep it.
  const std::shared_ptr<std::atomic<int>>& pending_count() const { return pending_count_; }

 private:
  Device& device_;
  const std::shared_ptr<Seat> seat_;
  std::atomic<uint64_t> enqueued_sequence_ = 0;
  OperationNumbers numbers_;
  const std::shared_ptr<std::atomic<int>> pending_count_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace bp::npu

namespace bp::npu {
/// The collective table of the plugin.
extern const bp_collective_api kCollectiveApi;
}  // namespace bp::npu

// The ABI's opaque type: what the core's pointers point to.
struct bp_comm final : bp::npu::Communicator {
  using Communicator::Communicator;
};

#endif
