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
    args.options.push_back({"BACKPLANE_TIMEOUT", "20"});  // waited for where a context is lost
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
  // There before anything is refused: an upload that fails on its way is lost to every run.
  ASSERT_TRUE(device_->sync().ok());
  ASSERT_TRUE((*session)->run(input).ok());
  faults::arm_host(faults::HostFault::kAlloc, UINT64_MAX);
  ASSERT_TRUE((*session)->run(input).ok());
  // The device's own thread asks too, at any time until the work is done.
  ASSERT_TRUE(device_->sync().ok());
  const uint64_t requests = faults::disarm_host().requests;
  EXPECT_GT(requests, 10u);
  for (uint64_t nth = 1; nth <= requests; ++nth) {
    // Its work is still going on when the next run asks how the context is, which takes words.
    const auto outputs = (*session)->run(input);
    ASSERT_TRUE(outputs.ok()) << "request " << nth - 1 << ": " << outputs.status().to_string();
    faults::arm_host(faults::HostFault::kAlloc, nth);
    [[maybe_unused]] const auto refused = contain([&] { return (*session)->run(input).status(); });
    faults::disarm_host();
  }
  const auto outputs = (*session)->run(input);
  ASSERT_TRUE(outputs.ok()) << "request " << requests << ": " << outputs.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(Devices, OneContextTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
