// SPDX-License-Identifier: Apache-2.0
//
// Ranks that call different collectives of a library which does not notice (npu's option
// collective_mismatch): compared before they begin in check mode, else where one does not end.
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const Devices kLinked = {"npu:0", "npu:1", "npu:2"};

class GroupCheck : public GroupTest {
 protected:
  void have(const std::string& mismatch, bool checks) {
    core_options_ = {{"BACKPLANE_CCL_CHECK", checks ? "1" : "0"}};
    make_runtime({{"npu.collective_mismatch", mismatch}});
  }
  static Call sum_of(ProcessGroup& group, uint64_t count) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, 1)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }
};

TEST_F(GroupCheck, CallsThatDiffer_FailOnAllWithinASecondAndWithoutWrongData) {
  const auto wrong = [](ProcessGroup& group, int what) {
    Call call = sum_of(group, 3);
    if (what == 0) return sum_of(group, 2);
    if (what == 1) call.reduction = Reduction::kMax;
    if (what == 2) call = {.kind = Kind::kBroadcast, .root = 1, .recv = call.recv};
    if (what == 3) call = {.kind = Kind::kBarrier};  // by messages
    return call;
  };
  const char* const words[] = {"all_reduce sum f32 2", "all_reduce max f32 3",
                               "broadcast f32 3 root 1", "barrier"};
  have("passes", true);
  const auto call_wrong = [&](int what, Delays& delays) {
    std::atomic<int> good_count = 0;
    run(kLinked, [&](uint32_t rank, ProcessGroup& group) {
      ASSERT_TRUE(group.is_native());
      const Call good = sum_of(group, 3);
      ASSERT_TRUE(group.enqueue(good, {.timeout = seconds(20), .waits = true}).ok());
      EXPECT_EQ(floats(good.recv), (std::vector<float>{3, 3, 3}));
      // The group's end may take a call with it that has not ended on all ranks.
      meet(&good_count, 3);
      const Call call = rank == 1 ? wrong(group, what) : sum_of(group, 3);
      const auto begin = Clock::now();
      const auto work = group.enqueue(call, {.timeout = seconds(30)});
      // Another rank may have found out before this one called.
      const Status status = work.ok() ? (*work)->wait(begin + seconds(40)) : work.status();
      delays.note_since(begin, std::string(words[what]) + ", " + std::to_string(rank));
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("the ranks disagree"), HasSubstr("rank 1 (npu:1)"),
                        HasSubstr("all_reduce sum f32 3 as number 2"), HasSubstr(words[what])));
      if (work.ok() && call.recv) EXPECT_FALSE(read_status(call.recv).ok()) << words[what];
    });
  };
  expect_within(seconds(1), [&](Delays& delays) {
    for (int what = 0; what < 4; ++what) call_wrong(what, delays);
  });
}

// The leader of an island would hand on what is its own, and rank 1 take it for the root's.
TEST_F(GroupCheck, OfAGroupWithAnIsland_CallsThatDifferFailOnAllWithoutWrongData) {
  have("passes", true);
  for (const Devices& devices :
       {Devices{"npu:0", "npu:1", "cpu:0"}, Devices{"npu:0", "npu:1", "xpu:0"}}) {
    std::atomic<int> good_count = 0;
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      ASSERT_FALSE(group.is_native());
      const Call good = sum_of(group, 3);
      ASSERT_TRUE(group.enqueue(good, {.waits = true}).ok());
      EXPECT_EQ(floats(good.recv), (std::vector<float>{3, 3, 3}));
      // The group's end may take a call with it that has not ended on all ranks.
      meet(&good_count, 3);
      const Call call = {.kind = Kind::kBroadcast,
                         .root = rank == 0 ? 0u : 2u,
                         .recv = upload(group.device(), BP_DTYPE_F32, {rank + 10.0, 7})};
      const auto work = group.enqueue(call, {.timeout = seconds(20)});
      const Status status = work.ok() ? (*work)->wait(Clock::now() + seconds(40)) : work.status();
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("broadcast f32 2 root 0"), HasSubstr("broadcast f32 2 root 2")));
    });
  }
}

TEST_F(GroupCheck, OneRankThatAsksForIt_HasAllCompare) {
  std::vector<RankCard> cards(2);
  EXPECT_FALSE(conclude(cards, "test").checks);
  cards[1].checks = 1;
  const auto card = decode_card(encode(cards[1]));
  ASSERT_TRUE(card.ok());
  EXPECT_TRUE(conclude({cards[0], *card}, "test").checks);
}

