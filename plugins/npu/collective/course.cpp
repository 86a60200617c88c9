// SPDX-License-Identifier: Apache-2.0
//
// See course.hpp. A rank puts a piece once all have read the one before, and reads once all have
// put theirs; so none is ahead of another by more than a piece, and each operation of all is a
// meeting of all. Of a send and its recv one end puts and the other reads.
#include "collective/course.hpp"

#include <algorithm>
#include <cstring>

namespace bp::npu {
namespace {

Lanes lanes_of(Meeting& meeting, const bp_collective_op& what, uint32_t rank) {
  if (what.kind == BP_COLLECTIVE_SEND) return meeting.lane_between(rank, what.peer);
  if (what.kind == BP_COLLECTIVE_RECV) return meeting.lane_between(what.peer, rank);
  return meeting.lanes_of_all();
}

uint64_t step_count_of(uint64_t byte_count, size_t room_bytes) {
  return byte_count == 0 ? 1 : (byte_count - 1) / room_bytes + 1;
}

/// The rank's next operation, on another stream's thread, may be further: once the other end of a
/// send has read all, the next send puts, whether this one has looked or not.
void bring_to(std::atomic<uint64_t>* end, uint64_t position) {
  uint64_t now = *end;
  while (now < position && !end->compare_exchange_weak(now, position)) continue;
}

}  // namespace

Course::Course(Seat& seat, const Operation& operation, uint64_t number, Mismatch mismatch)
    : seat_(seat),
      operation_(operation),
      words_(words_of(operation.what, mismatch)),
      puts_(operation.what.kind != BP_COLLECTIVE_RECV),
      reads_(operation.what.kind != BP_COLLECTIVE_SEND),
      lanes_(lanes_of(seat.meeting(), operation.what, seat.place().rank)),
      own_lane_(is_between_two(operation.what.kind) ? 0 : seat.place().rank),
      first_(position_of(number)),
      byte_count_(put_bytes(operation.what, seat.place().rank_count)),
      step_count_(step_count_of(byte_count_, lanes_.room_bytes)) {}

Course::Wait Course::next_wait() const {
  if (puts_ && !has_put_) return {&Lane::read_end, first_ + step_};
  return {reads_ ? &Lane::put_end : &Lane::read_end, first_ + step_ + 1};
}

bool Course::have_come_to(const Wait& wait) const {
  return std::all_of(lanes_.all.begin(), lanes_.all.end(),
                     [&](const Lane& lane) { return (lane.*wait.end) >= wait.position; });
}

bool Course::waits_for(uint32_t rank) const {
  if (is_over() || is_stuck_) return false;
  const Wait wait = next_wait();
  if (!is_between_two(operation_.what.kind)) return (lanes_.all[rank].*wait.end) < wait.position;
  return rank == operation_.what.peer && !have_come_to(wait);
}

bool Course::advance() {
  if (is_over() || is_stuck_ || !have_come_to(next_wait())) return false;
  if (puts_ && !has_put_) {
    put();
    return true;
  }
  if (reads_) {
    if (step_ == 0 && !ranks_agree()) return false;
    read();
  }
  end_step();
  return true;
}

Piece Course::piece() const {
  const uint64_t offset = step_ * lanes_.room_bytes;
  return {offset, std::min<uint64_t>(byte_count_ - offset, lanes_.room_bytes)};
}

void Course::put() {
  Lane& own = lanes_.all[own_lane_];
  if (step_ == 0) std::copy(words_.begin(), words_.end(), own.words.begin());
  const auto [offset, bytes] = piece();
  const bool has_bytes = operation_.send != nullptr && bytes > 0;
  if (has_bytes) std::memcpy(lanes_.room(own_lane_), operation_.send + offset, bytes);
  bring_to(&own.put_end, first_ + step_ + 1);
  has_put_ = true;
  seat_.meeting().ring();
}

void Course::withdraw() noexcept {
  if (is_over() || !has_put_) return;
  uint64_t own = first_ + step_ + 1;  // else the next operation has put, and all have read this
  lanes_.all[own_lane_].put_end.compare_exchange_strong(own, first_ + step_);
}

std::optional<Disagreement> Course::find_disagreement() const {
  const auto words_in = [this](size_t lane) {
    OperationWords words{};
    const auto& said = lanes_.all[lane].words;
    std::copy(said.begin(), said.end(), words.begin());
    return words;
  };
  const OperationWords first = words_in(0);
  const uint32_t rank = seat_.place().rank, peer = operation_.what.peer;
  if (is_between_two(operation_.what.kind)) {
    if (fit_together(first, words_)) return std::nullopt;
    if (peer <= rank) return Disagreement{peer, rank, first, words_};
    return Disagreement{rank, peer, words_, first};
  }
  for (uint32_t other = 1; other < lanes_.all.size(); ++other) {
    const OperationWords second = words_in(other);
    if (!fit_together(first, second)) return Disagreement{0, other, first, second};
  }
  return std::nullopt;
}

bool Course::ranks_agree() {
  const auto found = find_disagreement();
  if (!found.has_value()) return true;
  const Mismatch mismatch = mismatch_of(found->of_first);
  if (mismatch == Mismatch::kFails) seat_.disagree(*found);
  is_stuck_ = mismatch == Mismatch::kHangs;
  receives_nothing_ = mismatch == Mismatch::kPasses;
  return mismatch == Mismatch::kPasses;
}

void Course::read() {
  if (receives_nothing_) return;
  std::array<const std::byte*, kMostRanks> rooms{};
  for (size_t lane = 0; lane < lanes_.all.size(); ++lane) rooms[lane] = lanes_.room(lane);
  receive(operation_, seat_.place(), piece(), std::span(rooms.data(), lanes_.all.size()));
}

/// Behind the last step nothing of the operation is waited for, also by ranks that count otherwise.
void Course::end_step() {
  ++step_;
  has_put_ = false;
  Lane& own = lanes_.all[own_lane_];
  const uint64_t position = first_ + (is_over() ? kMostSteps : step_);
  if (puts_ && is_over()) bring_to(&own.put_end, position);
  if (reads_) bring_to(&own.read_end, position);
  seat_.meeting().ring();
}

}  // namespace bp::npu
