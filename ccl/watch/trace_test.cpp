// SPDX-License-Identifier: Apache-2.0
//
// Every verdict, from recorders that a test fills as the ranks of a job would.
#include "ccl/watch/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ccl/watch/trace_harness_test.hpp"
#include "ccl/watch/words.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(TraceWords, Counts_AreInUnitsWhereTheyAreWhole) {
  EXPECT_EQ(count_words(0), "0");
  EXPECT_EQ(count_words(1023), "1023");
  EXPECT_EQ(count_words(1024), "1 Ki");
  EXPECT_EQ(count_words(1025), "1025");
  EXPECT_EQ(count_words(3 << 20), "3 Mi");
  EXPECT_EQ(count_words((uint64_t{1} << 30) + 1024), "1048577 Ki");
  EXPECT_EQ(count_words(uint64_t{5} << 40), "5 Ti");
}

TEST(TraceWords, Operations_AreNamedWithAllThatRanksAgreeOn) {
  EXPECT_EQ(operation_words(all_reduce()), "all_reduce sum f32 1 Mi");
  EXPECT_EQ(operation_words(broadcast(2)), "broadcast i8 16 root 2");
  EXPECT_EQ(operation_words(send_to(1)), "send f32 8 to 1");
  EXPECT_EQ(operation_words(recv_from(3)), "recv f32 8 from 3");
  EXPECT_EQ(operation_words({}), "barrier");
  EXPECT_EQ(operation_words({Kind::kReduce, BP_DTYPE_F64, Reduction::kMax, 1, 2048, true}),
            "reduce max f64 2 Ki root 1 deterministic");
}

TEST(TraceWords, Ranks_AreListedShort) {
  const auto words = [](const std::vector<uint32_t>& ranks) { return ranks_words(ranks); };
  EXPECT_EQ(words({3}), "rank 3");
  EXPECT_EQ(words({3, 4}), "ranks 3 and 4");
  EXPECT_EQ(words({0, 1, 5}), "ranks 0, 1 and 5");
  EXPECT_EQ(words({0, 1, 2, 3, 9}), "ranks 0 to 3 and 9");
  std::vector<uint32_t> even;
  for (uint32_t rank = 0; rank < 40; rank += 2) even.push_back(rank);
  EXPECT_THAT(words(even), AllOf(HasSubstr("ranks 0, 2, 4"), HasSubstr("28, 30 and 4 more")));
}

TEST(Trace, AllCompleted_IsWell) {
  auto ranks = make_group("world", 3);
  for (FilledRecorder& rank : ranks) rank.complete_to(9);
  const Trace trace = trace_of(ranks);
  EXPECT_TRUE(trace.is_well());
  EXPECT_THAT(told(trace), ElementsAre("well 9 [0 1 2]: all ranks completed seq 9"));
  EXPECT_EQ(trace.findings[0].group, "world");
}

TEST(Trace, NothingEntered_IsWell) {
  const Trace trace = trace_of(make_group("world", 2));
  EXPECT_TRUE(trace.is_well());
  EXPECT_THAT(told(trace), ElementsAre("well 0 [0 1]: no rank entered a collective"));
}

TEST(Trace, OneRankNeverEnters_IsNamedWithWhatAndWhere) {
  auto ranks = make_group("world", 4);
  for (FilledRecorder& rank : ranks) rank.complete_to(117);
  for (size_t i = 0; i < 3; ++i) ranks[i].enter(all_reduce(), 118);
  const Trace trace = trace_of(ranks);
  EXPECT_FALSE(trace.is_well());
  EXPECT_THAT(told(trace),
              ElementsAre("never_entered 118 [3]: rank 3 never entered seq 118 all_reduce sum f32 "
                          "1 Mi; last 117"));
}

TEST(Trace, RanksThatEnterNothing_AreNamedTogether) {
  auto ranks = make_group("world", 4);
  ranks[0].enter(broadcast(0), 1);
  ranks[2].enter(broadcast(0), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 1 [1 3]: ranks 1 and 3 never entered seq 1 broadcast i8 "
                          "16 root 0; last none"));
}

