// SPDX-License-Identifier: Apache-2.0
//
// The proof itself: it refuses schedules that are broken on purpose, each with words, and passes
// those of small groups. Larger groups are in proof_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/schedule/symbolic_sweep_test.hpp"

namespace bp::ccl::symbolic {
namespace {

using testing::HasSubstr;

/// A group whose schedules are right until one is broken.
class Broken {
 public:
  Broken(Kind kind, std::string_view algorithm, uint32_t rank_count, uint64_t count,
         std::vector<uint32_t> hosts = {})
      : prover_(rank_count) {
    case_.algorithm = find_algorithm(kind, algorithm).value();
    case_.rank_count = rank_count;
    case_.count = count;
    case_.hosts = std::move(hosts);
    EXPECT_EQ(prover_.build_all(case_), "");
    EXPECT_EQ(prover_.problem_of_run(case_), "");
  }

  Case& asked() { return case_; }
  Schedule& schedule(uint32_t rank) { return prover_.ranks()[rank].schedule; }
  std::vector<Step>& steps(uint32_t rank) { return schedule(rank).steps; }
  /// The step of this kind that has `skipped` of them before it.
  size_t index_of(uint32_t rank, StepKind kind, uint32_t skipped = 0) {
    for (size_t i = 0; i < steps(rank).size(); ++i) {
      if (steps(rank)[i].kind == kind && skipped-- == 0) return i;
    }
    ADD_FAILURE() << "no such step";
    return 0;
  }
  Step& step(uint32_t rank, StepKind kind, uint32_t skipped = 0) {
    return steps(rank)[index_of(rank, kind, skipped)];
  }
  void remove(uint32_t rank, StepKind kind, uint32_t skipped = 0) {
    steps(rank).erase(steps(rank).begin() +
                      static_cast<std::ptrdiff_t>(index_of(rank, kind, skipped)));
  }
  void repeat(uint32_t rank, StepKind kind) {
    const size_t index = index_of(rank, kind);
    const Step step = steps(rank)[index];
    steps(rank).insert(steps(rank).begin() + static_cast<std::ptrdiff_t>(index), step);
  }
  std::string problem() { return prover_.problem_of_run(case_); }

