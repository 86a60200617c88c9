// SPDX-License-Identifier: Apache-2.0
//
// Groups of which some ranks are linked, and not all: what is done natively inside of islands and
// by messages between them, by the counters of each rank, and how such a group fails.
#include "ccl/group/kind_cases_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const Devices kPartlyLinked = {"npu:0", "npu:1", "xpu:0", "cpu:0"};
const Devices kPartlyLinkedGroups[] = {{"npu:0", "npu:1", "cpu:0"},
                                       {"cpu:0", "npu:0", "xpu:0", "npu:1"},
                                       {"npu:3", "npu:2", "npu:1", "cpu:0", "cpu:0"},
                                       {"npu:0", "npu:0", "xpu:0"},
                                       kPartlyLinked};

class GroupIslands : public GroupKinds {
 protected:
  static bool is_npu(const ProcessGroup& group) { return group.device().name().starts_with("npu"); }
  /// Native operations of a linked rank.
  static uint64_t native_count(const KindCase& what) {
    if (what.count == 0 || what.is_deterministic) return 0;
    if (what.kind == Kind::kAllReduce) return 2;  // to the leader, and from it
    return what.kind == Kind::kBroadcast ? 1 : 0;
  }
  void run_cases(const Devices& devices, const std::vector<KindCase>& cases) {
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      EXPECT_FALSE(group.is_native());
      uint64_t expected = 0;
      for (const KindCase& what : cases) {
        run_case(what, rank, group);
        if (is_npu(group)) expected += native_count(what);
        ASSERT_EQ(group.counters().native_operations, expected) << what.words();
      }
    });
  }
  Call sum_of(ProcessGroup& group, uint64_t count) {
    return {.send = upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, 1)),
            .recv = room(group.device(), BP_DTYPE_F32, count)};
  }
  struct Counts {
    uint64_t native;
    uint64_t staged;
    uint64_t host;
    uint64_t staged_bytes;
    bool operator==(const Counts&) const = default;
  };
  static Counts counts_of(const ProcessGroup& group) {
    const GroupCounters& counters = group.counters();
    return {counters.native_operations, counters.staged_operations, counters.host_operations,
            counters.staged_bytes};
  }
};

TEST_F(GroupIslands, EveryKind) {
  for (const Devices& devices : kPartlyLinkedGroups) {
    run_cases(devices, cases_of(static_cast<uint32_t>(devices.size())));
  }
}

TEST_F(GroupIslands, EveryRootAndDtype) {
  std::vector<KindCase> cases;
  for (uint32_t root = 0; root < kPartlyLinked.size(); ++root) {
    for (const uint32_t dtype :
         {BP_DTYPE_F32, BP_DTYPE_BF16, BP_DTYPE_F16, BP_DTYPE_I8, BP_DTYPE_U8, BP_DTYPE_I64}) {
      for (const bool is_in_place : {false, true}) {
        cases.push_back({.kind = Kind::kBroadcast,
                         .dtype = dtype,
                         .root = root,
                         .count = 257,
                         .is_in_place = is_in_place});
      }
    }
  }
  for (const Reduction reduction :
       {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax, Reduction::kAvg}) {
    for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_BF16}) {
      for (const bool is_in_place : {false, true}) {
        cases.push_back(
            {.dtype = dtype, .reduction = reduction, .count = 1001, .is_in_place = is_in_place});
      }
    }
  }
  run_cases(kPartlyLinked, cases);
}

TEST_F(GroupIslands, ManyChunks_GoBetweenLeaders) {
  make_runtime({}, {{"BACKPLANE_CCL_CHUNK", "4096"}});
  std::vector<KindCase> cases;
  for (const uint64_t count : {1024, 1025, 20'000}) {
    cases.push_back({.count = count, .is_in_place = count == 1025});
    cases.push_back({.kind = Kind::kBroadcast, .root = 1, .count = count});
    cases.push_back({.kind = Kind::kBroadcast, .root = 3, .count = count});
  }
  run_cases(kPartlyLinked, cases);
}

TEST_F(GroupIslands, AllReduce_GoesThroughTheHostOfOneLeaderAlone) {
  constexpr uint64_t kCount = 1000;
  constexpr uint64_t kBytes = kCount * sizeof(float);
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    const Call call = sum_of(group, kCount);
    ASSERT_TRUE(group.enqueue(call, {.waits = true}).ok());
    EXPECT_THAT(floats(call.recv), Each(4.0f));
    const Counts expected[] = {{2, 1, 0, 2 * kBytes},  // the leader: out of the device, and in
                               {2, 0, 0, 0},
                               {0, 1, 0, 2 * kBytes},
                               {0, 0, 1, 0}};
    EXPECT_EQ(counts_of(group), expected[rank]) << rank;
    const std::string trace = group.trace();
    if (rank < 2) EXPECT_THAT(trace, HasSubstr("\"islands\""));
    EXPECT_EQ(trace.find("\"collective_seq_id\": 1"), trace.rfind("\"collective_seq_id\": 1"));
    EXPECT_THAT(trace, HasSubstr("completed"));
  });
}

