// SPDX-License-Identifier: Apache-2.0
//
// Dumps that an earlier run has left beside those of a job.
#include <gmock/gmock.h>

#include "ccl/watch/trace_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

/// As of another process, which is long over.
std::vector<RankDump> dumps_before(const std::deque<FilledRecorder>& ranks,
                                   int64_t seconds_before) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  std::vector<RankDump> dumps = dumps_of(ranks);
  for (RankDump& dump : dumps) {
    dump.process_id += 1;
    dump.dumped_ns -= seconds_before * kNsPerSecond;
    for (Record& record : dump.records) record.created_ns -= seconds_before * kNsPerSecond;
  }
  return dumps;
}

TEST(TraceRuns, GroupOfAnEarlierRun_IsNamedAndLeftOut) {
  auto old = make_group("old", 2);
  old[0].enter(recv_from(1), 1);
  auto job = make_group("world", 2);
  job[1].enter(recv_from(0), 1);
  std::vector<RankDump> dumps = dumps_before(old, 3600);
  for (const RankDump& dump : dumps_of(job)) dumps.push_back(dump);
  const Trace trace = trace_of(dumps);
  // Together with the old one's wait this would be a cycle.
  EXPECT_THAT(
      told(trace),
      ElementsAre(
          "never_entered 1 [0]: rank 0 never entered the send of seq 1 to rank 1, which is "
          "in recv f32 8 from 0; last none",
          MatchesRegex("other_run 0 \\[0 1\\]: of an earlier run, and left out: it was over "
                       "3[56][0-9][0-9]\\.[0-9] s before what is known of group world began, in "
                       "other processes \\(old-rank0.json\\); remove what that run left, and give "
                       "each run a folder of its own")));
  for (const RankRow& row : trace.rows) EXPECT_EQ(row.group, "world");
  EXPECT_EQ(trace.rows.size(), 2u);
}

TEST(TraceRuns, EarlierRunAlone_IsTraced) {
  auto old = make_group("old", 2);
  for (FilledRecorder& rank : old) rank.complete_to(3);
  EXPECT_THAT(told(trace_of(dumps_before(old, 3600))),
              ElementsAre("well 3 [0 1]: all ranks completed seq 3"));
}

TEST(TraceRuns, WellJobBesideAnEarlierRun_IsNotWell) {
  auto old = make_group("old", 1);
  auto job = make_group("world", 1);
  old[0].complete_to(1);
  job[0].complete_to(1);
  std::vector<RankDump> dumps = dumps_before(old, 60);
  dumps.push_back(dumps_of(job)[0]);
  const Trace trace = trace_of(dumps);
  EXPECT_FALSE(trace.is_well());
  ASSERT_EQ(trace.findings.size(), 2u);
  EXPECT_EQ(trace.findings[0].kind, FindingKind::kOtherRun);
  EXPECT_EQ(trace.findings[1].kind, FindingKind::kWell);
}

// Groups of one job may be made one after the other, in part of its processes.
TEST(TraceRuns, GroupsOfOneJob_StayTogether) {
  auto first = make_group("a", 1);
  auto second = make_group("b", 1);
  auto third = make_group("c", 1);
  for (auto* group : {&first, &second, &third}) (*group)[0].complete_to(1);
  std::vector<RankDump> dumps = dumps_before(first, 7200);
  // Links the others: it is of the first one's process and of that time, and of the last one's.
  for (const RankDump& dump : dumps_before(second, 7200)) dumps.push_back(dump);
  dumps.back().dumped_ns = dumps_of(third)[0].dumped_ns;
  dumps.push_back(dumps_of(third)[0]);
  EXPECT_EQ(told(trace_of(dumps)).size(), 3u);
  EXPECT_TRUE(trace_of(dumps).is_well());
  // An earlier group of the same processes is no earlier run.
  dumps = dumps_before(first, 7200);
  dumps[0].process_id -= 1;
  dumps.push_back(dumps_of(third)[0]);
  EXPECT_TRUE(trace_of(dumps).is_well());
}

}  // namespace
}  // namespace bp::ccl
