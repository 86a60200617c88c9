// SPDX-License-Identifier: Apache-2.0
//
// The sum of neighbouring elements.
#ifndef BACKPLANE_PLUGINS_CPU_ROW_SUM_HPP
#define BACKPLANE_PLUGINS_CPU_ROW_SUM_HPP

#include <cstdint>

#include "element.hpp"

namespace bp::cpu {

/// In f32 for half types. Several partial sums, which the compiler keeps in vectors and which are
/// also nearer to the exact sum than one.
template <class T>
Compute<T> row_sum(const T* values, int64_t count) {
  constexpr int64_t kLanes = 32;
  using C = Compute<T>;
  C total{0};
  int64_t i = 0;
  if (count >= kLanes) {
    C sums[kLanes] = {};
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += load(values[i + lane]);
    }
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    total = sums[0];
  }
  for (; i < count; ++i) total += load(values[i]);
  return total;
}

}  // namespace bp::cpu

#endif
