// SPDX-License-Identifier: Apache-2.0
//
// Order between streams by the marks on storages: one stream is held still by a gate, and what must
// come after its work is started on another one meanwhile. Whoever does not wait runs ahead and
// finds, or leaves, the wrong values.
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/stream_gate.hpp"

namespace bp {
namespace {

constexpr int64_t kCount = 1000;

class OrderTest : public testing::TestWithParam<DeviceTarget> {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    gate_.open();
    if (runtime_ && runtime_->closed()) return;
    if (held_ != nullptr) device_->release_stream(held_);
  }

  void open(const std::vector<OptionSetting>& options) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/good"};
    args.plugin_options = GetParam().options;
    for (const OptionSetting& option : options) args.options.push_back(option);
    open_or_skip(args, GetParam().device, &runtime_, &device_);
    if (device_ == nullptr) return;
    auto stream = device_->acquire_stream();
    ASSERT_TRUE(stream.ok()) << stream.status().to_string();
    held_ = *stream;
  }

  Ref<Tensor> upload(float value) {
    const std::vector<float> values(kCount, value);
    auto tensor = copy_from_host(device_->default_stream(), BP_DTYPE_F32, {kCount}, values.data(),
                                 MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return *tensor;
  }
  /// a + b; stream nullptr: the default one.
  Ref<Tensor> add(const Ref<Tensor>& a, const Ref<Tensor>& b, Stream* stream) {
    Tensor* inputs[] = {a.get(), b.get()};
    Ref<Tensor> sum;
    const CallArgs args{.op = *runtime_->registry().find("add"),
                        .inputs = inputs,
                        .attributes = nullptr,
                        .stream = stream,
                        .device = device_};
    const Status status = call(*runtime_, args, {&sum, 1});
    EXPECT_TRUE(status.ok()) << status.to_string();
    return sum;
  }
  void expect_all(const Ref<Tensor>& tensor, double value) {
    auto host = copy_to_host(tensor);
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    EXPECT_EQ(oracle_tensor(*host).to_f64(), std::vector<double>(kCount, value));
  }
  Ref<Session> doubling_session() {
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {kCount}});
    const ValueId twice[] = {x, x};
    const ValueId y = *graph.op("add", twice);
    EXPECT_TRUE(graph.set_outputs({y}, {"y"}).ok());
    SessionArgs args;
    args.device = device_;
    auto session = Session::create(*runtime_, std::move(graph), args);
    EXPECT_TRUE(session.ok()) << session.status().to_string();
    return *session;
  }

  StreamGate gate_;
  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
  Stream* held_ = nullptr;
};

TEST_P(OrderTest, Read_OfWhatAnotherStreamWrites_WaitsForIt) {
  const Ref<Tensor> x = upload(3);
  ASSERT_TRUE(gate_.hold(*held_));
  const Ref<Tensor> y = add(x, x, held_);
  const Ref<Tensor> z = add(y, y, nullptr);
  const Ref<Tensor> back = add(z, y, held_);
  gate_.open_later();
  expect_all(z, 12);
  expect_all(back, 18);
}

TEST_P(OrderTest, Write_OfWhatAnotherStreamReads_WaitsForIt) {
  const Ref<Tensor> x = upload(3);
  ASSERT_TRUE(gate_.hold(*held_));
  const Ref<Tensor> y = add(x, x, held_);
  Stream& stream = device_->default_stream();
  Storage& storage = x->storage();
  ASSERT_TRUE(storage.order_before(stream, Access::kWrite).ok());
  ASSERT_TRUE(
      device_->fill_zero(stream, {storage.handle(), storage.offset_bytes()}, storage.bytes()).ok());
  gate_.open_later();
  expect_all(y, 6);
}

TEST_P(OrderTest, Write_OfWhatAnotherStreamWrites_ComesAfterIt) {
  const Ref<Tensor> x = upload(3);
  ASSERT_TRUE(gate_.hold(*held_));
  const Ref<Tensor> y = add(x, x, held_);
  Stream& stream = device_->default_stream();
  Storage& storage = y->storage();
  ASSERT_TRUE(storage.order_before(stream, Access::kOverwrite).ok());
  ASSERT_TRUE(
      device_->fill_zero(stream, {storage.handle(), storage.offset_bytes()}, storage.bytes()).ok());
  gate_.open_later();
  ASSERT_TRUE(stream.sync().ok());
  expect_all(y, 0);
}

TEST_P(OrderTest, Memory_LetGoWhileAnotherStreamReadsIt_IsGivenAwayAfterwards) {
  const Ref<Tensor> c = upload(100);
  Ref<Tensor> x = upload(3);
  const uint64_t place = x->storage().offset_bytes();
  ASSERT_TRUE(gate_.hold(*held_));
  const Ref<Tensor> y = add(x, x, held_);
  x = nullptr;
  const Ref<Tensor> next = add(c, c, nullptr);
  EXPECT_EQ(next->storage().offset_bytes(), place) << "the memory was to be used again";
  gate_.open_later();
  expect_all(y, 6);
  expect_all(next, 200);
}

TEST_P(OrderTest, SessionInput_ThatAnotherStreamWrites_IsWaitedFor) {
  const Ref<Session> session = doubling_session();
  const Ref<Tensor> x = upload(3);
  const NamedTensor warm[] = {{"x", x}};
  ASSERT_TRUE(session->run(warm).ok());
  ASSERT_TRUE(gate_.hold(*held_));
  const NamedTensor input[] = {{"x", add(x, x, held_)}};
  std::thread opener([this] { gate_.open_later(); });
  const auto outputs = session->run(input);
  opener.join();
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  expect_all((*outputs)[0], 12);
}

TEST_P(OrderTest, Sync_OfAStreamThatIsHeld_EndsAtTheDeadline) {
  open({{"BACKPLANE_TIMEOUT", "3"}});
  ASSERT_TRUE(gate_.hold(*held_));
  const Status status = held_->sync();
  EXPECT_EQ(status.code(), BP_TIMEOUT) << status.to_string();
  EXPECT_NE(status.message().find("BACKPLANE_TIMEOUT"), std::string::npos) << status.message();
  gate_.open();
  EXPECT_TRUE(held_->sync().ok());
}

std::vector<DeviceTarget> order_targets() {
  std::vector<DeviceTarget> targets = {{"npu_emulated", "npu:0", {{"npu.async", "false"}}},
                                       {"npu_one_call", "npu:0", {{"npu.concurrent", "false"}}},
                                       {"fake", "good:0"}};
  // cpu runs each call where it is made: nothing there comes out of order.
  for (const std::string& id : tests::plugin_ids_but({"cpu"})) targets.push_back({id, id + ":0"});
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Devices, OrderTest, testing::ValuesIn(order_targets()),
                         [](const auto& test) { return test.param.name; });

/// Every launch takes a while, so that an answer that came too early is a wrong one.
class SlowDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.plugin_options = {{"npu.launch_latency_ns", "50000000"}};
    open(args);
  }
};

TEST_P(SlowDeviceTest, SessionOutput_ReadAtOnce_IsWaitedFor) {
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {4}});
  const ValueId twice[] = {x, x};
  ASSERT_TRUE(graph.set_outputs({*graph.op("add", twice)}, {"y"}).ok());
  SessionArgs args;
  args.device = device_;
  auto session = Session::create(*runtime_, std::move(graph), args);
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  for (const double value : {1.0, 2.0, 3.0}) {
    const NamedTensor input[] = {{"x", upload_f32({4}, std::vector<double>(4, value))}};
    const auto outputs = (*session)->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(values((*outputs)[0]), std::vector<double>(4, 2 * value));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SlowDeviceTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
