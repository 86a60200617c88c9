// SPDX-License-Identifier: Apache-2.0
//
// Every operation of a group, on ranks of one vendor and of several, against values worked out
// here.
#include <gmock/gmock.h>

#include <array>
#include <cstddef>

#include "tests/api/ccl_fixture.hpp"

namespace bp {
namespace {

using ccl::Group;
using ccl::Kind;
using ccl::Reduction;
using testing::Each;
using testing::HasSubstr;

class CclOperations : public CclTest, public testing::WithParamInterface<DeviceNames> {
 protected:
  void SetUp() override {
    if (!has_all(GetParam())) GTEST_SKIP() << "a device is not on this machine";
  }
  void run_all(const Body& body) { run(GetParam(), body); }
  static float count_of(const Group& group) { return static_cast<float>(group.rank_count()); }
  static float sum_of_ranks(const Group& group) {
    const float count = count_of(group);
    return count * (count - 1) / 2;
  }
  /// 100 times the rank, plus 0, 1, ...
  static Floats counted(uint32_t rank, size_t size) {
    Floats values(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(100 * rank + i);
    return values;
  }
  /// The same of every rank, one behind the other.
  static Floats counted_of_all(const Group& group, size_t size) {
    Floats all;
    for (uint32_t rank = 0; rank < group.rank_count(); ++rank) {
      const Floats one = counted(rank, size);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

TEST_P(CclOperations, AllReduce_OfOneTensor_IsInPlace) {
  run_all([&](const Group& group, Device device) {
    const Tensor x = upload(device, counted(group.rank(), 3));
    group.all_reduce(x);
    const float sum = 100 * sum_of_ranks(group);
    EXPECT_EQ(x.to_vector<float>(),
              (Floats{sum, sum + count_of(group), sum + 2 * count_of(group)}));
  });
}

TEST_P(CclOperations, AllReduce_EachReduction) {
  run_all([&](const Group& group, Device device) {
    const Floats own{static_cast<float>(group.rank() + 1)};
    const float last = count_of(group);
    float product = 1;
    for (uint32_t rank = 0; rank < group.rank_count(); ++rank) {
      product *= static_cast<float>(rank + 1);
    }
    const struct {
      Reduction op;
      float expected;
    } cases[] = {{Reduction::sum, sum_of_ranks(group) + last},
                 {Reduction::prod, product},
                 {Reduction::min, 1},
                 {Reduction::max, last},
                 {Reduction::avg, (sum_of_ranks(group) + last) / last}};
    for (const auto& [op, expected] : cases) {
      for (const bool deterministic : {false, true}) {
        const Tensor x = upload(device, own);
        const Tensor y = room(device, 1);
        group.all_reduce(x, y, {.op = op, .deterministic = deterministic});
        EXPECT_EQ(y.to_vector<float>(), Floats{expected}) << static_cast<uint32_t>(op);
        EXPECT_EQ(x.to_vector<float>(), own);
      }
    }
  });
}

TEST_P(CclOperations, AllGather_HasTheBlocksByRank) {
  run_all([&](const Group& group, Device device) {
    const Tensor all = room(device, 4 * group.rank_count());
    group.all_gather(upload(device, counted(group.rank(), 4)), all);
    EXPECT_EQ(all.to_vector<float>(), counted_of_all(group, 4));
  });
}

TEST_P(CclOperations, ReduceScatter_GivesEachRankItsBlock) {
  run_all([&](const Group& group, Device device) {
    const Tensor own = room(device, 2);
    group.reduce_scatter(upload(device, counted(group.rank(), 2 * group.rank_count())), own);
    const float first =
        100 * sum_of_ranks(group) + count_of(group) * 2 * static_cast<float>(group.rank());
    EXPECT_EQ(own.to_vector<float>(), (Floats{first, first + count_of(group)}));
  });
}

TEST_P(CclOperations, Broadcast_GivesTheRootsValues) {
  run_all([&](const Group& group, Device device) {
    for (uint32_t root = 0; root < group.rank_count(); ++root) {
      const Tensor in_place = upload(device, counted(group.rank(), 5));
      group.broadcast(in_place, root);
      EXPECT_EQ(in_place.to_vector<float>(), counted(root, 5));
      const bool is_root = group.rank() == root;
      const Tensor apart = room(device, 5);
      group.broadcast(is_root ? in_place : Tensor(), apart, root);
      EXPECT_EQ(apart.to_vector<float>(), counted(root, 5));
    }
  });
}

TEST_P(CclOperations, Reduce_GivesTheRootTheSum) {
  run_all([&](const Group& group, Device device) {
    const uint32_t root = group.rank_count() - 1;
    const bool is_root = group.rank() == root;
    const Floats own = counted(group.rank(), 1);
    const Floats sum{100 * sum_of_ranks(group)};
    const Tensor x = upload(device, own);
    const Tensor y = is_root ? room(device, 1) : Tensor();
    group.reduce(x, y, root);
    if (is_root) EXPECT_EQ(y.to_vector<float>(), sum);
    EXPECT_EQ(x.to_vector<float>(), own);
    group.reduce(x, root, {.op = Reduction::sum});
    EXPECT_EQ(x.to_vector<float>(), is_root ? sum : own);
  });
}

TEST_P(CclOperations, GatherAndScatter_AreEachOthersReverse) {
  run_all([&](const Group& group, Device device) {
    const bool is_root = group.rank() == 0;
    const Tensor all = is_root ? room(device, 3 * group.rank_count()) : Tensor();
    group.gather(upload(device, counted(group.rank(), 3)), all, 0);
    if (is_root) EXPECT_EQ(all.to_vector<float>(), counted_of_all(group, 3));
    const Tensor own = room(device, 3);
    group.scatter(all, own, 0);
    EXPECT_EQ(own.to_vector<float>(), counted(group.rank(), 3));
  });
}

TEST_P(CclOperations, AllToAll_ExchangesBlocks) {
  run_all([&](const Group& group, Device device) {
    const uint32_t count = group.rank_count();
    const Tensor received = room(device, count);
    group.all_to_all(upload(device, counted(group.rank(), count)), received);
    Floats expected;
    for (uint32_t from = 0; from < count; ++from) {
      expected.push_back(static_cast<float>(100 * from + group.rank()));
    }
    EXPECT_EQ(received.to_vector<float>(), expected);
  });
}

TEST_P(CclOperations, SendAndRecv_ReachTheirPeer) {
  run_all([&](const Group& group, Device device) {
    const Tensor x = upload(device, counted(7, 1000));
    if (group.rank() == 0) group.send(x, 1);
    if (group.rank() != 1) return;
    const Tensor y = room(device, 1000);
    group.recv(y, 0);
    EXPECT_EQ(y.to_vector<float>(), counted(7, 1000));
  });
}

TEST_P(CclOperations, Batch_OfSendAndRecv_GoesRoundTheRing) {
  run_all([&](const Group& group, Device device) {
    const uint32_t count = group.rank_count();
    const uint32_t last = (group.rank() + count - 1) % count;
    const Tensor received = room(device, 6);
    group.batch({{.kind = Kind::send,
                  .root = (group.rank() + 1) % count,
                  .send = upload(device, counted(group.rank(), 6))},
                 {.kind = Kind::recv, .root = last, .recv = received}});
    EXPECT_EQ(received.to_vector<float>(), counted(last, 6));
  });
}

TEST_P(CclOperations, Batch_OfCollectives_KeepsTheirOrder) {
  run_all([&](const Group& group, Device device) {
    const Tensor x = upload(device, {1});
    const Tensor y = room(device, 1);
    const auto work = group.async().batch(
        {{.kind = Kind::all_reduce, .send = x, .recv = y},
         {.kind = Kind::broadcast, .root = 0, .recv = upload(device, counted(group.rank(), 2))}});
    work.wait();
    EXPECT_TRUE(work.done());
    EXPECT_EQ(y.to_vector<float>(), Floats{count_of(group)});
  });
}

TEST_P(CclOperations, Async_OnAStream_TakesItsPlaceThere) {
  run_all([&](const Group& group, Device device) {
    const Stream stream = Stream::create(device);
    const Tensor x = add(upload(device, {1}), upload(device, {2}), stream);
    const auto work = group.async().all_reduce(x, {.stream = stream});
    stream.sync();
    EXPECT_TRUE(work.done());
    EXPECT_FALSE(work.failure());
    EXPECT_EQ(x.to_vector<float>(), Floats{3 * count_of(group)});
  });
}

TEST_P(CclOperations, Work_IsDoneWhenAllRanksHaveCome) {
  std::atomic<uint32_t> begun{0};
  run_all([&](const Group& group, Device device) {
    const Tensor x = upload(device, {1});
    const bool is_late = group.rank() == 0;
    if (is_late) {
      while (begun + 1 < group.rank_count()) std::this_thread::yield();
    }
    const auto work = group.async().all_reduce(x);
    if (!is_late) {
      EXPECT_FALSE(work.done());
      EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(1)));
      EXPECT_FALSE(work.wait_for(std::chrono::nanoseconds(0)));
      EXPECT_FALSE(work.failure());
      ++begun;
    }
    EXPECT_TRUE(work.wait_for(timeout_));
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds(0)));
  });
}

TEST_P(CclOperations, Barrier_HoldsUntilAllHaveCome) {
  std::atomic<uint32_t> arrived{0};
  run_all([&](const Group& group, Device device) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * group.rank()));
    ++arrived;
    group.barrier();
    EXPECT_EQ(arrived, group.rank_count());
    const auto work = group.async().barrier();
    const Stream stream = Stream::create(device);
    work.order_before(stream);
    add(upload(device, {1}), upload(device, {2}), stream);
    stream.sync();
    EXPECT_TRUE(work.wait_for(timeout_));
  });
}

