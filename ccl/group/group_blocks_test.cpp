// SPDX-License-Identifier: Apache-2.0
//
// Operations whose blocks differ in size, in groups of one vendor and of several, whole and in
// chunks, against values worked out here; and ranks that say different counts.
#include <numeric>

#include "ccl/group/chunked_run.hpp"
#include "ccl/group/kind_cases_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Counts = std::vector<uint64_t>;

const Kind kBlockKinds[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kGather, Kind::kScatter,
                            Kind::kAllToAll};

/// Counts of each rank's block; of all_to_all row r has what rank r sends to each.
struct BlockCase {
  Kind kind = Kind::kAllGather;
  std::vector<Counts> counts;  // one row, but for all_to_all
  uint32_t dtype = BP_DTYPE_F32;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;
  bool is_in_place = false;
  bool is_deterministic = false;

  uint32_t rank_count() const { return static_cast<uint32_t>(counts[0].size()); }
  static uint64_t before(const Counts& counts, uint32_t rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0});
  }
  static uint64_t total(const Counts& counts) {
    return before(counts, static_cast<uint32_t>(counts.size()));
  }
  Counts received_counts(uint32_t rank) const {
    if (kind != Kind::kAllToAll) return counts[0];
    Counts received;
    for (const Counts& row : counts) received.push_back(row[rank]);
    return received;
  }
  uint64_t send_count(uint32_t rank) const {
    if (kind == Kind::kAllToAll) return total(counts[rank]);
    const bool is_larger = kind == Kind::kReduceScatter || kind == Kind::kScatter;
    return is_larger ? total(counts[0]) : counts[0][rank];
  }
  double combined(uint64_t index) const {
    const KindCase one{.reduction = reduction};
    return one.combined(index, rank_count());
  }
  std::vector<double> output(uint32_t rank) const {
    std::vector<double> values;
    const uint64_t own_first = before(counts[0], rank);
    if (kind == Kind::kReduceScatter || kind == Kind::kScatter) {
      for (uint64_t i = 0; i < counts[0][rank]; ++i) {
        values.push_back(kind == Kind::kScatter ? value_at(root, own_first + i)
                                                : combined(own_first + i));
      }
      return values;
    }
    for (uint32_t from = 0; from < rank_count(); ++from) {
      const bool is_all_to_all = kind == Kind::kAllToAll;
      const uint64_t first = is_all_to_all ? before(counts[from], rank) : 0;
      const uint64_t count = is_all_to_all ? counts[from][rank] : counts[0][from];
      for (uint64_t i = 0; i < count; ++i) values.push_back(value_at(from, first + i));
    }
    return values;
  }
  std::string words() const {
    std::string text(kind_info(kind).name);
    for (const Counts& row : counts) {
      text += " [";
      for (const uint64_t count : row) text += std::to_string(count) + " ";
      text += "]";
    }
    return text + (is_in_place ? " in place" : "") + " root " + std::to_string(root);
  }
};

class GroupBlocks : public GroupTest {
 protected:
  Call call_of(const BlockCase& what, uint32_t rank, Device& on) {
    const KindInfo& kind = kind_info(what.kind);
    Call call{.kind = what.kind,
              .reduction = what.reduction,
              .root = what.root,
              .is_deterministic = what.is_deterministic,
              .counts = what.received_counts(rank)};
    if (what.kind == Kind::kAllToAll) call.send_counts = what.counts[rank];
    const auto takes = [&](Extent extent) {
      return extent != Extent::kBlocksAtRoot || rank == what.root;
    };
    if (takes(kind.send)) {
      std::vector<double> values(what.send_count(rank));
      for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(rank, i);
      call.send = upload(on, what.dtype, values);
    }
    if (takes(kind.recv)) call.recv = room(on, what.dtype, what.output(rank).size());
    if (what.is_in_place && call.send && call.recv) put_in_place(what, rank, &call);
    return call;
  }
  static void put_in_place(const BlockCase& what, uint32_t rank, Call* call) {
    const auto count = static_cast<int64_t>(what.counts[0][rank]);
    const auto own = static_cast<int64_t>(BlockCase::before(what.counts[0], rank));
    const bool recv_is_larger = what.kind == Kind::kAllGather || what.kind == Kind::kGather;
    if (!recv_is_larger) {
      call->recv = call->send->view({count}, {1}, own);
      return;
    }
    const auto values = call->send;
    call->send = call->recv->view({count}, {1}, own);
    ASSERT_TRUE(copy_into(values, call->send, false, values->device()->default_stream()).ok());
  }
  void run_case(const BlockCase& what, uint32_t rank, ProcessGroup& group) {
    const Call call = call_of(what, rank, group.device());
    // Ranks that share a device wait, since what one allocates may wait for the others' operations.
    const bool waits = rank % 2 == 0 || group.device().is_host_like();
    const auto work = group.enqueue(call, {.waits = waits});
    ASSERT_TRUE(work.ok()) << what.words() << ": " << work.status().to_string();
    if (call.recv) {
      EXPECT_EQ(bytes_of(call.recv), bytes_of(what.dtype, what.output(rank)))
          << what.words() << " on " << group.device().name() << ", rank " << rank;
    }
    const Status ended = waits ? Status() : (*work)->wait(Clock::now() + seconds(60));
    ASSERT_TRUE(ended.ok()) << what.words() << ": " << ended.to_string();
  }

