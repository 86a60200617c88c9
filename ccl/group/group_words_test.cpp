// SPDX-License-Identifier: Apache-2.0
//
// What groups say of themselves: the line when one is made, and the ranks and epochs in dumps.
#include <mutex>

#include "ccl/group/group_harness_test.hpp"
#include "ccl/group/introduction.hpp"
#include "ccl/watch/trace.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// The lines of a level that groups write while it lives: of info, when they are made.
class Lines {
 public:
  explicit Lines(uint32_t level = BP_LOG_INFO) {
    set_log_level(level);
    set_log_sink([this, level](uint32_t of_line, std::string_view line) {
      const std::lock_guard lock(mutex_);
      if (of_line == level && line.starts_with("group ")) lines_.emplace_back(line);
    });
  }
  ~Lines() {
    set_log_sink({});
    set_log_level(BP_LOG_WARNING);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class GroupWords : public GroupTest {
 protected:
  static Agreement agreement(size_t ranks, const std::string& algorithms = "") {
    std::vector<RankCard> cards(ranks);
    for (RankCard& card : cards) card.device = "cpu:0";
    cards[0].algorithms = algorithms;
    return conclude(std::move(cards), "test");
  }
};

TEST_F(GroupWords, GroupIsMade_RankZeroTellsHowOnce) {
  Lines lines;
  run({"cpu:0", "npu:0", "cpu:0"}, [](uint32_t, ProcessGroup&) {});
  const std::string engine = runtime_->options().text("BACKPLANE_CCL_ENGINE") == "ucx"
                                 ? "engine ucx; no interface, shared memory alone, since all ranks "
                                   "are on one host; "
                                 : "engine loop; no interface, since all ranks are threads of one "
                                   "process; ";
  EXPECT_THAT(lines.take(),
              ElementsAre("group test: 3 ranks by messages: rank 0 (cpu:0) has no collectives of "
                          "its own; " +
                          engine + "algorithms by the cost model; an operation fails after 30 s"));
  timeout_ = milliseconds(20'500);
  run({"npu:0", "npu:1"}, [](uint32_t, ProcessGroup& group) {
    const uint32_t members[] = {1, 0};
    const auto next = group.rebuild({.epoch = 5, .members = members});
    EXPECT_TRUE(next.ok()) << next.status().to_string();
  });
  EXPECT_THAT(
      lines.take(),
      ElementsAre(AllOf(StartsWith("group test: 2 ranks by the collectives of their devices "
                                   "(npu:0), by messages: "),
                        HasSubstr("barrier; "), HasSubstr("an operation fails after 20.5 s")),
                  StartsWith("group test epoch 5: 2 ranks by the collectives of their devices")));
}

TEST_F(GroupWords, Introduction_TellsTheInterfaceAndWhy) {
  const Agreement two = agreement(2);
  const auto words = [&](const char* interface_name) {
    return introduce({"test", two, "ucx", interface_name, seconds(30)});
  };
  EXPECT_THAT(words(""), HasSubstr("; engine ucx; no interface, shared memory alone, since all "
                                   "ranks are on one host; "));
  EXPECT_THAT(words("eth0"),
              HasSubstr("; engine ucx; interface eth0, named by BACKPLANE_CCL_INTERFACE; "));
  EXPECT_THAT(words("lo"),
              HasSubstr("; interface lo, the loopback, named by BACKPLANE_CCL_INTERFACE; "));
}

TEST_F(GroupWords, Introduction_TellsForcedAlgorithms) {
  const Agreement one = agreement(1, "all_reduce:ring");
  EXPECT_THAT(introduce({"test", one, "loop", "", seconds(30)}),
              AllOf(StartsWith("group test: 1 rank by messages"),
                    HasSubstr("; algorithms all_reduce:ring by BACKPLANE_CCL_ALGORITHM of rank 0, "
                              "else by the cost model; ")));
}

TEST_F(GroupWords, AlgorithmOfAnOperation_IsToldOnceAtLevelDebug) {
  core_options_ = {{"BACKPLANE_CCL_ALGORITHM", "all_reduce:ring"}};
  make_runtime();
  Lines lines(BP_LOG_DEBUG);
  run({"cpu:0", "cpu:0"}, [](uint32_t, ProcessGroup& group) {
    const Call call{.send = upload(group.device(), BP_DTYPE_F32, {1, 2, 3}),
                    .recv = room(group.device(), BP_DTYPE_F32, 3)};
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
  });
  EXPECT_THAT(lines.take(), ElementsAre("group test: all_reduce sum f32 3 by ring",
                                        "group test: all_reduce sum f32 3 by ring"));
}

TEST_F(GroupWords, AlgorithmsThatCannotServe_AreToldOnceForEachKind) {
  core_options_ = {{"BACKPLANE_CCL_ALGORITHM", "all_reduce:ring,reduce:binomial"}};
  make_runtime();
  Lines lines(BP_LOG_WARNING);
  run({"cpu:0", "cpu:0"}, [](uint32_t rank, ProcessGroup& group) {
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kAllReduce, Kind::kReduce}) {
      Call call{.kind = kind, .is_deterministic = true};
      call.send = upload(group.device(), BP_DTYPE_F32, {1, 2, 3});
      if (kind == Kind::kAllReduce || rank == 0) call.recv = room(group.device(), BP_DTYPE_F32, 3);
      ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
    }
  });
  const auto told_of = [](const std::string& wish) {
    return AllOf(HasSubstr("BACKPLANE_CCL_ALGORITHM wants " + wish), HasSubstr("serves"));
  };
  EXPECT_THAT(lines.take(), testing::UnorderedElementsAre(
                                told_of("ring for all_reduce"), told_of("ring for all_reduce"),
                                told_of("binomial for reduce"), told_of("binomial for reduce")));
}

TEST_F(GroupWords, AlgorithmsThatCannotBe_NameTheirOption) {
  core_options_ = {{"BACKPLANE_CCL_ALGORITHM", "all_reduce=ring"}};
  make_runtime();
  store_ = make_memory_store();
  const Status status = ProcessGroup::create(group_args({"cpu:0"}, 0)).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(),
            "group test: BACKPLANE_CCL_ALGORITHM: algorithm rules: expected KIND:ALGORITHM or "
            "KIND:FIRST-END=ALGORITHM, found 'all_reduce=ring'");
}

