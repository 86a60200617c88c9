// SPDX-License-Identifier: Apache-2.0
//
// See seat.hpp.
#include "collective/seat.hpp"

#include <new>
#include <string>
#include <utility>

namespace bp::npu {

void Seat::come(bool joins) {
  const std::scoped_lock lock(mutex_);
  is_liar_ = !joins;
  join();
}

void Seat::join() {
  auto meeting = Meeting::find(id_, place_.rank_count);
  if (meeting == nullptr) return;
  if (!is_liar_ && !meeting->join(place_.rank, this_process())) {
    refuse("comm_init: rank ", place_.rank, " is taken");
  }
  meeting_ = std::move(meeting);
}

RankState Seat::state() {
  const std::scoped_lock lock(mutex_);
  if (meeting_ == nullptr && own_.failure.status == BP_OK) {
    try {
      join();
    } catch (const Failure& why) {
      fail_for(why.status, 0, [&] { return why.message; });
    }
  }
  if (meeting_ != nullptr) adopt_disagreement();
  RankState now = own_;
  now.is_ready = meeting_ != nullptr && (is_liar_ || meeting_->is_complete());
  return now;
}

void Seat::check() {
  const std::scoped_lock lock(mutex_);
  if (own_.failure.status != BP_OK) throw StreamFailure(own_.failure);
}

template <class Words>
void Seat::fail_for(bp_status status, uint32_t culprit, Words words) noexcept {
  if (own_.failure.status != BP_OK) return;
  own_.failure.status = status;
  own_.culprit = culprit;
  try {
    own_.failure.message = words();
  } catch (const std::bad_alloc&) {
  }
  if (meeting_ != nullptr) meeting_->ring();
}

void Seat::abort() noexcept {
  const std::scoped_lock lock(mutex_);
  fail_for(BP_CANCELLED, 0, [this] {
    return "the communicator of rank " + std::to_string(place_.rank) + " was aborted";
  });
}

void Seat::fail(bp_status status, std::string_view words) noexcept {
  const std::scoped_lock lock(mutex_);
  fail_for(status, 0, [words] { return std::string(words); });
}

void Seat::leave(bp_status status, std::string_view words) noexcept {
  const std::scoped_lock lock(mutex_);
  fail_for(status, 0, [words] { return std::string(words); });
  if (meeting_ != nullptr && !is_liar_) meeting_->leave(place_.rank);
}

void Seat::disagree(const Disagreement& found) noexcept {
  const std::scoped_lock lock(mutex_);
  meeting_->tell(place_.rank, found);
  adopt_disagreement();
}

void Seat::look_for_disagreement() noexcept {
  const std::scoped_lock lock(mutex_);
  adopt_disagreement();
}

void Seat::adopt_disagreement() noexcept {
  const auto found = meeting_->disagreement();
  if (!found.has_value()) return;
  fail_for(BP_INVALID_ARGUMENT, found->second + 1, [&] {
    return "the ranks disagree: rank " + std::to_string(found->first) + " has " +
           describe(found->of_first) + "; rank " + std::to_string(found->second) + " has " +
           describe(found->of_second);
  });
}

void Seat::miss(uint32_t other, bool is_dead) noexcept {
  const std::scoped_lock lock(mutex_);
  fail_for(BP_UNAVAILABLE, other + 1, [&] {
    return is_dead ? "the process of rank " + std::to_string(other) + " has died"
                   : "rank " + std::to_string(other) + " has left the group";
  });
}

void Seat::withhold(uint64_t number) {
  const std::scoped_lock lock(mutex_);
  own_.withheld_number = number;
}

}  // namespace bp::npu
