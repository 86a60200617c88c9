// SPDX-License-Identifier: Apache-2.0
//
// Where the largest or smallest value of a lane is. Neighbouring lanes are worked on together;
// where the axis is the last one, a lane is cut into strands that count as neighbours, and the best
// of them is chosen at the end.
#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_BEST_HPP
#define BACKPLANE_PLUGINS_CPU_KERNELS_BEST_HPP

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "element.hpp"
#include "math/reduce_rows.hpp"

namespace bp::cpu {

inline constexpr int64_t kBestLanes = 32;

template <bool kLargest, class C>
bool before(C a, C b) {
  const bool wins = kLargest ? a > b : a < b;
  return wins || (a != a && b == b);
}

// Lanes [0, count) next to each other, each `length` values with `stride` between them.
template <bool kLargest, bool kLastOfEqual, class T>
void best_of_block(const T* x, int64_t length, int64_t stride, int64_t count, Compute<T>* best,
                   int64_t* places) {
  using C = Compute<T>;
  for (int64_t i = 0; i < count; ++i) {
    best[i] = load(x[i]);
    places[i] = 0;
  }
  for (int64_t k = 1; k < length; ++k) {
    const T* const row = x + k * stride;
    for (int64_t i = 0; i < count; ++i) {
      const C value = load(row[i]);
      const bool taken =
          kLastOfEqual ? !before<kLargest>(best[i], value) : before<kLargest>(value, best[i]);
      best[i] = taken ? value : best[i];
      places[i] = taken ? k : places[i];
    }
  }
}

// A lane of elements next to each other.
template <bool kLargest, bool kLastOfEqual, class T>
int64_t best_of_lane(const T* x, int64_t length) {
  if constexpr (kLargest && !kLastOfEqual && std::is_same_v<T, float>) {
    return first_of_row(x, length, largest_of_row(x, length));
  }
  using C = Compute<T>;
  const int64_t strands = std::min(length, kBestLanes);
  C best[kBestLanes];
  int64_t places[kBestLanes];
  best_of_block<kLargest, kLastOfEqual>(x, length / strands, strands, strands, best, places);
  C value = best[0];
  int64_t place = places[0] * strands;
  const auto challenge = [&](C other, int64_t at) {
    const bool equal = !before<kLargest>(other, value) && !before<kLargest>(value, other);
    const bool nearer = kLastOfEqual ? at > place : at < place;
    if (!before<kLargest>(other, value) && !(equal && nearer)) return;
    value = other;
    place = at;
  };
  for (int64_t i = 1; i < strands; ++i) challenge(best[i], places[i] * strands + i);
  for (int64_t k = length / strands * strands; k < length; ++k) challenge(load(x[k]), k);
  return place;
}

}  // namespace bp::cpu

#endif