 private:
  Case case_;
  Prover prover_;
};

TEST(SymbolicRun, MissingSend_IsADeadlockThatIsNamed) {
  Broken broken(Kind::kAllReduce, "ring", 4, 8);
  broken.remove(1, StepKind::kSend, 5);  // its last
  EXPECT_EQ(broken.problem(), "deadlock; rank 2 waits in round 5 for rank 1");
}

TEST(SymbolicRun, MissingRecv_IsADeadlockThatIsNamed) {
  Broken broken(Kind::kBroadcast, "binomial", 4, 8);
  broken.remove(3, StepKind::kRecv);
  EXPECT_EQ(broken.problem(), "deadlock; rank 2 waits in round 1 for rank 3 to receive");
}

TEST(SymbolicRun, BothReceiveBeforeTheySend_IsADeadlock) {
  Broken broken(Kind::kAllReduce, "recursive_doubling", 2, 8);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (Step& step : broken.steps(rank)) {
      if (step.kind != StepKind::kRecv) step.round = 1;
    }
    std::stable_sort(broken.steps(rank).begin(), broken.steps(rank).end(),
                     [](const Step& a, const Step& b) { return a.round < b.round; });
  }
  EXPECT_EQ(broken.problem(),
            "deadlock; rank 0 waits in round 0 for rank 1; rank 1 waits in round 0 for rank 0");
}

TEST(SymbolicRun, WrongOffset_IsRefused) {
  Broken reduced(Kind::kAllReduce, "rabenseifner", 4, 8);
  --reduced.step(2, StepKind::kSend).from.count;
  EXPECT_THAT(reduced.problem(), HasSubstr("has 3 elements, and 4 are received"));
  Broken shifted(Kind::kAllReduce, "ring", 4, 8);
  ++shifted.step(0, StepKind::kReduce).from.first;
  EXPECT_THAT(shifted.problem(), HasSubstr("is combined with element"));
  Broken moved(Kind::kAllToAll, "pairwise", 4, 2);
  --moved.step(2, StepKind::kSend).from.first;
  EXPECT_THAT(moved.problem(), HasSubstr("rank 3: has other elements than it should"));
  Broken outside(Kind::kAllToAll, "pairwise", 4, 2);
  outside.step(2, StepKind::kSend).from.first = 7;
  EXPECT_THAT(outside.problem(), HasSubstr("send[7, 9) is not in the buffer of 8"));
}

TEST(SymbolicRun, ContributionTwiceOrNever_IsRefused) {
  Broken twice(Kind::kAllReduce, "rank_order", 4, 8);
  twice.repeat(2, StepKind::kReduce);
  EXPECT_THAT(twice.problem(), HasSubstr("result 4 has the contribution of rank 1 twice"));
  Broken never(Kind::kReduceScatter, "pairwise", 4, 8);
  never.remove(2, StepKind::kReduce, 2);
  EXPECT_THAT(never.problem(), HasSubstr("rank 2: result 0 lacks the contribution of rank 3"));
}

TEST(SymbolicRun, WrongOrderOfOperands_IsRefused) {
  Broken order(Kind::kReduce, "rank_order", 4, 8);
  std::swap(order.step(0, StepKind::kReduce, 1).from, order.step(0, StepKind::kReduce, 2).from);
  EXPECT_THAT(order.problem(), HasSubstr("is not combined in the order of ranks"));
  Broken sides(Kind::kAllReduce, "recursive_doubling", 4, 8);
  sides.step(3, StepKind::kReduce).is_from_first = !sides.step(3, StepKind::kReduce).is_from_first;
  EXPECT_THAT(sides.problem(), HasSubstr("combined otherwise than rank 0's"));
}

TEST(SymbolicRun, SendBufferOfTheCaller_MayNotBeWritten) {
  Broken broken(Kind::kAllReduce, "ring", 4, 8);
  broken.step(0, StepKind::kRecv).to.buffer = Buffer::kSend;
  EXPECT_THAT(broken.problem(), HasSubstr("is written, and is what the caller sends"));
  // In place the own block may be, and no other.
  Broken block(Kind::kReduceScatter, "pairwise", 4, 8);
  block.asked().in_place = InPlace::kAll;
  Prover prover(4);
  EXPECT_EQ(prover.problem_of(block.asked()), "");
  for (Step& step : prover.ranks()[1].schedule.steps) {
    if (step.kind == StepKind::kReduce) step.to = {Buffer::kSend, 0, 8};
  }
  EXPECT_THAT(prover.problem_of_run(block.asked()), HasSubstr("send[0, 8) is written"));
}

TEST(SymbolicRun, MemoryThatWasNeverWritten_MayNotBeRead) {
  Broken scratch(Kind::kAllReduce, "gathered_rank_order", 4, 8);
  scratch.remove(2, StepKind::kCopy);
  EXPECT_THAT(scratch.problem(), HasSubstr("scratch[0, 8) is read, and was never written"));
  Broken room(Kind::kAllReduce, "gathered_rank_order", 4, 8);
  --room.schedule(2).scratch_count;
  EXPECT_THAT(room.problem(), HasSubstr("is not in the buffer of 31"));
}

TEST(SymbolicRun, MessagesOfARoundThatOverlap_AreRefused) {
  Broken two(Kind::kGather, "direct", 4, 8);
  two.step(0, StepKind::kRecv, 1).to.first -= 1;
  EXPECT_THAT(two.problem(), HasSubstr("a message is received over another one's elements"));
  Broken both(Kind::kAllReduce, "recursive_doubling", 4, 8);
  both.step(0, StepKind::kRecv, 1).to = both.step(0, StepKind::kSend, 1).from;
  EXPECT_THAT(both.problem(), HasSubstr("a message is received over another one's elements"));
}

TEST(SymbolicRun, RoundsThatDoNotMatch_AreRefused) {
  Broken ends(Kind::kBroadcast, "binomial", 4, 8);
  ends.step(3, StepKind::kRecv).round = 9;
  EXPECT_THAT(ends.problem(), HasSubstr("the message from rank 2 to rank 3 is sent in round 1"));
  Broken back(Kind::kAllReduce, "ring", 4, 8);
  std::reverse(back.steps(0).begin(), back.steps(0).end());
  EXPECT_NE(back.problem(), "");
  Broken late(Kind::kAllReduce, "ring", 4, 8);
  std::swap(late.steps(0)[0], late.steps(0)[2]);
  EXPECT_THAT(late.problem(), HasSubstr("a message comes after a local step"));
}

TEST(SymbolicRun, BarrierThatIsPassedEarly_IsRefused) {
  Broken broken(Kind::kBarrier, "dissemination", 4, 0);
  for (uint32_t rank = 0; rank < 4; ++rank) broken.steps(rank).resize(2);
  EXPECT_THAT(broken.problem(), HasSubstr("passes the barrier before rank"));
}

TEST(SymbolicRun, FormulaThatDiffersFromTheSteps_IsRefused) {
  Broken broken(Kind::kAllGather, "ring", 4, 8);
  broken.repeat(0, StepKind::kCopy);
  EXPECT_EQ(broken.problem(),
            "the formula says 3 messages, 24 moved, within hosts 0 and 0, 0 reduced, 8 copied; "
            "found 3 messages, 24 moved, within hosts 0 and 0, 0 reduced, 16 copied");
}

// As many messages on the whole, and a cost model that takes one for the other.
TEST(SymbolicRun, FormulaThatSwapsHostsAndNetwork_IsRefused) {
  Broken broken(Kind::kAllReduce, "hierarchical", 4, 8, {0, 0, 1, 1});
  broken.asked().hosts = {0, 1, 0, 1};
  EXPECT_EQ(broken.problem(),
            "the formula says 2 messages, 4 moved, within hosts 2 and 8, 6 reduced, 0 copied; "
            "found 2 messages, 8 moved, within hosts 2 and 4, 6 reduced, 0 copied");
}

TEST(Symbolic, SmallGroups_EveryAlgorithm_IsRight) {
  for (const Kind kind : kinds_of_groups()) {
    const Proof proof = prove(kind, rank_counts(1, 12), Sweep::kAll);
    EXPECT_EQ(proof.problem, "");
    EXPECT_GT(proof.cases, 0u);
  }
}

TEST(Symbolic, BlocksOfDifferentSizes_EveryAlgorithmThatTakesThem_IsRight) {
  uint32_t algorithms = 0;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    for (const Algorithm& algorithm : algorithms_of(static_cast<Kind>(i))) {
      algorithms += cases_with_blocks(algorithm, 4).empty() ? 0 : 1;
      for (const uint32_t rank_count : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 13u, 16u, 31u}) {
        Prover prover(rank_count);
        for (const Case& c : cases_with_blocks(algorithm, rank_count)) {
          ASSERT_EQ(prover.problem_of(c), "");
        }
      }
    }
  }
  EXPECT_EQ(algorithms, 10u);
}

}  // namespace
}  // namespace bp::ccl::symbolic
