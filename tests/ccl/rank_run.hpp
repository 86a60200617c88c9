// SPDX-License-Identifier: Apache-2.0
//
// Runs cases as one rank of a group, be it a thread or a process, and judges what that rank sees.
#ifndef BACKPLANE_TESTS_CCL_RANK_RUN_HPP
#define BACKPLANE_TESTS_CCL_RANK_RUN_HPP

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "ccl/group/group.hpp"
#include "tests/ccl/oracle.hpp"

namespace bp::ccl::cases {

/// What one rank says of one case.
struct RankVerdict {
  uint32_t number = 0;  // of the case
  uint64_t digest = 0;  // of what it received
  bool is_refused = false;
  std::string problem = {};  // empty: all is right
};

void write(const std::vector<RankVerdict>& verdicts, std::ostream& out);
std::vector<RankVerdict> read_verdicts(std::istream& in);

struct RankRunArgs {
  ProcessGroup* group = nullptr;
  bool checks_wire = false;  // messages and bytes are those of the schedule
  Way way = Way::kMessages;  // by the counter of native operations, after each case
  /// Called in each case before the operation: when it returns, all ranks of a shared device have
  /// the memory that they want of it. What one allocates may wait for operations of the others.
  std::function<void()> await_others = [] {};
  std::string folder = {};  // where results are kept for others; empty: nowhere
};

/// A group that fails has nothing to say of later cases.
std::vector<RankVerdict> run_cases(const RankRunArgs& args, const std::vector<Case>& cases);

}  // namespace bp::ccl::cases

#endif
