// SPDX-License-Identifier: Apache-2.0
//
// Stream failures of devices that have real ones: the driver of npu fails by bp.test_inject, that
// of xpu by an OpenCL layer which the environment of this test puts in front of it. A failure stays
// until a reset, says which operator it was, and leaves other streams alone; a lost device answers
// at once.
#include <dlfcn.h>

#include "backplane/sdk/test_inject.h"
#include "core/runtime/stream.hpp"
#include "plugins/xpu/xpu_fault_layer.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

constexpr int32_t kClOutOfResources = -5;
/// The same simulator with emulated streams.
const std::string kEmulated = "npu:1";

std::string stream_test_name(const testing::TestParamInfo<std::string>& info) {
  return info.param == kEmulated ? "npu_emulated" : device_test_name(info);
}

class StreamFailureTest : public DeviceTest {
 protected:
  void SetUp() override { open_with({}); }
  void TearDown() override {
    if (arm_layer_ != nullptr) arm_layer_(nullptr, XpuFault::kNone, 0, 0);
  }
  void open_with(std::vector<OptionSetting> options) {
    RuntimeArgs args = test_runtime_args();
    for (OptionSetting& option : options) args.options.push_back(std::move(option));
    args.plugin_options = {{"npu.devices", "2"},
                           {"npu.async", GetParam() == kEmulated ? "false" : "true"}};
    open(args);
    if (IsSkipped() || HasFatalFailure()) return;
    skip_if_inline(*device_);
    if (IsSkipped()) return;
    for (const PluginExtension& extension : device_->plugin().tables().extensions) {
      if (extension.name != BP_TEST_INJECT_NAME) continue;
      injection_ = static_cast<const bp_test_inject_api*>(extension.table);
    }
    if (injection_ != nullptr) return;
    if (GetParam() != "xpu:0") GTEST_SKIP() << "nothing makes its work fail: no bp.test_inject";
    void* layer = dlopen(BP_XPU_FAULT_LAYER_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(layer, nullptr) << dlerror();
    arm_layer_ = reinterpret_cast<XpuFaultArm*>(dlsym(layer, "xpu_fault_arm"));
    ASSERT_NE(arm_layer_, nullptr);
  }

  /// There before anything fails: what is still in a queue then is lost with it.
  Ref<Tensor> upload_f32(const Dims& sizes, const std::vector<double>& values) {
    Ref<Tensor> tensor = DeviceTest::upload_f32(sizes, values);
    EXPECT_TRUE(device_->sync().ok());
    return tensor;
  }
  /// The next launch is enqueued, and fails on the device.
  void break_next_launch(uint32_t kind = BP_INJECT_FAIL_CALL) {
    if (injection_ == nullptr) {
      return arm_layer_("clEnqueueNDRangeKernel", XpuFault::kFailsLater, kClOutOfResources, 0);
    }
    // Enqueuing is the first driver call, running the second; emulated streams only run.
    bp_inject_args args{};
    args.struct_size = sizeof(args);
    args.kind = kind;
    args.nth = GetParam() == kEmulated ? 1 : 2;
    ASSERT_EQ(injection_->inject_arm(device_->plugin().instance(), &args), BP_OK);
  }
  /// Until the broken launch has run, and met the driver's failure before another call does.
  static Status let_it_run(const Ref<Tensor>& result) {
    return result->storage().wait_on_host(false);
  }
  Result<Ref<Tensor>> call_on(Stream* stream, std::string_view name, const Ref<Tensor>& x) {
    Tensor* inputs[] = {x.get()};
    Ref<Tensor> y;
    const CallArgs args{.op = op(name),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = stream,
                        .device = nullptr};
    BP_TRY(call(*runtime_, args, {&y, 1}));
    return y;
  }

  const bp_test_inject_api* injection_ = nullptr;
  XpuFaultArm* arm_layer_ = nullptr;
};

TEST_P(StreamFailureTest, Launch_FailsOnTheDevice_PoisonsUntilReset) {
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> before = must_call("relu", {x});
  EXPECT_EQ(values(before), (std::vector<double>{0, 2}));
  break_next_launch();
  const auto broken = try_call("relu", {x});
  ASSERT_TRUE(broken.ok()) << "it fails later: " << broken.status().to_string();
  EXPECT_EQ(let_it_run(*broken).code(), BP_INTERNAL);
  const Status first = copy_to_host(*broken).status();
  EXPECT_EQ(first.code(), BP_INTERNAL) << first.to_string();
  expect_words(first, {GetParam().c_str(), "relu"});
  EXPECT_EQ(first.op(), "relu");
  EXPECT_EQ(copy_to_host(*broken).status().message(), first.message()) << "it repeats the first";

  const Status refused = try_call("add", {x, x}).status();
  EXPECT_EQ(refused.code(), BP_POISONED) << refused.to_string();
  expect_words(refused, {"add", "relu"});
  EXPECT_EQ(refused.op(), "relu") << "the one that failed, not the one that met it";
  EXPECT_EQ(values(before), (std::vector<double>{0, 2})) << "results from before can be read";
  EXPECT_EQ(device_->default_stream().query().code(), BP_INTERNAL);
  ASSERT_TRUE(device_->default_stream().reset().ok());
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 4}));
  EXPECT_EQ(copy_to_host(*broken).status().message(), first.message()) << "lost for good";
  EXPECT_EQ(copy_to_host(*broken).status().op(), "relu");
  EXPECT_FALSE(try_call("add", {*broken, x}).ok()) << "nothing is made from lost contents";
}