  /// Sizes of many kinds: none, one, one rank alone, growing.
  static Counts counts_of(uint32_t pattern, uint32_t rank_count, uint64_t unit) {
    Counts counts(rank_count);
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      const uint64_t patterns[] = {rank * unit, rank == 1 ? 3 * unit + 1 : 0,
                                   (rank_count - rank) * unit + rank, rank % 2,
                                   rank == rank_count - 1 ? 0 : unit + 64 * rank};
      counts[rank] = patterns[pattern % std::size(patterns)];
    }
    return counts;
  }
  static std::vector<BlockCase> cases_of(uint32_t rank_count, const std::vector<uint64_t>& units) {
    constexpr uint32_t kPatterns = 5;
    constexpr uint32_t kDtypes[] = {BP_DTYPE_F32, BP_DTYPE_I8, BP_DTYPE_F64, BP_DTYPE_BF16};
    std::vector<BlockCase> cases;
    uint32_t turn = 0;
    for (const Kind kind : kBlockKinds) {
      for (const uint64_t unit : units) {
        for (uint32_t pattern = 0; pattern < kPatterns; ++pattern, ++turn) {
          BlockCase one{.kind = kind,
                        .counts = {counts_of(pattern, rank_count, unit)},
                        .dtype = kDtypes[turn % 4],
                        .reduction = turn % 3 == 0 ? Reduction::kMax : Reduction::kSum,
                        .root = kind_info(kind).has_root ? turn % rank_count : 0,
                        .is_in_place = turn % 2 == 0 && kind != Kind::kAllToAll,
                        .is_deterministic = turn % 4 == 1};
          for (uint32_t rank = 1; kind == Kind::kAllToAll && rank < rank_count; ++rank) {
            one.counts.push_back(counts_of(pattern + rank, rank_count, unit));
          }
          cases.push_back(one);
        }
      }
    }
    return cases;
  }
  void run_all(const Devices& devices, const std::vector<uint64_t>& units) {
    const auto cases = cases_of(static_cast<uint32_t>(devices.size()), units);
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      for (const BlockCase& what : cases) run_case(what, rank, group);
    });
  }
  void have_chunks(uint64_t bytes) {
    make_runtime({}, {{"BACKPLANE_CCL_CHUNK", std::to_string(bytes)}});
  }
  /// What the ranks learn when rank 1 says other counts than rank 0.
  void expect_disagreement(const Devices& devices, const std::function<Call(uint32_t)>& call_of,
                           const testing::Matcher<const std::string&>& words) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      Call call = call_of(rank);
      const auto begin = Clock::now();
      const auto work = group.enqueue(call);
      Status status = work.status();
      if (work.ok()) status = (*work)->wait(Clock::now() + seconds(20));
      // Who only sent may have been done before the other one saw what came.
      if (status.ok()) {
        status = group.enqueue(Call{.kind = Kind::kBarrier}, {.waits = true}).status();
      }
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
      EXPECT_THAT(status.message(), words);
      EXPECT_LT(Clock::now() - begin, seconds(10)) << "not at the deadline";
    });
  }
};

