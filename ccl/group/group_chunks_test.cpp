// SPDX-License-Identifier: Apache-2.0
//
// Operations that are larger than a chunk, in groups with devices whose memory the host cannot
// touch: their values, what memory they take, and how they end in the middle.
#include "ccl/group/chunked_run.hpp"
#include "ccl/group/kind_cases_test.hpp"
#include "core/emulation/host_call.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kChunkBytes = 4096;
constexpr uint64_t kChunkFloats = kChunkBytes / sizeof(float);
constexpr auto kKernel = milliseconds(200);
const Devices kStagedAndNot = {"npu:0", "xpu:0", "cpu:0"};

class GroupChunks : public GroupKinds {
 protected:
  GroupChunks() { have_chunks(kChunkBytes); }

  void have_chunks(uint64_t bytes) {
    make_runtime({}, {{"BACKPLANE_CCL_CHUNK", std::to_string(bytes)}});
  }
  static uint64_t chunk_count(Kind kind, uint32_t dtype, uint32_t rank_count) {
    const Operation operation{.kind = kind, .dtype = dtype, .count = 1 << 20};
    return plan_chunks({.operation = operation}, {0, rank_count}, kChunkBytes).chunk_count;
  }
  /// Each kind and dtype at counts next to whole chunks.
  static std::vector<KindCase> boundary_cases(uint32_t rank_count) {
    std::vector<KindCase> cases;
    uint32_t turn = 0;
    for (const Kind kind : kAllKinds) {
      for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_BF16, BP_DTYPE_I8}) {
        const uint64_t chunk = chunk_count(kind, dtype, rank_count);
        for (const uint64_t count : {chunk - 1, chunk, chunk + 1, 2 * chunk, 5 * chunk + 7}) {
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .reduction = turn % 2 == 0 ? Reduction::kSum : Reduction::kMax,
                           .root = kind_info(kind).has_root ? turn % rank_count : 0,
                           .count = count,
                           .is_in_place = turn % 3 == 0 && kind != Kind::kAllToAll,
                           .is_deterministic = turn % 4 == 0});
          ++turn;
        }
      }
    }
    return cases;
  }
  Call sum_of(ProcessGroup& group, uint64_t count) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, 1)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }
};

TEST_F(GroupChunks, EveryKind_NextToWholeChunks) {
  for (const Devices& devices : {kStagedAndNot, Devices{"cpu:0", "npu:0"}, Devices{"xpu:0"}}) {
    run_all(devices, boundary_cases(static_cast<uint32_t>(devices.size())), false);
  }
}

// Collectives of an array keep their order, also where one takes what another gives.
TEST_F(GroupChunks, CallsOfAnArray_MayUseEachOthersResults) {
  for (const Devices& devices : {Devices{"npu:0", "cpu:0"}, Devices{"npu:0", "xpu:0", "cpu:0"}}) {
    const auto rank_count = static_cast<float>(devices.size());
    for (const uint64_t count : {uint64_t{5}, kChunkFloats + 3}) {
      run(devices, [&](uint32_t rank, ProcessGroup& group) {
        const auto x = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, rank + 1));
        const float sum = rank_count * (rank_count + 1) / 2;
        const Call first{.send = x, .recv = room(group.device(), BP_DTYPE_F32, count)};
        const Call of_first{.send = first.recv, .recv = room(group.device(), BP_DTYPE_F32, count)};
        const auto small = upload(group.device(), BP_DTYPE_F32, {rank * 1.0, 5});
        const Call in_place{.send = small, .recv = small};
        const Call most{.reduction = Reduction::kMax, .send = small, .recv = small};
        const Call from_1{.kind = Kind::kBroadcast, .root = 1, .send = x, .recv = x};
        const std::vector<Call> calls = {first, of_first, in_place, from_1, most, in_place};
        const auto work = group.enqueue(calls);
        ASSERT_TRUE(work.ok()) << work.status().to_string();
        EXPECT_THAT(floats(first.recv), Each(sum));
        EXPECT_THAT(floats(of_first.recv), Each(sum * rank_count));
        EXPECT_THAT(floats(x), Each(2.f));
        const float of_ranks = sum - rank_count;
        EXPECT_THAT(floats(small), ElementsAre(of_ranks * rank_count, 5 * rank_count * rank_count));
      });
    }
  }
}

