// SPDX-License-Identifier: Apache-2.0
//
// Every kind on groups of one vendor and of several, against sums worked out here.
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Kind kAllKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter,
                          Kind::kBroadcast, Kind::kReduce,    Kind::kGather,
                          Kind::kScatter,   Kind::kAllToAll};

class GroupKinds : public GroupTest {
 protected:
  /// Runs the case on one rank and compares bytes: every value is exact.
  void run_case(const KindCase& what, uint32_t rank, ProcessGroup& group) {
    const uint32_t rank_count = group.place().rank_count;
    Device& on = group.device();
    const std::vector<double> input = what.input(rank, rank_count);
    const std::vector<double> output = what.output(rank, rank_count);
    const KindInfo& kind = kind_info(what.kind);
    const bool is_root = rank == what.root;
    Call call{.kind = what.kind,
              .reduction = what.reduction,
              .root = what.root,
              .is_deterministic = what.is_deterministic};
    const auto takes = [&](Extent extent) {
      if (extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot) return is_root;
      return extent != Extent::kNone;
    };
    if (takes(kind.send)) call.send = upload(on, what.dtype, input);
    if (takes(kind.recv)) call.recv = room(on, what.dtype, output.size());
    if (what.is_in_place && call.send && call.recv) put_in_place(what, rank, &call);
    const auto work = group.enqueue(call, {.waits = rank % 2 == 0});
    ASSERT_TRUE(work.ok()) << what.words() << " on " << on.name() << ": "
                           << work.status().to_string();
    if (!call.recv) {
      ASSERT_TRUE((*work)->wait(Clock::now() + std::chrono::seconds(60)).ok());
      return;
    }
    EXPECT_EQ(bytes_of(call.recv), bytes_of(what.dtype, output))
        << what.words() << " of " << rank_count << " on " << on.name() << ", rank " << rank;
    if (!what.is_in_place && call.send) {
      EXPECT_EQ(bytes_of(call.send), bytes_of(what.dtype, input)) << "send was written";
    }
  }
  static void put_in_place(const KindCase& what, uint32_t rank, Call* call) {
    const auto count = static_cast<int64_t>(what.count);
    const auto own = static_cast<int64_t>(rank) * count;
    if (call->send->element_count() == call->recv->element_count()) {
      call->recv = call->send;
    } else if (call->send->element_count() < call->recv->element_count()) {
      const auto values = call->send;
      call->send = call->recv->view({count}, {1}, own);
      ASSERT_TRUE(copy_into(values, call->send, false, values->device()->default_stream()).ok());
    } else {
      call->recv = call->send->view({count}, {1}, own);
    }
  }
  void run_all(const Devices& devices, const std::vector<KindCase>& cases, bool is_native) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      EXPECT_EQ(group.is_native(), is_native) << group.why_not_native();
      for (const KindCase& what : cases) run_case(what, rank, group);
      const uint64_t native = group.counters().native_operations;
      EXPECT_EQ(native, is_native ? cases.size() : 0);
    });
  }
  static std::vector<KindCase> cases_of(uint32_t rank_count) {
    std::vector<KindCase> cases;
    uint32_t turn = 0;
    for (const Kind kind : kAllKinds) {
      for (const uint64_t count :
           {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1000}, uint64_t{65537 / rank_count}}) {
        for (const bool is_in_place : {false, true}) {
          if (is_in_place && kind == Kind::kAllToAll) continue;
          constexpr uint32_t kDtypes[] = {BP_DTYPE_F32,  BP_DTYPE_I32, BP_DTYPE_F16, BP_DTYPE_F64,
                                          BP_DTYPE_BF16, BP_DTYPE_I64, BP_DTYPE_U8};
          constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax, Reduction::kMin,
                                               Reduction::kProd};
          cases.push_back({.kind = kind,
                           .dtype = kDtypes[turn % 7],
                           .reduction = kReductions[turn % 4],
                           .root = kind_info(kind).has_root ? turn % rank_count : 0,
                           .count = count,
                           .is_in_place = is_in_place,
                           .is_deterministic = turn % 5 == 0});
          ++turn;
        }
      }
    }
    return cases;
  }
};