TEST_F(GroupBlocks, OneRank_EveryKind) { run_all({"cpu:0"}, {1, 100}); }
TEST_F(GroupBlocks, OnTheHost_EveryKind) {
  for (const Devices& devices :
       {Devices{"cpu:0", "cpu:0"}, Devices{"cpu:0", "cpu:0", "cpu:0"}, Devices(5, "cpu:0")}) {
    run_all(devices, {1, 100, 3000});
  }
}
TEST_F(GroupBlocks, MixedVendors_EveryKind) { run_all({"npu:0", "xpu:0", "cpu:0"}, {1, 100}); }
TEST_F(GroupBlocks, LinkedNpus_EveryKindByMessages) {
  run_all({"npu:0", "npu:1", "npu:2", "npu:3"}, {1, 100});
}
TEST_F(GroupBlocks, InChunks_EveryKind) {
  have_chunks(4096);
  run_all({"npu:0", "xpu:0", "cpu:0"}, {64, 340, 1000});
  run_all({"cpu:0", "npu:0"}, {512, 513, 2000});
}
TEST_F(GroupBlocks, ChunksOfOneElement_StillServe) {
  have_chunks(1);
  run_all({"npu:0", "xpu:0", "cpu:0"}, {3});
}

TEST_F(GroupBlocks, InChunks_MemoryIsAFewChunks) {
  constexpr uint64_t kChunk = 4096;
  have_chunks(kChunk);
  run({"npu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const BlockCase what{.counts = {{100, 0, 100'000}}};
    run_case(what, rank, group);
    const bool is_staged = rank == 0;
    EXPECT_LE(group.counters().ring_bytes, is_staged ? 2 * StagingRing::kSlots * kChunk : 0);
    EXPECT_EQ(group.counters().staged_bytes, is_staged ? (100 + 100'100) * sizeof(float) : 0);
  });
}

TEST_F(GroupBlocks, EqualCounts_AreTheOperationItself_AndNative) {
  run({"npu:0", "npu:1"}, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.counts = {{7, 7}}}, rank, group);
    run_case({.kind = Kind::kReduceScatter, .counts = {{5, 5}}}, rank, group);
    EXPECT_EQ(group.counters().native_operations, 2u);
    run_case({.kind = Kind::kAllToAll, .counts = {{4, 4}, {4, 4}}}, rank, group);
    run_case({.counts = {{7, 8}}}, rank, group);
    EXPECT_EQ(group.counters().native_operations, 2u);
    EXPECT_EQ(group.counters().staged_operations, 2u);
  });
}

TEST_F(GroupBlocks, Average_IsTheSumDividedByTheRanks) {
  run({"npu:0", "cpu:0", "cpu:0", "xpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.kind = Kind::kReduceScatter,
              .counts = {{5, 0, 1000, 3}},
              .dtype = BP_DTYPE_F64,
              .reduction = Reduction::kAvg},
             rank, group);
  });
}

TEST_F(GroupBlocks, InABatch_WithOthers) {
  run({"npu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const BlockCase first{.counts = {{3, 1000}}};
    const BlockCase second{.kind = Kind::kAllToAll, .counts = {{2, 0}, {5, 4}}};
    const Ref<Tensor> sums = upload(group.device(), BP_DTYPE_F32, {1, 2});
    const Call calls[] = {call_of(first, rank, group.device()),
                          {.send = sums, .recv = sums},
                          call_of(second, rank, group.device())};
    const auto work = group.enqueue(calls);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(bytes_of(calls[0].recv), bytes_of(BP_DTYPE_F32, first.output(rank)));
    EXPECT_THAT(floats(sums), ElementsAre(2, 4));
    EXPECT_EQ(bytes_of(calls[2].recv), bytes_of(BP_DTYPE_F32, second.output(rank)));
  });
}