TEST_P(StreamFailureTest, Launch_FailsAndIsReadAtOnce_TheReaderIsToldTheCause) {
  if (injection_ != nullptr) GTEST_SKIP() << "the read could meet the failure in its place";
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  ASSERT_TRUE(try_call("relu", {x}).ok());
  for (int i = 0; i < 10; ++i) {
    break_next_launch();
    const auto broken = try_call("relu", {x});
    ASSERT_TRUE(broken.ok()) << broken.status().to_string();
    const Status first = copy_to_host(*broken).status();
    EXPECT_EQ(first.code(), BP_INTERNAL) << first.to_string();
    expect_words(first, {"relu"});
    ASSERT_TRUE(device_->default_stream().reset().ok());
  }
}

TEST_P(StreamFailureTest, Launch_FailsAndManyAreTold_AllKnowTheCause) {
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  ASSERT_TRUE(try_call("relu", {x}).ok());
  ASSERT_TRUE(device_->sync().ok());
  break_next_launch();
  ASSERT_TRUE(try_call("relu", {x}).ok());
  Stream& stream = device_->default_stream();
  bp_status code = BP_PENDING;
  while (code == BP_PENDING) code = device_->table().stream_query(stream.handle());
  ASSERT_EQ(code, BP_INTERNAL);
  // As of threads that were told at one moment: none has kept what it heard yet.
  const Status first = stream.failure(code, Slot::kStreamSync);
  for (int i = 0; i < 4; ++i) {
    const Status another = stream.failure(code, Slot::kStreamSync);
    EXPECT_EQ(another.code(), BP_INTERNAL);
    EXPECT_EQ(another.message(), first.message());
    expect_words(another, {GetParam().c_str(), "relu"});
    if (injection_ != nullptr) expect_words(another, {"injected"});
  }
  ASSERT_TRUE(stream.reset().ok());
  // Those words end with the failure.
  expect_words(stream.failure(code, Slot::kStreamSync), {"the plugin gave no words"});
}

TEST_P(StreamFailureTest, Launch_FailsOnAnotherStream_LeavesTheDefaultOneAlone) {
  auto stream = device_->acquire_stream();
  ASSERT_TRUE(stream.ok()) << stream.status().to_string();
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  ASSERT_TRUE(call_on(*stream, "relu", x).ok());  // takes memory, which is a driver call too
  ASSERT_TRUE((*stream)->sync().ok());
  break_next_launch();
  const auto broken = call_on(*stream, "relu", x);
  ASSERT_TRUE(broken.ok()) << broken.status().to_string();
  EXPECT_FALSE((*stream)->sync().ok());
  EXPECT_FALSE(copy_to_host(*broken).ok());
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 4}));
  device_->release_stream(*stream);
  auto again = device_->acquire_stream();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->sync().ok()) << "what is given out is healthy";
  EXPECT_FALSE(copy_to_host(*broken).ok()) << "lost contents stay lost";
  device_->release_stream(*again);
}

