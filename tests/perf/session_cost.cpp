// SPDX-License-Identifier: Apache-2.0
//
// What a run costs: per node of a chain that computes nearly nothing, a tiny MLP, digits at batch
// 1. The models come from the environment variables BP_BENCH_MLP and BP_BENCH_CHAIN (report.py
// makes them); a benchmark without its model is skipped.
#include "tests/perf/model.hpp"

namespace bp {
namespace {

void run_model(benchmark::State& state, const char* path) {
  if (path == nullptr) {
    state.SkipWithError("no model: run through tests/perf/report.py");
    return;
  }
  const Model model(path);
  for (auto _ : state) benchmark::DoNotOptimize(must(model.session->run(model.inputs)));
}

void chain_1000_adds(benchmark::State& state) { run_model(state, std::getenv("BP_BENCH_CHAIN")); }
BENCHMARK(chain_1000_adds);

void mlp_tiny(benchmark::State& state) { run_model(state, std::getenv("BP_BENCH_MLP")); }
BENCHMARK(mlp_tiny);

void digits_batch_1(benchmark::State& state) { run_model(state, BP_DIGITS_DIR "/digits.onnx"); }
BENCHMARK(digits_batch_1);

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
