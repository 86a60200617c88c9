// SPDX-License-Identifier: Apache-2.0
//
// Close against a call that does not return: a fake whose relu waits for a file.
#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "core/base/temp_folder_test.hpp"
#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class CloseStuckTest : public testing::Test {
 protected:
  void SetUp() override { open("2"); }
  void TearDown() override { let_go(); }

  void open(const char* timeout) {
    RuntimeOptions args;
    args.plugin_path = BP_FAKES_DIR "/good";
    args.install_dir = BP_PLUGIN_DIR;
    args.options = {{"BACKPLANE_TIMEOUT", timeout},
                    {"good.inline", "true"},
                    {"good.device_fault", "relu_hangs"},
                    {"good.signal_file", folder_.path("go")}};
    runtime_ = Runtime::create(args);
    device_ = runtime_->device("good:0");
    x_ = Tensor::from_host<float>(device_, {1.0f, -1.0f, 2.0f, -2.0f}, {2, 2});
  }
  void let_go() {
    folder_.write("go", "");
    if (caller_.joinable()) caller_.join();
  }
  /// A thread is in `call` from now on, which gets into relu.
  template <class Call>
  void start(Call call) {
    caller_ = std::thread([this, call] { caller_status_ = call(); });
    while (!std::ifstream(folder_.path("go.in")).good()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  static bpa_status relu_of(bpa_stream* stream, bpa_tensor* x) {
    const bpa_tensor* inputs[] = {x};
    bpa_tensor* y = nullptr;
    const bpa_status status = bpa_op_call_on(stream, BP_OP_RELU, inputs, 1, nullptr, 0, &y, 1);
    bpa_tensor_release(y);
    return status;
  }
  void wait_until_gone() {
    uint64_t count = 0;
    while (bpa_runtime_device_count(runtime_->handle(), &count) != BP_GONE) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TempFolder folder_;
  std::optional<Runtime> runtime_;
  Device device_;
  Tensor x_;
  std::thread caller_;
  std::atomic<bpa_status> caller_status_{BP_INTERNAL};
};

TEST_F(CloseStuckTest, ACallThatDoesNotReturn_IsNamedAndNothingIsFreed) {
  Stream stream = Stream::default_of(device_);
  start([&] { return relu_of(stream.handle(), x_.handle()); });
  std::string words;
  EXPECT_EQ(status_of([&] { runtime_->close(); }, &words), BP_TIMEOUT);
  EXPECT_NE(words.find("good:0"), std::string::npos) << words;
  EXPECT_NE(words.find("relu"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { static_cast<void>(x_.to_vector<float>()); }), BP_GONE);
  EXPECT_EQ(status_of([&] { device_.sync(); }), BP_GONE);
  let_go();
  EXPECT_EQ(caller_status_, BP_OK);
  EXPECT_EQ(status_of([&] { runtime_->close(); }), BP_OK);
}

TEST_F(CloseStuckTest, ARunThatDoesNotReturn_IsNamedToo) {
  Session session = Session::load(*runtime_, model_path("relu"), {.device = "good:0"});
  start([&] { return status_of([&] { session.run({{"x", x_}}); }); });
  std::string words;
  EXPECT_EQ(status_of([&] { runtime_->close(); }, &words), BP_TIMEOUT);
  EXPECT_NE(words.find("relu"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { session.run({{"x", x_}}); }), BP_GONE);
  let_go();
  EXPECT_TRUE(caller_status_ == BP_OK || caller_status_ == BP_CANCELLED);
  EXPECT_EQ(status_of([&] { runtime_->close(); }), BP_OK);
}

TEST_F(CloseStuckTest, AnAsynchronousRunThatDoesNotReturn_IsNamedAndWaitedFor) {
  Session session = Session::load(*runtime_, model_path("relu"), {.device = "good:0"});
  std::future<NamedTensors> done;
  start([&] { return status_of([&] { done = session.run_async({{"x", x_}}, {}); }); });
  std::string words;
  EXPECT_EQ(status_of([&] { runtime_->close(); }, &words), BP_TIMEOUT);
  EXPECT_NE(words.find("an asynchronous run has not ended"), std::string::npos) << words;
  EXPECT_NE(words.find("relu"), std::string::npos) << words;
  let_go();
  EXPECT_EQ(caller_status_, BP_OK);
  done.wait();
  EXPECT_EQ(status_of([&] { runtime_->close(); }), BP_OK);
}

TEST_F(CloseStuckTest, ReleasesWhileCloseWaits_ReturnAtOnce) {
  open("60");
  Stream stream = Stream::default_of(device_);
  Stream own = Stream::create(device_);
  std::optional<Session> session =
      Session::load(*runtime_, model_path("relu"), {.device = "good:0"});
  start([&] { return relu_of(stream.handle(), x_.handle()); });
  std::atomic<bpa_status> closed{BP_PENDING};
  std::thread closer([&] { closed = bpa_runtime_close(runtime_->handle()); });
  wait_until_gone();
  own = {};
  session.reset();
  x_ = {};
  EXPECT_EQ(closed, BP_PENDING);
  let_go();
  closer.join();
  EXPECT_EQ(closed, BP_OK);
  EXPECT_EQ(caller_status_, BP_OK);
}

TEST_F(CloseStuckTest, HandleOfADeviceThatIsAbandoned_IsNoneOnceItsRuntimeHasGone) {
  RuntimeOptions args;
  args.plugin_path = BP_FAKES_DIR "/good";
  args.install_dir = BP_PLUGIN_DIR;
  args.options = {{"BACKPLANE_TIMEOUT", "3"},
                  {"good.device_fault", "relu_hangs"},
                  {"good.signal_file", folder_.path("go")}};
  std::optional<Runtime> queued = Runtime::create(args);
  bpa_device* device = nullptr;
  ASSERT_EQ(bpa_runtime_find_device(queued->handle(), "good:0", &device), BP_OK);
  {
    // No copy: the staging memory of an abandoned device is never freed.
    const Tensor x = Tensor::create(queued->device("good:0"), BP_DTYPE_F32, {2, 2});
    static_cast<void>(relu_of(Stream::default_of(queued->device("good:0")).handle(), x.handle()));
  }
  queued.reset();
  uint64_t count = 7;
  EXPECT_EQ(bpa_device_feature_count(device, &count), BP_INVALID_ARGUMENT) << bpa_last_error();
  EXPECT_NE(std::string(bpa_last_error()).find("released"), std::string::npos) << bpa_last_error();
}

TEST_F(CloseStuckTest, InADeleterThatAnotherCallRuns_IsBusy) {
  std::array<float, 2> values = {1, -1};
  const int64_t sizes[] = {2};
  std::atomic<bpa_status> closed{BP_PENDING};
  bpa_wrap_args memory{};
  memory.memory.handle = reinterpret_cast<uint64_t>(values.data());
  memory.bytes = sizeof(values);
  memory.dtype = BP_DTYPE_F32;
  memory.rank = 1;
  memory.sizes = sizes;
  std::optional<Tensor> wrapped =
      Tensor::wrap(device_, memory, [&] { closed = bpa_runtime_close(runtime_->handle()); });
  bpa_tensor* const handle = wrapped->handle();
  Stream stream = Stream::default_of(device_);
  start([&] { return relu_of(stream.handle(), handle); });
  wrapped.reset();  // in use, and so for the call to let go of
  EXPECT_EQ(closed, BP_PENDING);
  let_go();
  EXPECT_EQ(caller_status_, BP_OK);
  EXPECT_EQ(closed, BP_BUSY);
  EXPECT_EQ(status_of([&] { runtime_->close(); }), BP_OK);
}

TEST_F(CloseStuckTest, SessionThatEndsBeforeItsWork_KeepsItsWeightsUntilThatHasRun) {
  RuntimeOptions args;
  args.plugin_path = BP_FAKES_DIR "/good";
  args.install_dir = BP_PLUGIN_DIR;
  args.options = {{"BACKPLANE_TIMEOUT", "3"},
                  {"good.device_fault", "relu_hangs"},
                  {"good.signal_file", folder_.path("go")}};
  const Runtime queued = Runtime::create(args);
  const Device device = queued.device("good:0");
  const Tensor x = Tensor::from_host<float>(device, {1, -1, 2, -2}, {2, 2});
  Tensor y;
  {
    Session session = Session::load(queued, model_path("relu_plus_weight"), {.device = "good:0"});
    y = session.run({{"x", x}})["y"];
  }
  // Takes what memory there is to take, and writes it: the device's is the host's.
  std::vector<Tensor> others;
  for (int i = 0; i < 16; ++i) {
    others.push_back(Tensor::create(device, BP_DTYPE_F32, {2, 2}));
    const bp_mem memory = others.back().info().memory;
    auto* values = reinterpret_cast<float*>(memory.handle + memory.offset_bytes);
    std::fill_n(values, 4, 7.0f);
  }
  let_go();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 0, 2, 0}));  // weights are zeros
  device.sync();
}