TEST_F(GroupChunks, ManyCallsOfAnArray_KeepTheirOrder) {
  run({"npu:0", "cpu:0"}, [&](uint32_t, ProcessGroup& group) {
    const auto values = upload(group.device(), BP_DTYPE_F32, {1, 2});
    const std::vector<Call> calls(66, Call{.send = values, .recv = values});
    ASSERT_TRUE(group.enqueue(calls).ok());
    EXPECT_THAT(floats(values), ElementsAre(0x1p66f, 0x1p67f));
  });
}

TEST_F(GroupChunks, ChunkOfOneElement_StillServes) {
  have_chunks(1);
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    for (const Kind kind : kAllKinds) run_case({.kind = kind, .count = 5}, rank, group);
  });
}

TEST_F(GroupChunks, Average_IsDividedOnce) {
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter}) {
      run_case({.kind = kind,
                .dtype = BP_DTYPE_F64,
                .reduction = Reduction::kAvg,
                .count = 3 * kChunkFloats + 5},
               rank, group);
    }
  });
}

TEST_F(GroupChunks, FloatsThatRound_AreEqualOnAllRanks) {
  constexpr uint64_t kCount = 4 * kChunkFloats + 11;
  std::vector<std::vector<std::byte>> results(kStagedAndNot.size());
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    std::vector<double> values(kCount);
    for (uint64_t i = 0; i < kCount; ++i) values[i] = 1.0 / (3.0 + static_cast<double>(i + rank));
    const Call call{.send = upload(group.device(), BP_DTYPE_F32, values),
                    .recv = room(group.device(), BP_DTYPE_F32, kCount)};
    ASSERT_TRUE(group.enqueue(call).ok());
    results[rank] = bytes_of(call.recv);
    const std::vector<float> sums = floats(call.recv);
    for (uint64_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<double>(i);
      ASSERT_NEAR(sums[i], 1 / (3 + at) + 1 / (4 + at) + 1 / (5 + at), 1e-6) << i;
    }
  });
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(GroupChunks, DeterministicSums_AreInRankOrderBitForBit) {
  // Also where some ranks are linked, and could sum among themselves.
  for (const Devices& devices :
       {kStagedAndNot, Devices{"npu:0", "cpu:0", "npu:1", "xpu:0", "npu:2"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
        for (const uint64_t count : {kChunkFloats - 1, 4 * kChunkFloats + 11}) {
          expect_rank_order(kind, count, rank, group);
        }
      }
      EXPECT_EQ(group.counters().native_operations, 0u);
    });
  }
}

TEST_F(GroupChunks, SendsAndRecvs_BesideEachOther) {
  constexpr uint64_t kCount = 7 * kChunkFloats + 3;
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    const uint32_t next = (rank + 1) % 3;
    const uint32_t last = (rank + 2) % 3;
    std::vector<double> values(kCount);
    for (uint64_t i = 0; i < kCount; ++i) values[i] = value_at(rank, i);
    const Ref<Tensor> own = upload(group.device(), BP_DTYPE_F32, values);
    const Call calls[] = {
        {.kind = Kind::kSend, .root = next, .send = own},
        {.kind = Kind::kRecv, .root = last, .recv = room(group.device(), BP_DTYPE_F32, kCount)},
        {.kind = Kind::kSend, .root = last, .send = own},
        {.kind = Kind::kRecv, .root = next, .recv = room(group.device(), BP_DTYPE_F32, kCount)}};
    const auto work = group.enqueue(calls);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const std::vector<float> from_last = floats(calls[1].recv);
    const std::vector<float> from_next = floats(calls[3].recv);
    for (uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(from_last[i], value_at(last, i)) << i;
      ASSERT_EQ(from_next[i], value_at(next, i)) << i;
    }
  });
}

TEST_F(GroupChunks, BatchOfLargeAndSmall_KeepsItsOrder) {
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    const Call calls[] = {sum_of(group, 3 * kChunkFloats), sum_of(group, 2),
                          sum_of(group, 4 * kChunkFloats + 1)};
    const auto work = group.enqueue(calls);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    for (const Call& call : calls) {
      const std::vector<float> sums = floats(call.recv);
      EXPECT_THAT(sums, testing::Each(3.0f)) << "rank " << rank;
    }
  });
}

