// SPDX-License-Identifier: Apache-2.0
//
// For tests that run the same cases on every device: one Runtime per test over the plugins of this
// build, and short ways to make tensors, call operators and compare with the oracle.
#ifndef BACKPLANE_TESTS_INTEGRATION_DEVICE_FIXTURE_HPP
#define BACKPLANE_TESTS_INTEGRATION_DEVICE_FIXTURE_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/dispatch/call.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "ops/oracle/oracle.hpp"
#include "ops/register.hpp"
#include "tests/plugins.hpp"

namespace bp {

/// Plugins of this build (compile definition BP_PLUGIN_DIR), fallback allowed quietly.
inline RuntimeArgs test_runtime_args() {
  RuntimeArgs args;
  args.register_ops = register_ops;
  args.install_directory = BP_PLUGIN_DIR;
  args.options = {{"BACKPLANE_FALLBACK", "allow"}};
  return args;
}

/// |a - b| <= atol + rtol |b| for each element; NaN equals NaN.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                         double rtol = 1e-5, double atol = 1e-6) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i] || (found[i] != found[i] && expected[i] != expected[i])) continue;
    ASSERT_NEAR(found[i], expected[i], atol + rtol * std::abs(expected[i])) << "element " << i;
  }
}

/// Makes a Runtime and finds the device; skips the test where that is not on this machine. Without
/// both, *out_device stays as it was.
inline void open_or_skip(const RuntimeArgs& args, const std::string& name,
                         Ref<Runtime>* out_runtime, Device** out_device) {
  auto runtime = Runtime::create(args);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  *out_runtime = *runtime;
  auto device = (*out_runtime)->find_device(name);
  if (tests::is_absent(name, device.status().code())) GTEST_SKIP() << device.status().to_string();
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  *out_device = *device;
}

/// For tests of what happens behind a call.
inline void skip_if_inline(const Device& device) {
  if (device.is_inline()) GTEST_SKIP() << "its work is done when a call returns";
}

/// A device under options of its own, as a test's parameter.
struct DeviceTarget {
  std::string name;
  std::string device;
  std::vector<OptionSetting> options = {};
};
inline void PrintTo(const DeviceTarget& target, std::ostream* out) { *out << target.name; }

/// The parameter is a device name; the test is skipped where that device is not on this machine.
class DeviceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { open(test_runtime_args()); }

  void open(const RuntimeArgs& args) { open_or_skip(args, GetParam(), &runtime_, &device_); }

  OpId op(std::string_view name) const { return *runtime_->registry().find(name); }

  /// Whether the device has a kernel for the operator, in some dtype: a plugin that is new in the
  /// tree may have few.
  bool offers(std::string_view name) const {
    const auto& all = Dispatcher::of(*device_).kernels().kernels;
    return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.op == name; });
  }

  Ref<Tensor> upload(const OracleTensor& value) {
    auto tensor = copy_from_host(device_->default_stream(), value.dtype, value.sizes,
                                 value.bytes.data(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return tensor.ok() ? *tensor : nullptr;
  }
  Ref<Tensor> upload_f32(const Dims& sizes, const std::vector<double>& values) {
    return upload(OracleTensor::from_f64(BP_DTYPE_F32, sizes, values));
  }

  /// The first output.
  Result<Ref<Tensor>> try_call(std::string_view name, const std::vector<Ref<Tensor>>& inputs,
                               const Attributes& attributes = {}) {
    std::vector<Tensor*> pointers;
    for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
    const CallArgs args{.op = op(name),
                        .inputs = pointers,
                        .attributes = attributes.data(),
                        .stream = nullptr,
                        .device = device_};
    BP_TRY_ASSIGN(const size_t count,
                  output_count(runtime_->registry().schema(args.op), args.attributes));
    std::vector<Ref<Tensor>> outputs(count);
    BP_TRY(call(*runtime_, args, outputs));
    return std::move(outputs[0]);
  }
  Ref<Tensor> must_call(std::string_view name, const std::vector<Ref<Tensor>>& inputs,
                        const Attributes& attributes = {}) {
    auto output = try_call(name, inputs, attributes);
    EXPECT_TRUE(output.ok()) << output.status().to_string();
    return output.ok() ? *output : nullptr;
  }

  OracleTensor download(const Ref<Tensor>& tensor) {
    auto host = copy_to_host(tensor);
    EXPECT_TRUE(host.ok()) << host.status().to_string();
    return host.ok() ? oracle_tensor(*host) : OracleTensor{};
  }
  std::vector<double> values(const Ref<Tensor>& tensor) { return download(tensor).to_f64(); }

  /// Operators in a row, from the input "x", f32, to the output "y".
  Graph row_of(const std::vector<const char*>& ops, const Dims& sizes) {
    Graph graph(runtime_->registry());
    auto value = graph.add_input("x", {BP_DTYPE_F32, true, sizes});
    for (const char* name : ops) {
      EXPECT_TRUE(value.ok()) << value.status().to_string();
      const ValueId only[] = {*value};
      value = graph.op(name, only);
    }
    EXPECT_TRUE(value.ok() && graph.set_outputs({*value}, {"y"}).ok());
    return graph;
  }

  Attributes attributes(std::string_view op_name) const {
    return Attributes(runtime_->registry().schema(op(op_name)));
  }

  Ref<Session> session(Graph graph, std::map<std::string, int64_t> dims = {}) {
    SessionArgs args;
    args.device = device_;
    args.dims = std::move(dims);
    auto made = Session::create(*runtime_, std::move(graph), args);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  void expect_oracle(const Graph& graph, const std::vector<OracleTensor>& inputs) {
    std::vector<OracleTensor> expected;
    const Status status = evaluate_graph(graph, inputs, &expected);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const Ref<Session> s = session(graph);
    ASSERT_TRUE(s);
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < inputs.size(); ++i) {
      named.emplace_back(s->inputs()[i].name, upload(inputs[i]));
    }
    auto outputs = s->run(named);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ((*outputs)[i]->sizes(), expected[i].sizes);
      expect_close(values((*outputs)[i]), expected[i].to_f64(), 1e-4, 1e-5);
    }
  }

  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
};

/// Each word stands in the message.
inline void expect_words(const Status& status, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "expected '" << word << "' in: " << status.to_string();
  }
}

inline std::string device_test_name(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

}  // namespace bp

#endif
