// SPDX-License-Identifier: Apache-2.0
//
// What proof_test.cpp leaves out, as far as Sweep::kMost goes, and groups of a thousand ranks.
#include <gtest/gtest.h>

#include "ccl/schedule/proof_report_test.hpp"

namespace bp::ccl::symbolic {
namespace {

class FullProof : public testing::TestWithParam<Kind> {};

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return std::string(kind_info(info.param).name);
}

TEST_P(FullProof, UpTo130Ranks_EveryRootAndCount_IsRight) {
  const Proof proof = prove_and_note(GetParam(), rank_counts(41, 130), Sweep::kMost);
  EXPECT_EQ(proof.problem, "");
  EXPECT_GT(proof.cases, 0u);
}

TEST_P(FullProof, ThousandRanks_EveryRootOrEveryCount_IsRight) {
  const Proof proof = prove_and_note(GetParam(), {1000, 1023, 1024}, Sweep::kThinnest);
  EXPECT_EQ(proof.problem, "");
  EXPECT_GT(proof.cases, 0u);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, FullProof, testing::ValuesIn(kinds_of_groups()), kind_name);

// Edited on purpose: an algorithm, or a case, that comes or goes is seen.
[[maybe_unused]] const bool kIsReported =
    (report_proofs(BP_REPORTS_DIR, "ccl_schedules_full", 25 * 93, 434'778), true);

}  // namespace
}  // namespace bp::ccl::symbolic
