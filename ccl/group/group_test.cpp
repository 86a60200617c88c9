// SPDX-License-Identifier: Apache-2.0
//
// Every kind on groups of one vendor and of several, against sums worked out here.
#include <cmath>
#include <cstring>

#include "ccl/group/kind_cases_test.hpp"

namespace bp::ccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST_F(GroupKinds, DeterministicSums_AreInRankOrderBitForBit) {
  for (const uint32_t rank_count : {3u, 4u, 5u}) {
    run(Devices(rank_count, "cpu:0"), [&](uint32_t rank, ProcessGroup& group) {
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
        for (const uint64_t count : {63, 1000, 70'001}) {
          expect_rank_order(kind, count, rank, group);
        }
      }
    });
  }
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

TEST_F(GroupKinds, AverageThatTheDeviceLacks_IsItsSumDividedByItsKernel) {
  make_runtime({{"npu.collective_averages", "false"}});
  run({"npu:0", "npu:1", "npu:2"}, [&](uint32_t rank, ProcessGroup& group) {
    uint64_t native = 0;
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter}) {
      for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F64}) {
        for (const bool is_in_place : {false, true}) {
          for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{1001}}) {
            run_case({.kind = kind,
                      .dtype = dtype,
                      .reduction = Reduction::kAvg,
                      .root = kind == Kind::kReduce ? 1u : 0u,
                      .count = count,
                      .is_in_place = is_in_place,
                      .is_deterministic = is_in_place},
                     rank, group);
            EXPECT_EQ(group.counters().native_operations, ++native);
          }
        }
      }
    }
    EXPECT_EQ(group.counters().staged_operations, 0u);
    EXPECT_THAT(group.trace(), HasSubstr("\"reduction\": \"avg\""));
  });
}

TEST_F(GroupKinds, AverageThatTheDeviceLacks_TakesItsPlaceInTheStream) {
  make_runtime({{"npu.collective_averages", "false"}});
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    auto stream = group.device().acquire_stream();
    ASSERT_TRUE(stream.ok());
    const double own = rank == 0 ? 2 : 4;
    const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, std::vector<double>(10'000, own));
    for (int round = 0; round < 20; ++round) {
      const Call average{.reduction = Reduction::kAvg, .send = x, .recv = x};
      const Call sum{.send = x, .recv = x};
      for (const Call& call : {average, sum, average}) {
        const auto work = group.enqueue(call, {.stream = *stream});
        ASSERT_TRUE(work.ok()) << work.status().to_string();
      }
    }
    EXPECT_THAT(floats(x), testing::Each(3.0f * (1 << 20)));
    EXPECT_EQ(group.counters().native_operations, 60u);
    group.device().release_stream(*stream);
  });
}

TEST_F(GroupKinds, AverageThatTheDeviceLacks_InABatch_IsUsedByNoneOfTheOthers) {
  make_runtime({{"npu.collective_averages", "false"}});
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {2, 4});
    const Ref<Tensor> y = upload(group.device(), BP_DTYPE_F32, {1});
    const Call average{.reduction = Reduction::kAvg, .send = x, .recv = x};
    const Call apart[] = {average, {.send = y, .recv = y}};
    ASSERT_TRUE(group.enqueue(apart).ok());
    EXPECT_THAT(floats(x), testing::ElementsAre(2, 4));
    EXPECT_THAT(floats(y), testing::ElementsAre(2));
    EXPECT_EQ(group.counters().native_operations, 2u);
    const Call dependent[] = {average, {.send = x, .recv = x}};
    const Status status = group.enqueue(dependent).status();
    EXPECT_EQ(status.code(), BP_UNSUPPORTED);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("all_reduce avg f32 2"), HasSubstr("one by one")));
    run_case({.reduction = Reduction::kAvg}, rank, group);
  });
}

