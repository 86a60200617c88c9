// SPDX-License-Identifier: Apache-2.0
//
// Calls that their caller runs itself, without a batch (group_direct.cpp), beside those that others
// run; and how they fail.
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

const Devices kHosts = {"cpu:0", "cpu:0"};

class GroupDirect : public GroupTest {
 protected:
  static Call sum_of(ProcessGroup& group, double value, uint64_t count = 3) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, value)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }
};

TEST_F(GroupDirect, Calls_AreRecordedAndCounted) {
  run(kHosts, [&](uint32_t, ProcessGroup& group) {
    for (int i = 0; i < 3; ++i) {
      const Call call = sum_of(group, i);
      const auto work = group.enqueue(call, {.waits = true});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_FALSE(*work) << "it went another way";
      EXPECT_THAT(floats(call.recv), Each(2.f * static_cast<float>(i)));
    }
    EXPECT_EQ(group.counters().host_operations, 3u);
    EXPECT_EQ(group.wire().sent_messages, 3u);
    EXPECT_EQ(group.wire().received_bytes, 36u);
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    ASSERT_EQ(dump->records.size(), 3u);
    EXPECT_EQ(dump->last.entered, 3u);
    EXPECT_EQ(dump->last.started, 3u);
    EXPECT_EQ(dump->last.completed, 3u);
    for (const Record& record : dump->records) {
      EXPECT_EQ(record.state, RecordState::kCompleted);
      EXPECT_EQ(record.entry.path, OperationPath::kHost);
      EXPECT_EQ(record.entry.send_bytes, 12u);
      EXPECT_GT(record.started_ns, 0);
      EXPECT_GE(record.completed_ns, record.started_ns);
    }
  });
}

// The one that waits was called first, so that its number is the smaller one on all ranks.
TEST_F(GroupDirect, WhatIsCalledMeanwhile_ComesBehindIt) {
  std::atomic<bool> are_called = false;
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    const Call first = sum_of(group, 1);
    const Call second = sum_of(group, 10, 5);
    const Call third = sum_of(group, 100);
    if (rank == 1) {
      EXPECT_TRUE(await_that([&] { return are_called.load(); }));
      for (const Call& call : {first, second, third}) ASSERT_TRUE(group.enqueue(call).ok());
    } else {
      std::thread caller([&] { EXPECT_TRUE(group.enqueue(first, {.waits = true}).ok()); });
      EXPECT_TRUE(await_that([&] { return group.status().last.entered == 1; }));
      EXPECT_TRUE(group.enqueue(second).ok());
      std::thread last_caller([&] {
        const auto work = group.enqueue(third, {.waits = true});
        EXPECT_TRUE(work.ok()) << work.status().to_string();
        if (work.ok()) EXPECT_TRUE(*work) << "it passed the others";
      });
      EXPECT_TRUE(await_that([&] { return group.status().last.entered == 3; }));
      EXPECT_EQ(group.status().sequence, 1u) << "none of them is over";
      are_called = true;
      caller.join();
      last_caller.join();
    }
    EXPECT_THAT(floats(first.recv), Each(2.f));
    EXPECT_THAT(floats(second.recv), Each(20.f));
    EXPECT_THAT(floats(third.recv), Each(200.f));
  });
}

TEST_F(GroupDirect, ManyThreadsOfOneGroup_EachGetTheirSum) {
  run(kHosts, [&](uint32_t, ProcessGroup& group) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 200; ++i) {
          const Call call = sum_of(group, 1);
          const auto work = group.enqueue(call, {.waits = (thread + i) % 3 != 0});
          ASSERT_TRUE(work.ok()) << work.status().to_string();
          ASSERT_THAT(floats(call.recv), Each(2.f));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    group.finish();
    EXPECT_EQ(group.counters().host_operations, 800u);
  });
}