TEST_F(GroupIslands, Broadcast_LeavesAnIslandByItsRoot) {
  constexpr uint64_t kBytes = 1000 * sizeof(float);
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.kind = Kind::kBroadcast, .root = 1, .count = 1000}, rank, group);
    const Counts expected[] = {
        {1, 0, 0, 0}, {1, 1, 0, 2 * kBytes}, {0, 1, 0, kBytes}, {0, 0, 1, 0}};
    EXPECT_EQ(counts_of(group), expected[rank]) << rank;
  });
}

TEST_F(GroupIslands, Deterministic_GoesByMessagesInRankOrder) {
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    run_case({.count = 100, .is_deterministic = true}, rank, group);
    EXPECT_EQ(group.counters().native_operations, 0u);
  });
}

TEST_F(GroupIslands, FloatsThatRound_AreEqualOnAllRanks) {
  constexpr uint64_t kCount = 3000;
  std::vector<std::vector<std::byte>> results(kPartlyLinked.size());
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    std::vector<double> values(kCount);
    for (uint64_t i = 0; i < kCount; ++i) values[i] = 1.0 / (3.0 + static_cast<double>(i + rank));
    const Call call{.send = upload(group.device(), BP_DTYPE_F32, values),
                    .recv = room(group.device(), BP_DTYPE_F32, kCount)};
    ASSERT_TRUE(group.enqueue(call).ok());
    results[rank] = bytes_of(call.recv);
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(GroupIslands, ResultsAreComputedOnWithoutAWait) {
  const OpId add = *runtime_->registry().find("add");
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    const Ref<Tensor> values = upload(group.device(), BP_DTYPE_F32, {1.0 + rank, 10});
    for (int round = 0; round < 20; ++round) {
      Tensor* const inputs[] = {values.get(), values.get()};
      Ref<Tensor> doubled;
      ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = inputs}, {&doubled, 1}).ok());
      const Ref<Tensor> sum = room(group.device(), BP_DTYPE_F32, 2);
      ASSERT_TRUE(group.enqueue(Call{.send = doubled, .recv = sum}).ok());
      Tensor* const sums[] = {sum.get(), sum.get()};
      Ref<Tensor> after;
      ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = sums}, {&after, 1}).ok());
      EXPECT_EQ(floats(after), (std::vector<float>{40, 160})) << round;
    }
  });
}

TEST_F(GroupIslands, Batch_OfCollectivesKeepsItsOrder) {
  run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
    Device& on = group.device();
    const Ref<Tensor> values = upload(on, BP_DTYPE_F32, {1.0 + rank});
    const Ref<Tensor> sum = room(on, BP_DTYPE_F32, 1);
    const Ref<Tensor> gathered = room(on, BP_DTYPE_F32, 4);
    const Ref<Tensor> most = room(on, BP_DTYPE_F32, 1);
    const Ref<Tensor> of_two = upload(on, BP_DTYPE_F32, {1.0 + rank});
    const Call calls[] = {{.send = values, .recv = sum},
                          {.kind = Kind::kAllGather, .send = values, .recv = gathered},
                          {.kind = Kind::kBroadcast, .root = 2, .recv = of_two},
                          {.reduction = Reduction::kMax, .send = values, .recv = most}};
    const auto work = group.enqueue(calls);
    ASSERT_TRUE(work.ok()) << work.status().to_string();
    EXPECT_EQ(floats(sum), (std::vector<float>{10}));
    EXPECT_EQ(floats(gathered), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(floats(of_two), (std::vector<float>{3}));
    EXPECT_EQ(floats(most), (std::vector<float>{4}));
    const Call mixed[] = {{.send = values, .recv = values},
                          {.kind = Kind::kSend, .root = (rank + 1) % 4, .send = values},
                          {.kind = Kind::kRecv,
                           .root = (rank + 3) % 4,
                           .recv = room(group.device(), BP_DTYPE_F32, 1)}};
    EXPECT_EQ(group.enqueue(mixed).status().code(), BP_UNSUPPORTED);
  });
}

