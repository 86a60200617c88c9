// SPDX-License-Identifier: Apache-2.0
//
// Devices whose library has one communicator at work at a time (npu's option communicators_at_once
// is off): the core keeps the turns of a device's groups, and says who took them in another order.
#include "ccl/group/group_harness_test.hpp"
#include "core/emulation/host_call.hpp"

namespace bp::ccl {
namespace {

constexpr auto kKernel = std::chrono::milliseconds(300);

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

const Devices kPair = {"npu:0", "npu:1"};

class GroupTurns : public GroupTest {
 protected:
  GroupTurns() { make_runtime({{"npu.communicators_at_once", "false"}}); }

  /// On a thread for each rank: groups called "a", "b", "c"... over all of these devices.
  void run_groups(const Devices& devices, size_t group_count,
                  const std::function<void(uint32_t, std::vector<Ref<ProcessGroup>>&)>& body) {
    store_ = make_memory_store();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < devices.size(); ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<Ref<ProcessGroup>> groups;
        for (size_t i = 0; i < group_count; ++i) {
          GroupArgs args = group_args(devices, rank);
          args.name = std::string(1, static_cast<char>('a' + i));
          auto group = ProcessGroup::create(args);
          ASSERT_TRUE(group.ok()) << group.status().to_string();
          groups.push_back(*group);
        }
        body(rank, groups);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Call sum_of(ProcessGroup& group) {
    return {.send = upload(group.device(), BP_DTYPE_F32, {1, 2, 3}),
            .recv = room(group.device(), BP_DTYPE_F32, 3)};
  }
  /// Nobody waits in between, and each group has a stream of its own.
  void sum_in_turns(uint32_t rank, const std::vector<Ref<ProcessGroup>>& groups, int rounds,
                    const std::vector<float>& expected) {
    std::vector<Call> calls;
    std::vector<Ref<Work>> works;
    for (int round = 0; round < rounds; ++round) {
      for (const Ref<ProcessGroup>& group : groups) {
        calls.push_back(sum_of(*group));
        auto work = group->enqueue(calls.back());
        ASSERT_TRUE(work.ok()) << work.status().to_string();
        works.push_back(*work);
      }
    }
    for (size_t i = 0; i < works.size(); ++i) {
      const Status status = works[i]->wait(Clock::now() + seconds(40));
      ASSERT_TRUE(status.ok()) << "rank " << rank << ", " << i << ": " << status.to_string();
      EXPECT_EQ(floats(calls[i].recv), expected);
    }
  }
};

TEST_F(GroupTurns, ThreeGroupsOnOneDevice_InOneOrder_AllComplete) {
  run_groups(kPair, 3, [&](uint32_t rank, std::vector<Ref<ProcessGroup>>& groups) {
    sum_in_turns(rank, groups, 20, {2, 4, 6});
  });
}

TEST_F(GroupTurns, TwoGroupsWithIslands_InOneOrder_AllComplete) {
  run_groups({"npu:0", "npu:1", "cpu:0"}, 2,
             [&](uint32_t rank, std::vector<Ref<ProcessGroup>>& groups) {
               sum_in_turns(rank, groups, 10, {3, 6, 9});
             });
}

/// Calls of groups on streams, in one order on both ranks; the first one has to wait for a kernel
/// of rank 0.
struct CallOnStream {
  size_t group;
  size_t stream;
  int sender = -1;  // a rank that sends to the other one; else all sum
};

void keep_busy(Stream& stream) {
  TimedLock held;
  ASSERT_TRUE(stream.hold(held).ok());
  stream.next_seq();
  std::shared_ptr<void> owned = std::make_shared<int>(0);
  ASSERT_EQ(call_host_once(stream.device().table(), stream.handle(), &owned,
                           [](void*, bp_status) { std::this_thread::sleep_for(kKernel); }),
            BP_OK);
}

class GroupTurnsOfStreams : public GroupTurns,
                            public testing::WithParamInterface<std::vector<CallOnStream>> {};

TEST_P(GroupTurnsOfStreams, GroupsWithSeveralStreams_InOneOrder_AllComplete) {
  run_groups(kPair, 2, [&](uint32_t rank, std::vector<Ref<ProcessGroup>>& groups) {
    std::vector<Stream*> streams;
    for (int i = 0; i < 3; ++i) {
      auto stream = groups[0]->device().acquire_stream();
      ASSERT_TRUE(stream.ok());
      streams.push_back(*stream);
    }
    std::vector<Call> calls;
    for (const CallOnStream& each : GetParam()) {
      calls.push_back(sum_of(*groups[each.group]));
      if (each.sender < 0) continue;
      const bool is_sender = static_cast<uint32_t>(each.sender) == rank;
      calls.back().kind = is_sender ? Kind::kSend : Kind::kRecv;
      calls.back().root = 1 - rank;
      (is_sender ? calls.back().recv : calls.back().send) = nullptr;
    }
    ASSERT_TRUE(groups[0]->device().default_stream().sync().ok());
    if (rank == 0) keep_busy(*streams[GetParam().front().stream]);
    std::vector<Ref<Work>> works;
    for (size_t i = 0; i < calls.size(); ++i) {
      const CallOnStream& each = GetParam()[i];
      auto work = groups[each.group]->enqueue(
          calls[i], {.stream = streams[each.stream], .timeout = seconds(10)});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      works.push_back(*work);
    }
    for (size_t i = 0; i < works.size(); ++i) {
      const Status status = works[i]->wait(Clock::now() + seconds(40));
      ASSERT_TRUE(status.ok()) << "rank " << rank << ", " << i << ": " << status.to_string();
      const bool is_sum = GetParam()[i].sender < 0;
      const std::vector<float> expected =
          is_sum ? std::vector<float>{2, 4, 6} : std::vector<float>{1, 2, 3};
      if (calls[i].recv) EXPECT_EQ(floats(calls[i].recv), expected);
    }
    for (Stream* const stream : streams) groups[0]->device().release_stream(stream);
  });
}

INSTANTIATE_TEST_SUITE_P(Orders, GroupTurnsOfStreams,
                         testing::Values(std::vector<CallOnStream>{{0, 0, 0}, {0, 1, 1}, {1, 2}},
                                         std::vector<CallOnStream>{{1, 2}, {0, 0, 0}, {0, 1, 1}},
                                         std::vector<CallOnStream>{{0, 0}, {0, 1}, {1, 2}},
                                         std::vector<CallOnStream>{{1, 2}, {0, 0}, {0, 1}},
                                         std::vector<CallOnStream>{
                                             {0, 0}, {1, 1}, {0, 2}, {1, 0}}));

TEST_F(GroupTurns, OrdersThatDiffer_EndAtTheDeadlineWithTheCycleNamed) {
  std::atomic<int> called = 0;
  run_groups(kPair, 2, [&](uint32_t rank, std::vector<Ref<ProcessGroup>>& groups) {
    if (rank == 1) std::swap(groups[0], groups[1]);
    const std::vector<Call> calls = {sum_of(*groups[0]), sum_of(*groups[1])};
    std::vector<Ref<Work>> works;
    // Rank 0's deadline ends it, when rank 1 has called both, however late.
    if (rank == 0) meet(&called, 2);
    const auto begin = Clock::now();
    for (size_t i = 0; i < groups.size(); ++i) {
      auto work = groups[i]->enqueue(calls[i], {.timeout = seconds(rank == 0 ? 2 : 20)});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      works.push_back(*work);
    }
    if (rank == 1) meet(&called, 2);
    const Status first = works[0]->wait(begin + seconds(40));
    const Status second = works[1]->wait(begin + seconds(40));
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
    EXPECT_FALSE(first.ok());
    EXPECT_FALSE(second.ok());
    // The group that fails first frees the other, which then tells that it waited for failed work.
    const auto is_named =
        AllOf(HasSubstr("as number 1 was not done on rank 0 (npu:0) within 2000 ms"),
              HasSubstr("rank 1 (npu:1) has it queued behind all_reduce sum f32 3 of group b"),
              HasSubstr("whose work waits behind this group's on rank 0 (npu:0)"),
              HasSubstr("in different orders"));
    EXPECT_THAT((std::vector<std::string>{first.message(), second.message()}),
                testing::Contains(is_named));
  });
  // The devices are as good as before.
  run_groups(kPair, 2, [&](uint32_t, std::vector<Ref<ProcessGroup>>& groups) {
    for (const Ref<ProcessGroup>& group : groups) {
      const Call call = sum_of(*group);
      const auto work = group->enqueue(call);
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      const Status status = (*work)->wait(Clock::now() + seconds(40));
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(floats(call.recv), (std::vector<float>{2, 4, 6}));
    }
  });
}

TEST_F(GroupTurns, GroupThatWasAborted_HoldsUpNoOther) {
  run_groups(kPair, 2, [&](uint32_t rank, std::vector<Ref<ProcessGroup>>& groups) {
    if (rank == 0) {
      const Call call = sum_of(*groups[0]);
      const auto work = groups[0]->enqueue(call);  // rank 1 never does
      ASSERT_TRUE(work.ok());
      groups[0]->abort("nobody else comes");
      EXPECT_EQ((*work)->wait(Clock::now() + seconds(20)).code(), BP_CANCELLED);
    }
    const Call call = sum_of(*groups[1]);
    const auto work = groups[1]->enqueue(call);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const Status status = (*work)->wait(Clock::now() + seconds(40));
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
}

}  // namespace
}  // namespace bp::ccl