TEST_F(GroupDirect, Abort_EndsWhoWaits) {
  std::atomic<int> begun = 0;
  Ref<ProcessGroup> of_rank_0;
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    ASSERT_TRUE(group.enqueue(sum_of(group, 1), {.waits = true}).ok());
    if (rank == 0) of_rank_0 = Ref<ProcessGroup>(&group);
    meet(&begun, 2);
    if (rank == 1) {
      const Ref<ProcessGroup> other = std::move(of_rank_0);
      ASSERT_TRUE(other);
      EXPECT_TRUE(await_that([&] { return other->status().sequence == 2; })) << "it waits";
      return group.abort("the user has pressed a key");
    }
    const Call call = sum_of(group, 1);
    const auto begin = Clock::now();
    const Status status = group.enqueue(call, {.timeout = seconds(30), .waits = true}).status();
    EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
    EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1"), HasSubstr("pressed a key")));
    EXPECT_EQ(group.enqueue(call, {.waits = true}).status().code(), BP_CANCELLED);
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok());
    EXPECT_EQ(dump->records.back().state, RecordState::kFailed);
  });
}

TEST_F(GroupDirect, RankThatNeverCalls_IsNamedAtTheDeadline) {
  std::atomic<int> begun = 0;
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    ASSERT_TRUE(group.enqueue(sum_of(group, 1), {.waits = true}).ok());
    meet(&begun, 2);
    if (rank == 1) {
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      return;
    }
    const auto work =
        group.enqueue(sum_of(group, 1), {.timeout = milliseconds(300), .waits = true});
    EXPECT_EQ(work.status().code(), BP_TIMEOUT);
    EXPECT_THAT(work.status().message(),
                AllOf(HasSubstr("all_reduce sum f32 3 as number 2"), HasSubstr("within 300 ms"),
                      HasSubstr("rank 1 (cpu:0) never entered it, its last was number 1")));
    EXPECT_THAT(group.failure().culprits, testing::ElementsAre(1));
  });
}

TEST_F(GroupDirect, RankThatLeaves_IsNamed) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) return;
    const auto work = group.enqueue(sum_of(group, 1), {.waits = true});
    EXPECT_EQ(work.status().code(), BP_UNAVAILABLE);
    EXPECT_THAT(work.status().message(), AllOf(HasSubstr("rank 1 (cpu:0)"), HasSubstr("left")));
  });
}

TEST_F(GroupDirect, CountsThatDiffer_FailBothRanks) {
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, 1, 3 + rank);
    const auto work = group.enqueue(call, {.waits = true});
    EXPECT_EQ(work.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(work.status().message(),
                AllOf(HasSubstr("all_reduce sum f32 3"), HasSubstr("all_reduce sum f32 4")));
    EXPECT_THAT(floats(call.recv), testing::Not(testing::Contains(2.f)));
  });
}

// What was found out about a call serves the next one of its shapes, and none that differs.
TEST_F(GroupDirect, CallsThatTakeTurns_EachGetTheirSum) {
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    const double other = rank == 0 ? 1 : 0;
    for (int i = 0; i < 20; ++i) {
      Call sum = sum_of(group, rank + i);
      ASSERT_TRUE(group.enqueue(sum, {.waits = true}).ok());
      EXPECT_THAT(floats(sum.recv), Each(static_cast<float>(rank + other + 2 * i)));
      sum.send = sum.recv = upload(group.device(), BP_DTYPE_F32, {1.0 * rank, 5, -2.0 * i});
      sum.reduction = i % 3 == 0 ? Reduction::kMax : Reduction::kSum;
      ASSERT_TRUE(group.enqueue(sum, {.waits = true}).ok());
      const bool is_max = i % 3 == 0;
      EXPECT_THAT(floats(sum.recv),
                  testing::ElementsAre(1.f, is_max ? 5.f : 10.f,
                                       static_cast<float>((is_max ? -2 : -4) * i)));
      const uint32_t root = i % 2;
      const Call broadcast{.kind = Kind::kBroadcast,
                           .root = root,
                           .send = rank == root ? sum_of(group, 7 + i).send : Ref<Tensor>(),
                           .recv = room(group.device(), BP_DTYPE_F32, 3)};
      ASSERT_TRUE(group.enqueue(broadcast, {.waits = true}).ok());
      EXPECT_THAT(floats(broadcast.recv), Each(7.f + static_cast<float>(i)));
    }
  });
}

