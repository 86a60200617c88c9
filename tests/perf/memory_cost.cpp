// SPDX-License-Identifier: Apache-2.0
//
// What the core's allocator costs beside malloc, alone and beside another thread; and how much it
// reserves for the requests of a real run (allocations.txt, which record_allocations.cpp wrote).
#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "tests/perf/core_fixture.hpp"

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
BENCHMARK(malloc_and_free)->UseRealTime();

void take_and_free(Allocator& allocator, Allocator::Pool& pool) {
  Block* block = must(allocator.allocate(kBytes, MemoryTag::kActivations, pool));
  benchmark::DoNotOptimize(block);
  allocator.free(block);
}

void allocator_hit(benchmark::State& state) {
  const Fixture f;
  Allocator& allocator = f.device->allocator();
  Allocator::Pool& pool = f.device->default_stream().pool();
  for (auto _ : state) take_and_free(allocator, pool);
}
BENCHMARK(allocator_hit)->UseRealTime();

/// Two threads do the same, and one of them is timed: nanoseconds per call of one thread.
void allocator_hit_of_two(benchmark::State& state) {
  const Fixture f;
  Allocator& allocator = f.device->allocator();
  Allocator::Pool& pool = f.device->default_stream().pool();
  std::atomic<bool> running{false};
  std::jthread other([&](const std::stop_token& stop) {
    take_and_free(allocator, pool);
    running.store(true, std::memory_order_relaxed);  // once: the timed thread's stack is near
    while (!stop.stop_requested()) take_and_free(allocator, pool);
  });
  while (!running.load(std::memory_order_relaxed)) std::this_thread::yield();
  for (auto _ : state) take_and_free(allocator, pool);
}
BENCHMARK(allocator_hit_of_two)->UseRealTime();

/// One request after the other: the bytes of a new block, or the end of an earlier one.
struct TraceStep {
  uint64_t bytes = 0;  // 0: an end
  size_t ended = 0;    // which request's block, counted from 0
};

/// Numbers between spaces: n > 0 asks for n bytes, n <= 0 gives the block of request -n back.
std::vector<TraceStep> read_trace() {
  std::ifstream file(BP_ALLOCATIONS);
  std::vector<TraceStep> trace;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream numbers(line);
    for (int64_t number = 0; numbers >> number;) {
      if (number > 0) trace.push_back({.bytes = static_cast<uint64_t>(number)});
      if (number <= 0) trace.push_back({.ended = static_cast<size_t>(-number)});
    }
  }
  if (trace.empty()) give_up(Status(BP_UNAVAILABLE, BP_ALLOCATIONS ": expected numbers"));
  return trace;
}

/// Where a best-fit allocator over one growing range would put a block.
uint64_t best_fit(const std::map<uint64_t, uint64_t>& live, uint64_t bytes) {
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
  return best == UINT64_MAX ? at : best;
}

/// Memory that such an allocator needs: the bound to compare with.
uint64_t best_fit_peak(const std::vector<TraceStep>& trace) {
  std::map<uint64_t, uint64_t> live;  // offset, end
  std::vector<uint64_t> places;       // of each request
  uint64_t peak = 0;
  for (const TraceStep& step : trace) {
    if (step.bytes == 0) {
      live.erase(places.at(step.ended));
      continue;
    }
    const uint64_t bytes = (step.bytes + 255) / 256 * 256;
    const uint64_t at = best_fit(live, bytes);
    places.push_back(at);
    live.emplace(at, at + bytes);
    peak = std::max(peak, at + bytes);
  }
  return peak;
}

void fragmentation(benchmark::State& state) {
  const Fixture f;
  const std::vector<TraceStep> trace = read_trace();
  Allocator& allocator = f.device->allocator();
  int key = 0;
  Allocator::Pool& pool = allocator.pool(&key);
  const uint64_t before = allocator.stats().reserved_bytes;
  for (auto _ : state) {
    std::vector<Block*> blocks;
    for (const TraceStep& step : trace) {
      if (step.bytes == 0) {
        allocator.free(std::exchange(blocks.at(step.ended), nullptr));
      } else {
        blocks.push_back(must(allocator.allocate(step.bytes, MemoryTag::kActivations, pool)));
      }
    }
    for (Block* block : blocks) {
      if (block != nullptr) allocator.free(block);
    }
  }
  const auto reserved = static_cast<double>(allocator.stats().peak_reserved_bytes - before);
  state.counters["peak_ratio"] = reserved / static_cast<double>(best_fit_peak(trace));
  state.counters["peak_mib"] = reserved / (1 << 20);
}
BENCHMARK(fragmentation)->Iterations(1);

}  // namespace
}  // namespace bp

BENCHMARK_MAIN();
