// SPDX-License-Identifier: Apache-2.0
//
// What happens where something ends: device memory that is full when the first launch that may
// fault needs its words, work that takes longer than a wait may, run contexts that are all in use.
// The wrong answer to each is a hang, so each has a deadline here.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A body that hangs ends the program, since nothing could end its thread.
template <class Body>
void must_end(Body body) {
  std::future<void> ended = std::async(std::launch::async, std::move(body));
  if (ended.wait_for(std::chrono::seconds(60)) == std::future_status::ready) return;
  std::fprintf(stderr, "the test hangs\n");
  std::abort();
}

class FullMemoryTest : public DeviceTest {
 protected:
  /// Blocks of the stream until there are none any more. The first is a small one.
  std::vector<Ref<Tensor>> take_all(Stream& stream) {
    constexpr uint64_t kSegment = uint64_t{2} << 20;
    Allocator& allocator = device_->allocator();
    allocator.set_limit_bytes(allocator.stats().reserved_bytes + kSegment);
    std::vector<Ref<Tensor>> all;
    auto small = Tensor::allocate(*device_, BP_DTYPE_U8, {256}, MemoryTag::kIo, stream);
    EXPECT_TRUE(small.ok()) << small.status().to_string();
    if (small.ok()) all.push_back(std::move(*small));
    for (int64_t bytes = 1 << 20; bytes >= 256;) {
      auto block = Tensor::allocate(*device_, BP_DTYPE_U8, {bytes}, MemoryTag::kIo, stream);
      if (block.ok()) {
        all.push_back(std::move(*block));
      } else {
        bytes /= 2;
      }
    }
    return all;
  }
};

TEST_P(FullMemoryTest, Gather_NoRoomForItsFaultWords_IsOutOfMemory) {
  if (!offers("gather")) GTEST_SKIP() << "gathers on the host, whose memory is not full";
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const Ref<Tensor> i =
      upload(OracleTensor::from_i64(BP_DTYPE_I64, {2}, std::vector<int64_t>{3, 1}));
  must_end([&] {
    Stream* stream = &device_->default_stream();
    if (!device_->is_inline()) {
      auto own = device_->acquire_stream();
      ASSERT_TRUE(own.ok()) << own.status().to_string();
      stream = *own;
    }
    const auto gather = [&]() -> Result<Ref<Tensor>> {
      Tensor* const inputs[] = {x.get(), i.get()};
      Ref<Tensor> output;
      const CallArgs args{.op = op("gather"),
                          .inputs = inputs,
                          .attributes = nullptr,
                          .stream = stream,
                          .device = device_};
      BP_TRY(call(*runtime_, args, {&output, 1}));
      return output;
    };
    std::vector<Ref<Tensor>> all = take_all(*stream);
    ASSERT_GT(all.size(), 1u);
    all.front() = nullptr;  // room for the output
    const auto refused = gather();
    EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY) << refused.status().to_string();
    expect_words(refused.status(), {"gather", "out of memory"});
    all.clear();
    const auto picked = gather();
    ASSERT_TRUE(picked.ok()) << picked.status().to_string();
    EXPECT_EQ(values(*picked), (std::vector<double>{13, 11}));
    if (!stream->is_inline()) device_->release_stream(stream);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, FullMemoryTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

/// Of 2 MiB, as small devices have.
class SmallDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.plugin_options = {{"npu.memory", "2MiB"}};
    open(args);
  }
};