TEST_F(GroupCheck, GoodCalls_AreAsGoodAndOneRecordEach) {
  have("fails", true);
  run(kLinked, [&](uint32_t rank, ProcessGroup& group) {
    for (int round = 0; round < 50; ++round) {
      const Call call = sum_of(group, 1000);
      ASSERT_TRUE(group.enqueue(call).ok());
      EXPECT_EQ(floats(call.recv)[999], 3);
    }
    // A call of several, with a send and a recv among them.
    const Ref<Tensor> got = room(group.device(), BP_DTYPE_F32, 1);
    const Call calls[] = {sum_of(group, 5),
                          {.kind = Kind::kSend,
                           .root = (rank + 1) % 3,
                           .send = upload(group.device(), BP_DTYPE_F32, {rank + 1.0})},
                          {.kind = Kind::kRecv, .root = (rank + 2) % 3, .recv = got},
                          sum_of(group, 7)};
    const auto work = group.enqueue(calls, {.waits = true});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(floats(calls[3].recv)[6], 3);
    EXPECT_EQ(floats(got)[0], static_cast<float>((rank + 2) % 3 + 1));
    EXPECT_EQ(group.counters().native_operations, 54u);
    EXPECT_EQ(group.counters().host_operations, 0u);
    group.finish();
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    EXPECT_EQ(dump->records.size(), 54u);
    EXPECT_EQ(dump->last.completed, 52u);
    for (const Record& record : dump->records) EXPECT_EQ(record.state, RecordState::kCompleted);
  });
}

TEST_F(GroupCheck, BatchThatTheDeviceHasInPart_IsCompared) {
  have("fails", true);
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    const Call barrier{.kind = Kind::kBarrier};
    const Call good[] = {barrier, sum_of(group, 3)};
    const auto work = group.enqueue(good, {.waits = true});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(floats(good[1].recv)[2], 2);
    const Ref<Tensor> complex = room(group.device(), BP_DTYPE_C64, 1);
    const Call cannot_be[] = {sum_of(group, 3),
                              {.reduction = Reduction::kProd, .send = complex, .recv = complex}};
    EXPECT_EQ(group.enqueue(cannot_be).status().code(), BP_UNSUPPORTED);
    ASSERT_TRUE(group.enqueue(good, {.waits = true}).ok());
    const Call differs[] = {barrier, sum_of(group, 3 + rank)};
    const Status status = group.enqueue(differs, {.waits = true}).status();
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("f32 3"), HasSubstr("f32 4")));
  });
}

TEST_F(GroupCheck, GoodCallsOfAGroupWithIslands_AreAsGood) {
  have("fails", true);
  run({"npu:0", "cpu:0", "npu:1", "xpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> all = room(group.device(), BP_DTYPE_F32, 4);
    for (int round = 0; round < 20; ++round) {
      const Call calls[] = {sum_of(group, 1000),
                            {.kind = Kind::kAllGather,  // by messages
                             .send = upload(group.device(), BP_DTYPE_F32, {rank + 1.0}),
                             .recv = all},
                            sum_of(group, 3)};
      const auto work = group.enqueue(calls, {.waits = round % 2 == 0});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_EQ(floats(calls[0].recv)[999], 4);
      EXPECT_EQ(floats(all), (std::vector<float>{1, 2, 3, 4}));
      EXPECT_EQ(floats(calls[2].recv)[2], 4);
    }
    group.finish();
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    EXPECT_EQ(dump->records.size(), 60u);
    EXPECT_EQ(dump->last.completed, 60u);
  });
}

TEST_F(GroupCheck, RankThatNeverCalls_IsNamedAtTheDeadline) {
  have("fails", true);
  run(kLinked, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 2) {
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      return;
    }
    const auto work =
        group.enqueue(sum_of(group, 3), {.timeout = milliseconds(300), .waits = true});
    EXPECT_EQ(work.status().code(), BP_TIMEOUT);
    EXPECT_THAT(work.status().message(), AllOf(HasSubstr("all_reduce sum f32 3 as number 1"),
                                               HasSubstr("rank 2 (npu:2) never entered it")));
  });
}

TEST_F(GroupCheck, WithoutIt_CallsThatHangAreComparedAtTheDeadline) {
  have("hangs", false);
  std::atomic<int> called = 0;
  std::atomic<Clock::time_point> begun = Clock::time_point::max();
  run(kLinked, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, rank == 1 ? 2 : 3);
    // Of rank 0 alone, whose deadline ends it: the others have called before that, however late.
    if (rank == 0) {
      meet(&called, 3);
      begun = Clock::now();
    }
    const auto work = group.enqueue(call, {.timeout = seconds(rank == 0 ? 1 : 20)});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    if (rank != 0) meet(&called, 3);
    const Status status = (*work)->wait(Clock::now() + seconds(40));
    // Who drives may have read the clock before the call.
    EXPECT_GE(Clock::now() - begun.load(), milliseconds(500));
    EXPECT_LT(Clock::now() - begun.load(), kBeforeDeadline);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    EXPECT_THAT(
        status.message(),
        AllOf(HasSubstr("the ranks disagree on number 1"), HasSubstr("called all_reduce sum f32 3"),
              HasSubstr("rank 1 (npu:1) has called all_reduce sum f32 2")));
    EXPECT_THAT(group.failure().culprits, ElementsAre(1));
    EXPECT_EQ(group.failure().sequence, 1u);
  });
}

/// What docs/collectives.md warns of.
TEST_F(GroupCheck, WithoutIt_ALibraryThatDoesNotNoticeGivesWrongData) {
  have("passes", false);
  run(kLinked, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, rank == 1 ? 2 : 3);
    const auto work = group.enqueue(call, {.timeout = seconds(20), .waits = true});
    EXPECT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_NE(floats(call.recv)[0], 3);
  });
}

}  // namespace
}  // namespace bp::ccl
