// SPDX-License-Identifier: Apache-2.0
//
// A session survives a run that finds the heap empty. By an interposer that stands before malloc in
// this program.
#include "core/dispatch/dispatcher.hpp"
#include "tests/fault_injection/interposer.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/resolved_calls.hpp"

namespace bp {

uint64_t resolved_calls(const void* device_handle) {
  const OwnedHandle::Peek peek(device_handle, HandleKind::kDevice);
  return Dispatcher::of(*static_cast<Device*>(peek.object())).resolved_count();
}

namespace {

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
  SessionArgs args;
  args.device = device_;
  args.max_contexts = 1;
  const auto session = Session::create(*runtime_, row_of({"relu"}, {2}), args);
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
