// SPDX-License-Identifier: Apache-2.0
//
// The ranks that work on one phase of a schedule, numbered from 0 in an order that suits it.
#ifndef BACKPLANE_CCL_SCHEDULE_TEAM_HPP
#define BACKPLANE_CCL_SCHEDULE_TEAM_HPP

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "ccl/operation.hpp"

namespace bp::ccl {

/// Rounds in which one becomes `size` by doubling.
inline uint32_t doubling_rounds(uint32_t size) {
  return size < 2 ? 0 : static_cast<uint32_t>(std::bit_width(size - 1));
}

class Team {
 public:
  /// All ranks in their order.
  explicit Team(RankPlace place) : Team(place, 0) {}
  /// All ranks in their order, round about from `root`, which is member 0.
  Team(RankPlace place, uint32_t root)
      : self_((place.rank + place.rank_count - root) % place.rank_count),
        size_(place.rank_count),
        group_size_(place.rank_count),
        shift_(root) {}
  /// These ranks, of which this one is number `self`.
  Team(std::vector<uint32_t> ranks, uint32_t self)
      : self_(self), size_(static_cast<uint32_t>(ranks.size())), ranks_(std::move(ranks)) {}

  uint32_t self() const { return self_; }
  uint32_t size() const { return size_; }
  uint32_t rank(uint32_t member) const {
    member = member < rest_ ? 2 * member : member + rest_;
    return ranks_.empty() ? (member + shift_) % group_size_ : ranks_[member];
  }

  /// Of the first members every second one leaves, so that a power of two is left. What the one
  /// that leaves has goes to the one before it first.
  bool leaves_fold() const { return self_ < 2 * fold_rest() && self_ % 2 == 1; }
  bool takes_at_fold() const { return self_ < 2 * fold_rest() && self_ % 2 == 0; }
  /// How many leave.
  uint32_t fold_rest() const { return size_ - std::bit_floor(size_); }
  /// Who is left. To a member that leaves its own number there means nothing.
  Team folded() const {
    Team team = *this;
    team.rest_ = fold_rest();
    team.size_ = std::bit_floor(size_);
    team.self_ = self_ < 2 * team.rest_ ? self_ / 2 : self_ - team.rest_;
    return team;
  }

 private:
  uint32_t self_ = 0;
  uint32_t size_ = 1;
  uint32_t rest_ = 0;  // of who is left after a fold: how many left
  uint32_t group_size_ = 1;
  uint32_t shift_ = 0;
  std::vector<uint32_t> ranks_;
};

}  // namespace bp::ccl

#endif
