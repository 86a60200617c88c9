// SPDX-License-Identifier: Apache-2.0
//
// External streams on every device that has them. The application's work is here what the core does
// not see: copies on a stream that the plugin makes over the same queue, behind the core's back.
#include <thread>

#include "tests/fakes/fake_queue.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr int64_t kCount = 4;

class ExternalStreamTest : public DeviceTest {
 protected:
  void SetUp() override { open_queues({}); }
  void TearDown() override {
    if (foreign_ == nullptr) return;
    EXPECT_EQ(api().stream_sync(foreign_, BP_TIMEOUT_FOREVER), BP_OK);
    EXPECT_EQ(api().stream_destroy(foreign_), BP_OK);
  }
  void open_queues(std::vector<OptionSetting> options, const std::string& fault = "none") {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/queues"};
    args.plugin_options = {{"queues.device_fault", fault}};
    for (OptionSetting& option : options) args.options.push_back(std::move(option));
    open(args);
  }
  const DeviceTable& api() const { return device_->table(); }
  /// The fake is not: its streams stand still until they are asked, and then do all they can.
  bool is_concurrent() const { return !device_->table().gate->one_call_at_a_time(); }

  Stream* wrapped(const NativeQueue& queue) {
    auto stream = device_->wrap_stream(queue.kind, queue.handle);
    EXPECT_TRUE(stream.ok()) << stream.status().to_string();
    return stream.ok() ? *stream : nullptr;
  }
  Stream* acquired() {
    auto stream = device_->acquire_stream();
    EXPECT_TRUE(stream.ok()) << stream.status().to_string();
    return stream.ok() ? *stream : nullptr;
  }
  NativeQueue queue_of(Stream* stream) {
    auto queue = stream->native_handle();
    EXPECT_TRUE(queue.ok()) << queue.status().to_string();
    return queue.ok() ? *queue : NativeQueue{};
  }
  /// The application's own access to the queue.
  void open_foreign(const NativeQueue& queue) {
    bp_stream_wrap_args args{};
    args.struct_size = sizeof(args);
    args.handle = queue.handle;
    args.kind = {queue.kind.data(), queue.kind.size()};
    ASSERT_EQ(api().stream_wrap(args, &foreign_), BP_OK);
  }
  /// The application's kernel: y = x, which must be of the same size.
  void foreign_copy(const Ref<Tensor>& y, const Ref<Tensor>& x) {
    const auto place = [](const Tensor& tensor) {
      const bp_tensor abi = tensor.abi();
      return bp_mem{abi.handle, abi.offset_bytes};
    };
    bp_copy_args args{};
    args.struct_size = sizeof(args);
    args.kind = BP_COPY_DEVICE_TO_DEVICE;
    args.dst = place(*y);
    args.src = place(*x);
    args.bytes = kCount * sizeof(float);
    ASSERT_EQ(api().mem_copy_async(foreign_, args), BP_OK);
  }
  /// What bpa_stream_acquire_tensor and its opposite do.
  static void acquire(Stream* stream, const Ref<Tensor>& tensor, bool write) {
    const Access access = write ? Access::kWrite : Access::kRead;
    const Status status = tensor->storage().order_before(*stream, access);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  void release(Stream* stream, const Ref<Tensor>& tensor, bool write) {
    const auto seq = device_->note_native_work(*stream);
    ASSERT_TRUE(seq.ok()) << seq.status().to_string();
    tensor->storage().note_use(*stream, *seq, write);
  }
  Ref<Tensor> call_on(Stream* stream, std::string_view name, std::vector<Tensor*> inputs) {
    Ref<Tensor> output;
    const CallArgs args{.op = op(name),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = stream,
                        .device = nullptr};
    const Status status = call(*runtime_, args, {&output, 1});
    EXPECT_TRUE(status.ok()) << status.to_string();
    return output;
  }

  bp_stream* foreign_ = nullptr;
};

/// Holds a stream of a concurrent device until it goes or is opened.
class Hold {
 public:
  Hold(const DeviceTable& table, bp_stream* stream) {
    // The fake's streams stand still by themselves, and it takes no call while one is held.
    if ((table.props.flags & BP_DEVICE_CONCURRENT_BIT) == 0) return;
    const auto wait = [](void* user, bp_status) {
      const auto* open = static_cast<std::atomic<bool>*>(user);
      while (!open->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    EXPECT_EQ(table.stream_host_call(stream, wait, &open_), BP_OK);
  }
  ~Hold() { open(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

TEST_P(ExternalStreamTest, ForeignWork_BetweenKernelsOfOtherStreams_NeedsNoHost) {
  Stream* before = acquired();
  Stream* after = acquired();
  Stream* owner = acquired();
  Stream* external = wrapped(queue_of(owner));
  ASSERT_NO_FATAL_FAILURE(open_foreign(queue_of(external)));
  const Ref<Tensor> x = upload_f32({kCount}, {1, -2, 3, -4});
  const Ref<Tensor> y = upload_f32({kCount}, {0, 0, 0, 0});
  const uint64_t host_waits = device_->counters().host_waits;
  {
    Hold hold(device_->table(), before->handle());
    const Ref<Tensor> doubled = call_on(before, "add", {x.get(), x.get()});
    acquire(external, doubled, false);
    acquire(external, y, true);
    foreign_copy(y, doubled);
    release(external, doubled, false);
    release(external, y, true);
    const Ref<Tensor> z = call_on(after, "add", {y.get(), x.get()});
    if (is_concurrent()) {
      EXPECT_EQ(after->query().code(), BP_PENDING) << "the host has not waited";
    }
    hold.open();
    EXPECT_EQ(values(z), (std::vector<double>{3, -6, 9, -12}));
  }
  EXPECT_EQ(device_->counters().host_waits, host_waits);
  for (Stream* stream : {external, owner, before, after}) device_->release_stream(stream);
}

TEST_P(ExternalStreamTest, ForeignRead_IsOverBeforeTheMemoryIsUsedAnew) {
  Stream* owner = acquired();
  Stream* external = wrapped(queue_of(owner));
  ASSERT_NO_FATAL_FAILURE(open_foreign(queue_of(external)));
  const Ref<Tensor> y = upload_f32({kCount}, {0, 0, 0, 0});
  const Ref<Tensor> one = upload_f32({kCount}, {1, 1, 1, 1});
  {
    Hold hold(device_->table(), foreign_);
    Ref<Tensor> x = must_call("add", {one, one});
    acquire(external, x, false);
    acquire(external, y, true);
    foreign_copy(y, x);
    release(external, x, false);
    release(external, y, true);
    std::thread opener([&hold] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      hold.open();
    });
    x = nullptr;  // its memory goes to the next one
    for (int i = 0; i < 8; ++i) x = must_call("add", {one, x ? x : one});
    EXPECT_EQ(values(x), std::vector<double>(kCount, 9));
    opener.join();
  }
  EXPECT_EQ(values(y), std::vector<double>(kCount, 2));
  device_->release_stream(external);
  device_->release_stream(owner);
}

TEST_P(ExternalStreamTest, WrapAndRelease_OverAndOver_LeavesNothing) {
  Stream* owner = acquired();
  const NativeQueue queue = queue_of(owner);
  const Ref<Tensor> one = upload_f32({kCount}, {1, 1, 1, 1});
  Ref<Tensor> sum = one;
  Stream* first = wrapped(queue);
  device_->release_stream(first);
  EXPECT_EQ(first->handle(), nullptr);
  for (int round = 0; round < 20; ++round) {
    Stream* external = wrapped(queue);
    EXPECT_EQ(external, first) << "what is left of one serves the next";
    sum = call_on(external, "add", {sum.get(), one.get()});
    device_->release_stream(external);
  }
  EXPECT_NE(acquired(), first) << "nobody gets it but who wraps";
  sum = must_call("add", {sum, one});
  EXPECT_EQ(values(sum), std::vector<double>(kCount, 22));
  acquire(&device_->default_stream(), one, true);
  EXPECT_TRUE(device_->sync().ok());
}

/// Who looks at all streams of the device, as where memory is short, meets those that have ended,
/// and must not ask the plugin about a queue that is not there.
TEST_P(ExternalStreamTest, EndedStream_IsIdleWhoeverAsksAndServesTheNextWrap) {
  Stream* owner = acquired();
  const NativeQueue queue = queue_of(owner);
  const Ref<Tensor> one = upload_f32({kCount}, {1, 1, 1, 1});
  Stream* first = wrapped(queue);
  Ref<Tensor> sum = call_on(first, "add", {one.get(), one.get()});
  device_->release_stream(first);
  ASSERT_EQ(first->handle(), nullptr);
  EXPECT_TRUE(first->query().ok()) << first->query().to_string();
  const Status idle = device_->quiesce_unless_ranks_wait();
  EXPECT_TRUE(idle.ok()) << idle.to_string();
  Stream* next = wrapped(queue);
  ASSERT_EQ(next, first);
  EXPECT_TRUE(next->is_healthy());
  sum = call_on(next, "add", {sum.get(), one.get()});
  ASSERT_NE(sum.get(), nullptr);
  EXPECT_EQ(values(sum), std::vector<double>(kCount, 3));
  for (Stream* stream : {next, owner}) device_->release_stream(stream);
}

TEST_P(ExternalStreamTest, Reset_OfAWrappedStream_IsUnsupported) {
  Stream* owner = acquired();
  Stream* external = wrapped(queue_of(owner));
  EXPECT_EQ(external->reset().code(), BP_UNSUPPORTED);
  EXPECT_NE(external->reset().message().find(GetParam()), std::string::npos);
  EXPECT_TRUE(external->sync().ok());
  EXPECT_EQ(queue_of(external).handle, queue_of(owner).handle) << "as before";
  device_->release_stream(external);
  EXPECT_TRUE(owner->reset().ok()) << "a stream with a queue of its own is";
}

TEST_P(ExternalStreamTest, DeviceClose_EndsWrappersToo) {
  Stream* owner = acquired();
  Stream* external = wrapped(queue_of(owner));
  const Ref<Tensor> one = upload_f32({kCount}, {1, 1, 1, 1});
  const Ref<Tensor> two = call_on(external, "add", {one.get(), one.get()});
  runtime_->close();
  EXPECT_EQ(device_->wrap_stream("acme.queue", 1).status().code(), BP_GONE);
  EXPECT_EQ(external->native_handle().status().code(), BP_GONE);
  device_->release_stream(external);
}

// Those with native streams: a fake and the plugin over a vendor's queues.
INSTANTIATE_TEST_SUITE_P(Devices, ExternalStreamTest, testing::Values("queues:0", "xpu:0"),
                         device_test_name);

class BrokenExternalStreamTest : public ExternalStreamTest {
 protected:
  void SetUp() override {}
};

TEST_P(BrokenExternalStreamTest, ReleasedAfterAFailure_ResultsAreLostAndTheNextIsHealthy) {
  open_queues({}, "relu_fails");
  fakes::FakeQueue queue;
  const NativeQueue native{std::string(fakes::kFakeQueueKind), reinterpret_cast<uint64_t>(&queue)};
  Stream* external = wrapped(native);
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> lost = call_on(external, "relu", {x.get()});
  EXPECT_EQ(external->sync().code(), BP_INTERNAL);
  EXPECT_EQ(external->reset().code(), BP_UNSUPPORTED) << "not even then";
  EXPECT_EQ(device_->note_native_work(*external).status().code(), BP_POISONED);
  device_->release_stream(external);
  const Status status = copy_to_host(lost).status();
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_NE(status.message().find("the unit overheated"), std::string::npos) << status.message();
  Stream* next = wrapped(native);
  EXPECT_EQ(next, external);
  EXPECT_EQ(values(call_on(next, "add", {x.get(), x.get()})), (std::vector<double>{-2, 4}));
  EXPECT_FALSE(copy_to_host(lost).ok()) << "lost for good";
  device_->release_stream(next);
}

TEST_P(BrokenExternalStreamTest, Failed_IsWaitedForUntilTheRestOfItsWorkIsOver) {
  open_queues({{"BACKPLANE_TIMEOUT", "3"}}, "relu_fails");
  fakes::FakeQueue queue;
  bool open = false;
  const NativeQueue native{std::string(fakes::kFakeQueueKind), reinterpret_cast<uint64_t>(&queue)};
  Stream* external = wrapped(native);
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> lost = call_on(external, "relu", {x.get()});
  queue.push([&open] { return open; });  // the application's, and it still uses memory
  ASSERT_TRUE(device_->note_native_work(*external).ok());
  EXPECT_EQ(external->query().code(), BP_PENDING);
  EXPECT_EQ(device_->note_native_work(*external).status().code(), BP_POISONED);
  EXPECT_EQ(external->sync().code(), BP_TIMEOUT) << "the failure alone says nothing about the rest";
  open = true;
  EXPECT_EQ(external->sync().code(), BP_INTERNAL);
  EXPECT_EQ(copy_to_host(lost).status().code(), BP_INTERNAL);
  device_->release_stream(external);
}

TEST_P(BrokenExternalStreamTest, WorkThatDoesNotEnd_KeepsTheQueueUntilTheDeviceCloses) {
  open_queues({{"BACKPLANE_TIMEOUT", "3"}});
  fakes::FakeQueue queue;
  bool open = false;
  const NativeQueue native{std::string(fakes::kFakeQueueKind), reinterpret_cast<uint64_t>(&queue)};
  Stream* external = wrapped(native);
  queue.push([&open] { return open; });
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> y = call_on(external, "add", {x.get(), x.get()});
  device_->release_stream(external);
  EXPECT_NE(external->handle(), nullptr);
  Stream* other = wrapped(native);
  EXPECT_NE(other, external) << "the queue's old stream is not used again";
  EXPECT_EQ(copy_to_host(y).status().code(), BP_TIMEOUT);
  open = true;
  EXPECT_EQ(values(y), (std::vector<double>{-2, 4}));
  device_->release_stream(other);
  runtime_->close();
  EXPECT_EQ(queue.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Fake, BrokenExternalStreamTest, testing::Values("queues:0"),
                         device_test_name);

}  // namespace
}  // namespace bp
