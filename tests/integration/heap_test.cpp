// SPDX-License-Identifier: Apache-2.0
//
// A warm eager call touches no heap, neither in the core nor in our kernels; and a session survives
// a run that finds the heap empty. By an interposer that stands before malloc in this program.
#include "tests/fault_injection/interposer.hpp"
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

class OneContextTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.options.push_back({"BACKPLANE_TIMEOUT", "1"});
    args.plugin_options = {{"npu.launch_latency_ns", "5000000"}};
    open(args);
  }
};

TEST_P(OneContextTest, RunWithoutHeap_AnyRequest_GivesItsContextBack) {
  Graph graph(runtime_->registry());
  const auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2}});
  ASSERT_TRUE(x.ok());
  const ValueId only[] = {*x};
  const auto y = graph.op("relu", only);
  ASSERT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
  SessionArgs args;
  args.device = device_;
  args.max_contexts = 1;
  const auto session = Session::create(*runtime_, std::move(graph), args);
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  const NamedTensor input[] = {{"x", upload_f32({2}, {-1, 2})}};
  faults::HostCounts counts{.requests = 0, .refused = 1};
  for (uint64_t nth = 1; counts.refused > 0; ++nth) {
    // Its work is still going on when the next run asks how the context is, which takes words.
    const auto outputs = (*session)->run(input);
    ASSERT_TRUE(outputs.ok()) << "request " << nth - 1 << ": " << outputs.status().to_string();
    faults::arm_host(faults::HostFault::kAlloc, nth);
    [[maybe_unused]] const auto refused = contain([&] { return (*session)->run(input).status(); });
    counts = faults::disarm_host();
  }
  EXPECT_GT(counts.requests, 10u);
}

INSTANTIATE_TEST_SUITE_P(Devices, OneContextTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