TEST_F(GroupBlocks, Trace_NamesTheFormAndIsRead) {
  run({"cpu:0", "npu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.counts = {{3, 4}}}, rank, group);
    run_case({.kind = Kind::kAllToAll, .counts = {{2, 0}, {5, 4}}}, rank, group);
    const auto dump = parse_dump(group.trace(), "trace");
    ASSERT_TRUE(dump.ok()) << dump.status().to_string();
    ASSERT_EQ(dump->records.size(), 2u);
    const Operation gather = dump->records[0].entry.operation;
    EXPECT_THAT(describe(gather), testing::StartsWith("all_gather_v f32 7 blocks "));
    EXPECT_THAT(operation_words(gather), testing::StartsWith("all_gather_v f32 7 blocks "));
    EXPECT_EQ(describe(dump->records[1].entry.operation), "all_to_all_v f32");
    EXPECT_EQ(dump->records[1].entry.send_bytes, (rank == 0 ? 2u : 9u) * sizeof(float));
  });
}

TEST_F(GroupBlocks, CountsThatDiffer_AreToldOfBothSides) {
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "cpu:0"}}) {
    const auto call = [&](uint32_t rank) {
      const BlockCase what{.counts = {rank == 0 ? Counts{3, 4} : Counts{2, 5}}};
      return call_of(what, rank, device(devices[rank]));
    };
    expect_disagreement(devices, call,
                        AllOf(HasSubstr("disagree"), HasSubstr("rank 0"), HasSubstr("rank 1"),
                              HasSubstr("all_gather_v f32 7 blocks ")));
  }
}

// Root expects nothing of rank 1, whose three elements would be missing without a word.
TEST_F(GroupBlocks, BlockThatRootDoesNotExpect_IsToldOfBothSides) {
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "cpu:0"}}) {
    std::atomic<int> done_count = 0;
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      const BlockCase what{.kind = Kind::kGather, .counts = {{2, rank == 0 ? 0u : 3u}}};
      const Call call = call_of(what, rank, group.device());
      const auto work = group.enqueue(call);
      if (work.ok()) (void)(*work)->wait(Clock::now() + seconds(20));
      const Failure failure = await_failure(group);
      EXPECT_EQ(failure.code, BP_INVALID_ARGUMENT);
      EXPECT_THAT(failure.words,
                  AllOf(HasSubstr("the ranks disagree: rank 0"), HasSubstr("gather_v f32 2 blocks"),
                        HasSubstr("rank 1 (cpu:0) has called gather_v f32 5 blocks")));
      EXPECT_THAT(failure.culprits, ElementsAre(0, 1));
      meet(&done_count, 2);
    });
  }
}

TEST_F(GroupBlocks, OtherForm_IsToldOfBothSides) {
  const auto call = [&](uint32_t rank) {
    const BlockCase what{.counts = {rank == 0 ? Counts{3, 4} : Counts{4, 4}}};
    return call_of(what, rank, device("cpu:0"));
  };
  expect_disagreement({"cpu:0", "cpu:0"}, call,
                      AllOf(HasSubstr("all_gather_v f32 7 blocks"), HasSubstr("all_gather f32 4")));
}

TEST_F(GroupBlocks, InCheckMode_OneRankThatWouldBeNative_IsToldOfBothSides) {
  make_runtime({}, {{"BACKPLANE_CCL_CHECK", "1"}});
  const auto call = [&](uint32_t rank) {
    const BlockCase what{.counts = {rank == 0 ? Counts{7, 7} : Counts{7, 8}}};
    return call_of(what, rank, device("npu:" + std::to_string(rank)));
  };
  expect_disagreement({"npu:0", "npu:1"}, call,
                      AllOf(HasSubstr("all_gather f32 7"), HasSubstr("all_gather_v f32 15")));
}

/// Rank 0 expects `expected` elements of rank 1, which sends `sent`.
using Pair = std::pair<uint64_t, uint64_t>;

TEST_F(GroupBlocks, AllToAll_PairThatDiffers_IsToldOfBothSides) {
  have_chunks(1024);
  for (const auto& [expected, sent] :
       {Pair{3, 4}, Pair{4, 3}, Pair{0, 2}, Pair{2, 0}, Pair{128, 256}, Pair{1000, 128}}) {
    for (const Devices& devices : {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "cpu:0"}}) {
      const auto call = [&, expected = expected, sent = sent](uint32_t rank) {
        const BlockCase what{.kind = Kind::kAllToAll,
                             .counts = {{1, 2}, {rank == 0 ? expected : sent, 1}}};
        return call_of(what, rank, device(devices[rank]));
      };
      expect_disagreement(
          devices, call,
          AllOf(HasSubstr("all_to_all_v f32"), HasSubstr(std::to_string(sent) + " elements from"),
                HasSubstr(std::to_string(expected) + " elements from")));
    }
  }
}