TEST_F(GroupChunks, MemoryIsAFewChunks_AndEveryByteIsCopiedOnce) {
  constexpr uint64_t kChunks = 64;
  constexpr uint64_t kBytes = kChunks * kChunkBytes;
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    const GroupCounters& counters = group.counters();
    const bool is_staged = !group.device().has_host_memory();
    for (int round = 1; round <= 3; ++round) {
      const auto work = group.enqueue(sum_of(group, kChunks * kChunkFloats), {.waits = true});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_EQ(counters.staged_bytes, is_staged ? 2 * kBytes * round : 0);
      EXPECT_EQ(counters.ring_bytes, is_staged ? StagingRing::kSlots * kChunkBytes : 0);
    }
    run_case({.kind = Kind::kAllGather, .count = kChunks * kChunkFloats / 3}, rank, group);
    EXPECT_LE(counters.ring_bytes, is_staged ? 2 * StagingRing::kSlots * kChunkBytes : 0);
    EXPECT_EQ(counters.staged_operations, is_staged ? 4u : 0u);
    EXPECT_EQ(counters.host_operations, is_staged ? 0u : 4u);
  });
}

TEST_F(GroupChunks, ChunksComeAhead_AsFarAsThereAreSlots) {
  std::atomic<bool> has_looked = false;
  run({"npu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    if (rank == 1) await_that([&] { return has_looked.load(); });
    const Call call = sum_of(group, 8 * kChunkFloats);
    const auto work = group.enqueue(call);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    if (rank == 0) {
      constexpr uint64_t kAhead = StagingRing::kSlots * kChunkBytes;
      await_that([&] { return group.counters().staged_bytes >= kAhead; });
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(group.counters().staged_bytes, kAhead);
      has_looked = true;
    }
    EXPECT_THAT(floats(call.recv), testing::Each(2.0f));
  });
}

TEST_F(GroupChunks, WhatFitsInOneChunk_TakesNoRing) {
  run(kStagedAndNot, [&](uint32_t, ProcessGroup& group) {
    ASSERT_TRUE(group.enqueue(sum_of(group, kChunkFloats), {.waits = true}).ok());
    EXPECT_EQ(group.counters().ring_bytes, 0u);
  });
}

TEST_F(GroupChunks, WithoutChunks_TensorsGoWhole) {
  have_chunks(0);
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.count = 64 * kChunkFloats}, rank, group);
    EXPECT_EQ(group.counters().ring_bytes, 0u);
  });
}

TEST_F(GroupChunks, Recorder_HasOneRecordOfAnOperation) {
  run(kStagedAndNot, [&](uint32_t, ProcessGroup& group) {
    ASSERT_TRUE(group.enqueue(sum_of(group, 9 * kChunkFloats), {.waits = true}).ok());
    const std::string trace = group.trace();
    const std::string words = "all_reduce";
    size_t records = 0;
    for (size_t at = trace.find("\"collective_seq_id\""); at != std::string::npos;
         at = trace.find("\"collective_seq_id\"", at + 1)) {
      ++records;
    }
    EXPECT_EQ(records, 1u) << trace;
  });
}

TEST_F(GroupChunks, Enqueue_DoesNotWaitForWhatIsQueuedBefore) {
  run({"npu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    auto shortest = Clock::duration::max();
    for (int round = 0; round < 5; ++round) {
      const Call call = sum_of(group, 64 * kChunkFloats);
      auto stream = group.device().acquire_stream();
      ASSERT_TRUE(stream.ok());
      if (rank == 0) {
        TimedLock held;
        ASSERT_TRUE((*stream)->hold(held).ok());
        (*stream)->next_seq();
        std::shared_ptr<void> owned = std::make_shared<int>(0);
        ASSERT_EQ(call_host_once(group.device().table(), (*stream)->handle(), &owned,
                                 [](void*, bp_status) { std::this_thread::sleep_for(kKernel); }),
                  BP_OK);
      }
      const auto begin = Clock::now();
      const auto work = group.enqueue(call, {.stream = rank == 0 ? *stream : nullptr});
      shortest = std::min(shortest, Clock::now() - begin);
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_THAT(floats(call.recv), testing::Each(2.0f));
      group.device().release_stream(*stream);
    }
    RecordProperty("enqueue_ns_" + std::to_string(rank), static_cast<int>(shortest.count()));
    if (rank == 0) EXPECT_LT(shortest, kKernel / 10);
  });
}

