// SPDX-License-Identifier: Apache-2.0
//
// Batches of which a collective sends a strided view of what one before it gives: on some ranks or
// on all, beside sends and receives, compared before they begin or not.
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

Ref<Tensor> transposed(const Ref<Tensor>& tensor) { return tensor->view({2, 2}, {1, 2}, 0); }

class GroupBatch : public GroupTest, public testing::WithParamInterface<Devices> {
 protected:
  void SetUp() override { timeout_ = seconds(20); }
  void check_calls(bool checks) {
    core_options_ = {{"BACKPLANE_CCL_CHECK", checks ? "1" : "0"}};
    make_runtime({});
  }
};

TEST_P(GroupBatch, StridedOnOneRankAlone_IsTheSameBatchForAll) {
  for (const bool checks : {false, true}) {
    check_calls(checks);
    run(GetParam(), [&](uint32_t rank, ProcessGroup& group) {
      const auto n = static_cast<float>(group.place().rank_count);
      const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {1, 2, 3, 4});
      const Ref<Tensor> y = room(group.device(), BP_DTYPE_F32, 4);
      const Ref<Tensor> other = upload(group.device(), BP_DTYPE_F32, {10, 20, 30, 40});
      const Call calls[] = {
          {.send = x, .recv = x},
          {.send = rank == 0 ? transposed(x) : other, .recv = y},
          {.kind = Kind::kBroadcast, .send = rank == 0 ? transposed(y) : Ref<Tensor>(), .recv = x}};
      const auto work = group.enqueue(calls, {.waits = rank % 2 == 0});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      if (*work) {
        const Status done = (*work)->wait(Clock::now() + seconds(40));
        ASSERT_TRUE(done.ok()) << done.to_string();
      }
      const float others = 10 * (n - 1);
      EXPECT_THAT(floats(y), ElementsAre(n + others, 3 * n + 2 * others, 2 * n + 3 * others,
                                         4 * n + 4 * others));
      EXPECT_THAT(floats(x), ElementsAre(floats(y)[0], floats(y)[2], floats(y)[1], floats(y)[3]));
    });
  }
}

TEST_P(GroupBatch, SendsAndReceivesBesideIt_DoNotWaitForEachOther) {
  run({GetParam()[0], GetParam()[1]}, [&](uint32_t rank, ProcessGroup& group) {
    for (const uint64_t count : {uint64_t{3}, uint64_t{100000}}) {
      const Ref<Tensor> a =
          upload(group.device(), BP_DTYPE_F32, std::vector<double>(count, rank + 1));
      const Ref<Tensor> b = room(group.device(), BP_DTYPE_F32, count);
      const Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {1, 2, 3, 4});
      const Ref<Tensor> y = room(group.device(), BP_DTYPE_F32, 4);
      // In another order on each rank, and behind a collective that waits for one before it.
      const Call send{.kind = Kind::kSend, .root = 1 - rank, .send = a};
      const Call recv{.kind = Kind::kRecv, .root = 1 - rank, .recv = b};
      const Call sum{.send = x, .recv = x};
      const Call of_result{.send = transposed(x), .recv = y};
      const std::vector<Call> calls = rank == 0 ? std::vector{send, sum, recv, of_result}
                                                : std::vector{sum, of_result, send, recv};
      const auto work = group.enqueue(calls, {.waits = true});
      ASSERT_TRUE(work.ok()) << work.status().to_string();
      EXPECT_EQ(floats(b)[count - 1], static_cast<float>(2 - rank));
      EXPECT_THAT(floats(y), ElementsAre(4, 12, 8, 16));
    }
  });
}

TEST_P(GroupBatch, TensorsOfNoDevice_AreRefused) {
  run(GetParam(), [&](uint32_t, ProcessGroup& group) {
    const auto host = [] {
      void* place = nullptr;
      auto made = HostTensor::allocate(BP_DTYPE_F32, Dims{4}, &place);
      return Tensor::wrap_host(*std::move(made));
    };
    const Ref<Tensor> x = host();
    const Ref<Tensor> y = host();
    const Call calls[] = {{.send = y, .recv = y}, {.send = transposed(x), .recv = y}};
    EXPECT_EQ(group.enqueue(calls).status().code(), BP_INVALID_ARGUMENT);
    const Ref<Tensor> z = upload(group.device(), BP_DTYPE_F32, {1});
    const Call good{.send = z, .recv = z};
    ASSERT_TRUE(group.enqueue(good, {.waits = true}).ok());
    EXPECT_EQ(floats(z)[0], static_cast<float>(group.place().rank_count));
  });
}

// The last owner of x is work that is over while the copy of its view stands behind a barrier.
TEST_P(GroupBatch, ReleasedTensorThatACopyStillReads_HoldsNobodyUp) {
  for (const bool is_batch : {true, false}) {
    std::atomic<int> called_count = 0;
    run({GetParam()[0], GetParam()[1]}, [&](uint32_t rank, ProcessGroup& group) {
      Ref<Tensor> x = upload(group.device(), BP_DTYPE_F32, {1, 2, 3, 4});
      const Ref<Tensor> y = room(group.device(), BP_DTYPE_F32, 4);
      std::vector<Call> calls = {
          {.send = x, .recv = x}, {.kind = Kind::kBarrier}, {.send = transposed(x), .recv = y}};
      x = {};
      Result<Ref<Work>> last = Ref<Work>();
      if (is_batch && rank == 0) {
        last = group.enqueue(calls);
      } else {
        last = group.enqueue(calls[0]);
        // Rank 0 drops what is over meanwhile.
        if (rank == 1) std::this_thread::sleep_for(milliseconds(300));
        for (size_t i = 1; i < calls.size() && last.ok(); ++i) last = group.enqueue(calls[i]);
      }
      ASSERT_TRUE(last.ok()) << last.status().to_string();
      calls.clear();
      const auto begin = Clock::now();
      const Status done = (*last)->wait(Clock::now() + seconds(40));
      EXPECT_TRUE(done.ok()) << done.to_string();
      EXPECT_LT(Clock::now() - begin, seconds(15));
      EXPECT_THAT(floats(y), ElementsAre(4, 12, 8, 16));
      meet(&called_count, 2);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupBatch,
                         testing::Values(Devices{"cpu:0", "cpu:0"}, Devices{"npu:0", "npu:1"},
                                         Devices{"npu:0", "cpu:0"}, Devices{"xpu:0", "cpu:0"},
                                         Devices{"npu:0", "npu:1", "cpu:0"}));

}  // namespace
}  // namespace bp::ccl
