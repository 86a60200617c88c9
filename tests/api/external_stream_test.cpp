// SPDX-License-Identifier: Apache-2.0
//
// External streams: the application's own work on the queue behind a stream, or on a queue that it
// made and has wrapped, in order with the library's by acquire and release. The application's work
// is here a function in a queue of the fake, which runs only when the library asks for it.
#include "tests/api/api_fixture.hpp"
#include "tests/fakes/fake_queue.hpp"

namespace bp {
namespace {

using fakes::FakeQueue;

constexpr const char* kKind = "fake.queue";

class ExternalStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions args;
    args.install_dir = BP_PLUGIN_DIR;
    args.plugin_path = BP_FAKES_DIR "/queues";
    args.options = {{"BACKPLANE_FALLBACK", "deny"}};
    runtime_ = Runtime::create(args);
    device_ = runtime_->device("queues:0");
  }
  Tensor make(const std::vector<float>& values) {
    return Tensor::from_host<float>(device_, values, {static_cast<int64_t>(values.size())});
  }
  Stream wrap(FakeQueue& queue) {
    return Stream::wrap(device_, kKind, reinterpret_cast<uint64_t>(&queue));
  }
  static float* memory_of(const Tensor& tensor) {
    const bpa_tensor_info info = tensor.info();
    return reinterpret_cast<float*>(info.memory.handle + info.memory.offset_bytes);
  }
  /// The application's kernel: y = 10 x.
  static void push_times_ten(FakeQueue& queue, const Tensor& x, const Tensor& y) {
    const int64_t count = x.sizes()[0];
    queue.push([from = memory_of(x), to = memory_of(y), count] {
      for (int64_t i = 0; i < count; ++i) to[i] = 10 * from[i];
      return true;
    });
  }

  std::optional<Runtime> runtime_;
  Device device_;
};

using Floats = std::vector<float>;

TEST_F(ExternalStreamTest, Native_IsTheQueueBehindAStream) {
  const Stream stream = Stream::create(device_);
  const NativeStream native = stream.native();
  EXPECT_EQ(native.kind, kKind);
  auto& queue = *reinterpret_cast<FakeQueue*>(native.handle);
  const Tensor x = make({1, 2});
  const Tensor y = Tensor::create(device_, BP_DTYPE_F32, {2});
  const Tensor doubled = add(x, x, stream);
  stream.acquire(doubled, BPA_ACCESS_READ_BIT);
  stream.acquire(y, BPA_ACCESS_WRITE_BIT);
  push_times_ten(queue, doubled, y);
  stream.release(doubled, BPA_ACCESS_READ_BIT);
  stream.release(y, BPA_ACCESS_WRITE_BIT);
  EXPECT_EQ(y.to_vector<float>(), (Floats{20, 40}));
  EXPECT_EQ(stream.native().handle, native.handle);
}

TEST_F(ExternalStreamTest, Wrapped_OrdersWithOtherStreamsBothWays) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  EXPECT_EQ(external.native().handle, reinterpret_cast<uint64_t>(&queue));
  const Stream before = Stream::create(device_);
  const Stream after = Stream::create(device_);
  const Tensor x = make({1, -2});
  const Tensor y = Tensor::create(device_, BP_DTYPE_F32, {2});
  for (int round = 0; round < 5; ++round) {
    const Tensor doubled = add(x, x, before);
    external.acquire(doubled, BPA_ACCESS_READ_BIT);
    external.acquire(y, BPA_ACCESS_WRITE_BIT);
    push_times_ten(queue, doubled, y);
    external.release(doubled, BPA_ACCESS_READ_BIT);
    external.release(y, BPA_ACCESS_WRITE_BIT);
    const Tensor z = add(y, y, after);
    EXPECT_GT(queue.size(), 0u) << "nobody has waited yet";
    EXPECT_EQ(z.to_vector<float>(), (Floats{40, -80}));
  }
}

/// gather of an index out of range, whose fault is not known yet.
class UnseenFaultTest : public ApiTest {
 protected:
  void SetUp() override {
    open({});
    if (IsSkipped()) return;
    const Tensor x = Tensor::from_host<float>(device_, Floats{1, 2, 3, 4}, {4});
    const Tensor index = Tensor::from_host<int64_t>(device_, std::vector<int64_t>{9, 1}, {2});
    try {
      faulty_ = gather(x, index);
    } catch (const Error& error) {
      GTEST_SKIP() << "told in the call itself: " << error.what();
    }
  }
  template <class Body>
  static void expect_fault(Body body) {
    try {
      body();
      ADD_FAILURE() << "nothing is told";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), BP_INVALID_ARGUMENT) << error.what();
      EXPECT_NE(std::string(error.what()).find("index 9"), std::string::npos) << error.what();
    }
  }

  Tensor faulty_;
};