TEST_F(GroupKinds, OneRank_EveryKind) { run_all({"cpu:0"}, cases_of(1), false); }
TEST_F(GroupKinds, TwoOnTheHost_EveryKind) { run_all({"cpu:0", "cpu:0"}, cases_of(2), false); }
TEST_F(GroupKinds, ThreeOnTheHost_EveryKind) {
  run_all({"cpu:0", "cpu:0", "cpu:0"}, cases_of(3), false);
}
TEST_F(GroupKinds, LinkedNpus_RunThemNatively) {
  run_all({"npu:0", "npu:1", "npu:2", "npu:3"}, cases_of(4), true);
}
TEST_F(GroupKinds, TwoRanksOfOneNpu_RunThemNatively) {
  run_all({"npu:0", "npu:0"}, cases_of(2), true);
}
TEST_F(GroupKinds, MixedVendors_EveryKind) {
  run_all({"npu:0", "xpu:0", "cpu:0"}, cases_of(3), false);
}
TEST_F(GroupKinds, TwoOfOneAndOneOfAnother_EveryKind) {
  run_all({"npu:0", "npu:1", "xpu:0"}, cases_of(3), false);
}

TEST_F(GroupKinds, Average_IsTheSumDividedByTheRanks) {
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"}, Devices{"xpu:0", "cpu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_F64}) {
        run_case({.dtype = dtype, .reduction = Reduction::kAvg, .count = 100}, rank, group);
      }
    });
  }
}

TEST_F(GroupKinds, Ring_OfSendsAndRecvsInOneCall) {
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0", "cpu:0"},
                                 Devices{"npu:0", "npu:1", "npu:2"}, Devices{"npu:0", "xpu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      const uint32_t rank_count = group.place().rank_count;
      const uint32_t next = (rank + 1) % rank_count;
      const uint32_t last = (rank + rank_count - 1) % rank_count;
      for (const uint64_t count : {uint64_t{5}, uint64_t{100'000}}) {
        std::vector<double> values(count);
        for (uint64_t i = 0; i < count; ++i) values[i] = value_at(rank, i);
        const Call calls[] = {
            {.kind = Kind::kSend,
             .root = next,
             .send = upload(group.device(), BP_DTYPE_F32, values)},
            {.kind = Kind::kRecv, .root = last, .recv = room(group.device(), BP_DTYPE_F32, count)}};
        const auto work = group.enqueue(calls);
        ASSERT_TRUE(work.ok()) << work.status().to_string();
        const std::vector<float> received = floats(calls[1].recv);
        for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(received[i], value_at(last, i)) << i;
        EXPECT_TRUE((*work)->test());
      }
    });
  }
}

TEST_F(GroupKinds, SendToItself_Arrives) {
  run({"cpu:0"}, [&](uint32_t, ProcessGroup& group) {
    const Call calls[] = {
        {.kind = Kind::kSend, .root = 0, .send = upload(group.device(), BP_DTYPE_F32, {1, 2, 3})},
        {.kind = Kind::kRecv, .root = 0, .recv = room(group.device(), BP_DTYPE_F32, 3)}};
    ASSERT_TRUE(group.enqueue(calls, {.waits = true}).ok());
    EXPECT_EQ(floats(calls[1].recv), (std::vector<float>{1, 2, 3}));
  });
}

TEST_F(GroupKinds, Barrier_HoldsUntilAllHaveCome) {
  std::atomic<uint32_t> arrived = 0;
  run({"cpu:0", "npu:0", "cpu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));
    ++arrived;
    const auto work = group.enqueue(Call{.kind = Kind::kBarrier}, {.waits = true});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(arrived, 4u);
  });
}

TEST_F(GroupKinds, Results_AreComputedOnWithoutAWait) {
  const OpId add = *runtime_->registry().find("add");
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"}, Devices{"xpu:0", "npu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      Ref<Tensor> values = upload(group.device(), BP_DTYPE_F32, {1.0 + rank, 10});
      for (int round = 0; round < 20; ++round) {
        Tensor* const inputs[] = {values.get(), values.get()};
        Ref<Tensor> doubled;
        ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = inputs}, {&doubled, 1}).ok());
        const Ref<Tensor> sum = room(group.device(), BP_DTYPE_F32, 2);
        ASSERT_TRUE(group.enqueue(Call{.send = doubled, .recv = sum}).ok());
        Tensor* const sums[] = {sum.get(), sum.get()};
        Ref<Tensor> after;
        ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = sums}, {&after, 1}).ok());
        EXPECT_EQ(floats(after), (std::vector<float>{12, 80})) << round;
      }
    });
  }
}

TEST_F(GroupKinds, StridedInput_IsMadeContiguousAndCounted) {
  run({"cpu:0", "npu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> all = upload(group.device(), BP_DTYPE_F32, {1.0 + rank, 7, 2.0 + rank, 7});
    const Ref<Tensor> sum = room(group.device(), BP_DTYPE_F32, 2);
    const auto work = group.enqueue(Call{.send = all->view({2}, {2}, 0), .recv = sum});
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(floats(sum), (std::vector<float>{3, 5}));
    EXPECT_EQ(group.counters().contiguous_copies, 1u);
  });
}

}  // namespace
}  // namespace bp::ccl