TEST_F(GroupIslands, RankThatNeverCalls_IsNamedWhereverItIs) {
  for (const uint32_t missing : {0u, 1u, 3u}) {
    std::atomic<int> come = 0;
    run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
      ASSERT_TRUE(group.enqueue(sum_of(group, 3), {.timeout = seconds(10), .waits = true}).ok());
      meet(&come, 4);
      if (rank == missing) {
        meet(&come, 4 + 3 + 4);
        EXPECT_EQ(await_failure(group).code, BP_TIMEOUT);
        return;
      }
      const Call call = sum_of(group, 3);
      const uint32_t impatient = missing == 0 ? 1 : 0;
      const auto work = enqueue_for_one_deadline(group, call, rank == impatient, &come, 4 + 3);
      EXPECT_TRUE(work.ok()) << work.status().to_string();
      if (work.ok()) {
        const auto begin = Clock::now();
        const Status status = (*work)->wait(Clock::now() + seconds(20));
        EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
        EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
        EXPECT_THAT(status.message(), AllOf(HasSubstr("all_reduce sum f32 3 as number 2"),
                                            HasSubstr("rank " + std::to_string(missing)),
                                            HasSubstr("never entered it")));
        EXPECT_THAT((*work)->failure().culprits, ElementsAre(missing)) << status.to_string();
        EXPECT_FALSE(read_status(call.recv).ok()) << "the results are marked, on rank " << rank;
      }
      meet(&come, 4 + 3 + 4);
    });
  }
  run(kPartlyLinked,
      [&](uint32_t rank, ProcessGroup& group) { run_case({.count = 10}, rank, group); });
}

TEST_F(GroupIslands, Abort_EndsAllRanksWithinASecond) {
  const auto abort_on = [&](uint32_t aborting, Delays& delays) {
    std::atomic<int> entered = 0;
    run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
      if (rank == aborting) {
        EXPECT_TRUE(await_that([&] { return entered == 3; }));
        std::this_thread::sleep_for(milliseconds(50));
        group.abort("the user has pressed a key");
        return;
      }
      const Call call = sum_of(group, 3);
      const auto work = group.enqueue(call);
      ++entered;
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      const auto begin = Clock::now();
      const Status status = (*work)->wait(begin + seconds(20));
      delays.note_since(begin, std::to_string(rank) + " of " + std::to_string(aborting));
      EXPECT_EQ(status.code(), BP_CANCELLED) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr("pressed a key"));
      EXPECT_EQ(group.enqueue(call).status().code(), BP_CANCELLED);
    });
  };
  const auto promised = milliseconds(1050);  // of which the test itself waits 50
  expect_within(promised, [&](Delays& delays) {
    for (const uint32_t aborting : {0u, 1u, 3u}) abort_on(aborting, delays);
  });
}

TEST_F(GroupIslands, CountsThatDiffer_FailAllRanks) {
  for (const uint32_t wrong : {0u, 1u, 3u}) {
    run(kPartlyLinked, [&](uint32_t rank, ProcessGroup& group) {
      const auto begin = Clock::now();
      const auto work = group.enqueue(sum_of(group, rank == wrong ? 2 : 3));
      // It may fail before its last piece has been enqueued.
      const Status status = work.ok() ? (*work)->wait(begin + seconds(20)) : work.status();
      EXPECT_LT(Clock::now() - begin, kBeforeDeadline);
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    });
  }
}

TEST_F(GroupIslands, CommunicatorThatFails_FailsTheGroupByTheRanksNumber) {
  // Of the group it is rank 2, of the island number 1.
  const Devices devices = {"cpu:0", "npu:0", "npu:1"};
  for (const char* const fault : {"dies", "never_comes", "disagrees"}) {
    make_runtime({{"npu.collective_fault", fault},
                  {"npu.collective_fault_device", "1"},
                  {"npu.collective_fault_nth", "3"}});
    std::atomic<int> good = 0;
    run(devices, [&](uint32_t rank, ProcessGroup& group) {
      const auto first = group.enqueue(sum_of(group, 3), {.waits = true});
      EXPECT_TRUE(first.ok()) << first.status().to_string();
      meet(&good, 3);
      const Call call = sum_of(group, 3);
      const auto work = group.enqueue(call, {.timeout = seconds(1)});
      const Status status = work.ok() ? (*work)->wait(Clock::now() + seconds(20)) : work.status();
      EXPECT_FALSE(status.ok()) << fault << " on rank " << rank;
      const Failure failure = group.failure();
      EXPECT_THAT(failure.culprits, testing::Contains(2u)) << fault << ": " << failure.words;
    });
  }
}

}  // namespace
}  // namespace bp::ccl