TEST_F(GroupBlocks, BadInput_IsRefusedAndTheGroupGoesOn) {
  run({"cpu:0", "cpu:0", "cpu:0"}, [&](uint32_t rank, ProcessGroup& group) {
    const auto tensor = [&](uint64_t count) { return room(group.device(), BP_DTYPE_F32, count); };
    const auto expect = [&](const Call& call, const char* words) {
      const Status status = group.enqueue(call).status();
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
      EXPECT_THAT(status.message(), HasSubstr(words));
    };
    const Counts counts{2, 3, 4};
    expect({.send = tensor(3), .recv = tensor(3), .counts = counts},
           "all_reduce_v: expected no counts, this kind has no blocks");
    expect({.kind = Kind::kAllGather, .send = tensor(2), .recv = tensor(5), .counts = {2, 3}},
           "all_gather_v: expected 3 counts, one for each rank, found 2");
    expect({.kind = Kind::kAllGather, .send = tensor(9), .recv = tensor(9), .counts = counts},
           "elements by the counts");
    expect({.kind = Kind::kAllGather,
            .send = tensor(counts[rank]),
            .recv = tensor(8),
            .counts = counts},
           "all_gather_v: recv is f32 [8]");
    expect({.kind = Kind::kAllGather,
            .send = tensor(counts[rank]),
            .recv = tensor(9),
            .counts = counts,
            .send_counts = counts},
           "expected no send_counts");
    expect({.kind = Kind::kAllToAll, .send = tensor(9), .recv = tensor(9), .counts = counts},
           "expected 3 send_counts, one for each rank, found 0");
    expect({.kind = Kind::kAllToAll,
            .send = tensor(9),
            .recv = tensor(9),
            .counts = counts,
            .send_counts = {9, 9, 9}},
           "sends itself 9 elements, and receives");
    expect({.kind = Kind::kAllGather,
            .send = tensor(counts[rank]),
            .recv = tensor(9),
            .counts = {UINT64_MAX, 2, UINT64_MAX}},
           "beyond what any device has");
    const Ref<Tensor> all = tensor(9);
    expect({.kind = Kind::kAllGather,
            .send = all->view({static_cast<int64_t>(counts[rank])}, {1}, rank == 0 ? 1 : 0),
            .recv = all,
            .counts = counts},
           "all_gather_v: send and recv overlap");
    run_case({.counts = {counts}}, rank, group);
  });
}

/// The same memory, as another owner would give it.
Ref<Tensor> wrapped(const Ref<Tensor>& tensor, int64_t first, int64_t count) {
  const bp_tensor place = tensor->abi();
  auto storage = Storage::wrap(tensor->device(), place.handle, place.storage_bytes, nullptr);
  const uint64_t offset_bytes = place.offset_bytes + static_cast<uint64_t>(first) * sizeof(float);
  return Ref<Tensor>::make(std::move(storage), tensor->dtype(), Dims{count}, Dims{1}, offset_bytes);
}

