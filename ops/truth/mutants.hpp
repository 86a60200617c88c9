// SPDX-License-Identifier: Apache-2.0
//
// Expressions that are wrong in one place, to find out whether a comparison would notice.
#ifndef BACKPLANE_OPS_TRUTH_MUTANTS_HPP
#define BACKPLANE_OPS_TRUTH_MUTANTS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "ops/expr/rows.hpp"

namespace bp::truth {

/// One text of a row, replaced.
struct Mutant {
  std::string op = {};
  expr::Class kind = expr::Class::kNone;
  std::string part = {};      // "definition"; of a reduction "map", "start", "combine", "finish"
  std::string original = {};  // the text that it replaces, without needless parentheses
  std::string text = {};
};

/// At most `each` mutants of every text of every row, chosen by `seed`: an operator or a function
/// exchanged, a constant changed, a comparison turned, arms or operands exchanged, an operand left
/// out. All of them parse and have the row's types, and no two of a text are alike. The same list
/// everywhere.
std::vector<Mutant> all_mutants(uint64_t seed, size_t each);

/// A row with that text in place of its own. The spans lead into the object and the mutant.
struct MutatedRow {
  explicit MutatedRow(const expr::Row& row, const Mutant& mutant);
  expr::Form form;
  expr::Row row;
};
struct MutatedReduction {
  explicit MutatedReduction(const expr::ReductionRow& row, const Mutant& mutant);
  expr::ReductionForm form;
  expr::ReductionRow row;
};

}  // namespace bp::truth

#endif
