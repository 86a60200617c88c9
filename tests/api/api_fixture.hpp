// SPDX-License-Identifier: Apache-2.0
//
// For tests of the C++ API, through the library as an application has it: a Runtime over this
// build's plugins, once per device.
#ifndef BACKPLANE_TESTS_API_API_FIXTURE_HPP
#define BACKPLANE_TESTS_API_API_FIXTURE_HPP

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backplane/ops.hpp"
#include "tests/plugins.hpp"

namespace bp {

inline constexpr std::chrono::seconds kTestDeadline{60};
inline constexpr int kChainNodes = 2000;  // of chain.onnx

inline std::string model_path(const std::string& name) {
  return std::string(BP_API_MODELS) + "/" + name + ".onnx";
}

/// The parameter is a device name; the test is skipped where that device is not on this machine.
class ApiTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { open({{"BACKPLANE_FALLBACK", "allow"}}); }

  void open(const std::map<std::string, std::string>& options) {
    RuntimeOptions args;
    args.install_dir = BP_PLUGIN_DIR;
    args.options = options;
    runtime_ = Runtime::create(args);
    try {
      device_ = runtime_->device(GetParam());
    } catch (const Error& error) {
      if (!tests::is_absent(GetParam(), error.status())) throw;
      GTEST_SKIP() << error.what();
    }
  }
  Session load(const std::string& model, SessionOptions options = {}) {
    if (options.device.empty() && options.devices.empty()) options.device = GetParam();
    return Session::load(*runtime_, model_path(model), options);
  }
  Tensor make(const std::vector<float>& values, std::initializer_list<int64_t> sizes) {
    return Tensor::from_host<float>(device_, values, sizes);
  }

  std::optional<Runtime> runtime_;
  Device device_;
};

/// What the function throws, as a status; BP_OK if nothing.
template <class Function>
bpa_status status_of(Function function, std::string* out_words = nullptr) {
  try {
    function();
  } catch (const Error& error) {
    if (out_words != nullptr) *out_words = error.what();
    return error.status();
  }
  return BP_OK;
}

inline std::string device_name_of(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

}  // namespace bp

#endif