// Nobody waits for the work, and nothing else of the group is called.
TEST_F(GroupDirect, MemoryOfDroppedTensors_IsLetGoWhenTheirWorkIsOver) {
  std::atomic<int> come = 0;
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    for (int round = 0; round < 150; ++round) {
      std::vector<float> values(2000, 1.f);
      std::atomic<bool> is_let_go{false};
      if (static_cast<int>(rank) == round % 2) std::this_thread::sleep_for(milliseconds(1));
      {
        const auto tensor = Ref<Tensor>::make(
            Storage::wrap(&group.device(), reinterpret_cast<uint64_t>(values.data()),
                          values.size() * sizeof(float),
                          std::shared_ptr<void>(&values, [&](void*) { is_let_go = true; })),
            BP_DTYPE_F32, Dims{2000}, Dims{1}, uint64_t{0});
        ASSERT_TRUE(group.enqueue({.send = tensor, .recv = tensor}).ok());
      }
      ASSERT_TRUE(await_that([&] { return is_let_go.load(); })) << "round " << round;
      meet(&come, 2 * (round + 1));
      ASSERT_THAT(values, Each(2.f));
    }
  });
}

// A barrier has no tensors that would tell what it comes behind.
TEST_F(GroupDirect, StreamOfTheCaller_ComesBefore) {
  for (const size_t calls : {1, 2}) {  // the short way and the other one
    run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
      const std::vector<Call> barriers(calls, Call{.kind = Kind::kBarrier});
      const auto stream = group.device().acquire_stream();
      ASSERT_TRUE(stream.ok());
      if (rank == 1) {
        const auto work = group.enqueue(barriers);
        std::this_thread::sleep_for(milliseconds(100));
        const Call send{
            .kind = Kind::kSend, .root = 0, .send = room(group.device(), BP_DTYPE_F32, 3)};
        EXPECT_TRUE(group.enqueue(send, {.waits = true}).ok());
        EXPECT_TRUE((*work)->wait(Clock::now() + seconds(30)).ok());
      } else {
        const Call recv{
            .kind = Kind::kRecv, .root = 1, .recv = room(group.device(), BP_DTYPE_F32, 3)};
        const auto before = group.enqueue(recv, {.stream = *stream});
        ASSERT_TRUE(before.ok());
        ASSERT_TRUE(group.enqueue(barriers, {.stream = *stream, .waits = true}).ok());
        EXPECT_TRUE((*before)->test()) << "of " << calls;
      }
      group.device().release_stream(*stream);
    });
  }
}

TEST_F(GroupDirect, StreamOfAnotherDevice_IsRefused) {
  run(kHosts, [&](uint32_t, ProcessGroup& group) {
    const auto foreign = device("npu:0").acquire_stream();
    ASSERT_TRUE(foreign.ok());
    const auto work = group.enqueue(sum_of(group, 1), {.stream = *foreign, .waits = true});
    EXPECT_EQ(work.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(work.status().message(),
                AllOf(HasSubstr("is on cpu:0"), HasSubstr("the stream is of npu:0")));
    device("npu:0").release_stream(*foreign);
  });
}

// Its arguments are wrong, and nothing of the group has begun: its number is the next one's.
TEST_F(GroupDirect, CallThatIsRefused_TakesNoNumber) {
  run(kHosts, [&](uint32_t rank, ProcessGroup& group) {
    Call bad = sum_of(group, 1);
    bad.recv = room(group.device(), BP_DTYPE_F32, 4);
    if (rank == 0) {
      EXPECT_EQ(group.enqueue(bad, {.waits = true}).status().code(), BP_INVALID_ARGUMENT);
      bad = sum_of(group, 1);
      bad.reduction = Reduction::kSum;
      bad.send = upload(group.device(), BP_DTYPE_BOOL, {1, 0, 1});
      bad.recv = room(group.device(), BP_DTYPE_BOOL, 3);
      EXPECT_FALSE(group.enqueue(bad, {.waits = true}).ok());
    }
    const Call call = sum_of(group, 1);
    ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
    EXPECT_THAT(floats(call.recv), Each(2.f));
  });
}

}  // namespace
}  // namespace bp::ccl