TEST(Trace, FailedWaiters_DoNotHideWhoNeverEntered) {
  auto ranks = make_group("world", 3);
  for (size_t i = 0; i < 3; ++i) ranks[i].complete_to(4);
  for (size_t i = 0; i < 2; ++i) {
    ranks[i].complete(all_reduce(), 5, i == 0 ? BP_TIMEOUT : BP_UNAVAILABLE);
    ranks[i].group.error = {BP_TIMEOUT, "rank 2 has not come", {2}};
  }
  EXPECT_THAT(
      told(trace_of(ranks)),
      ElementsAre("never_entered 5 [2]: rank 2 never entered seq 5 all_reduce sum f32 1 Mi; last 4",
                  "failed 5 [0 1]: seq 5 all_reduce sum f32 1 Mi failed: rank 1 with UNAVAILABLE, "
                  "rank 0 with TIMEOUT",
                  "reported 0 [0 1]: ranks 0 and 1 report TIMEOUT: rank 2 has not come (by rank "
                  "2)"));
}

TEST(Trace, CallsAheadOfTheOneThatHangs_BlameNobodyWhoIsBehind) {
  auto ranks = make_group("world", 2);
  for (FilledRecorder& rank : ranks) rank.enter(all_reduce(), 1);
  ranks[0].call(all_reduce(), 2);  // behind the first in its stream
  const Trace trace = trace_of(ranks);
  EXPECT_TRUE(trace.is_well());
  EXPECT_THAT(told(trace),
              ElementsAre("running 1 [0 1]: all ranks are in seq 1 all_reduce sum f32 1 Mi"));
}

TEST(Trace, CallWhoseStreamNeverCame_IsTold) {
  auto ranks = make_group("world", 3);
  ranks[0].enter(all_reduce(), 1);
  ranks[1].call(all_reduce(), 1);
  ranks[2].enter(all_reduce(), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 1 [1]: rank 1 called seq 1 all_reduce sum f32 1 Mi and "
                          "never began it, ranks 0 and 2 did"));
}

TEST(Trace, LeaderIsAheadOfWhatIsRecorded_SequenceIsTold) {
  auto ranks = make_group("world", 2);
  ranks[1].complete_to(3);
  ranks[0].complete_to(Recorder::kCapacity + 10);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 4 [1]: rank 1 never entered seq 4; last 3"));
}

TEST(Trace, RingsThatHaveNothingInCommon_AreWellWhereAllIsCompleted) {
  auto ranks = make_group("world", 2);
  for (FilledRecorder& rank : ranks) rank.complete_to(5);
  for (uint64_t i = 1; i <= Recorder::kCapacity; ++i) {
    ranks[0].complete(send_to(1), i);
    ranks[1].complete(recv_from(0), i);
  }
  const Trace trace = trace_of(ranks);
  EXPECT_THAT(told(trace), ElementsAre("well 5 [0 1]: all ranks completed seq 5"));
  EXPECT_EQ(trace.rows[0].lag_ms, std::nullopt);
}

TEST(Trace, AnotherOperation_BothSidesAreTold) {
  auto ranks = make_group("world", 4);
  for (FilledRecorder& rank : ranks) rank.complete_to(2);
  for (const size_t i : {0u, 2u, 3u}) ranks[i].enter(all_reduce(), 3);
  ranks[1].enter(broadcast(2), 3);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("mismatch 3 [1]: seq 3: ranks 0, 2 and 3 entered all_reduce sum f32 1 "
                          "Mi, rank 1 entered broadcast i8 16 root 2"));
}

TEST(Trace, AnythingThatRanksMustAgreeOn_IsAMismatch) {
  const Operation right = {Kind::kReduce, BP_DTYPE_F32, Reduction::kSum, 0, 8, false};
  std::vector<Operation> wrong(6, right);
  wrong[0].kind = Kind::kAllReduce;
  wrong[1].dtype = BP_DTYPE_F64;
  wrong[2].reduction = Reduction::kMin;
  wrong[3].root = 1;
  wrong[4].count = 9;
  wrong[5].is_deterministic = true;
  for (const Operation& operation : wrong) {
    auto ranks = make_group("world", 2);
    ranks[0].complete(right, 1);
    ranks[1].complete(operation, 1);
    const Trace trace = trace_of(ranks);
    ASSERT_EQ(trace.findings.size(), 1u) << operation_words(operation);
    EXPECT_EQ(trace.findings[0].kind, FindingKind::kMismatch);
    EXPECT_THAT(trace.findings[0].words, HasSubstr(operation_words(operation)));
  }
}

