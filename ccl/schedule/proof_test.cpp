// SPDX-License-Identifier: Apache-2.0
//
// The proof of every algorithm for groups of 1 to 130 ranks: up to 40 ranks of every root, count
// and way to work in place, above of what Sweep::kThinned has. What is left out proof_full_test.cpp
// proves.
#include <gtest/gtest.h>

#include "ccl/schedule/proof_report_test.hpp"

namespace bp::ccl::symbolic {
namespace {

class SizeProof : public testing::TestWithParam<Kind> {};

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return std::string(kind_info(info.param).name);
}

TEST_P(SizeProof, UpTo40Ranks_EveryRootAndCount_IsRight) {
  const Proof proof = prove_and_note(GetParam(), rank_counts(1, 40), Sweep::kAll);
  EXPECT_EQ(proof.problem, "");
  EXPECT_GT(proof.cases, 0u);
}

TEST_P(SizeProof, UpTo130Ranks_EveryRootOrEveryCount_IsRight) {
  const Proof proof = prove_and_note(GetParam(), rank_counts(41, 130), Sweep::kThinned);
  EXPECT_EQ(proof.problem, "");
  EXPECT_GT(proof.cases, 0u);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, SizeProof, testing::ValuesIn(kinds_of_groups()), kind_name);

// Edited on purpose: an algorithm, or a case, that comes or goes is seen.
[[maybe_unused]] const bool kIsReported =
    (report_proofs(BP_REPORTS_DIR, "ccl_schedules", 25 * 130, 247'966), true);

}  // namespace
}  // namespace bp::ccl::symbolic
