// SPDX-License-Identifier: Apache-2.0
//
// Waits of one stream for another: as few as order needs, and never one too few.
#include <thread>
#include <vector>

#include "core/runtime/stream.hpp"
#include "core/transfer/transfer.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/stream_gate.hpp"

namespace bp {
namespace {

class StreamWaitTest : public DeviceTest {
 protected:
  void SetUp() override {
    open(test_runtime_args());
    if (IsSkipped() || HasFatalFailure()) return;
    skip_if_inline(*device_);
    if (IsSkipped()) return;
    auto acquired = device_->acquire_stream();
    ASSERT_TRUE(acquired.ok()) << acquired.status().to_string();
    other_ = *acquired;
  }
  void TearDown() override {
    if (other_ != nullptr) device_->release_stream(other_);
  }
  Ref<Tensor> relu_on(Stream& stream, const Ref<Tensor>& x) {
    Tensor* inputs[] = {x.get()};
    Ref<Tensor> y;
    const CallArgs args{.op = op("relu"),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = &stream,
                        .device = device_};
    const Status status = call(*runtime_, args, {&y, 1});
    EXPECT_TRUE(status.ok()) << status.to_string();
    return y;
  }
  Ref<Tensor> create(const Dims& sizes) {
    auto made = Tensor::create(*device_, BP_DTYPE_F32, sizes);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  static void write_on(Stream& stream, const Ref<Tensor>& tensor, std::vector<float> numbers) {
    const Status status = write_from_host(stream, *tensor, numbers.data());
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  uint64_t waits() const { return device_->counters().stream_waits; }

  Stream* other_ = nullptr;
};

TEST_P(StreamWaitTest, MemoryThatAnotherStreamUses_GoesBackPieceByPiece_OneWaitForAll) {
  constexpr int kPieces = 6;
  const Ref<Tensor> x = upload_f32({2}, {3, -1});
  const Ref<Tensor> y = upload_f32({2}, {7, 7});
  std::vector<Ref<Tensor>> made;
  for (int i = 0; i < kPieces; ++i) made.push_back(must_call("relu", {x}));
  StreamGate gate;
  const uint64_t before = waits();
  std::vector<Ref<Tensor>> used;
  used.push_back(relu_on(*other_, made[0]));
  ASSERT_TRUE(gate.hold(*other_));
  for (size_t i = 1; i < made.size(); ++i) used.push_back(relu_on(*other_, made[i]));
  EXPECT_EQ(waits() - before, 1u) << "one for all that the default stream has made";
  made.clear();
  EXPECT_EQ(waits() - before, 2u) << "and one for all that comes back to it";
  // Takes the memory that came back, and would write it under what reads it still.
  std::vector<Ref<Tensor>> later;
  for (int i = 0; i < kPieces; ++i) later.push_back(must_call("add", {y, y}));
  gate.open();
  for (const Ref<Tensor>& tensor : used) EXPECT_EQ(values(tensor), (std::vector<double>{3, 0}));
  for (const Ref<Tensor>& tensor : later) EXPECT_EQ(values(tensor), (std::vector<double>{14, 14}));
}

TEST_P(StreamWaitTest, WorkThatCameLater_NeedsAWaitOfItsOwn) {
  const Ref<Tensor> x = upload_f32({2}, {3, -1});
  const uint64_t before = waits();
  for (uint64_t i = 1; i <= 3; ++i) {
    StreamGate gate;
    ASSERT_TRUE(gate.hold(device_->default_stream()));
    const Ref<Tensor> made = must_call("add", {x, x});
    const Ref<Tensor> used = relu_on(*other_, made);
    EXPECT_EQ(waits() - before, i);
    gate.open();
    EXPECT_EQ(values(used), (std::vector<double>{6, 0}));
  }
}

TEST_P(StreamWaitTest, AfterAReset_WaitsAreEnqueuedAnew) {
  const Ref<Tensor> x = upload_f32({2}, {3, -1});
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  const Ref<Tensor> made = must_call("add", {x, x});
  const uint64_t before = waits();
  Ref<Tensor> used = relu_on(*other_, made);
  EXPECT_EQ(waits() - before, 1u);
  gate.open();
  ASSERT_TRUE(other_->reset().ok());
  StreamGate again;
  ASSERT_TRUE(again.hold(device_->default_stream()));
  const Ref<Tensor> anew = must_call("add", {made, made});
  used = relu_on(*other_, anew);
  EXPECT_EQ(waits() - before, 2u);
  again.open();
  EXPECT_EQ(values(used), (std::vector<double>{12, 0}));
}

/// Memory of the default stream, which has work for it in its queue, is given to whoever comes
/// first.
TEST_P(StreamWaitTest, CreatedTensor_ComesAfterWhatItsMemoryWas) {
  const Ref<Tensor> y = upload_f32({2}, {7, 7});
  ASSERT_TRUE(device_->default_stream().sync().ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  Ref<Tensor> earlier = must_call("add", {y, y});
  const bp_tensor place = earlier->abi();
  earlier = nullptr;
  const Ref<Tensor> created = create({2});
  ASSERT_EQ(created->abi().offset_bytes, place.offset_bytes) << "or there is nothing to see";
  write_on(*other_, created, {1, 2});
  gate.open_later();
  ASSERT_TRUE(device_->default_stream().sync().ok());
  EXPECT_EQ(values(created), (std::vector<double>{1, 2}));
}

/// The default stream is idle but for a wait.
TEST_P(StreamWaitTest, CreatedTensor_ComesAfterAnotherStreamThatReadsItsMemory) {
  Ref<Tensor> earlier = upload_f32({2}, {3, -1});
  const bp_tensor place = earlier->abi();
  auto third = device_->acquire_stream();
  ASSERT_TRUE(third.ok()) << third.status().to_string();
  ASSERT_TRUE(device_->default_stream().sync().ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(*other_));
  const Ref<Tensor> used = relu_on(*other_, earlier);
  earlier = nullptr;
  const Ref<Tensor> created = create({2});
  ASSERT_EQ(created->abi().offset_bytes, place.offset_bytes) << "or there is nothing to see";
  write_on(**third, created, {5, 6});
  gate.open_later();
  EXPECT_EQ(values(used), (std::vector<double>{3, 0}));
  EXPECT_EQ(values(created), (std::vector<double>{5, 6}));
  device_->release_stream(*third);
}

/// A copy that no queue takes is made at once, but not under what another stream reads.
TEST_P(StreamWaitTest, LargeUpload_ComesAfterAnotherStreamThatReadsItsMemory) {
  constexpr int64_t kCount = 1 << 16;
  Ref<Tensor> earlier = upload_f32({kCount}, std::vector<double>(kCount, 3));
  const bp_tensor place = earlier->abi();
  ASSERT_TRUE(device_->default_stream().sync().ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(*other_));
  const Ref<Tensor> used = relu_on(*other_, earlier);
  earlier = nullptr;
  std::thread opener([&] { gate.open_later(); });
  const Ref<Tensor> later = upload_f32({kCount}, std::vector<double>(kCount, 8));
  opener.join();
  ASSERT_EQ(later->abi().offset_bytes, place.offset_bytes) << "or there is nothing to see";
  EXPECT_EQ(values(used), std::vector<double>(kCount, 3));
  EXPECT_EQ(values(later), std::vector<double>(kCount, 8));
}

// Of an inline stream nobody waits for anything.
INSTANTIATE_TEST_SUITE_P(Devices, StreamWaitTest, testing::ValuesIn(tests::queued_device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