TEST_P(StreamFailureTest, Launch_FailsBehindAFaultyLookup_ItsReaderGetsAnError) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const Ref<Tensor> index =
      upload(OracleTensor::from_i64(BP_DTYPE_I64, {1}, std::vector<int64_t>{9}));
  const auto faulty = try_call("gather", {x, index});
  ASSERT_TRUE(faulty.ok()) << faulty.status().to_string();
  ASSERT_TRUE(device_->default_stream().sync().ok()) << "a data fault is no stream failure";
  break_next_launch();
  ASSERT_TRUE(try_call("relu", {x}).ok());
  EXPECT_FALSE(device_->default_stream().sync().ok());
  ASSERT_TRUE(device_->default_stream().reset().ok());
  const Status told = copy_to_host(*faulty).status();
  EXPECT_EQ(told.code(), BP_INVALID_ARGUMENT) << told.to_string();
  expect_words(told, {"gather", "index 9"});
  EXPECT_EQ(told.op(), "gather");
  EXPECT_EQ(values(must_call("relu", {x})), (std::vector<double>{10, 11, 12, 13}));
}

TEST_P(StreamFailureTest, Launch_FailsInARun_TheSessionGoesOn) {
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2}});
  ASSERT_TRUE(x.ok());
  const ValueId only[] = {*x};
  auto y = graph.op("relu", only);
  ASSERT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
  auto session = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  const NamedTensor inputs[] = {{"x", upload_f32({2}, {-1, 2})}};
  const auto run = [&]() -> Result<HostTensor> {
    BP_TRY_ASSIGN(const std::vector<Ref<Tensor>> outputs, (*session)->run(inputs));
    BP_TRY(let_it_run(outputs[0]));
    return copy_to_host(outputs[0]);
  };
  ASSERT_TRUE(run().ok());
  break_next_launch();
  const Status failed = run().status();
  EXPECT_EQ(failed.code(), BP_INTERNAL) << failed.to_string();
  expect_words(failed, {"relu"});
  EXPECT_EQ(failed.op(), "relu");
  const auto after = run();
  ASSERT_TRUE(after.ok()) << after.status().to_string();
  EXPECT_EQ(oracle_tensor(*after).to_f64(), (std::vector<double>{0, 2}));
}

TEST_P(StreamFailureTest, SyncLaunches_TheFailingCallItselfSaysSo) {
  open_with({{"BACKPLANE_SYNC", "1"}});
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> index =
      upload(OracleTensor::from_i64(BP_DTYPE_I64, {1}, std::vector<int64_t>{9}));
  ASSERT_TRUE(try_call("relu", {x}).ok());
  break_next_launch();
  const Status failed = try_call("relu", {x}).status();
  EXPECT_EQ(failed.code(), BP_INTERNAL) << failed.to_string();
  expect_words(failed, {"relu"});
  ASSERT_TRUE(device_->default_stream().reset().ok());
  const Status faulty = try_call("gather", {x, index}).status();
  EXPECT_EQ(faulty.code(), BP_INVALID_ARGUMENT) << faulty.to_string();
  EXPECT_EQ(faulty.op(), "gather");
  EXPECT_TRUE(try_call("relu", {x}).ok()) << "the stream is healthy";
}

TEST_P(StreamFailureTest, Device_Lost_AnswersAtOnceAndOthersGoOn) {
  if (injection_ == nullptr) GTEST_SKIP() << "OpenCL has no code for a device that is lost";
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  break_next_launch(BP_INJECT_LOSE_DEVICE);
  const auto y = try_call("relu", {x});
  const Status status = y.ok() ? copy_to_host(*y).status() : y.status();
  EXPECT_EQ(status.code(), BP_DEVICE_LOST) << status.to_string();
  EXPECT_EQ(try_call("add", {x, x}).status().code(), BP_DEVICE_LOST);
  EXPECT_EQ(copy_to_host(x).status().code(), BP_DEVICE_LOST);
  EXPECT_EQ(device_->sync().code(), BP_DEVICE_LOST);
  auto other = runtime_->find_device("cpu:0");
  ASSERT_TRUE(other.ok());
  device_ = *other;
  EXPECT_EQ(values(must_call("relu", {upload_f32({2}, {-1, 2})})), (std::vector<double>{0, 2}));
}

// Work fails behind a call only where there are queues.
INSTANTIATE_TEST_SUITE_P(Devices, StreamFailureTest,
                         testing::ValuesIn(tests::queued_device_names({kEmulated})),
                         stream_test_name);

}  // namespace
}  // namespace bp
