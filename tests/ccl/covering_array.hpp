// SPDX-License-Identifier: Apache-2.0
//
// Rows of parameter values in which every pair of values that may meet does meet, so that a few
// hundred cases stand for a million.
#ifndef BACKPLANE_TESTS_CCL_COVERING_ARRAY_HPP
#define BACKPLANE_TESTS_CCL_COVERING_ARRAY_HPP

#include <cstdint>
#include <functional>
#include <vector>

namespace bp::ccl::cases {

/// A value of each factor, by number.
using Row = std::vector<uint32_t>;

struct Pair {
  uint32_t first_factor = 0;  // below second_factor
  uint32_t first = 0;
  uint32_t second_factor = 0;
  uint32_t second = 0;
};

struct Space {
  std::vector<uint32_t> sizes;  // values of each factor
  /// Whether both values may stand in one row.
  std::function<bool(const Pair&)> allows;
};

/// Numbers that are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ull); }
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(next() % end); }
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }

 private:
  uint64_t state_;
};

/// Throws std::logic_error where a pair that is allowed fits into no row.
std::vector<Row> covering_array(const Space& space, uint64_t seed);
/// Every pair, in order; those that the space does not allow.
std::vector<Pair> forbidden_pairs(const Space& space);
/// Allowed pairs that are in no row, and rows with one that is not allowed.
uint64_t count_faults(const Space& space, const std::vector<Row>& rows);

}  // namespace bp::ccl::cases

#endif
