// SPDX-License-Identifier: Apache-2.0
//
// One case of the proof: all schedules of a group are built, run, and held against what the kind
// promises and what the formula says.
#ifndef BACKPLANE_CCL_SCHEDULE_SYMBOLIC_CASE_TEST_HPP
#define BACKPLANE_CCL_SCHEDULE_SYMBOLIC_CASE_TEST_HPP

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ccl/schedule/build.hpp"
#include "ccl/schedule/symbolic_run_test.hpp"

namespace bp::ccl::symbolic {

/// Which ranks work in place.
enum class InPlace : uint8_t { kNone, kAll, kOdd };

struct Case {
  const Algorithm* algorithm = nullptr;
  uint32_t rank_count = 1;
  uint32_t root = 0;
  uint64_t count = 0;
  InPlace in_place = InPlace::kNone;
  std::vector<uint32_t> hosts = {};
  /// Blocks of different sizes. Of all_to_all, block `b` of rank r's send buffer is
  /// send_blocks[r]'s; otherwise one layout for all.
  std::vector<BlockLayout> blocks = {};
  std::vector<BlockLayout> send_blocks = {};
};

std::string describe(const Case& c);

/// For groups of one size.
class Prover {
 public:
  explicit Prover(uint32_t rank_count) : expressions_(rank_count), run_(&expressions_) {}

  /// The schedules of all ranks. A schedule that cannot be built is a problem.
  std::string build_all(const Case& c);
  /// What build_all() made, to be broken.
  std::vector<Rank>& ranks() { return ranks_; }
  /// Runs them. Empty: all is as it should be.
  std::string problem_of_run(const Case& c);
  /// Both, with the case in front.
  std::string problem_of(const Case& c);

 private:
  std::string problem_of_results(const Case& c);
  std::string problem_of_sums(const Case& c, const std::vector<Run>& found, const Block& elements);

  Expressions expressions_;
  SymbolicRun run_;
  std::vector<Rank> ranks_;
};

}  // namespace bp::ccl::symbolic

#endif
