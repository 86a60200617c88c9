// SPDX-License-Identifier: Apache-2.0
//
// At a deadline: asks all ranks how far they are, and says who is missing. A rank whose program
// skipped the operation answers all the same, since its messenger is driven; one that is stopped or
// gone does not, and that names it. Nobody is to blame for time in which this rank stood still.
#ifndef BACKPLANE_CCL_GROUP_INQUIRY_HPP
#define BACKPLANE_CCL_GROUP_INQUIRY_HPP

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ccl/group/control.hpp"
#include "ccl/group/lanes.hpp"

namespace bp::ccl {

class Inquiry {
 public:
  static constexpr auto kLongest = std::chrono::seconds(1);

  struct Args {
    Overdue overdue;
    RankPlace place;
    std::vector<std::string> names;          // of the ranks, for people
    Whereabouts own;                         // of this rank
    std::vector<std::string> groups_behind;  // whose work waits for this group's on its device
  };
  /// Asks all others.
  Inquiry(Args args, Control* control, Clock::time_point now);
  void answered(uint32_t rank, const Whereabouts& whereabouts);
  void lost(uint32_t rank);
  /// Looks whether all have answered, or the time is over.
  bool is_over(Clock::time_point now);
  /// When it is to be looked at next.
  Clock::time_point next_look() const { return std::min(end_, looked_ + kLook); }
  /// Once it is over; `state_of` is asked about those that have not answered. Of ranks that called
  /// something else: INVALID_ARGUMENT with both sides. Else TIMEOUT.
  Failure failure(const std::function<PeerState(uint32_t rank)>& state_of);

 private:
  static constexpr auto kLook = std::chrono::milliseconds(50);
  static constexpr auto kMostStill = std::chrono::seconds(4);
  /// kUnheard: none, and a process of its host is stopped, behind whose message its own may be.
  enum class Answer : uint8_t { kNone, kHere, kLost, kStopped, kUnheard };
  struct Rank {
    Answer answer = Answer::kNone;
    Whereabouts whereabouts;
  };
  /// The first collective that ranks are still in. No rank is counted where one may be through with
  /// it before all have brought what is theirs.
  struct Unfinished {
    uint64_t sequence;
    std::vector<uint32_t> ahead;  // ranks that say that they have completed it, or a later one
    size_t open_count;            // ranks that are in it
  };
  /// In an earlier operation, which waits for others as this one does: no culprit.
  bool is_held_up(uint32_t rank) const;
  /// What is wrong with the rank; empty: nothing.
  std::string explain(uint32_t rank) const;
  std::string explain_all_here() const;
  Unfinished find_unfinished() const;
  Failure find_disagreement() const;
  Failure find_late() const;

  const Args args_;
  Clock::time_point end_;
  const Clock::time_point latest_end_;
  Clock::time_point looked_;
  std::vector<Rank> ranks_;
};

}  // namespace bp::ccl

#endif
