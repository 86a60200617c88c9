// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm an operation is run with: what the user wishes, or else the cheapest by the
// model. All ranks choose alike if they have the same model and the same wishes.
#ifndef BACKPLANE_CCL_SCHEDULE_SELECT_HPP
#define BACKPLANE_CCL_SCHEDULE_SELECT_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/operation.hpp"
#include "ccl/schedule/build.hpp"
#include "ccl/schedule/cost.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// One wish: this algorithm for operations of these sizes. A size is that of the larger buffer of a
/// rank: of all_gather, the bytes of all blocks together.
struct AlgorithmRule {
  const Algorithm* algorithm = nullptr;
  uint64_t least_bytes = 0;
  uint64_t most_bytes = UINT64_MAX;  // the last one that the rule is for
};

/// Wishes as text, that of the option BACKPLANE_CCL_ALGORITHM:
///
///   all_reduce:0-8K=recursive_doubling;8K-1M=rabenseifner;1M-=ring,broadcast:binomial
///
/// For each kind, `,` between them: a name, `:`, and rules with `;` between them. A rule is an
/// algorithm for all sizes, or FIRST-END=ALGORITHM for sizes from FIRST up to, and without, END.
/// Without END it has no upper end. Sizes are bytes, or KiB, MiB and GiB with K, M and G. Ranges of
/// one kind do not overlap; sizes that no rule is for are left to the model.
class AlgorithmRules {
 public:
  /// Empty text: no rules. Errors: INVALID_ARGUMENT naming what was expected and found.
  static Result<AlgorithmRules> parse(std::string_view text);

  /// Null: there is none.
  const Algorithm* find(Kind kind, uint64_t bytes) const;

 private:
  std::vector<AlgorithmRule> rules_;
};

struct ChooseArgs {
  /// Where blocks differ in size `count` is what one has on average, rounded up.
  Operation operation;
  uint32_t rank_count = 1;
  bool has_blocks = false;               // of different sizes
  std::span<const uint32_t> hosts = {};  // as in BuildArgs
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  /// What a rule names, and cannot be had: it needs what the group or the operation has not.
  const Algorithm* unfit_wish = nullptr;
  double estimated_ns = 0;
};

/// A deterministic operation gets an algorithm in rank order, whatever the rules say.
Choice choose(const ChooseArgs& args, const CostModel& model, const AlgorithmRules& rules);

}  // namespace bp::ccl

#endif
