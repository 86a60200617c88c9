// SPDX-License-Identifier: Apache-2.0
//
// What the groups of this process tell at its status socket, while they work and when they fail.
#include <filesystem>

#include "ccl/group/group_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GroupStatusSocket : public GroupTest {
 protected:
  GroupStatusSocket() { serve_at(folder_.path()); }
  void serve_at(const std::string& path) {
    core_options_ = {{"BACKPLANE_CCL_STATUS", path}};
    make_runtime();
  }
  /// That of the one process, groups by rank.
  ProcessStatus ask() const {
    const auto answers = ccl::read_status(folder_.path());
    EXPECT_TRUE(answers.ok()) << answers.status().to_string();
    auto status = parse_status(answers.ok() ? answers->at(0) : "", "answer");
    EXPECT_TRUE(status.ok()) << status.status().to_string();
    if (!status.ok()) return {};
    std::sort(status->groups.begin(), status->groups.end(),
              [](const auto& a, const auto& b) { return a.place.rank < b.place.rank; });
    return *std::move(status);
  }
  const TempFolder folder_;
};

TEST_F(GroupStatusSocket, WorkingGroups_TellHowFarTheyAre) {
  for (const Devices& devices : {Devices{"cpu:0", "npu:0"}, Devices{"npu:0", "npu:1"}}) {
    std::atomic<bool> is_called = false;
    std::atomic<bool> is_asked = false;
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      const Call call{.send = upload(group.device(), BP_DTYPE_F32, {1, 2}),
                      .recv = room(group.device(), BP_DTYPE_F32, 2)};
      const Call barrier{.kind = Kind::kBarrier};
      ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
      ASSERT_TRUE(group.enqueue(barrier, {.waits = true}).ok());
      group.finish();  // what is over for its caller may be recorded so later
      if (rank == 0) {
        const auto work = group.enqueue(call);
        ASSERT_TRUE(work.ok());
        is_called = true;
        ASSERT_TRUE((*work)->wait(Clock::now() + seconds(20)).ok());
        return;
      }
      ASSERT_TRUE(await_that([&] { return is_called.load(); }));
      std::this_thread::sleep_for(milliseconds(30));
      const ProcessStatus status = ask();
      EXPECT_EQ(status.process_id, static_cast<uint64_t>(getpid()));
      ASSERT_EQ(status.groups.size(), 2u);
      const GroupStatus& waits = status.groups[0];
      EXPECT_EQ(waits.name, "test");
      EXPECT_EQ(waits.place.rank_count, 2u);
      EXPECT_EQ(waits.device, devices[0]);
      EXPECT_EQ(waits.last.entered, 3u);
      EXPECT_EQ(waits.last.completed, 2u);
      EXPECT_EQ(waits.operation, "all_reduce sum f32 2");
      EXPECT_EQ(waits.sequence, 3u);
      EXPECT_GE(status.time_ns - waits.since_ns, 20'000'000);
      EXPECT_LT(status.time_ns - waits.since_ns, 10'000'000'000);
      EXPECT_EQ(waits.error.code, BP_OK);
      ASSERT_EQ(waits.peers.size(), 1u);
      EXPECT_EQ(waits.peers[0].rank, 1u);
      EXPECT_GT(waits.peers[0].heard_ns, status.time_ns - 30'000'000'000) << "in the barrier";
      EXPECT_LE(waits.peers[0].heard_ns, status.time_ns);
      EXPECT_EQ(waits.peers[0].lost, "");
      EXPECT_EQ(status.groups[1].operation, "");
      EXPECT_EQ(status.groups[1].last.entered, 2u);
      is_asked = true;
      ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
    });
    EXPECT_TRUE(is_asked);
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "it goes with its last group";
  }
}

TEST_F(GroupStatusSocket, FailedGroup_TellsWhyAndWhoIsLost) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) return;
    const Call barrier{.kind = Kind::kBarrier};
    EXPECT_FALSE(group.enqueue(barrier, {.timeout = seconds(20), .waits = true}).ok());
    const ProcessStatus status = ask();
    const auto own = std::find_if(status.groups.begin(), status.groups.end(),
                                  [&](const auto& each) { return each.place.rank == rank; });
    ASSERT_NE(own, status.groups.end());
    EXPECT_EQ(own->error.code, BP_UNAVAILABLE);
    EXPECT_THAT(own->error.words, HasSubstr("rank 1 (cpu:0)"));
    EXPECT_EQ(own->operation, "") << "it is over";
    const uint32_t other = rank == 0 ? 0 : 1;  // its place among the peers
    EXPECT_EQ(own->peers.at(other).rank, 1u);
    const auto lost = [&] { return group.status().peers.at(other).lost; };
    const auto end = Clock::now() + seconds(5);  // its message may have failed before it was missed
    while (lost().empty() && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_NE(lost(), "");
    const uint32_t members[] = {0, 2};
    const auto next = group.rebuild({.epoch = 6, .members = members});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    const ProcessStatus after = ask();
    EXPECT_TRUE(std::any_of(after.groups.begin(), after.groups.end(), [](const auto& each) {
      return each.epoch == 6 && each.error.code == BP_OK;
    }));
    ASSERT_TRUE((*next)->enqueue(barrier, {.waits = true}).ok());
  });
}

TEST_F(GroupStatusSocket, BadPath_IsNamedBeforeOtherRanksAreWaitedFor) {
  serve_at("/nosuch/folder/x.sock");
  store_ = make_memory_store();
  const auto begin = Clock::now();
  const auto group = ProcessGroup::create(group_args({"cpu:0", "cpu:0"}, 0));
  EXPECT_EQ(group.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(group.status().message(),
              AllOf(HasSubstr("group test: BACKPLANE_CCL_STATUS: "),
                    HasSubstr("/nosuch/folder/x.sock"), HasSubstr("No such file")));
  EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
}

}  // namespace
}  // namespace bp::ccl
