// SPDX-License-Identifier: Apache-2.0
//
// What the scenarios of lifecycle_scenario share: their arguments, a check that ends the process
// with words, a Runtime with one device (and the host device for what it lacks), and work that is
// still in the queue when the scenario does its worst.
#ifndef BACKPLANE_TESTS_LIFECYCLE_RIG_HPP
#define BACKPLANE_TESTS_LIFECYCLE_RIG_HPP

#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backplane/ops.hpp"

namespace bp::life {

/// Exit codes of a scenario that ended as it wanted to, and of one whose check failed.
constexpr int kExitWanted = 7;
constexpr int kExitFailed = 99;

/// From the command line, once: lifecycle_scenario NAME DEVICE DEVICE_FOLDER HOST_FOLDER MODEL
/// [COUNT].
struct Arguments {
  std::string device;         // "npu:0"
  std::string device_folder;  // of its plugin
  std::string host_folder;    // of the host device's plugin
  std::string model;          // an ONNX file: input image f32 [N, 1, 8, 8]
  int count = 0;
};
const Arguments& arguments();

#define LIFE_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::fflush(nullptr);                                                              \
      _exit(::bp::life::kExitFailed);                                                    \
    }                                                                                    \
  } while (false)

inline RuntimeOptions runtime_options() {
  RuntimeOptions options;
  options.plugin_path = arguments().device_folder;
  options.install_dir = arguments().host_folder;
  options.options["BACKPLANE_FALLBACK"] = "allow";
  return options;
}

constexpr int64_t kPendingSize = int64_t{1} << 16;

/// `steps` operators one after the other, not waited for. All values are 1.
inline Tensor pending_work(Device device, int steps = 60) {
  Tensor x =
      Tensor::from_host<float>(device, std::vector<float>(kPendingSize, 1.0f), {kPendingSize});
  for (int i = 0; i < steps; ++i) x = relu(x);
  return x;
}

inline void check_ones(const Tensor& tensor) {
  for (const float value : tensor.to_vector<float>()) LIFE_CHECK(value == 1.0f);
}

inline std::map<std::string, Tensor> model_inputs(Device device) {
  return {{"image", Tensor::from_host<float>(device, std::vector<float>(64, 0.5f), {1, 1, 8, 8})}};
}

inline std::shared_ptr<bpa_cancel> make_cancel() {
  bpa_cancel* cancel = nullptr;
  LIFE_CHECK(bpa_cancel_create(&cancel) == BP_OK);
  return {cancel, bpa_cancel_release};
}

/// Queues a run of the session; `callback` gets what bpa_run_callback does.
inline bpa_status run_async(const Session& session, const std::map<std::string, Tensor>& inputs,
                            bpa_run_callback callback, void* user) {
  const Tensor& image = inputs.at("image");
  const char* const names[] = {"image"};
  const bpa_tensor* const tensors[] = {image.handle()};
  bpa_run_args args{};
  args.struct_size = sizeof(args);
  args.input_names = names;
  args.inputs = tensors;
  args.input_count = 1;
  return bpa_session_run_async(session.handle(), &args, callback, user);
}

// Each file of scenarios has one entry: runs the scenario of that name; false: not one of its own.
bool run_exit_scenario(const std::string& name);
bool run_fork_scenario(const std::string& name);
bool run_close_scenario(const std::string& name);

}  // namespace bp::life

#endif
