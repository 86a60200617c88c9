// SPDX-License-Identifier: Apache-2.0
//
// What a run costs, through bpa_session_run: per node of a chain that computes nearly nothing, a
// tiny MLP, digits at batch 1 on each device. The models come from the environment variables
// BP_BENCH_CHAIN, BP_BENCH_MLP and BP_BENCH_DIGITS, which report.py sets.
#include "tests/perf/model.hpp"

namespace perf {
namespace {

void run_model(benchmark::State& state, const char* variable, const std::string& device) {
  const std::string path = setting(variable, "");
  if (path.empty()) {
    state.SkipWithError((std::string(variable) + " is not set, expected a model file").c_str());
    return;
  }
  const Model model(path, device);
  Run run(model);
  run.once();
  for (auto _ : state) run.once();
}

void chain_1000_adds(benchmark::State& state) { run_model(state, "BP_BENCH_CHAIN", "cpu:0"); }
void mlp_tiny(benchmark::State& state) { run_model(state, "BP_BENCH_MLP", "cpu:0"); }
void digits_cpu(benchmark::State& state) { run_model(state, "BP_BENCH_DIGITS", "cpu:0"); }
void digits_npu(benchmark::State& state) { run_model(state, "BP_BENCH_DIGITS", "npu:0"); }
void digits_xpu(benchmark::State& state) { run_model(state, "BP_BENCH_DIGITS", "xpu:0"); }
BENCHMARK(chain_1000_adds);
BENCHMARK(mlp_tiny);
BENCHMARK(digits_cpu);
BENCHMARK(digits_npu)->UseRealTime();
BENCHMARK(digits_xpu)->UseRealTime();

}  // namespace
}  // namespace perf

PERF_MAIN()