/// Of a group that was rebuilt from ranks 2 and 0 of three.
TEST_F(GroupWords, DumpsOfARebuiltGroup_TellEpochAndRanksOfTheJob) {
  std::vector<RankDump> dumps(2);
  std::atomic<int> come = 0;
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) return;
    const uint32_t members[] = {2, 0};
    const auto next = group.rebuild({.epoch = 4, .members = members});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    const uint32_t own = (*next)->place().rank;
    const Call barrier{.kind = Kind::kBarrier};
    ASSERT_TRUE((*next)->enqueue(barrier, {.waits = true}).ok());
    // The deadline of one is to find the other one behind the first.
    meet(&come, 2);
    if (own == 0) {
      EXPECT_FALSE((*next)->enqueue(barrier, {.timeout = milliseconds(200), .waits = true}).ok());
    }
    EXPECT_EQ(await_failure(**next).code, BP_TIMEOUT);
    auto dump = parse_dump((*next)->trace(), "rank" + std::to_string(own) + ".json");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    EXPECT_EQ(dump->group.epoch, 4u);
    EXPECT_THAT(dump->group.job_ranks, ElementsAre(2, 0));
    EXPECT_EQ(dump_file_name(dump->group), "test-4-rank" + std::to_string(own) + ".json");
    dumps[own] = *std::move(dump);
  });
  const auto trace = trace_dumps(dumps);
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  ASSERT_FALSE(trace->findings.empty());
  EXPECT_EQ(trace->findings[0].epoch, 4u);
  EXPECT_THAT(trace->findings[0].words, HasSubstr("rank 1 (0 of the job) never entered seq 2"));
  ASSERT_EQ(trace->rows.size(), 2u);
  EXPECT_EQ(trace->rows[0].job_rank, 2u);
  EXPECT_EQ(trace->rows[1].epoch, 4u);
}

}  // namespace
}  // namespace bp::ccl