/// Its work on a stream of its own has failed, so that nothing on that stream is ever known done.
class CloseWithFailedWorkTest : public testing::Test {
 protected:
  static constexpr int64_t kSizes[] = {4};

  void SetUp() override {
    RuntimeOptions args;
    args.plugin_path = BP_FAKES_DIR "/good";
    args.install_dir = BP_PLUGIN_DIR;
    args.options = {{"good.device_fault", "relu_fails"}, {"BACKPLANE_TIMEOUT", "10"}};
    runtime_ = Runtime::create(args);
    device_ = runtime_->device("good:0");
  }
  bpa_tensor* call_on(bpa_stream* stream, uint32_t op, std::vector<const bpa_tensor*> inputs) {
    bpa_tensor* y = nullptr;
    const auto count = static_cast<uint32_t>(inputs.size());
    EXPECT_EQ(bpa_op_call_on(stream, op, inputs.data(), count, nullptr, 0, &y, 1), BP_OK);
    return y;
  }

  std::optional<Runtime> runtime_;
  Device device_;
};

TEST_F(CloseWithFailedWorkTest, DeleterThatRunsInClose_MayReleaseWhatTheFailedStreamUsed) {
  static bpa_tensor* released_by_deleter = nullptr;
  static std::atomic<int> deleted{0};
  deleted = 0;
  std::array<float, 64> memory{};
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.dtype = BP_DTYPE_F32;
  args.rank = 1;
  args.sizes = kSizes;
  args.memory.handle = reinterpret_cast<uint64_t>(memory.data());
  args.bytes = sizeof(memory);
  args.deleter = [](void*) {
    bpa_tensor_release(released_by_deleter);
    ++deleted;
  };
  bpa_tensor* wrapped = nullptr;
  ASSERT_EQ(bpa_tensor_wrap(device_.handle(), &args, &wrapped), BP_OK) << bpa_last_error();
  Tensor used = Tensor::from_host<float>(device_, {1, 2, 3, 4}, {4});
  const Stream stream = Stream::create(device_);
  bpa_tensor* sum = call_on(stream.handle(), BP_OP_ADD, {wrapped, used.handle()});
  bpa_tensor* bad = call_on(stream.handle(), BP_OP_RELU, {used.handle()});
  bpa_tensor_retain(used.handle());
  released_by_deleter = used.handle();
  used = {};
  // A run's callback keeps close waiting, while another thread lets go of the wrapped tensor.
  Session session = Session::load(*runtime_, model_path("relu"), {.device = "cpu:0"});
  const Tensor x = Tensor::from_host<float>(runtime_->device("cpu:0"), {1, 2, 3, 4}, {2, 2});
  const char* names[] = {"x"};
  const bpa_tensor* inputs[] = {x.handle()};
  bpa_run_args run{};
  run.struct_size = sizeof(run);
  run.input_names = names;
  run.inputs = inputs;
  run.input_count = 1;
  static std::atomic<int> step{0};
  step = 0;
  const auto callback = [](void*, bpa_status, const char*, bpa_tensor** outputs, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) bpa_tensor_release(outputs[i]);
    for (step = 1; step < 2;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_EQ(bpa_session_run_async(session.handle(), &run, callback, nullptr), BP_OK);
  while (step < 1) std::this_thread::yield();
  std::thread other([&] {
    uint64_t count = 0;
    while (bpa_runtime_device_count(runtime_->handle(), &count) != BP_GONE) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    bpa_tensor_release(sum);
    bpa_tensor_release(bad);
    bpa_tensor_release(wrapped);
    step = 2;
  });
  EXPECT_EQ(bpa_runtime_close(runtime_->handle()), BP_OK);
  other.join();
  EXPECT_EQ(deleted, 1);
}

}  // namespace
}  // namespace bp