TEST_P(SmallDeviceTest, StreamsThatAreDone_KeepNoMore_ThanTheirFaultWords) {
  constexpr int kStreams = 16;
  std::vector<Stream*> streams;
  for (int i = 0; i < kStreams; ++i) {
    auto acquired = device_->acquire_stream();
    ASSERT_TRUE(acquired.ok()) << acquired.status().to_string();
    streams.push_back(*acquired);
    ASSERT_TRUE(streams.back()->prepare_faults().ok()) << i;
  }
  for (Stream* stream : streams) device_->release_stream(stream);
  const auto large =
      Tensor::allocate(*device_, BP_DTYPE_U8, {3 << 19}, MemoryTag::kIo, device_->default_stream());
  EXPECT_TRUE(large.ok()) << large.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(Devices, SmallDeviceTest, testing::Values("npu:0"), device_test_name);

/// A device whose every kernel takes long, and waits of a few seconds at most.
class SlowDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {}
  void open_slow(milliseconds latency, const std::string& longest_wait,
                 const std::string& host_ops) {
    RuntimeArgs args = test_runtime_args();
    args.options.push_back({"BACKPLANE_TIMEOUT", longest_wait});
    args.options.push_back({"BACKPLANE_HOST_OPS", host_ops});
    args.plugin_options = {
        {"npu.launch_latency_ns", std::to_string(std::chrono::nanoseconds(latency).count())}};
    open(args);
  }
  /// One run at a time. The operators are of one input each.
  Ref<Session> chain(const std::vector<const char*>& ops) {
    SessionArgs args;
    args.device = device_;
    args.max_contexts = 1;
    auto made = Session::create(*runtime_, row_of(ops, {2}), args);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  /// So that nothing is at work when the test's objects end.
  void drain() {
    for (int i = 0; i < 10 && !device_->sync().ok(); ++i) continue;
  }
};

TEST_P(SlowDeviceTest, RunWithAToken_WorkDoesNotEnd_IsTimeout) {
  open_slow(milliseconds(1000), "2", "");
  const Ref<Session> s = chain({"relu", "relu", "relu", "relu"});
  ASSERT_TRUE(s);
  const std::atomic<bool> cancelled{false};
  const RunControl control{.cancelled = &cancelled};
  const NamedTensor input[] = {{"x", upload_f32({2}, {-1, 2})}};
  const uint64_t waits = device_->counters().waits.load();
  const auto outputs = s->run(input, {.control = &control});
  EXPECT_EQ(device_->counters().waits.load(), waits) << "no further wait for the same work";
  EXPECT_EQ(outputs.status().code(), BP_TIMEOUT) << outputs.status().to_string();
  expect_words(outputs.status(), {"npu:0", "not done", "2 s", "BACKPLANE_TIMEOUT"});
  drain();
  EXPECT_TRUE(s->run(input).ok()) << "the session goes on";
  drain();
}

TEST_P(SlowDeviceTest, AllContextsInUse_AWaitingRunStopsAsItIsTold) {
  open_slow(milliseconds(500), "3", "exp");
  // The host device's parts wait for the slow ones: each wait is far shorter than the longest, and
  // all of them are far longer.
  std::vector<const char*> ops;
  for (int i = 0; i < 10; ++i) ops.insert(ops.end(), {"relu", "exp"});
  const Ref<Session> s = chain(ops);
  ASSERT_TRUE(s);
  const NamedTensor input[] = {{"x", upload_f32({2}, {-1, 2})}};
  auto long_run = std::async(std::launch::async, [&] { return s->run(input).status(); });
  while (device_->counters().launches.load() == 0) std::this_thread::yield();

  RunControl control{.deadline = Clock::now() + milliseconds(50)};
  const Status late = s->run(input, {.control = &control}).status();
  EXPECT_EQ(late.code(), BP_TIMEOUT) << late.to_string();
  expect_words(late, {"the run's timeout"});

  std::atomic<bool> cancelled{false};
  control = {.cancelled = &cancelled};
  auto waiting =
      std::async(std::launch::async, [&] { return s->run(input, {.control = &control}).status(); });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  cancelled = true;
  EXPECT_EQ(waiting.get().code(), BP_CANCELLED);
  EXPECT_EQ(long_run.wait_for(milliseconds(0)), std::future_status::timeout)
      << "both ended while no context was free";

  const Status busy = s->run(input).status();
  EXPECT_EQ(busy.code(), BP_BUSY) << busy.to_string();
  expect_words(busy, {"all 1 run contexts", "stayed in use", "BACKPLANE_TIMEOUT"});
  EXPECT_TRUE(long_run.get().ok());
  EXPECT_TRUE(s->run(input).ok()) << "the context is there again";
}

INSTANTIATE_TEST_SUITE_P(Devices, SlowDeviceTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
