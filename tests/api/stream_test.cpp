// SPDX-License-Identifier: Apache-2.0
//
// Streams of the application: order within one, order between two by tensors alone, runs that take
// their place in one.
#include <chrono>
#include <thread>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class StreamTest : public ApiTest {
 protected:
  /// Doubles `times` times on the stream.
  static Tensor doubled(Tensor x, int times, const Stream& stream) {
    for (int i = 0; i < times; ++i) x = add(x, x, stream);
    return x;
  }
};

TEST_P(StreamTest, Work_IsDoneInOrder) {
  const Stream stream = Stream::create(device_);
  const Tensor y = doubled(make({1, -2, 3}, {3}), 10, stream);
  stream.sync();
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1024, -2048, 3072}));
}

TEST_P(StreamTest, Query_BecomesDone) {
  const Stream stream = Stream::create(device_);
  const Tensor y = doubled(make(std::vector<float>(1 << 16, 1.0f), {1 << 16}), 8, stream);
  const auto deadline = std::chrono::steady_clock::now() + kTestDeadline;
  while (!stream.done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(y.to_vector<float>()[77], 256.0f);
}

TEST_P(StreamTest, TwoStreams_TensorsOrderThem) {
  const Stream a = Stream::create(device_);
  const Stream b = Stream::create(device_);
  const int64_t n = 1 << 14;
  for (int round = 0; round < 10; ++round) {
    const Tensor x = make(std::vector<float>(n, 1.0f), {n});
    const Tensor on_a = doubled(x, 5, a);
    const Tensor on_b = doubled(on_a, 5, b);    // comes after a's work
    const Tensor by_default = add(on_b, on_a);  // and this after both
    EXPECT_EQ(by_default.to_vector<float>(), std::vector<float>(n, 1024.0f + 32.0f));
  }
}

TEST_P(StreamTest, DefaultStream_IsTheOneOfCallsWithoutAny) {
  const Stream stream = Stream::default_of(device_);
  const Tensor y = relu(make({-1, 2}, {2}));
  stream.sync();
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(relu(y, stream).to_vector<float>(), (std::vector<float>{0, 2}));
}

TEST_P(StreamTest, Run_TakesItsPlaceInTheStream) {
  const Session session = load("relu");
  const Stream stream = Stream::create(device_);
  const Tensor bound = Tensor::create(device_, BP_DTYPE_F32, {2, 2});
  for (int round = 0; round < 10; ++round) {
    const Tensor x = doubled(make({1, -2, 3, -4}, {2, 2}), 3, stream);
    session.run({{"x", x}}, {.outputs = {{"y", bound}}, .stream = stream});
    const Tensor after = doubled(bound, 1, stream);
    stream.sync();
    EXPECT_EQ(after.to_vector<float>(), (std::vector<float>{16, 0, 48, 0}));
  }
}

/// Its memory was another tensor's, whose work the default stream has not come to.
TEST_P(StreamTest, Run_BoundToACreatedTensor_ComesAfterWhatItsMemoryWas) {
  if (GetParam() == "npu:0") {
    open({{"BACKPLANE_FALLBACK", "allow"}, {"npu.launch_latency_ns", "30000000"}});
  }
  const Session session = load("relu");
  const NamedTensors x = {{"x", make({1, -2, 3, -4}, {2, 2})}};
  doubled(make({7, 7, 7, 7}, {2, 2}), 4, Stream::default_of(device_));
  const Tensor bound = Tensor::create(device_, BP_DTYPE_F32, {2, 2});
  session.run(x, {.outputs = {{"y", bound}}});
  Stream::default_of(device_).sync();
  EXPECT_EQ(bound.to_vector<float>(), (std::vector<float>{1, 0, 3, 0}));
}

TEST_P(StreamTest, Run_StreamOfAnotherDevice_IsRefusedByName) {
  const std::string other = GetParam() == "cpu:0" ? "npu:0" : "cpu:0";
  const Session session = load("relu");
  const Stream stream = Stream::create(runtime_->device(other));
  std::string words;
  const NamedTensors x = {{"x", make({1, -2, 3, -4}, {2, 2})}};
  EXPECT_EQ(status_of([&] { session.run(x, {.stream = stream}); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("args.stream"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { relu(x.at("x"), stream); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find(other), std::string::npos) << words;
}

TEST_P(StreamTest, Released_WithWorkPending_TheWorkIsDone) {
  Tensor y;
  {
    const Stream stream = Stream::create(device_);
    y = doubled(make({1, 2}, {2}), 20, stream);
  }
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1 << 20, 1 << 21}));
}

TEST_P(StreamTest, Reset_OfAHealthyStream_LosesNothing) {
  const Stream stream = Stream::create(device_);
  const Tensor y = doubled(make({1, 2}, {2}), 5, stream);
  stream.reset();
  EXPECT_EQ(doubled(y, 1, stream).to_vector<float>(), (std::vector<float>{64, 128}));
}

TEST_P(StreamTest, AfterClose_IsGone) {
  const Stream stream = Stream::create(device_);
  runtime_->close();
  EXPECT_EQ(status_of([&] { stream.sync(); }), BP_GONE);
  EXPECT_EQ(status_of([&] { (void)stream.done(); }), BP_GONE);
  EXPECT_EQ(status_of([&] { stream.reset(); }), BP_GONE);
  EXPECT_EQ(status_of([&] { Stream::create(device_); }), BP_GONE);
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
