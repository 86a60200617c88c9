// SPDX-License-Identifier: Apache-2.0
//
// Built against the installed tree: opens the device of a plugin in the folder given, the sample's
// unless another is named, and runs relu on it; with a third argument reduce_sum too.
#include <backplane/backplane.hpp>
#include <backplane/ops.hpp>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    bp::RuntimeOptions options;
    options.plugin_path = argv[1];
    const bp::Runtime runtime = bp::Runtime::create(options);
    const bp::Device device = runtime.device(argc > 2 ? argv[2] : "sample:0");
    const std::vector<float> values = {-1.0f, 2.0f};
    const bp::Tensor input = bp::Tensor::from_host<float>(device, values, {2});
    const bp::Tensor result = bp::relu(input);
    for (float value : result.to_vector<float>()) std::cout << value << ' ';
    std::cout << '\n';
    if (argc > 3) std::cout << "sum " << bp::reduce_sum(input).to_vector<float>()[0] << '\n';
    return 0;
  } catch (const bp::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
