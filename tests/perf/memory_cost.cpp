// SPDX-License-Identifier: Apache-2.0
//
// What the allocator costs beside malloc, alone, with two threads, and for memory that another
// stream has used; and how much it reserves on a trace like BERT's.
#include <algorithm>
#include <map>
#include <random>

#include "tests/perf/support.hpp"

namespace bp {
namespace {

constexpr uint64_t kBytes = 1024;

void malloc_and_free(benchmark::State& state) {
  for (auto _ : state) {
    void* memory = std::malloc(kBytes);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}
BENCHMARK(malloc_and_free);

void allocator_hit(benchmark::State& state) {
  static const Fixture f;
  Allocator& allocator = f.device->allocator();
  Allocator::Pool& pool = f.device->default_stream().pool();
  for (auto _ : state) {
    Block* block = must(allocator.allocate(kBytes, MemoryTag::kActivations, pool));
    benchmark::DoNotOptimize(block);
    allocator.free(block);
  }
}
BENCHMARK(allocator_hit);
BENCHMARK(allocator_hit)->Threads(2)->UseRealTime();

// On a queued device, whose storages carry marks.
void storage_free(benchmark::State& state, bool foreign) {
  const Fixture f("npu:0");
  Stream& home = f.device->default_stream();
  Stream& other = *must(f.device->acquire_stream());
  const Ref<Tensor> x = f.ones({64});
  Tensor* inputs[] = {x.get()};
  const OpId relu = f.op("relu");
  for (auto _ : state) {
    state.PauseTiming();
    Ref<Tensor> y = f.call(relu, inputs, nullptr, &home);
    Tensor* made[] = {y.get()};
    Ref<Tensor> z = f.call(relu, made, nullptr, foreign ? &other : &home);
    must(home.sync());
    must(other.sync());
    state.ResumeTiming();
    y = nullptr;
  }
  f.device->release_stream(&other);
}
void free_plain(benchmark::State& state) { storage_free(state, false); }
void free_after_foreign_use(benchmark::State& state) { storage_free(state, true); }
BENCHMARK(free_plain)->Iterations(3000);
BENCHMARK(free_after_foreign_use)->Iterations(3000);

struct TraceStep {
  uint64_t bytes;
  size_t lives_for;  // steps
};

// Twelve layers of an encoder (768 wide, 12 heads) at batch 4 over sequence lengths that change
// from run to run: the sizes and lifetimes of its activations, in order.
std::vector<TraceStep> encoder_trace() {
  std::vector<TraceStep> trace;
  std::mt19937 random(7);
  for (int run = 0; run < 24; ++run) {
    const uint64_t length = 16 + random() % 240;
    const uint64_t hidden = 4 * length * 768 * 4;
    const uint64_t scores = 4 * 12 * length * length * 4;
    for (int layer = 0; layer < 12; ++layer) {
      trace.push_back({hidden, 14});                                 // residual
      for (int i = 0; i < 3; ++i) trace.push_back({hidden, 4});      // query, key, value
      for (int i = 0; i < 2; ++i) trace.push_back({scores, 2});      // scores, softmax
      for (int i = 0; i < 2; ++i) trace.push_back({hidden, 2});      // context, projection
      trace.push_back({hidden, 4});                                  // norm
      for (int i = 0; i < 2; ++i) trace.push_back({4 * hidden, 2});  // wide, gelu
      trace.push_back({4 * length * 4, 3});                          // a mask
      for (int i = 0; i < 2; ++i) trace.push_back({hidden, 2});      // narrow, sum
    }
  }
  return trace;
}

/// Memory that a best-fit allocator over one growing range needs: the bound to compare with.
uint64_t best_fit_peak(const std::vector<TraceStep>& trace) {
  std::map<uint64_t, uint64_t> live;  // offset, end
  std::multimap<size_t, uint64_t> ends;
  uint64_t peak = 0;
  for (size_t step = 0; step < trace.size(); ++step) {
    const auto done = ends.equal_range(step);
    for (auto end = done.first; end != done.second; ++end) live.erase(end->second);
    ends.erase(step);
    const uint64_t bytes = (trace[step].bytes + 255) / 256 * 256;
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;
    uint64_t at = 0;
    for (const auto& [begin, end] : live) {
      const uint64_t gap = begin - at;
      if (gap >= bytes && gap < best_gap) {
        best = at;
        best_gap = gap;
      }
      at = end;
    }
    if (best == UINT64_MAX) best = at;
    live.emplace(best, best + bytes);
    ends.emplace(step + trace[step].lives_for, best);
    peak = std::max(peak, best + bytes);
  }
  return peak;
}

void fragmentation(benchmark::State& state) {
  const Fixture f;
  const std::vector<TraceStep> trace = encoder_trace();
  Allocator& allocator = f.device->allocator();
  int key = 0;
  Allocator::Pool& pool = allocator.pool(&key);
  const uint64_t before = allocator.stats().reserved_bytes;
  for (auto _ : state) {
    std::multimap<size_t, Block*> ends;
    for (size_t step = 0; step < trace.size(); ++step) {
      const auto done = ends.equal_range(step);
      for (auto end = done.first; end != done.second; ++end) allocator.free(end->second);
      ends.erase(step);
      ends.emplace(step + trace[step].lives_for,
                   must(allocator.allocate(trace[step].bytes, MemoryTag::kActivations, pool)));
    }
    for (const auto& [step, block] : ends) allocator.free(block);
  }
  const auto reserved = static_cast<double>(allocator.stats().peak_reserved_bytes - before);
  state.counters["peak_ratio"] = reserved / static_cast<double>(best_fit_peak(trace));
  state.counters["peak_mib"] = reserved / (1 << 20);
}
BENCHMARK(fragmentation)->Iterations(1);

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
