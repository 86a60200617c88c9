// SPDX-License-Identifier: Apache-2.0
//
// For the tests of all sketches: a Runtime over one mock and the cpu plugin, the mock's extension
// table read as the core would read it, and the digits.
#ifndef BACKPLANE_TESTS_SKETCHES_SKETCH_FIXTURE_HPP
#define BACKPLANE_TESTS_SKETCHES_SKETCH_FIXTURE_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backplane/sdk/test_inject.h"
#include "core/dispatch/call.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "docs/examples/digits/npz.hpp"
#include "ops/onnx/import.hpp"
#include "ops/register.hpp"

namespace bp {

/// The core's own copy of an extension's table: slots that the plugin does not know are null.
template <class Table>
const Table* find_table(const Device& device, std::string_view name, uint32_t version, Table* out) {
  for (const PluginExtension& extension : device.plugin().tables().extensions) {
    if (extension.name != name || extension.version != version) continue;
    uint32_t size = 0;
    std::memcpy(&size, extension.table, sizeof(size));
    *out = {};
    std::memcpy(out, extension.table, std::min<size_t>(size, sizeof(Table)));
    return out;
  }
  return nullptr;
}

struct DigitImages {
  std::vector<float> pixels;  // 64 each
  std::vector<int64_t> labels;
};

inline DigitImages read_digit_images() {
  const NpzFile file(BP_DIGITS_DIR "/heldout.npz");
  return {file.read<float>("image", "<f4"), file.read<int64_t>("label", "<i8")};
}

class SketchTest : public testing::Test {
 protected:
  void open(const std::string& plugin, std::vector<OptionSetting> options = {}) {
    RuntimeArgs args;
    args.register_ops = register_ops;
    args.plugin_path = {BP_SKETCHES_DIR "/" + plugin, BP_PLUGIN_DIR "/cpu"};
    args.install_directory = "";
    args.options = {{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_TIMEOUT", "60"}};
    args.plugin_options = std::move(options);
    auto runtime = Runtime::create(args);
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    runtime_ = *runtime;
    auto device = runtime_->find_device(plugin + ":0");
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_ = *device;
    cpu_ = *runtime_->find_device("cpu:0");
  }

  Graph digits() {
    auto graph = load_onnx(BP_DIGITS_DIR "/digits.onnx", runtime_->registry());
    EXPECT_TRUE(graph.ok()) << graph.status().to_string();
    return std::move(*graph);
  }

  /// Images [first, first + count) of the held-out ones.
  Ref<Tensor> images(Device& device, size_t first, size_t count) {
    const float* const pixels = digit_images_.pixels.data() + first * 64;
    auto tensor = copy_from_host(device.default_stream(), BP_DTYPE_F32,
                                 {static_cast<int64_t>(count), 1, 8, 8}, pixels, MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return *tensor;
  }

  template <class T>
  Ref<Tensor> upload(uint32_t dtype, const Dims& sizes, const std::vector<T>& values) {
    auto tensor =
        copy_from_host(device_->default_stream(), dtype, sizes, values.data(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    // A captured stream waits for no work outside, and a driver call made to fail is none of these.
    EXPECT_TRUE(device_->default_stream().sync().ok());
    return *tensor;
  }

  std::vector<float> values(const Ref<Tensor>& tensor) {
    std::vector<float> result(static_cast<size_t>(tensor->element_count()));
    const Status status = copy_to_host(tensor, result.data(), result.size() * sizeof(float));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return result;
  }

  /// The highest of each ten.
  static std::vector<int64_t> predictions(const std::vector<float>& probabilities) {
    std::vector<int64_t> result;
    for (auto row = probabilities.begin(); row != probabilities.end(); row += 10) {
      result.push_back(std::max_element(row, row + 10) - row);
    }
    return result;
  }

  std::vector<float> cpu_probabilities(size_t first, size_t count) {
    if (!cpu_session_) {
      SessionArgs args;
      args.device = cpu_;
      cpu_session_ = *Session::create(*runtime_, digits(), args);
    }
    const NamedTensor input[] = {{"image", images(*cpu_, first, count)}};
    auto outputs = cpu_session_->run(input);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return values((*outputs)[0]);
  }

  static void expect_words(const Status& status, std::initializer_list<const char*> words) {
    for (const char* word : words) {
      EXPECT_NE(status.message().find(word), std::string::npos)
          << "expected '" << word << "' in: " << status.to_string();
    }
  }

  /// Driver call `nth` from now on fails.
  void inject(uint32_t kind, uint64_t nth, bp_status status = BP_INTERNAL) {
    bp_test_inject_api table;
    ASSERT_NE(find_table(*device_, BP_TEST_INJECT_NAME, BP_TEST_INJECT_VERSION, &table), nullptr);
    const bp_inject_args args{sizeof(args), 0, kind, status, nth};
    ASSERT_EQ(table.inject_arm(device_->plugin().instance(), &args), BP_OK);
  }

  const DigitImages digit_images_ = read_digit_images();
  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
  Device* cpu_ = nullptr;
  Ref<Session> cpu_session_;
};

}  // namespace bp

#endif
