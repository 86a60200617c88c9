// SPDX-License-Identifier: Apache-2.0
//
// What an operator call costs from outside, through bp::, with its output made and released; and
// what a tensor costs, alone and beside another thread that does the same.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/perf/public_fixture.hpp"
#include "tests/perf/thread_clock.hpp"

namespace perf {
namespace {

void eager_add(benchmark::State& state) {
  const Fixture f;
  const bp::Tensor a = f.ones({1});
  const bp::Tensor b = f.ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(bp::add(a, b));
}
BENCHMARK(eager_add);

void eager_relu(benchmark::State& state) {
  const Fixture f;
  const bp::Tensor a = f.ones({1});
  for (auto _ : state) benchmark::DoNotOptimize(bp::relu(a));
}
BENCHMARK(eager_relu);

void eager_sum_over_axis(benchmark::State& state) {
  const Fixture f;
  const bp::Tensor a = f.ones({2, 3});
  const bp::ReduceSumOptions over_last{.axes = {1}};
  for (auto _ : state) benchmark::DoNotOptimize(bp::reduce_sum(a, over_last));
}
BENCHMARK(eager_sum_over_axis);

void eager_transposed_view(benchmark::State& state) {
  const Fixture f;
  const bp::Tensor a = f.ones({2, 3});
  for (auto _ : state) benchmark::DoNotOptimize(bp::transpose(a));
}
BENCHMARK(eager_transposed_view);

/// A first call plans. Each Runtime has plans of its own, so each round takes a new one, whose
/// making and end are not counted.
void first_softmax(benchmark::State& state) {
  for (auto _ : state) {
    const Fixture fresh;
    const bp::Tensor x = fresh.ones({2, 3});
    benchmark::DoNotOptimize(bp::relu(x));
    const double start = thread_seconds();
    benchmark::DoNotOptimize(bp::softmax(x));
    state.SetIterationTime(thread_seconds() - start);
  }
}
BENCHMARK(first_softmax)->Iterations(20)->UseManualTime();

constexpr size_t kTensorBytes = 1024;

void make_and_release(const Fixture& f) {
  benchmark::DoNotOptimize(
      bp::Tensor::create(f.device, BP_DTYPE_F32, {int64_t{kTensorBytes / sizeof(float)}}));
}

void tensor_make_release(benchmark::State& state) {
  const Fixture f;
  for (auto _ : state) make_and_release(f);
}
BENCHMARK(tensor_make_release)->UseRealTime();

/// Two threads do the same, and one of them is timed: nanoseconds per call of one thread.
void tensor_make_release_of_two(benchmark::State& state) {
  const Fixture f;
  std::atomic<bool> running{false};
  std::jthread other([&](const std::stop_token& stop) {
    make_and_release(f);
    running.store(true, std::memory_order_relaxed);  // once: the timed thread's stack is near
    while (!stop.stop_requested()) make_and_release(f);
  });
  while (!running.load(std::memory_order_relaxed)) std::this_thread::yield();
  for (auto _ : state) make_and_release(f);
}
BENCHMARK(tensor_make_release_of_two)->UseRealTime();

/// On a queued device whose work is slow enough to be in the queue still when the tensors go: where
/// this thread was kept from its processor for so long that it is over, the round is made again.
/// The releases are timed, as many at a time as a small model has tensors, since one wait covers
/// all that goes back after the same work; what they are released under is ended outside the time.
void release_under_work(benchmark::State& state, bool foreign) {
  const Fixture f("npu:0", {{"npu.launch_latency_ns", "200000"}});
  const bp::Stream home = bp::Stream::create(f.device);
  const bp::Stream other = bp::Stream::create(f.device);
  const bp::Tensor x = f.ones({64});
  constexpr int kTensors = 32;
  constexpr int kMostTries = 20;
  for (auto _ : state) {
    std::chrono::duration<double> taken{};
    bool busy = false;
    for (int i = 0; !busy && i < kMostTries; ++i) {
      std::vector<bp::Tensor> made;
      std::vector<bp::Tensor> used;
      for (int tensor = 0; tensor < kTensors; ++tensor) {
        made.push_back(bp::relu(x, home));
        used.push_back(bp::relu(made.back(), foreign ? other : home));
      }
      const auto start = std::chrono::steady_clock::now();
      made.clear();
      taken = std::chrono::steady_clock::now() - start;
      busy = !(foreign ? other : home).done();
      home.sync();
      other.sync();
    }
    if (!busy) state.SkipWithError("the work was over before the release");
    state.SetIterationTime(taken.count() / kTensors);
  }
}
void release_after_own_use(benchmark::State& state) { release_under_work(state, false); }
void release_after_foreign_use(benchmark::State& state) { release_under_work(state, true); }
BENCHMARK(release_after_own_use)->Iterations(20)->UseManualTime();
BENCHMARK(release_after_foreign_use)->Iterations(20)->UseManualTime();

}  // namespace
}  // namespace perf

PERF_MAIN()