TEST(Trace, MissingDump_IsTold) {
  auto ranks = make_group("world", 5);
  for (FilledRecorder& rank : ranks) rank.complete_to(2);
  std::vector<RankDump> dumps = dumps_of(ranks);
  dumps.erase(dumps.begin() + 3);
  EXPECT_THAT(told(trace_of(dumps)), ElementsAre("no_dump 0 [3]: rank 3 gave no dump, 4 of 5 did"));
  dumps.erase(dumps.begin(), dumps.begin() + 2);
  EXPECT_THAT(told(trace_of(dumps)),
              ElementsAre("no_dump 0 [0 1 3]: ranks 0, 1 and 3 gave no dump, 2 of 5 did"));
}

TEST(Trace, SomeCompleteAndSomeDoNot_AreTold) {
  auto ranks = make_group("world", 3);
  for (FilledRecorder& rank : ranks) rank.complete_to(6);
  ranks[0].complete(broadcast(0), 7);
  ranks[1].enter(broadcast(0), 7);
  ranks[2].enter(broadcast(0), 7);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("not_completed 7 [1 2]: ranks 1 and 2 entered seq 7 broadcast i8 16 root "
                          "0 and did not complete it, rank 0 did"));
}

TEST(Trace, SomeCompleteAndSomeFail_AreTold) {
  auto ranks = make_group("world", 2);
  ranks[0].complete(broadcast(0), 1);
  ranks[1].complete(broadcast(0), 1, BP_DEVICE_LOST);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("failed 1 [1]: seq 1 broadcast i8 16 root 0 failed: rank 1 with "
                          "DEVICE_LOST; rank 0 completed it"));
}

TEST(Trace, AllInOneOperation_IsAFaultOnlyPastItsTime) {
  for (const bool is_overdue : {false, true}) {
    auto ranks = make_group("world", 2);
    for (FilledRecorder& rank : ranks) {
      if (is_overdue) {
        rank.timeout_ns = 30'000'000'000;
        rank.wait_ms(-31'000);
      }
      rank.enter(all_reduce(), 1);
    }
    const Trace trace = trace_of(ranks);
    EXPECT_EQ(trace.is_well(), !is_overdue);
    EXPECT_THAT(
        told(trace),
        ElementsAre(is_overdue ? "overdue 1 [0 1]: all ranks entered seq 1 all_reduce sum f32 1 "
                                 "Mi, none completed it within 30 s"
                               : "running 1 [0 1]: all ranks are in seq 1 all_reduce sum f32 1 "
                                 "Mi"));
  }
}

TEST(Trace, NumberGivenAgain_TheLaterCallCounts) {
  auto ranks = make_group("world", 2);
  ranks[0].call(all_reduce(), 1);  // its call failed
  for (FilledRecorder& rank : ranks) rank.complete(all_reduce(), 1);
  EXPECT_TRUE(trace_of(ranks).is_well());
}

TEST(TracePairs, SendThatNobodyReceives_IsTold) {
  auto ranks = make_group("world", 2);
  ranks[0].complete(send_to(1), 1);
  ranks[1].complete(recv_from(0), 1);
  ranks[0].enter(send_to(1), 2);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 2 [1]: rank 1 never entered the recv of seq 2 from rank "
                          "0, which is in send f32 8 to 1; last 1"));
}

TEST(TracePairs, RecvThatNobodySends_IsTold) {
  auto ranks = make_group("world", 3);
  ranks[2].enter(recv_from(0), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 1 [0]: rank 0 never entered the send of seq 1 to rank 2, "
                          "which is in recv f32 8 from 0; last none"));
}

TEST(TracePairs, SideThatIsRecordedNoMore_HasCome) {
  auto ranks = make_group("world", 2);
  ranks[0].enter(send_to(1), 1);
  for (uint64_t i = 1; i <= Recorder::kCapacity + 1; ++i) ranks[1].complete(recv_from(0), i);
  EXPECT_THAT(told(trace_of(ranks)), ElementsAre("well 0 [0 1]: no rank entered a collective"));
}