TEST_P(UnseenFaultTest, Read_IsToldByTheWaitForItsStream) {
  const Stream stream = Stream::create(device_);
  stream.acquire(faulty_, BPA_ACCESS_READ_BIT);
  stream.release(faulty_, BPA_ACCESS_READ_BIT);
  expect_fault([&] { stream.sync(); });
  stream.sync();
}

TEST_P(UnseenFaultTest, WrittenFromIt_IsToldToTheReader) {
  const Stream stream = Stream::create(device_);
  const Tensor y = Tensor::create(device_, BP_DTYPE_F32, {2});
  stream.acquire(faulty_, BPA_ACCESS_READ_BIT);
  stream.acquire(y, BPA_ACCESS_WRITE_BIT);
  stream.release(faulty_, BPA_ACCESS_READ_BIT);
  stream.release(y, BPA_ACCESS_WRITE_BIT);
  expect_fault([&] { relu(y).to_vector<float>(); });
}

INSTANTIATE_TEST_SUITE_P(Devices, UnseenFaultTest,
                         ::testing::ValuesIn(tests::queued_device_names()), device_name_of);

TEST_F(ExternalStreamTest, ReleasedRead_HoldsALaterWriteBack) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  const Session session = [&] {
    SessionOptions options;
    options.device = "queues:0";
    return Session::load(*runtime_, model_path("relu"), options);
  }();
  const Tensor x = Tensor::from_host<float>(device_, Floats{1, 2, 3, 4}, {2, 2});
  const Tensor bound = Tensor::from_host<float>(device_, Floats{5, 6, 7, 8}, {2, 2});
  const Tensor seen = Tensor::create(device_, BP_DTYPE_F32, {2, 2});
  external.acquire(bound, BPA_ACCESS_READ_BIT);
  external.acquire(seen, BPA_ACCESS_WRITE_BIT);
  queue.push([from = memory_of(bound), to = memory_of(seen)] {
    std::copy_n(from, 4, to);
    return true;
  });
  external.release(bound, BPA_ACCESS_READ_BIT);
  external.release(seen, BPA_ACCESS_WRITE_BIT);
  session.run({{"x", x}}, {.outputs = {{"y", bound}}});
  EXPECT_EQ(bound.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(seen.to_vector<float>(), (Floats{5, 6, 7, 8})) << "read before it was overwritten";
}

TEST_F(ExternalStreamTest, Sync_CoversWhatWasReleased) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  const Tensor x = make({3});
  bool open = false;
  external.acquire(x, BPA_ACCESS_WRITE_BIT);
  queue.push([&open] { return open; });
  push_times_ten(queue, x, x);
  external.release(x, BPA_ACCESS_WRITE_BIT);
  EXPECT_FALSE(external.done());
  open = true;
  external.sync();
  EXPECT_TRUE(external.done());
  EXPECT_EQ(*memory_of(x), 30.0f);
}

TEST_F(ExternalStreamTest, WrappedStream_IsNotReset) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  std::string words;
  EXPECT_EQ(status_of([&] { external.reset(); }, &words), BP_UNSUPPORTED);
  EXPECT_NE(words.find("queues:0"), std::string::npos) << words;
  EXPECT_NE(words.find("the application's"), std::string::npos) << words;
  EXPECT_EQ(add(make({1}), make({2}), external).to_vector<float>(), (Floats{3})) << "as before";
}

TEST_F(ExternalStreamTest, OneQueueWrappedTwice_IsTwoStreams) {
  FakeQueue queue;
  const Stream a = wrap(queue);
  const Stream b = wrap(queue);
  EXPECT_EQ(a.native().handle, b.native().handle);
  const Tensor y = add(make({1}), make({2}), a);
  EXPECT_EQ(add(y, y, b).to_vector<float>(), (Floats{6}));
}

TEST_F(ExternalStreamTest, Released_LeavesTheQueueAndWhatItMade) {
  FakeQueue queue;
  const Tensor one = make({1});
  Tensor y = one;
  for (int round = 0; round < 50; ++round) y = add(y, one, wrap(queue));
  EXPECT_EQ(queue.size(), 0u) << "its work is over when a stream has been released";
  EXPECT_EQ(y.to_vector<float>(), (Floats{51}));
  EXPECT_EQ(add(y, y).to_vector<float>(), (Floats{102}));
}

