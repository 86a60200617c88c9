// SPDX-License-Identifier: Apache-2.0
//
// The shortest useful program: pick a device, run operators, run a model. The README shows these
// lines; the tests compile and run them.
//   first DEVICE MODEL
#include <cstdio>

#include "backplane/ops.hpp"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: first DEVICE MODEL\n", stderr);
    return 2;
  }
  const std::vector<float> data{-1, 2, -3, 4}, image(64, 0.5f);

  auto rt = bp::Runtime::create();  // finds and loads plugins
  auto dev = rt.device(argv[1]);    // the error lists what there is
  auto a = bp::Tensor::from_host<float>(dev, data, {2, 2});
  auto b = bp::relu(bp::matmul(a, a));                         // on the device's default stream
  for (float x : b.to_vector<float>()) std::printf("%g ", x);  // waits; errors surface here
  auto s = bp::Session::load(rt, argv[2], {.device = argv[1]});
  auto y = s.run({{"image", bp::Tensor::from_host<float>(dev, image, {1, 1, 8, 8})}});

  std::printf("\n%s\n", y.begin()->first.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "first: %s\n", error.what());
  return 1;
}
