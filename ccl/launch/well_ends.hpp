// SPDX-License-Identifier: Apache-2.0
//
// Ranks that ended with exit code 0 while others go on. That is no failure, and may be meant; but
// where it is not, the others wait for them, and nothing else says why.
#ifndef BACKPLANE_CCL_LAUNCH_WELL_ENDS_HPP
#define BACKPLANE_CCL_LAUNCH_WELL_ENDS_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace bp::ccl {

/// Of one run on one node. A job whose ranks end one soon after the other is not told of.
class WellEnds {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kToldAfter{5};

  void note(uint32_t rank, TimePoint now);
  /// When there is something to tell; max(): never.
  TimePoint next() const { return next_; }
  /// "ranks 0, 1 ended with exit code 0; rank 2 still runs": all that were noted, once the first of
  /// them is old enough. `running`: the ranks here that go on. Where there are none, those of other
  /// nodes may; `has_other_nodes`.
  std::optional<std::string> take(TimePoint now, std::span<const uint32_t> running,
                                  bool has_other_nodes);

 private:
  std::vector<uint32_t> ranks_;  // that were not told
  TimePoint next_ = TimePoint::max();
};

}  // namespace bp::ccl

#endif
