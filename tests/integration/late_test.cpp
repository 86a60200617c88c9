// SPDX-License-Identifier: Apache-2.0
//
// Work that does not end before the deadline of a wait: what the host gives up waiting for still
// runs, so none of its memory may go, and nothing of the caller's may be touched afterwards.
#include <array>
#include <memory>

#include "core/runtime/stream.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/stream_gate.hpp"

namespace bp {
namespace {

class LateTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.options.push_back({"BACKPLANE_TIMEOUT", "2"});
    open(args);
  }
  /// What is enqueued from now on does not begin before let_it_end().
  void hold_work() { ASSERT_TRUE(gate_.hold(device_->default_stream())); }
  Status let_it_end() {
    gate_.open();
    Status status;
    do status = device_->sync();
    while (status.code() == BP_TIMEOUT);
    return status;
  }

  StreamGate gate_;
};

TEST_P(LateTest, WrappedMemory_LastTensorGoesTooEarly_OwnerStaysUntilTheWorkHasEnded) {
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = owner;
  const uint64_t offset = x->storage().offset_bytes();
  Ref<Tensor> wrapped =
      Ref<Tensor>::make(Storage::wrap(device_, x->storage().handle(), offset + 8, std::move(owner)),
                        BP_DTYPE_F32, Dims{2}, Dims{1}, offset);
  hold_work();
  const Ref<Tensor> y = must_call("relu", {wrapped});
  wrapped = nullptr;
  EXPECT_FALSE(watched.expired()) << "the device is still at work with it";
  EXPECT_TRUE(let_it_end().ok());
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(values(y), (std::vector<double>{0, 2}));
}

TEST_P(LateTest, CopyIn_WaitEndsTooEarly_TouchesNothingLater) {
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  hold_work();
  const Ref<Tensor> y = must_call("relu", {x});
  auto values_in = std::make_unique<std::array<float, 2>>(std::array<float, 2>{7, 8});
  const bp_mem place{x->storage().handle(), x->storage().offset_bytes()};
  const Status status = device_->copy_in(device_->default_stream(), place, values_in->data(), 8);
  EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
  values_in.reset();
  EXPECT_TRUE(let_it_end().ok());
  EXPECT_EQ(values(x), (std::vector<double>{-1, 2}));
}

TEST_P(LateTest, CopyOut_WaitEndsTooEarly_TouchesNothingLater) {
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  hold_work();
  const Ref<Tensor> y = must_call("relu", {x});
  std::array<float, 2> found{5, 5};
  const bp_mem place{y->storage().handle(), y->storage().offset_bytes()};
  const Status status = device_->copy_out(device_->default_stream(), found.data(), place, 8);
  EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
  EXPECT_TRUE(let_it_end().ok());
  EXPECT_EQ(found, (std::array<float, 2>{5, 5}));
  EXPECT_EQ(values(y), (std::vector<double>{0, 2}));
}

INSTANTIATE_TEST_SUITE_P(Devices, LateTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