TEST(TracePairs, SendThatIsOverOrNotBegun_WaitsForNobody) {
  auto ranks = make_group("world", 3);
  ranks[0].complete(send_to(1), 1);
  ranks[2].call(send_to(1), 1);
  EXPECT_TRUE(trace_of(ranks).is_well());
}

TEST(TracePairs, NumbersOfTheOtherDirection_AreOthers) {
  auto ranks = make_group("world", 2);
  ranks[0].complete(send_to(1), 1);
  ranks[1].complete(recv_from(0), 1);
  ranks[1].enter(send_to(0), 1);
  EXPECT_THAT(told(trace_of(ranks)), ElementsAre(HasSubstr("rank 0 never entered the recv of seq 1 "
                                                           "from rank 1")));
}

TEST(TracePairs, TwoSizes_AreAMismatch) {
  auto ranks = make_group("world", 2);
  ranks[0].complete(send_to(1, 8), 1);
  ranks[1].enter(recv_from(0, 16), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("mismatch 1 [0 1]: seq 1 from rank 0 to rank 1: rank 0 entered send f32 "
                          "8 to 1, rank 1 entered recv f32 16 from 0"));
}

TEST(TracePairs, SidesThatDiffer_AreTold) {
  auto ranks = make_group("world", 2);
  ranks[0].complete(send_to(1), 1);
  ranks[1].enter(recv_from(0), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("not_completed 1 [1]: seq 1 from rank 0 to rank 1: rank 1 entered recv "
                          "f32 8 from 0 and did not complete it, rank 0 did"));
  ranks = make_group("world", 2);
  ranks[0].enter(send_to(1), 1);
  ranks[1].call(recv_from(0), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("never_entered 1 [1]: seq 1 from rank 0 to rank 1: rank 1 called recv "
                          "f32 8 from 0 and never began it, rank 0 began send f32 8 to 1"));
  ranks = make_group("world", 2);
  ranks[0].complete(send_to(1), 1, BP_TIMEOUT);
  ranks[1].complete(recv_from(0), 1, BP_TIMEOUT);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("failed 1 [0 1]: seq 1 from rank 0 to rank 1 send f32 8 to 1 failed: "
                          "ranks 0 and 1 with TIMEOUT"));
}

TEST(TracePairs, BothInside_IsAFaultOnlyPastItsTime) {
  auto ranks = make_group("world", 2);
  ranks[0].enter(send_to(1), 1);
  ranks[1].enter(recv_from(0), 1);
  EXPECT_THAT(told(trace_of(ranks)),
              ElementsAre("running 1 [0 1]: both ranks are in seq 1 from rank 0 to rank 1 send f32 "
                          "8 to 1"));
  for (FilledRecorder& rank : ranks) {
    rank.timeout_ns = 1'000'000;
    rank.wait_ms(-1000);
  }
  ranks[0].enter(send_to(1), 2);
  ranks[1].enter(recv_from(0), 2);
  // The first of a direction is told, and what follows comes from it.
  EXPECT_EQ(trace_of(ranks).findings.size(), 1u);
  ranks = make_group("world", 2);
  for (FilledRecorder& rank : ranks) {
    rank.timeout_ns = 1'000'000;
    rank.wait_ms(-1000);
  }
  ranks[0].enter(send_to(1), 1);
  ranks[1].enter(recv_from(0), 1);
  EXPECT_THAT(told(trace_of(ranks)), ElementsAre(HasSubstr("overdue 1 [0 1]: both ranks are in")));
}

TEST(TraceCycles, TwoGroupsInTwoOrders_AreTold) {
  auto a = make_group("a", 2);
  auto b = make_group("b", 2);
  for (auto* group : {&a, &b}) {
    for (FilledRecorder& rank : *group) rank.complete_to(4);
  }
  for (FilledRecorder& rank : b) {
    for (uint64_t i = 5; i <= 8; ++i) rank.complete(all_reduce(), i);
  }
  // Each has called the other's too, but its stream is behind the first.
  a[0].enter(all_reduce(8), 5);
  b[0].call(all_reduce(8), 9);
  b[1].enter(all_reduce(8), 9);
  a[1].call(all_reduce(8), 5);
  std::vector<RankDump> dumps = dumps_of(a);
  for (const RankDump& dump : dumps_of(b)) dumps.push_back(dump);
  const Trace trace = trace_of(dumps);
  ASSERT_EQ(trace.findings.size(), 3u);
  EXPECT_EQ(told(trace)[0],
            "cycle 0 [0 1]: rank 0 waits for rank 1 in group a seq 5 all_reduce sum f32 8, rank 1 "
            "waits for rank 0 in group b seq 9 all_reduce sum f32 8");
  EXPECT_EQ(trace.findings[0].group, "");
  EXPECT_EQ(trace.findings[1].kind, FindingKind::kNeverEntered);
  EXPECT_EQ(trace.findings[2].kind, FindingKind::kNeverEntered);
}