TEST_F(GroupChunks, AbortInTheMiddle_FailsTheStreamAndMarksTheOutputs) {
  constexpr uint64_t kSmallChunk = 16;
  have_chunks(kSmallChunk);
  constexpr uint64_t kCount = 1 << 18;  // 65536 chunks: some seconds of work
  std::atomic<int> waiting = 0;
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, kCount);
    const auto work = group.enqueue(call);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    ++waiting;
    if (rank == 0) {
      EXPECT_TRUE(await_that(
          [&] { return waiting == 3 && group.counters().staged_bytes >= 64 * kSmallChunk; }));
      group.abort("enough");
    }
    const auto begin = Clock::now();
    const Status status = (*work)->wait(begin + seconds(20));
    EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("enough"));
    EXPECT_LT(group.counters().staged_bytes, 2 * kCount * sizeof(float)) << "it was not the middle";
    const Status read = read_status(call.recv);
    EXPECT_FALSE(read.ok()) << "the results are marked, on " << group.device().name();
  });
  run(kStagedAndNot,
      [&](uint32_t rank, ProcessGroup& group) { run_case({.count = 1000}, rank, group); });
}

TEST_F(GroupChunks, RankThatNeverCalls_IsNamedAtTheDeadline) {
  std::atomic<int> come = 0;
  std::atomic<int> done = 0;
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    ASSERT_TRUE(group.enqueue(sum_of(group, 5 * kChunkFloats), {.waits = true}).ok());
    meet(&come, 3);
    if (rank == 2) {
      EXPECT_TRUE(await_that([&] { return done == 2; }));
      EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
      return;
    }
    const Call call = sum_of(group, 5 * kChunkFloats);
    const auto work = enqueue_for_one_deadline(group, call, rank == 0, &come, 5);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    const Status status = (*work)->wait(Clock::now() + seconds(20));
    EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("all_reduce sum f32 5120 as number 2"), HasSubstr("rank 2")));
    EXPECT_THAT((*work)->failure().culprits, ElementsAre(2));
    EXPECT_FALSE(read_status(call.recv).ok());
    ++done;
  });
}

TEST_F(GroupChunks, CountsThatDiffer_NameTheWholeOperations) {
  std::atomic<int> come = 0;
  run(kStagedAndNot, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, rank == 1 ? 5000 : 5001);
    meet(&come, 3);
    const auto work = group.enqueue(call);
    // Two that have called may have found out before the third one calls.
    const Status status = work.ok() ? (*work)->wait(Clock::now() + seconds(20)) : work.status();
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("disagree"), HasSubstr("all_reduce sum f32 5000"),
                                        HasSubstr("all_reduce sum f32 5001")));
  });
}

TEST(ChunkPlan, IsAlikeOnAllRanks) {
  const CheckedCall gather{
      .operation = {.kind = Kind::kGather, .dtype = BP_DTYPE_F32, .root = 1, .count = 1000}};
  const ChunkPlan at_root = plan_chunks(gather, {1, 3}, 1200);
  const ChunkPlan elsewhere = plan_chunks(gather, {0, 3}, 1200);
  EXPECT_EQ(at_root.chunk_count, 64u);  // 100, in whole vectors
  EXPECT_EQ(elsewhere.chunk_count, 64u);
  EXPECT_EQ(at_root.chunks(), 16u);
  EXPECT_EQ(at_root.last_count(), 1000u - 15 * 64);
  EXPECT_EQ(at_root.recv_blocks, 3u);
  EXPECT_EQ(elsewhere.recv_blocks, 0u);
  EXPECT_FALSE(plan_chunks(gather, {0, 3}, 12'000).is_cut());
  EXPECT_TRUE(plan_chunks(gather, {0, 3}, 11'999).is_cut());
  EXPECT_FALSE(plan_chunks(gather, {0, 3}, 0).is_cut());
  EXPECT_EQ(plan_chunks(gather, {0, 3}, 1).chunk_count, 1u);
  EXPECT_FALSE(plan_chunks({}, {0, 3}, 1).is_cut()) << "a barrier";
}

}  // namespace
}  // namespace bp::ccl
