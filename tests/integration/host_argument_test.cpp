// SPDX-License-Identifier: Apache-2.0
//
// Inputs whose values are needed on the host: a kernel that says so gets them at a host address,
// any other in memory of its device, whether it is called or planned, and though the work is queued
// and the values are gone when it runs.
#include <cstring>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

/// An i64 list in host memory, and where to write over it.
struct HostList {
  Ref<Tensor> tensor;
  int64_t* values = nullptr;
};

HostList host_list(const std::vector<int64_t>& values, bool is_scalar = false) {
  void* data = nullptr;
  const Dims sizes = is_scalar ? Dims{} : Dims{static_cast<int64_t>(values.size())};
  auto host = HostTensor::allocate(BP_DTYPE_I64, sizes, &data);
  EXPECT_TRUE(host.ok()) << host.status().to_string();
  HostList list{.tensor = nullptr, .values = static_cast<int64_t*>(data)};
  std::copy(values.begin(), values.end(), list.values);
  if (host.ok()) list.tensor = Tensor::wrap_host(std::move(*host));
  return list;
}

std::vector<DeviceTarget> targets() {
  std::vector<DeviceTarget> all;
  for (const std::string& device : tests::device_names()) {
    all.push_back({device.substr(0, device.find(':')), device});
  }
  const std::string late = "npu.launch_latency_ns=5000000";
  all.push_back({"npu_late", "npu:0", {{"BACKPLANE_PLUGIN_OPTIONS", late}}});
  all.push_back(
      {"npu_emulated_late", "npu:0", {{"BACKPLANE_PLUGIN_OPTIONS", late + ",npu.async=false"}}});
  return all;
}

class HostArgumentTest : public testing::TestWithParam<DeviceTarget> {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.options.insert(args.options.end(), GetParam().options.begin(), GetParam().options.end());
    open_or_skip(args, GetParam().device, &runtime_, &device_);
  }

  const OpSchema& schema(std::string_view name) const {
    return runtime_->registry().schema(*runtime_->registry().find(name));
  }

  Ref<Tensor> upload(const OracleTensor& value) {
    auto tensor = copy_from_host(device_->default_stream(), value.dtype, value.sizes,
                                 value.bytes.data(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return tensor.ok() ? *tensor : nullptr;
  }

  std::vector<double> values(const Ref<Tensor>& tensor) {
    auto host = copy_to_host(tensor);
    EXPECT_TRUE(host.ok()) << host.status().to_string();
    return host.ok() ? oracle_tensor(*host).to_f64() : std::vector<double>{};
  }

  /// All outputs of a call whose host values are overwritten as soon as it returns.
  std::vector<Ref<Tensor>> call_and_spoil(std::string_view name, const OracleTensor& x,
                                          HostList list, const Attributes& attributes) {
    const Ref<Tensor> on_device = upload(x);
    Tensor* const inputs[] = {on_device.get(), list.tensor.get()};
    std::vector<Ref<Tensor>> outputs(schema(name).outputs.size());
    const CallArgs args{.op = *runtime_->registry().find(name),
                        .inputs = inputs,
                        .attributes = attributes.data(),
                        .stream = nullptr,
                        .device = device_};
    const Status status = call(*runtime_, args, outputs);
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (GetParam().device == "npu:0") {
      EXPECT_EQ(device_->counters().fallback_ops, 0u) << name;
    }
    std::fill_n(list.values, list.tensor->element_count(), int64_t{1} << 40);
    return outputs;
  }

  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
};

const OracleTensor& matrix() {
  static const OracleTensor made =
      OracleTensor::from_f64(BP_DTYPE_F32, {2, 3}, std::vector<double>{1, 5, 2, 4, 3, 6});
  return made;
}

TEST_P(HostArgumentTest, Call_ValuesGoneWhenItRuns_AreNotRead) {
  const auto sums =
      call_and_spoil("cumsum", matrix(), host_list({1}, true), Attributes(schema("cumsum")));
  EXPECT_EQ(values(sums[0]), (std::vector<double>{1, 6, 8, 4, 7, 13}));
  const auto best = call_and_spoil("top_k", matrix(), host_list({2}), Attributes(schema("top_k")));
  EXPECT_EQ(values(best[0]), (std::vector<double>{5, 2, 6, 4}));
  EXPECT_EQ(values(best[1]), (std::vector<double>{1, 2, 2, 0}));
  Attributes linear(schema("resize"));
  ASSERT_TRUE(linear.set_str("mode", "linear").ok());
  ASSERT_TRUE(linear.set_str("coordinates", "align_corners").ok());
  const auto larger = call_and_spoil("resize", matrix(), host_list({2, 5}), linear);
  EXPECT_EQ(values(larger[0]), (std::vector<double>{1, 3, 5, 3.5, 2, 4, 3.5, 3, 4.5, 6}));
}

TEST_P(HostArgumentTest, Plan_OfAConstant_RunsTwice) {
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {2, 3}});
  ASSERT_TRUE(x.ok());
  void* data = nullptr;
  auto host = HostTensor::allocate(BP_DTYPE_I64, {}, &data);
  ASSERT_TRUE(host.ok());
  const int64_t axis_value = -1;
  std::memcpy(data, &axis_value, sizeof(axis_value));
  auto axis = graph.add_constant("axis", std::move(*host));
  ASSERT_TRUE(axis.ok());
  const ValueId inputs[] = {*x, *axis};
  auto y = graph.op("cumsum", inputs);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  ASSERT_TRUE(graph.set_outputs({*y}, {"y"}).ok());
  SessionArgs args;
  args.device = device_;
  auto session = Session::create(*runtime_, std::move(graph), args);
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  for (int round = 0; round < 2; ++round) {
    const NamedTensor input[] = {{"x", upload(matrix())}};
    auto found = (*session)->run(input);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(values((*found)[0]), (std::vector<double>{1, 6, 8, 4, 7, 13}));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, HostArgumentTest, testing::ValuesIn(targets()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace bp
