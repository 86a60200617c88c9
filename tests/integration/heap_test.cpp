// SPDX-License-Identifier: Apache-2.0
//
// A warm eager call touches no heap, neither in the core nor in our kernels: counted by an
// interposer that stands before malloc in this program.
#include "tests/faults/interposer.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class HeapTest : public DeviceTest {
 protected:
  /// Requests of a thousand warm calls.
  uint64_t requests_of(OpId op, std::span<Tensor* const> inputs, const void* attributes = nullptr) {
    const CallArgs args{
        .op = op, .inputs = inputs, .attributes = attributes, .stream = nullptr, .device = nullptr};
    const auto call_once = [&] {
      Ref<Tensor> output;
      const Status status = call(*runtime_, args, {&output, 1});
      EXPECT_TRUE(status.ok()) << status.to_string();
    };
    for (int i = 0; i < 100; ++i) call_once();
    faults::arm_host(faults::HostFault::kAlloc, UINT64_MAX);
    for (int i = 0; i < 1000; ++i) call_once();
    return faults::disarm_host().requests;
  }
};

TEST_P(HeapTest, WarmCalls_TouchNoHeap) {
  const Ref<Tensor> a = upload_f32({1}, {1});
  const Ref<Tensor> b = upload_f32({1}, {2});
  const Ref<Tensor> m = upload_f32({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor* const pair[] = {a.get(), b.get()};
  Tensor* const one[] = {a.get()};
  Tensor* const matrix[] = {m.get()};
  EXPECT_EQ(requests_of(op("add"), pair), 0u);
  EXPECT_EQ(requests_of(op("relu"), one), 0u);
  Attributes axes = attributes("reduce_sum");
  ASSERT_TRUE(axes.set_i64s("axes", std::vector<int64_t>{1}).ok());
  EXPECT_EQ(requests_of(op("reduce_sum"), matrix, axes.data()), 0u);
  EXPECT_EQ(requests_of(op("transpose"), matrix), 0u);
  const Ref<Tensor> transposed = must_call("transpose", {m});
  Tensor* const view[] = {transposed.get(), transposed.get()};
  EXPECT_EQ(requests_of(op("add"), view), 0u) << "a transposed view as it lies";
}

TEST_P(HeapTest, TheInterposer_Counts) {
  faults::arm_host(faults::HostFault::kAlloc, UINT64_MAX);
  const Ref<Tensor> fresh = upload_f32({77}, std::vector<double>(77, 1.0));
  EXPECT_GT(faults::disarm_host().requests, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, HeapTest, testing::Values("cpu:0"), device_test_name);

}  // namespace
}  // namespace bp
