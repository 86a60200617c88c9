// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/well_ends.hpp"

#include <algorithm>
#include <utility>

#include "ccl/launch/number_list.hpp"

namespace bp::ccl {

void WellEnds::note(uint32_t rank, TimePoint now) {
  if (ranks_.empty()) next_ = now + kToldAfter;
  ranks_.push_back(rank);
}

std::optional<std::string> WellEnds::take(TimePoint now, std::span<const uint32_t> running,
                                          bool has_other_nodes) {
  if (now < next_) return std::nullopt;
  next_ = TimePoint::max();
  std::vector<uint32_t> ended = std::exchange(ranks_, {});
  if (running.empty() && !has_other_nodes) return std::nullopt;
  std::sort(ended.begin(), ended.end());
  return number_list("rank", ended) + " ended with exit code 0; " +
         (running.empty() ? "those of other nodes still run"
                          : number_list("rank", running) +
                                (running.size() == 1 ? " still runs" : " still run"));
}

}  // namespace bp::ccl
