// SPDX-License-Identifier: Apache-2.0
//
// A device with only the required functions, which takes one call at a time and has relu and add:
// streams are emulated, calls are serialised, everything else decomposes or falls back. The fake
// itself reports overlapping calls, bad ranges and leaks as errors.
#include <algorithm>
#include <array>
#include <thread>

#include "core/dispatch/assign.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class MinimalDeviceTest : public DeviceTest {
 protected:
  void SetUp() override { open_fake({}); }

  void open_fake(std::vector<OptionSetting> options) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/good"};
    args.plugin_options = std::move(options);
    open(args);
  }
};

TEST_P(MinimalDeviceTest, Features_None_AreAllEmulated) {
  EXPECT_TRUE(device_->table().stream_emulated());
  EXPECT_FALSE(device_->table().has_native(BP_FEATURE_FILL_BIT));
  EXPECT_FALSE(device_->is_inline());
}

TEST_P(MinimalDeviceTest, Close_ObjectsAreAlive_StatesEndBeforeThePlansTheyWereMadeFrom) {
  struct Holder : PluginObjectHolder {
    void release_plugin_objects() override { ended->push_back(is_state); }
    bool holds_states() const override { return is_state; }
    std::vector<bool>* ended = nullptr;
    bool is_state = false;
  };
  std::vector<bool> ended;
  std::array<Holder, 40> holders;
  for (size_t i = 0; i < holders.size(); ++i) {
    holders[i].ended = &ended;
    holders[i].is_state = i % 2 == 0;
    device_->track(&holders[i]);
  }
  runtime_->close();
  ASSERT_EQ(ended.size(), holders.size());
  EXPECT_TRUE(std::is_sorted(ended.rbegin(), ended.rend()));
}

