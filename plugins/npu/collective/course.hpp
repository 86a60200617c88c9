// SPDX-License-Identifier: Apache-2.0
//
// An operation on its way: piece by piece this rank puts what it sends into its lane, and reads
// what others have put into theirs.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_COURSE_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_COURSE_HPP

#include <array>
#include <cstdint>
#include <optional>

#include "collective/seat.hpp"

namespace bp::npu {

/// One thread at a time. The seat outlives it.
class Course {
 public:
  /// `number`: among the collectives of the group, or the sends or recvs with that peer.
  Course(Seat& seat, const Operation& operation, uint64_t number, Mismatch mismatch);

  /// Goes on as far as other ranks have come. False: it waits for one. Where ranks disagree the
  /// seat fails.
  bool advance();
  /// Takes back what nobody may have read yet: the rank has failed, and ranks that come later wait.
  void withdraw() noexcept;
  bool is_over() const { return step_ == step_count_; }
  /// Whether `rank` keeps it waiting.
  bool waits_for(uint32_t rank) const;

 private:
  using End = std::atomic<uint64_t> Lane::*;
  struct Wait {
    End end;
    uint64_t position;
  };
  Wait next_wait() const;
  bool have_come_to(const Wait& wait) const;
  Piece piece() const;
  void put();
  /// False: they do not, and what becomes of that has happened.
  bool ranks_agree();
  std::optional<Disagreement> find_disagreement() const;
  void read();
  void end_step();

  Seat& seat_;
  const Operation operation_;
  const OperationWords words_;
  const bool puts_;
  const bool reads_;
  const Lanes lanes_;
  const size_t own_lane_;
  const uint64_t first_;  // position of step 0
  const uint64_t byte_count_;
  const uint64_t step_count_;
  uint64_t step_ = 0;
  bool has_put_ = false;
  bool is_stuck_ = false;          // Mismatch::kHangs
  bool receives_nothing_ = false;  // Mismatch::kPasses
};

}  // namespace bp::npu

#endif
