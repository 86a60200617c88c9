// SPDX-License-Identifier: Apache-2.0
//
// The processor time of the calling thread, for what is over in one go: other programs take none of
// it.
#ifndef BACKPLANE_TESTS_PERF_THREAD_CLOCK_HPP
#define BACKPLANE_TESTS_PERF_THREAD_CLOCK_HPP

#include <ctime>

namespace perf {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace perf

#endif