TEST_F(GroupKinds, BatchThatTheDeviceHasInPart_KeepsItsOrder) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {2, 4});
    const Ref<Tensor> y = room(group.device(), BP_DTYPE_F32, 5);
    const Call sum{.send = x, .recv = x};
    const Call barrier{.kind = Kind::kBarrier};
    // Both ranks have the same; the blocks of 2 and 3 elements begin with them.
    const Ref<Tensor> own = rank == 0 ? x : upload(group.device(), BP_DTYPE_F32, {8, 8, 8});
    const Call gather{.kind = Kind::kAllGather, .send = own, .recv = y, .counts = {2, 3}};
    const Call all[] = {sum, barrier, sum, gather, {.send = y, .recv = y}};
    const auto work = group.enqueue(all);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const Status done = (*work)->wait(Clock::now() + std::chrono::seconds(40));
    ASSERT_TRUE(done.ok()) << done.to_string();
    EXPECT_THAT(floats(x), testing::ElementsAre(8, 16));
    EXPECT_THAT(floats(y), testing::ElementsAre(16, 32, 16, 16, 16));
    EXPECT_EQ(group.counters().native_operations, 3u);
    EXPECT_EQ(group.counters().staged_operations, 2u);
    group.finish();
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    ASSERT_EQ(dump->records.size(), 5u);
    for (const Record& record : dump->records) EXPECT_EQ(record.state, RecordState::kCompleted);
  });
}

// A strided view is copied before it is sent, and here only when what it shows is there.
TEST_F(GroupKinds, BatchThatSendsAStridedViewOfAResult_SendsTheResult) {
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"}, Devices{"npu:0", "cpu:0"}}) {
    run(devices, [&](uint32_t, ProcessGroup& group) {
      const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {1, 2, 3, 4});
      const auto view = Ref<Tensor>::make(Ref<Storage>(&x->storage()), BP_DTYPE_F32, Dims{2, 2},
                                          Dims{1, 2}, uint64_t{0});
      const Ref<Tensor> y = room(group.device(), BP_DTYPE_F32, 4);
      const Call both[] = {{.send = x, .recv = x}, {.send = view, .recv = y}};
      const auto work = group.enqueue(both, {.waits = true});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_THAT(floats(x), testing::ElementsAre(2, 4, 6, 8));
      EXPECT_THAT(floats(y), testing::ElementsAre(4, 12, 8, 16));
    });
  }
}

TEST_F(GroupKinds, BatchOfWhichAPartCannotBe_BeginsNothing) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {2, 4});
    const Ref<Tensor> z = room(group.device(), BP_DTYPE_C64, 1);
    const Call all[] = {{.send = x, .recv = x},
                        {.reduction = Reduction::kProd, .send = z, .recv = z}};
    EXPECT_EQ(group.enqueue(all).status().code(), BP_UNSUPPORTED);
    EXPECT_THAT(floats(x), testing::ElementsAre(2, 4));
    EXPECT_EQ(group.counters().native_operations, 0u);
    run_case({.count = 100}, rank, group);
  });
}

TEST_F(GroupKinds, BatchThatTheDeviceHasInPart_TakesNoSendsAndReceives) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {2, 4});
    const Call one = rank == 0 ? Call{.kind = Kind::kSend, .root = 1, .send = x}
                               : Call{.kind = Kind::kRecv, .root = 0, .recv = x};
    const Call all[] = {{.kind = Kind::kBarrier}, one};
    const Status status = group.enqueue(all).status();
    EXPECT_EQ(status.code(), BP_UNSUPPORTED);
    EXPECT_THAT(status.message(), HasSubstr("sends and receives cannot go in one batch"));
    run_case({.count = 100}, rank, group);
  });
}

TEST_F(GroupKinds, AverageOfDevicesWithoutADivision_GoesByMessages) {
  make_runtime({{"npu.collective_averages", "false"}, {"npu.kernels", "div"}});
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.reduction = Reduction::kAvg, .count = 100}, rank, group);
    EXPECT_EQ(group.counters().native_operations, 0u);
    EXPECT_EQ(group.counters().staged_operations, 1u);
  });
}

