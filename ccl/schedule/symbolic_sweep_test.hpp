// SPDX-License-Identifier: Apache-2.0
//
// The cases that are proved for a group of one size.
#ifndef BACKPLANE_CCL_SCHEDULE_SYMBOLIC_SWEEP_TEST_HPP
#define BACKPLANE_CCL_SCHEDULE_SYMBOLIC_SWEEP_TEST_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "ccl/schedule/symbolic_case_test.hpp"

namespace bp::ccl::symbolic {

/// Which of all roots, counts, ways to work in place and spreads over hosts. Squared are algorithms
/// with as many messages as ranks times ranks, which take long for each root. Ways and spreads that
/// are not all taken come by turns.
enum class Sweep : uint8_t {
  kAll,
  // Every root with every count, and half the spreads. Of squared ones every root with one count,
  // and four roots with every count.
  kMost,
  // Every root with one count, four roots with every count, and one spread. Of squared ones four
  // roots that share the counts.
  kThinned,
  // As kThinned. Of squared ones also every root with three elements, which so few ranks have parts
  // of that it is quick; without a root every second count.
  kThinnest,
};

/// Counts 0, 1, 3, p - 1, p, p + 1 and 1000.
std::vector<Case> cases_of(const Algorithm& algorithm, uint32_t rank_count, Sweep sweep);
/// The same with blocks of different sizes, empty ones and gaps among them; none for kinds and
/// algorithms without.
std::vector<Case> cases_with_blocks(const Algorithm& algorithm, uint32_t rank_count);

/// One algorithm for groups of one size.
struct ProvedRow {
  const Algorithm* algorithm = nullptr;
  uint32_t rank_count = 0;
  bool serves = false;     // it is for groups of this size
  bool is_proved = false;  // all its cases are right
  uint64_t cases = 0;      // that are
};

struct Proof {
  std::vector<ProvedRow> rows;
  uint64_t cases = 0;
  std::string problem;  // the first one of each algorithm; empty: all is right
};
/// Of every algorithm of the kind, for groups of these sizes.
Proof prove(Kind kind, const std::vector<uint32_t>& rank_counts, Sweep sweep);

/// All but send and recv.
std::vector<Kind> kinds_of_groups();
/// first, first + 1, ..., last.
std::vector<uint32_t> rank_counts(uint32_t first, uint32_t last);

}  // namespace bp::ccl::symbolic

#endif
