// SPDX-License-Identifier: Apache-2.0
//
// The cases that there are, the same on every machine and in every process.
#ifndef BACKPLANE_TESTS_CCL_CASE_TABLE_HPP
#define BACKPLANE_TESTS_CCL_CASE_TABLE_HPP

#include <string>
#include <vector>

#include "tests/ccl/case.hpp"

namespace bp::ccl::cases {

inline constexpr uint64_t kSeed = 13;

/// Every pair of {kind and schedule, dtype, reduction, in place, count, ranks, root, values}, and
/// what each of them rules out.
std::vector<Case> schedule_cases();
/// Every kind, dtype and root for a group of this size, schedules as the group chooses.
std::vector<Case> mixed_cases(uint32_t rank_count);

/// Forced schedules: with one variant each kind has one algorithm. Of its kind's algorithms the
/// case's is the one with this number.
uint32_t variant_of(const Case& c);
uint32_t variant_count();
/// BACKPLANE_CCL_ALGORITHM of a variant.
std::string rules_of_variant(uint32_t variant);

}  // namespace bp::ccl::cases

#endif