TEST_F(ExternalStreamTest, WrongTensorOrQueue_IsRefusedByName) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  const Tensor elsewhere = Tensor::from_host<float>(runtime_->device("cpu:0"), Floats{1}, {1});
  std::string words;
  for (const auto call : {&Stream::acquire, &Stream::release}) {
    const auto run = [&] { (external.*call)(elsewhere, BPA_ACCESS_READ_BIT); };
    EXPECT_EQ(status_of(run, &words), BP_INVALID_ARGUMENT);
    EXPECT_NE(words.find("cpu:0"), std::string::npos) << words;
    EXPECT_NE(words.find("queues:0"), std::string::npos) << words;
  }
  EXPECT_EQ(status_of([&] { Stream::wrap(device_, "acme.queue", 8); }, &words), BP_UNSUPPORTED);
  EXPECT_NE(words.find("fake.queue"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { Stream::wrap(device_, kKind, 0); }), BP_INVALID_ARGUMENT);
}

TEST_F(ExternalStreamTest, AfterClose_IsGone) {
  FakeQueue queue;
  const Stream external = wrap(queue);
  const Tensor x = make({1});
  runtime_->close();
  EXPECT_EQ(status_of([&] { external.native(); }), BP_GONE);
  EXPECT_EQ(status_of([&] { external.acquire(x, BPA_ACCESS_READ_BIT); }), BP_GONE);
  EXPECT_EQ(status_of([&] { external.release(x, BPA_ACCESS_READ_BIT); }), BP_GONE);
  EXPECT_EQ(status_of([&] { wrap(queue); }), BP_GONE);
  EXPECT_EQ(queue.size(), 0u);
}

/// On every device of this build, with the band or without.
class NativeStreamsOfDevicesTest : public ApiTest {
 protected:
  bool has_band() {
    const std::vector<Feature> features = device_.features();
    return features.at(5).state == BPA_FEATURE_NATIVE;
  }
};

TEST_P(NativeStreamsOfDevicesTest, WithTheBand_AQueueIsWrappedAndWorks) {
  if (!has_band()) GTEST_SKIP() << "the device has no native streams";
  const Stream stream = Stream::create(device_);
  const NativeStream native = stream.native();
  EXPECT_FALSE(native.kind.empty());
  EXPECT_NE(native.handle, 0u);
  EXPECT_EQ(Stream::default_of(device_).native().kind, native.kind);
  const Tensor x = make({1, -2, 3}, {3});
  Tensor y = add(x, x, stream);
  {
    const Stream external = Stream::wrap(device_, native.kind, native.handle);
    EXPECT_EQ(external.native().handle, native.handle);
    external.acquire(y, BPA_ACCESS_READ_BIT);
    y = add(y, y, external);
    external.release(y, BPA_ACCESS_READ_BIT);
    EXPECT_EQ(status_of([&] { external.reset(); }), BP_UNSUPPORTED);
  }
  EXPECT_EQ(add(y, x, stream).to_vector<float>(), (Floats{5, -10, 15}));
  EXPECT_EQ(status_of([&] { Stream::wrap(device_, "acme.queue", native.handle); }), BP_UNSUPPORTED);
}

TEST_P(NativeStreamsOfDevicesTest, WithoutTheBand_IsUnsupportedNamingTheDevice) {
  if (has_band()) GTEST_SKIP() << "the device has native streams";
  const Stream stream = Stream::create(device_);
  std::string words;
  EXPECT_EQ(status_of([&] { stream.native(); }, &words), BP_UNSUPPORTED);
  EXPECT_NE(words.find(GetParam()), std::string::npos) << words;
  EXPECT_NE(words.find("native_streams"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { Stream::wrap(device_, kKind, 8); }, &words), BP_UNSUPPORTED);
  EXPECT_NE(words.find(GetParam()), std::string::npos) << words;
}

TEST_P(NativeStreamsOfDevicesTest, AcquireAndRelease_AreLegalOnEveryStream) {
  const Tensor x = make({1, 2}, {2});
  for (const Stream& stream : {Stream::create(device_), Stream::default_of(device_)}) {
    const Tensor y = add(x, x, stream);
    stream.acquire(y, BPA_ACCESS_READ_BIT | BPA_ACCESS_WRITE_BIT);
    stream.release(y, BPA_ACCESS_WRITE_BIT);
    EXPECT_EQ(add(y, x).to_vector<float>(), (Floats{3, 6}));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NativeStreamsOfDevicesTest,
                         ::testing::ValuesIn(tests::device_names()), device_name_of);

}  // namespace
}  // namespace bp