TEST(TraceCycles, RecvsBeforeSends_AreTold) {
  auto ranks = make_group("ring", 3);
  for (uint32_t rank = 0; rank < 3; ++rank) ranks[rank].enter(recv_from((rank + 1) % 3), 1);
  const Trace trace = trace_of(ranks);
  EXPECT_EQ(told(trace)[0],
            "cycle 0 [0 1 2]: rank 0 waits for rank 1 in group ring seq 1 recv f32 8 from 1, rank "
            "1 waits for rank 2 in group ring seq 1 recv f32 8 from 2, rank 2 waits for rank 0 in "
            "group ring seq 1 recv f32 8 from 0");
}

TEST(TraceCycles, WaitThatLeadsNowhere_IsNoCycle) {
  auto ranks = make_group("chain", 3);
  ranks[0].enter(recv_from(1), 1);
  ranks[1].enter(recv_from(2), 1);
  for (const Finding& finding : trace_of(ranks).findings) {
    EXPECT_EQ(finding.kind, FindingKind::kNeverEntered);
  }
}

TEST(TraceCycles, ShortOneBehindALongTail_IsTold) {
  auto ranks = make_group("world", 5);
  ranks[0].enter(recv_from(1), 1);
  ranks[1].enter(recv_from(2), 1);
  ranks[2].enter(recv_from(3), 1);
  ranks[3].enter(recv_from(2), 1);
  ranks[4].enter(recv_from(3), 1);
  const Trace trace = trace_of(ranks);
  EXPECT_THAT(told(trace)[0], HasSubstr("cycle 0 [2 3]: rank 2 waits for rank 3"));
  EXPECT_EQ(trace.findings[1].kind, FindingKind::kNeverEntered);
}

TEST(TraceCycles, TwoOfThem_AreBothTold) {
  auto ranks = make_group("world", 4);
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) ranks[rank].enter(recv_from(rank ^ 1u), 1);
  const std::vector<std::string> lines = told(trace_of(ranks));
  EXPECT_THAT(lines[0], HasSubstr("cycle 0 [0 1]"));
  EXPECT_THAT(lines[1], HasSubstr("cycle 0 [2 3]"));
}

TEST(TraceCycles, RanksOfTheJob_AreWhatGroupsHaveInCommon) {
  const auto cycle_of = [](std::vector<uint32_t> ranks_of_b, uint64_t processes_apart = 0) {
    auto a = make_group("a", 2);
    auto b = make_group("b", 2);
    for (FilledRecorder& rank : a) rank.group.job_ranks = {4, 7};
    for (FilledRecorder& rank : b) rank.group.job_ranks = ranks_of_b;
    a[0].enter(all_reduce(8), 1);
    b[0].enter(all_reduce(8), 1);
    std::vector<RankDump> dumps = dumps_of(a);
    for (const RankDump& dump : dumps_of(b)) {
      dumps.push_back(dump);
      dumps.back().process_id += processes_apart;
    }
    return told(trace_of(dumps))[0];
  };
  EXPECT_EQ(cycle_of({7, 4}),
            "cycle 0 [4 7]: rank 0 (4 of the job) waits for rank 1 (7 of the job) in group a seq 1 "
            "all_reduce sum f32 8, rank 0 (7 of the job) waits for rank 1 (4 of the job) in group "
            "b seq 1 all_reduce sum f32 8");
  EXPECT_THAT(cycle_of({8, 4}), HasSubstr("never_entered"));
  // Of two jobs.
  EXPECT_THAT(cycle_of({7, 4}, 1), HasSubstr("never_entered"));
}

