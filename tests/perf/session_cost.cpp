// SPDX-License-Identifier: Apache-2.0
//
// What a run costs: per node of a chain that computes nearly nothing, a tiny MLP, digits at batch
// 1, and many threads on one session. The models come from the environment variables
// BP_BENCH_MLP and BP_BENCH_CHAIN (report.py makes them); a benchmark without its model is skipped.
#include "core/execute/session.hpp"
#include "ops/onnx/import.hpp"
#include "tests/perf/support.hpp"

namespace bp {
namespace {

struct Model {
  Fixture fixture;
  Ref<Session> session;
  std::vector<NamedTensor> inputs;

  explicit Model(const std::string& path, const std::vector<OptionSetting>& options = {})
      : fixture("cpu:0", options) {
    SessionArgs args;
    args.device = fixture.device;
    Graph graph = must(load_onnx(path, fixture.runtime->registry()));
    session = must(Session::create(*fixture.runtime, std::move(graph), args));
    for (const SessionIo& io : session->inputs()) {
      Dims sizes = io.sizes;
      for (int64_t& size : sizes) size = is_known(size) ? size : 1;
      inputs.emplace_back(io.name, fixture.ones(sizes));
    }
  }
};

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

// Google-benchmark's threads share the session; report.py compares with as many processes.
void digits_shared_session(benchmark::State& state) {
  static const Model model(BP_DIGITS_DIR "/digits.onnx", {{"cpu.threads", "1"}});
  for (auto _ : state) benchmark::DoNotOptimize(must(model.session->run(model.inputs)));
}
BENCHMARK(digits_shared_session)->Threads(8)->UseRealTime();
BENCHMARK(digits_shared_session)->Threads(1)->UseRealTime();

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