TEST_F(GroupBlocks, MemoryThatIsWrappedTwice_IsOneMemory) {
  make_runtime({{"npu.collective_averages", "0"}});
  for (const Devices& devices : {Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"}}) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      const Ref<Tensor> all = upload(group.device(), BP_DTYPE_F32, {1, 2, 3, 4, 5, 6});
      ASSERT_THAT(floats(all), testing::SizeIs(6));  // waits: wraps know of no work before them
      const auto refused = [&](const Call& call) {
        const Status status = group.enqueue(call).status();
        EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
        EXPECT_THAT(status.message(), HasSubstr("send and recv overlap"));
      };
      refused({.send = wrapped(all, 0, 4), .recv = wrapped(all, 1, 4)});
      refused({.send = wrapped(all, 2, 4), .recv = all->view({4}, {1}, 0)});
      refused({.kind = Kind::kAllGather,
               .send = wrapped(all, rank == 0 ? 2 : 0, rank == 0 ? 2 : 4),
               .recv = wrapped(all, 0, 6),
               .counts = {2, 4}});
      // Apart, in place, and the own block.
      const Call calls[] = {{.send = wrapped(all, 0, 2), .recv = wrapped(all, 2, 2)},
                            {.send = wrapped(all, 0, 2), .recv = wrapped(all, 0, 2)},
                            {.kind = Kind::kAllGather,
                             .send = wrapped(all, rank == 0 ? 0 : 2, rank == 0 ? 2 : 4),
                             .recv = wrapped(all, 0, 6),
                             .counts = {2, 4}}};
      for (const Call& call : calls) {
        const auto work = group.enqueue(call, {.waits = true});
        ASSERT_TRUE(work.ok()) << work.status().to_string();
      }
      EXPECT_THAT(floats(all), ElementsAre(2, 4, 2, 4, 5, 6));
      // A division behind both of them would come too late for the second.
      if (!group.is_native()) return;
      const Call uses_average[] = {
          {.reduction = Reduction::kAvg, .send = wrapped(all, 0, 2), .recv = wrapped(all, 2, 2)},
          {.send = wrapped(all, 2, 2), .recv = wrapped(all, 4, 2)}};
      EXPECT_EQ(group.enqueue(uses_average).status().code(), BP_UNSUPPORTED);
    });
  }
}

/// Stands before the plugin's own function, and looks at what the core gives it.
struct Spy {
  static bp_status enqueue(bp_device* device, const bp_collective_args* args) {
    const bp_collective_op& op = args->batches[0].operations[0];
    if (op.count == 0) ++empty_count;
    if (op.count == 0 && (op.send.handle != 0 || op.recv.handle != 0)) ++wrong_count;
    return behind(device, args);
  }
  static inline decltype(bp_collective_api::collective_enqueue) behind = nullptr;
  static inline std::atomic<int> empty_count = 0;
  static inline std::atomic<int> wrong_count = 0;
};

TEST_F(GroupBlocks, EmptyTensors_HaveNoPlaceForThePlugin) {
  for (const char* const name : {"npu:0", "npu:1"}) {
    auto& table = const_cast<DeviceTable&>(device(name).table());
    Spy::behind = table.collective.collective_enqueue;
    table.collective.collective_enqueue = Spy::enqueue;
  }
  run({"npu:0", "npu:1"}, [&](uint32_t, ProcessGroup& group) {
    const Ref<Tensor> some = room(group.device(), BP_DTYPE_F32, 4);
    const Ref<Tensor> none = some->view({0}, {1}, 2);
    const auto work = group.enqueue(Call{.send = none, .recv = none}, {.waits = true});
    EXPECT_TRUE(work.ok()) << work.status().to_string();
  });
  EXPECT_EQ(Spy::empty_count, 2);
  EXPECT_EQ(Spy::wrong_count, 0);
}

TEST(ChunkPlan, OfDifferentBlocks_FitsTogetherOnAllRanks) {
  constexpr uint64_t kChunk = 1200;  // 100 elements of each of 3 blocks, 64 in whole vectors
  const auto plan = [](const Counts& send, const Counts& recv, uint32_t rank) {
    CheckedCall call{
        .operation = {.kind = Kind::kAllToAll, .dtype = BP_DTYPE_F32, .blocks = kOwnBlocks}};
    call.blocks =
        std::make_shared<Blocks>(Blocks{*BlockLayout::packed(recv), *BlockLayout::packed(send)});
    return plan_chunks(call, {rank, 3}, kChunk);
  };
  const ChunkPlan small = plan({10, 90, 0}, {10, 0, 64}, 0);
  const ChunkPlan large = plan({0, 5, 200}, {90, 5, 0}, 1);
  EXPECT_EQ(small.chunks(), 2u);
  EXPECT_EQ(large.chunks(), 4u);
  for (uint64_t chunk = 0; chunk < 2; ++chunk) {
    EXPECT_EQ(small.send_part(1, chunk).count, large.recv_part(0, chunk).count) << chunk;
  }
  EXPECT_EQ(large.send_part(2, 3), (Block{197, 8}));
  EXPECT_EQ(large.send_part(1, 1), (Block{5, 0}));
  EXPECT_FALSE(plan({64, 1, 2}, {64, 0, 0}, 0).is_cut());
}

}  // namespace
}  // namespace bp::ccl