TEST_P(CclOperations, Info_CountsByTheWayThatOperationsWent) {
  run_all([&](const Group& group, Device device) {
    const Tensor x = upload(device, {1, 2});
    group.all_reduce(x);
    const bpa_ccl_group_info info = group.info();
    EXPECT_EQ(info.rank_count, GetParam().size());
    EXPECT_EQ(info.timeout_ns, static_cast<uint64_t>(timeout_.count()));
    EXPECT_EQ(info.native_operations + info.host_operations + info.staged_operations, 1u);
    EXPECT_EQ(info.native_operations, info.is_native);
    EXPECT_EQ(std::string(info.why_not_native).empty(), info.is_native == 1);
    EXPECT_EQ(info.staged_bytes, info.staged_operations * 2 * 2 * sizeof(float));
    EXPECT_EQ(info.contiguous_copies, 0u);
    EXPECT_THAT(group.trace(), HasSubstr("all_reduce"));
    EXPECT_FALSE(group.failure());
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, CclOperations, testing::ValuesIn(pairs_all_and_linked()),
                         name_of_group);

/// One rank on each device: what ranks of one device compute goes through one default stream.
using CclAsync = CclOperations;

TEST_P(CclAsync, ResultsAreComputedOnWithoutAWait) {
  run_all([&](const Group& group, Device device) {
    Tensor x = upload(device, {1, 2});
    for (int round = 0; round < 5; ++round) {
      const Tensor sums = room(device, 2);
      group.async().all_reduce(x, sums, {.op = Reduction::avg});
      x = add(sums, sums);
    }
    EXPECT_EQ(x.to_vector<float>(), (Floats{32, 64}));
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, CclAsync,
                         testing::Values(DeviceNames{"npu:0", "npu:1"}, tests::device_names()),
                         name_of_group);

using CclGroup = CclTest;

TEST_F(CclGroup, LinkedDevices_CommunicateNatively) {
  run({"npu:0", "npu:1"}, [](const Group& group, Device device) {
    group.all_reduce(upload(device, {1}));
    EXPECT_EQ(group.info().is_native, 1u);
    EXPECT_EQ(group.info().native_operations, 1u);
  });
}

TEST_F(CclGroup, DevicesOfTwoVendors_CommunicateByMessages) {
  run({"npu:0", "cpu:0"}, [](const Group& group, Device device) {
    group.all_reduce(upload(device, {1}));
    EXPECT_EQ(group.info().is_native, 0u);
    EXPECT_THAT(group.info().why_not_native, HasSubstr("cpu:0"));
    EXPECT_EQ(
        device.name() == "npu:0" ? group.info().staged_operations : group.info().host_operations,
        1u);
  });
}

TEST_F(CclGroup, OnDefaultStreams_TakesItsPlaceThere) {
  run({"cpu:0", "npu:0"}, [&](const Group& group, Device device) {
    const Tensor x = upload(device, {1});
    const Stream stream = Stream::default_of(device);
    for (int round = 0; round < 3; ++round) {
      group.async().all_reduce(x, {.stream = stream, .timeout = timeout_});
      group.all_reduce(x, {.stream = stream});
    }
    EXPECT_EQ(x.to_vector<float>(), Floats{64});
  });
}

TEST_F(CclGroup, Info_TellsTheMemoryForChunks) {
  constexpr uint64_t kChunk = 1024;
  open({{"BACKPLANE_CCL_CHUNK", std::to_string(kChunk)}});
  run({"npu:0", "cpu:0"}, [&](const Group& group, Device device) {
    group.all_reduce(room(device, kChunk / sizeof(float)));
    EXPECT_EQ(group.info().ring_bytes, 0u);
    group.all_reduce(room(device, 100 * kChunk / sizeof(float)));
    const uint64_t bytes = group.info().ring_bytes;
    if (device.name() == "cpu:0") EXPECT_EQ(bytes, 0u);
    if (device.name() == "npu:0") EXPECT_EQ(bytes, 4 * kChunk) << "four of them";
    // A caller that was built before it was there.
    bpa_ccl_group_info info{};
    info.ring_bytes = 4711;
    info.struct_size = offsetof(bpa_ccl_group_info, ring_bytes);
    ASSERT_EQ(bpa_ccl_group_get_info(group.handle(), &info), BP_OK);
    EXPECT_EQ(info.ring_bytes, 4711u);
    EXPECT_EQ(info.rank_count, 2u);
  });
}

TEST_F(CclGroup, OfOneRank_Works) {
  run({"cpu:0"}, [](const Group& group, Device device) {
    const Tensor x = upload(device, {1, 2});
    group.all_reduce(x);
    group.barrier();
    EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
  });
}

TEST_F(CclGroup, EmptyTensors_AreLegal) {
  run({"cpu:0", "npu:0"}, [](const Group& group, Device device) {
    const Tensor x = Tensor::create(device, BP_DTYPE_F32, {0, 3});
    group.all_reduce(x);
    group.async().all_gather(x, x).wait();
  });
}

TEST_F(CclGroup, SeveralInOneStore_ByTheirNames) {
  const ccl::Store store = ccl::Store::memory();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const Device device = runtime_->device("cpu:0");
      const Group first =
          Group::create(device, {.store = store, .name = "a", .rank = rank, .rank_count = 2});
      const Group second =
          Group::create(device, {.store = store, .rank = 1 - rank, .rank_count = 2});
      const Tensor x = upload(device, {1});
      first.all_reduce(x);
      second.broadcast(x, 0);
      EXPECT_EQ(x.to_vector<float>(), Floats{2});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CclGroup, Timeout_IsTheOptionsUnlessGiven) {
  open({{"BACKPLANE_CCL_TIMEOUT", "7"}});
  timeout_ = {};
  run({"cpu:0"},
      [](const Group& group, Device) { EXPECT_EQ(group.info().timeout_ns, 7'000'000'000u); });
}

TEST_F(CclGroup, StridedSend_IsMadeContiguousAndCounted) {
  run({"cpu:0", "npu:0"}, [&](const Group& group, Device device) {
    const Tensor x = Tensor::from_host<float>(device, {1, 2, 3, 4, 5, 6}, {2, 3});
    const Tensor turned = transpose(x);
    const Tensor sums = room(device, 6);
    group.all_reduce(turned, sums);
    EXPECT_EQ(sums.to_vector<float>(), (Floats{2, 8, 4, 10, 6, 12}));
    EXPECT_EQ(group.info().contiguous_copies, 1u);
  });
}

}  // namespace
}  // namespace bp
