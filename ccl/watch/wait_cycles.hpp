// SPDX-License-Identifier: Apache-2.0
//
// Ranks that wait for each other, over all groups of a job: each group by itself shows only that
// somebody has not come.
#ifndef BACKPLANE_CCL_WATCH_WAIT_CYCLES_HPP
#define BACKPLANE_CCL_WATCH_WAIT_CYCLES_HPP

#include <vector>

#include "ccl/watch/trace.hpp"

namespace bp::ccl {

struct Waiter {
  const RankDump* dump;
  const Record* record;  // what it is in
};
/// Of one operation of a group: who is in it, and who has not come.
struct Wait {
  std::vector<Waiter> waiters;
  std::vector<const RankDump*> awaited;
};

/// A finding for each cycle; no rank is in two of them.
std::vector<Finding> find_cycles(const std::vector<Wait>& waits);

}  // namespace bp::ccl

#endif
