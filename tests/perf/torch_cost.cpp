// SPDX-License-Identifier: Apache-2.0
//
// What the eager add is compared with: libtorch's, from C++, without gradients, on one thread.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

namespace {

void torch_add(benchmark::State& state) {
  at::set_num_threads(1);
  const c10::InferenceMode guard;
  const at::Tensor a = at::ones({1});
  const at::Tensor b = at::ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, b));
}
BENCHMARK(torch_add);

}  // namespace

BENCHMARK_MAIN();
