// SPDX-License-Identifier: Apache-2.0
//
// How builders write a schedule: steps of the round that is being written, in any order, and
// scratch as they need it.
#ifndef BACKPLANE_CCL_SCHEDULE_WRITER_HPP
#define BACKPLANE_CCL_SCHEDULE_WRITER_HPP

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "ccl/schedule/block_layout.hpp"
#include "ccl/schedule/schedule.hpp"

namespace bp::ccl {

/// The first elements of a buffer.
inline Part send_part(uint64_t count) { return {Buffer::kSend, 0, count}; }
inline Part recv_part(uint64_t count) { return {Buffer::kRecv, 0, count}; }
/// Some of the elements of a part.
inline Part sub_part(const Part& part, uint64_t offset, uint64_t count) {
  assert(offset + count <= part.count);
  return {part.buffer, part.first + offset, count};
}

/// The first operand of a combination that a received value goes into.
enum class First : uint8_t { kOwn, kReceived };

/// Steps of no elements are left out, but for messages that are wanted all the same. All ranks of a
/// group end as many rounds, with messages in them or without, so that the two ends of a message
/// are in the same round.
class Writer {
 public:
  void send(uint32_t peer, const Part& from, bool is_wanted_empty = false) {
    if (from.count > 0 || is_wanted_empty)
      messages_.push_back({StepKind::kSend, round_, peer, false, from, {}});
  }
  void recv(uint32_t peer, const Part& to, bool is_wanted_empty = false) {
    if (to.count > 0 || is_wanted_empty)
      messages_.push_back({StepKind::kRecv, round_, peer, false, {}, to});
  }
  void reduce(const Part& to, const Part& from, bool is_from_first) {
    assert(to.count == from.count);
    if (to.count > 0) locals_.push_back({StepKind::kReduce, round_, 0, is_from_first, from, to});
  }
  /// A copy that continues the one written before becomes one with it.
  void copy(const Part& to, const Part& from);
  void end_round() { end_rounds(1); }
  void end_rounds(uint32_t count);

  /// Scratch that is used for one thing.
  Part scratch(uint64_t count) {
    assert(landing_count_ == 0);
    const Part part{Buffer::kScratch, scratch_count_, count};
    scratch_count_ += count;
    return part;
  }
  /// Scratch whose content lasts until the round ends: each call answers the same place. Asked for
  /// when all other scratch has been.
  Part landing(uint64_t count) {
    landing_count_ = std::max(landing_count_, count);
    return {Buffer::kScratch, scratch_count_, count};
  }

  Schedule finish();

 private:
  uint32_t round_ = 0;
  std::vector<Step> messages_;  // of this round, behind those of the rounds before
  std::vector<Step> locals_;    // of this round
  uint64_t scratch_count_ = 0;
  uint64_t landing_count_ = 0;
};

/// Blocks in a buffer that holds a stretch of their elements, from the element `origin`.
struct Places {
  Buffer buffer = Buffer::kRecv;
  uint64_t first = 0;
  uint64_t origin = 0;
  const BlockLayout* layout = nullptr;

  Part block(uint32_t index) const {
    return {buffer, first + layout->first(index) - origin, layout->count(index)};
  }
  /// Blocks that lie one behind the other, up to but without `end`.
  Part range(uint32_t begin, uint32_t end) const {
    const uint64_t begin_at = layout->first(begin);
    const uint64_t end_at = layout->first(end - 1) + layout->count(end - 1);
    return {buffer, first + begin_at - origin, end_at - begin_at};
  }
};

/// Values that a rank has a part in, and the sums that are made of them.
struct Values {
  Part own;  // what this rank puts in
  Part sum;  // where sums are made: as many elements, or those from sum_origin
  uint64_t sum_origin = 0;
  bool is_same = false;  // what this rank puts in is what `sum` holds

  Part sum_part(const Block& elements) const {
    return sub_part(sum, elements.first - sum_origin, elements.count);
  }
  Part own_part(const Block& elements) const {
    return is_same ? sum_part(elements) : sub_part(own, elements.first, elements.count);
  }
  Block all() const { return {sum_origin, sum.count}; }
};

/// Receives what `peer` has of some elements and combines it with this rank's own, in the place for
/// sums. Where that place is free it takes the message; where it holds the own values, a landing
/// place does.
void receive_sum(Writer* writer, uint32_t peer, const Values& values, const Block& elements,
                 First first);

}  // namespace bp::ccl

#endif