/// Whether each element is NaN.
template <class Word>
std::vector<bool> nan_marks(const std::vector<std::byte>& bytes, Word infinity) {
  std::vector<Word> words(bytes.size() / sizeof(Word));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  constexpr Word kUnsigned = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  std::vector<bool> marks;
  for (const Word word : words) marks.push_back((word & kUnsigned) > infinity);
  return marks;
}

std::vector<bool> nan_marks(uint32_t dtype, const std::vector<std::byte>& bytes) {
  if (dtype == BP_DTYPE_F16) return nan_marks<uint16_t>(bytes, 0x7C00);
  if (dtype == BP_DTYPE_BF16) return nan_marks<uint16_t>(bytes, 0x7F80);
  if (dtype == BP_DTYPE_F32) return nan_marks<uint32_t>(bytes, 0x7F800000);
  return nan_marks<uint64_t>(bytes, 0x7FF0000000000000);
}

TEST_F(GroupKinds, MinAndMax_AreNanWhereOneValueIs) {
  constexpr uint64_t kCount = 101;  // more than the lanes of a vector, and some that are left
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1", "npu:2"},
        Devices{"npu:0", "xpu:0", "cpu:0"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
        for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_F16, BP_DTYPE_BF16}) {
          std::vector<double> values(kCount);
          std::vector<double> expected(kCount);
          for (uint64_t i = 0; i < kCount; ++i) {
            const bool is_nan = i % 4 == rank;  // and of each fourth one, no rank's
            values[i] = is_nan ? std::nan("") : value_at(rank, i);
            expected[i] = i % 4 < 3 ? std::nan("") : 0;
          }
          const Ref<Tensor> x = upload(group.device(), dtype, values);
          const Call all_reduce{.reduction = reduction, .send = x, .recv = x};
          const auto work = group.enqueue(all_reduce, {.waits = true});
          ASSERT_TRUE(work.ok()) << work.status().to_string();
          EXPECT_EQ(nan_marks(dtype, bytes_of(x)), nan_marks(dtype, bytes_of(dtype, expected)))
              << reduction_name(reduction) << " " << dtype_name(dtype) << " on "
              << group.device().name();
        }
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

// One rank allocates what its pool has no room for while the other's operation waits for it.
TEST_F(GroupKinds, RanksOfOneDevice_AllocateWhileTheOthersWait) {
  constexpr uint64_t kMiB = (uint64_t{1} << 20) / sizeof(float);
  timeout_ = std::chrono::seconds(10);
  for (const char* name : {"npu:0", "cpu:0"}) {
    std::atomic<bool> has_begun = false;
    run({name, name}, [&](uint32_t rank, ProcessGroup& group) {
      const Ref<Tensor> values = upload(group.device(), BP_DTYPE_F32, {1.0 + rank});
      const Ref<Tensor> sum = room(group.device(), BP_DTYPE_F32, 1);
      if (rank == 1) {
        room(group.device(), BP_DTYPE_F32, kMiB * 5 / 2);  // leaves a segment that is too small
        const std::vector<float> large(4 * kMiB);  // values take longer than the room for them
        EXPECT_TRUE(await_that([&] { return has_begun.load(); }));
        const auto begun = std::chrono::steady_clock::now();
        const auto tensor =
            copy_from_host(group.device().default_stream(), BP_DTYPE_F32,
                           {static_cast<int64_t>(large.size())}, large.data(), MemoryTag::kIo);
        EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5)) << name;
      }
      const auto work = group.enqueue(Call{.send = values, .recv = sum});
      ASSERT_TRUE(work.ok()) << name << ": " << work.status().to_string();
      has_begun = true;
      EXPECT_EQ(floats(sum), (std::vector<float>{3})) << name;
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