TEST(TraceRows, EachRank_HasHowFarItCameAndItsLag) {
  auto ranks = make_group("world", 3);
  for (FilledRecorder& rank : ranks) rank.complete_to(2);
  ranks[1].wait_ms(12);
  ranks[2].wait_ms(3);
  for (FilledRecorder& rank : ranks) rank.complete(all_reduce(), 3);
  ranks[0].enter(all_reduce(), 4);
  const Trace trace = trace_of(ranks);
  ASSERT_EQ(trace.rows.size(), 3u);
  const double lags[] = {0, 12, 3};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const RankRow& row = trace.rows[rank];
    EXPECT_EQ(row.rank, rank);
    EXPECT_EQ(row.group, "world");
    EXPECT_EQ(row.last_entered, rank == 0 ? 4u : 3u);
    EXPECT_EQ(row.last_completed, 3u);
    EXPECT_FALSE(row.host.empty());
    ASSERT_TRUE(row.lag_ms.has_value());
    EXPECT_NEAR(*row.lag_ms, lags[rank], 1.0);  // the clocks are read for each
  }
}

TEST(Trace, EpochsOfAGroup_AreGroupsOfTheirOwn) {
  auto ranks = make_group("world", 2);
  for (FilledRecorder& rank : ranks) rank.complete_to(3);
  std::vector<RankDump> dumps = dumps_of(ranks);
  for (FilledRecorder& rank : ranks) {
    rank.group.epoch = 1;
    rank.complete_to(1);
  }
  for (const RankDump& dump : dumps_of(ranks)) dumps.push_back(dump);
  const Trace trace = trace_of(dumps);
  EXPECT_EQ(trace.rows.size(), 4u);
  EXPECT_EQ(trace.findings.size(), 2u);
  EXPECT_EQ(group_words("world", 1), "world epoch 1");
}

TEST(Trace, DumpsThatCannotBeOfOneGroup_AreRefusedByName) {
  const auto error_with = [](auto change) {
    auto ranks = make_group("world", 2);
    std::vector<RankDump> dumps = dumps_of(ranks);
    change(&dumps);
    const auto trace = trace_dumps(dumps);
    return trace.ok() ? "no error" : trace.status().to_string();
  };
  EXPECT_EQ(error_with([](auto* dumps) { dumps->push_back((*dumps)[1]); }),
            "INVALID_ARGUMENT: world-rank1.json and world-rank1.json are both of rank 1 of group "
            "world");
  EXPECT_EQ(
      error_with([](auto* dumps) {
        (*dumps)[0].group.id = 7;
        (*dumps)[0].dumped_ns = (*dumps)[1].dumped_ns + 1;
      }),
      "INVALID_ARGUMENT: world-rank1.json and world-rank0.json are of different runs of group "
      "world, the first one of the earlier: remove what that run left, and give each run a "
      "folder of its own");
  EXPECT_EQ(error_with([](auto* dumps) { (*dumps)[1].group.place.rank_count = 3; }),
            "INVALID_ARGUMENT: world-rank0.json and world-rank1.json disagree about group world: 2 "
            "ranks and 3");
  EXPECT_THAT(error_with([](auto* dumps) {
                (*dumps)[1].group.job_ranks = {1, 0};
              }),
              HasSubstr("disagree about which ranks of the job"));
}

TEST(TraceFiles, FoldersAndFiles_AreRead) {
  const TempFolder folder;
  auto ranks = make_group("world", 3);
  for (FilledRecorder& rank : ranks) {
    rank.complete_to(1);
    ASSERT_TRUE(rank.recorder.write_dump(folder.path(), rank.group).ok());
  }
  folder.write("notes.txt", "no dump");
  folder.write(".world-0-rank9.json", "being written");
  const auto all = read_dumps({folder.path()});
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->size(), 3u);
  EXPECT_EQ(read_dumps({folder.path("world-0-rank2.json")})->size(), 1u);
  folder.write("broken.json", "{}");
  EXPECT_THAT(read_dumps({folder.path()}).status().to_string(),
              AllOf(HasSubstr("broken.json"), HasSubstr("'format' not found")));
  std::filesystem::create_directory(folder.path("empty"));
  EXPECT_THAT(read_dumps({folder.path("empty")}).status().to_string(),
              HasSubstr("there is no dump (*.json)"));
}

}  // namespace
}  // namespace bp::ccl