TEST_P(MinimalDeviceTest, Add_OnTheEmulatedStream_GivesTheSum) {
  const Ref<Tensor> a = upload_f32({3}, {1, 2, 3});
  EXPECT_EQ(values(must_call("add", {a, a})), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_P(MinimalDeviceTest, Mul_NoKernel_FallsBackWithCopies) {
  const Ref<Tensor> a = upload_f32({3}, {1, 2, 3});
  const uint64_t copies_out = device_->counters().device_to_host_copies;
  const Ref<Tensor> y = must_call("mul", {a, a});
  EXPECT_EQ(device_->counters().fallback_ops, 1u);
  EXPECT_GT(device_->counters().device_to_host_copies, copies_out);
  EXPECT_EQ(values(y), (std::vector<double>{1, 4, 9}));
  EXPECT_NE(runtime_->fallback_summary().find("mul 1x"), std::string::npos);
}

TEST_P(MinimalDeviceTest, Transposed_NoCopyKernel_IsMadeContiguousOnTheHostDevice) {
  const Ref<Tensor> t = must_call("transpose", {upload_f32({2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(values(must_call("relu", {t})), (std::vector<double>{1, 3, 2, 4}));
}

TEST_P(MinimalDeviceTest, Assign_NoKernelForViews_IsWrittenOnTheHostDevice) {
  const Ref<Tensor> base = upload_f32({8}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Ref<Tensor> view = base->view({2, 2}, {-4, 2}, 5);
  const Ref<Tensor> source = upload_f32({2}, {10, 20});
  Stream& stream = device_->default_stream();
  ASSERT_TRUE(assign(source, view, stream).ok());
  EXPECT_EQ(values(base), (std::vector<double>{0, 10, 2, 20, 4, 10, 6, 20}));
  EXPECT_EQ(device_->counters().fallback_ops, 1u);
  EXPECT_NE(runtime_->fallback_summary().find("identity 1x"), std::string::npos);
  // Also of itself, and where it is contiguous but begins where kernels take no output.
  ASSERT_TRUE(assign(base->view({7}, {1}, 0), base->view({7}, {1}, 1), stream).ok());
  EXPECT_EQ(values(base), (std::vector<double>{0, 0, 10, 2, 20, 4, 10, 6}));
}

TEST_P(MinimalDeviceTest, Assign_FallbackDenied_IsRefusedAndChangesNothing) {
  RuntimeArgs args = test_runtime_args();
  args.plugin_path = {BP_FAKES_DIR "/good"};
  args.options = {{"BACKPLANE_FALLBACK", "deny"}};
  open(args);
  const Ref<Tensor> base = upload_f32({4}, {0, 1, 2, 3});
  const Status status =
      assign(upload_f32({2}, {7, 8}), base->view({2}, {2}, 0), device_->default_stream());
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_NE(status.message().find("does not write into f32 [2] on " + device_->name()),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("BACKPLANE_FALLBACK is deny"), std::string::npos);
  EXPECT_EQ(values(base), (std::vector<double>{0, 1, 2, 3}));
}

TEST_P(MinimalDeviceTest, Sub_InputsOfAnotherLayout_AreMadeContiguous) {
  const Ref<Tensor> a = upload_f32({2, 3}, {10, 20, 30, 40, 50, 60});
  const Ref<Tensor> b = upload_f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Ref<Tensor> a_t = must_call("transpose", {a});
  const Ref<Tensor> b_t = must_call("transpose", {b});
  EXPECT_EQ(values(must_call("sub", {a_t, b})), (std::vector<double>{9, 38, 17, 46, 25, 54}));
  EXPECT_EQ(values(must_call("sub", {a, b_t})), (std::vector<double>{9, 17, 25, 38, 46, 54}));
  EXPECT_EQ(values(must_call("sub", {a_t, a_t})), std::vector<double>(6, 0));
}

TEST_P(MinimalDeviceTest, ManyThreads_OneCallAtATime_AllGetTheirResults) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 25; ++i) {
        const double value = t * 100 + i;
        const Ref<Tensor> x = upload_f32({2}, {value, -value});
        EXPECT_EQ(values(must_call("relu", {must_call("add", {x, x})})),
                  (std::vector<double>{2 * value, 0}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(MinimalDeviceTest, UserStream_WithTheDefaultOne_IsOrdered) {
  auto stream = device_->acquire_stream();
  ASSERT_TRUE(stream.ok()) << stream.status().to_string();
  Ref<Tensor> sum = upload_f32({64}, std::vector<double>(64, 1.0));
  for (int i = 0; i < 8; ++i) {
    Tensor* inputs[] = {sum.get(), sum.get()};
    Ref<Tensor> next;
    const CallArgs args{.op = op("add"),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = i % 2 == 0 ? *stream : nullptr,
                        .device = nullptr};
    const Status status = call(*runtime_, args, {&next, 1});
    ASSERT_TRUE(status.ok()) << status.to_string();
    sum = next;
  }
  EXPECT_EQ(values(sum), std::vector<double>(64, 256.0));
  device_->release_stream(*stream);
}

TEST_P(MinimalDeviceTest, Session_MixedPlacement_MatchesTheOracle) {
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2, 3}});
  ASSERT_TRUE(x.ok());
  const ValueId twice[] = {*x, *x};
  auto sum = graph.op("add", twice);
  const ValueId sum_only[] = {*sum};
  auto soft = graph.op("softmax", sum_only);
  const ValueId both[] = {*soft, *sum};
  auto product = graph.op("mul", both);
  const ValueId product_only[] = {*product};
  auto y = graph.op("relu", product_only);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  ASSERT_TRUE(graph.set_outputs({*y}, {"y"}).ok());
  const auto input =
      OracleTensor::from_f64(BP_DTYPE_F32, {2, 3}, std::vector<double>{1, -2, 3, 0.5, 0, -1});
  std::vector<OracleTensor> expected;
  ASSERT_TRUE(evaluate_graph(graph, {&input, 1}, &expected).ok());
  SessionArgs args;
  args.device = device_;
  auto session = Session::create(*runtime_, std::move(graph), args);
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  const NamedTensor named[] = {{"x", upload(input)}};
  for (int i = 0; i < 3; ++i) {
    auto outputs = (*session)->run(named);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    expect_close(values((*outputs)[0]), expected[0].to_f64());
  }
  const PlacementCounts counts = (*session)->placement_counts();
  EXPECT_EQ(counts.native, 2u);
  EXPECT_EQ(counts.fallback, 2u);
}

INSTANTIATE_TEST_SUITE_P(Devices, MinimalDeviceTest, testing::Values("good:0"), device_test_name);

TEST(Runtime, Create_NoPlugins_HasNoDevicesAndSaysSo) {
  RuntimeArgs args = test_runtime_args();
  args.install_directory = "";
  auto runtime = Runtime::create(args);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  EXPECT_TRUE((*runtime)->devices().empty());
  EXPECT_EQ((*runtime)->host_device(), nullptr);
  const auto device = (*runtime)->find_device("cpu:0");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), BP_UNAVAILABLE);
  EXPECT_NE(device.status().message().find("no plugin gives a device"), std::string::npos);
}

TEST(Runtime, Create_BadOptions_AreRefusedByName) {
  RuntimeArgs args = test_runtime_args();
  args.options = {{"BACKPLANE_FALLBACK", "perhaps"}};
  auto runtime = Runtime::create(args);
  ASSERT_FALSE(runtime.ok());
  EXPECT_NE(runtime.status().message().find("allow|warn|deny"), std::string::npos);
  args.options = {{"BACKPLANE_TIMEOUT", "0"}};
  EXPECT_EQ(Runtime::create(args).status().code(), BP_INVALID_ARGUMENT);
  args.options = {};
  args.plugin_options = {{"npu.memroy", "1MiB"}};
  runtime = Runtime::create(args);
  ASSERT_FALSE(runtime.ok());
  EXPECT_NE(runtime.status().message().find("memory"), std::string::npos)
      << runtime.status().message();
}

TEST(Runtime, Create_FolderThatIsNotThere_IsRefusedWhereTheProgramNamesIt) {
  RuntimeArgs args = test_runtime_args();
  const std::string file = BP_PLUGIN_DIR "/cpu/libbackplane_cpu.so";
  for (const auto& [folder, found] :
       {std::pair<std::string, std::string>{"/nowhere", "/nowhere: No such file or directory"},
        {file, file + ": Not a directory"},
        {"plugins", "'plugins'"},
        {"", "''"}}) {
    args.plugin_path = {BP_PLUGIN_DIR, folder};
    const Status status = Runtime::create(args).status();
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(status.message(),
              "plugin_path: expected the absolute path of a folder, found " + found);
    if (folder.empty()) continue;  // as install_dir: no folder
    RuntimeArgs installed = test_runtime_args();
    installed.install_directory = folder;
    const Status refused = Runtime::create(installed).status();
    EXPECT_EQ(refused.code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(refused.message(),
              "install_dir: expected the absolute path of a folder, found " + found);
  }
  args.plugin_path = {};
  args.options = {{"BACKPLANE_PLUGIN_PATH", "/nowhere:" + file + ":plugins"}};
  auto runtime = Runtime::create(args);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  EXPECT_TRUE((*runtime)->find_device("npu:0").ok());
  EXPECT_EQ((*runtime)->plugins().skipped.size(), 3u);
}

TEST(Runtime, PluginOptions_CommaWithinAValue_BelongsToIt) {
  RuntimeArgs args = test_runtime_args();
  args.options.push_back({"BACKPLANE_PLUGIN_OPTIONS", "npu.kernels=conv,gather,npu.devices=2"});
  const auto runtime = Runtime::create(args);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  EXPECT_TRUE((*runtime)->find_device("npu:1").ok());
  const auto& of_devices = (*runtime)->plugins().find("npu")->device_options();
  ASSERT_EQ(of_devices.size(), 1u);
  EXPECT_EQ(of_devices[0].name, "kernels");
  EXPECT_EQ(of_devices[0].value, "conv,gather");
  for (const char* text : {"gather,npu.devices=2", "devices=2"}) {
    args.options.back().value = text;
    const Status status = Runtime::create(args).status();
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << text;
    EXPECT_NE(status.message().find("expected ID.NAME=VALUE, found '"), std::string::npos) << text;
  }
}

TEST(Runtime, TwoAtOnce_EachHasItsOwnDevices) {
  auto first = Runtime::create(test_runtime_args());
  auto second = Runtime::create(test_runtime_args());
  ASSERT_TRUE(first.ok() && second.ok());
  Device* a = *(*first)->find_device("npu:0");
  Device* b = *(*second)->find_device("npu:0");
  EXPECT_NE(a, b);
  (*first)->close();
  const float one = 1;
  EXPECT_TRUE(copy_from_host(b->default_stream(), BP_DTYPE_F32, {1}, &one, MemoryTag::kIo).ok());
  EXPECT_EQ((*first)->find_device("npu:0").status().code(), BP_GONE);
}

}  // namespace
}  // namespace bp
