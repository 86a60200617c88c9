// SPDX-License-Identifier: Apache-2.0
//
// Kept answers on every device: endless new shapes beside few that are used again, and plans that
// outlive their last owner while queued work uses them.
#include <atomic>
#include <thread>

#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/launch.hpp"
#include "core/dispatch/route_cache.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using AnswersTest = DeviceTest;

TEST_P(AnswersTest, MoreShapesThanAreKept_EachGivesItsOwnResult) {
  constexpr int64_t kShapes = static_cast<int64_t>(RouteCache::kCapacity) + 500;
  const Ref<Tensor> x = upload_f32({kShapes}, std::vector<double>(kShapes, 2.0));
  const Ref<Tensor> known = upload_f32({3}, {-1, 0, 1});
  Ref<Tensor> sum;
  for (int64_t size = 1; size < kShapes; ++size) {
    const Ref<Tensor> part = x->view({size}, {1}, 0);
    sum = must_call("add", {part, part});
    ASSERT_TRUE(sum);
    ASSERT_EQ(sum->sizes(), Dims{size});
    if (size % 1000 == 0) {
      ASSERT_EQ(values(sum), std::vector<double>(static_cast<size_t>(size), 4.0));
      ASSERT_EQ(values(must_call("relu", {known})), (std::vector<double>{0, 0, 1}));
    }
  }
  EXPECT_LT(device_->deferred_free().count(), size_t{1024}) << "plans of dropped answers";
}

// Each of the threads has shapes of its own beside one that all share.
TEST_P(AnswersTest, ManyThreads_NewShapesAndCommonOnes_AgreeWithTheirInputs) {
  constexpr int64_t kRounds = 300;
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t round = 1; round < kRounds; ++round) {
        const int64_t size = round % 3 == 0 ? 5 : thread * kRounds + round;
        const auto count = static_cast<size_t>(size);
        const Ref<Tensor> x = upload_f32({size}, std::vector<double>(count, 1.5));
        const Ref<Tensor> y = must_call("add", {x, x});
        if (values(y) != std::vector<double>(count, 3.0)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

/// Devices whose kernels have plans or states, and queues of their own.
using QueuedPlanTest = DeviceTest;

TEST_P(QueuedPlanTest, WithoutOwner_IsKeptUntilTheWorkIsDone) {
  const Ref<Tensor> x = upload_f32({2, 2}, {1, 2, 3, 4});
  const ArgType type{.dtype = BP_DTYPE_F32, .sizes = {2, 2}, .strides = {2, 1}};
  const ArgType inputs[] = {type, type};
  const TensorType outputs[] = {{.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = {2, 2}}};
  auto planned = Dispatcher::of(*device_).plan_kernel(op("matmul"), inputs, outputs, nullptr);
  ASSERT_TRUE(planned.ok()) << planned.status().to_string();
  ASSERT_TRUE((*planned)->plan() != nullptr || (*planned)->stateful());
  const Ref<Tensor> y = upload_f32({2, 2}, {0, 0, 0, 0});
  bp_tensor tensors[3];
  x->write_abi(&tensors[0]);
  x->write_abi(&tensors[1]);
  y->write_abi(&tensors[2]);
  Tensor* const sources[] = {x.get(), x.get()};
  Ref<Tensor> results[] = {y};
  Stream& stream = device_->default_stream();
  ASSERT_TRUE(launch_planned(stream, *planned, tensors, sources, results).ok());
  planned = Status(BP_GONE, "its last owner let go");
  EXPECT_EQ(device_->deferred_free().count(), 1u);
  EXPECT_EQ(values(y), (std::vector<double>{7, 10, 15, 22}));
  ASSERT_TRUE(device_->sync().ok());
  EXPECT_EQ(device_->deferred_free().count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, AnswersTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);
INSTANTIATE_TEST_SUITE_P(Devices, QueuedPlanTest, testing::Values("xpu:0"), device_test_name);

}  // namespace
}  // namespace bp
