// SPDX-License-Identifier: Apache-2.0
//
// Close against a call that does not return: a fake whose relu waits for a file.
#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "core/base/temp_folder_test.hpp"
#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class CloseStuckTest : public testing::Test {
 protected:
  void SetUp() override { open("1"); }
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

}  // namespace
}  // namespace bp
