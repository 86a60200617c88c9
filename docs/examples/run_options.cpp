// SPDX-License-Identifier: Apache-2.0
//
// A session with everything said: devices in order of preference, a memory limit, equal bits on a
// rerun; a run with its output bound and a deadline; one whose result comes as a future.
//   run_options DEVICE MODEL
#include <cstdio>

#include "backplane/ops.hpp"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: run_options DEVICE MODEL\n", stderr);
    return 2;
  }
  auto rt = bp::Runtime::create();
  auto dev = rt.device(argv[1]);
  for (const bp::Feature& feature : dev.features()) {
    const char* const states[] = {"absent", "emulated", "native"};
    std::printf("%s: %s\n", feature.name.c_str(), states[feature.state]);
  }

  bp::SessionOptions options;
  options.devices = {argv[1]};
  if (options.devices[0] != "cpu:0") options.devices.push_back("cpu:0");  // for what it lacks
  options.deterministic = true;
  options.memory_limit_bytes = uint64_t{64} << 20;
  auto session = bp::Session::load(rt, argv[2], options);
  const bp::Io input = session.inputs().at(0);
  const bp::Io output = session.outputs().at(0);
  std::printf("input %s of rank %zu\n", input.name.c_str(), input.sizes.size());

  const std::vector<float> pixels(64, 0.5f);
  const bp::NamedTensors inputs = {
      {input.name, bp::Tensor::from_host<float>(dev, pixels, {1, 1, 8, 8})}};
  const auto scores = bp::Tensor::create(dev, BP_DTYPE_F32, {1, 10});
  session.run(inputs, {.outputs = {{output.name, scores}}, .timeout = std::chrono::minutes(1)});

  auto later = session.run_async(inputs);
  const bool equal = later.get().at(output.name).to_vector<float>() == scores.to_vector<float>();
  std::printf("two runs, %s bits\n", equal ? "equal" : "other");

  const auto cancel = bp::Cancel::create();
  cancel.request();
  try {
    session.run(inputs, {.cancel = cancel});
  } catch (const bp::Error& error) {
    std::printf("%s\n", error.what());
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "run_options: %s\n", error.what());
  return 1;
}
