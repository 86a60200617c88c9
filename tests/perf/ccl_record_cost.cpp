// SPDX-License-Identifier: Apache-2.0
//
// What recording costs for each operation, with the clock read for it three times, twice as a group
// does (a call has its time for the deadline, and begins at once), and not at all. The goal is
// 100 ns for the second.
#include <benchmark/benchmark.h>

#include "ccl/watch/recorder.hpp"

namespace bp::ccl {
namespace {

RecordEntry all_reduce() {
  RecordEntry entry;
  entry.operation = {Kind::kAllReduce, BP_DTYPE_F32, Reduction::kSum, 0, 1024, false};
  entry.send_bytes = entry.recv_bytes = 4096;
  return entry;
}

template <class RecordOne>
void record(benchmark::State& state, RecordOne record_one) {
  Recorder recorder;
  RecordEntry entry = all_reduce();
  for (auto _ : state) {
    ++entry.sequence;
    record_one(recorder, entry);
  }
}

void three_clocks(benchmark::State& state) {
  record(state, [](Recorder& recorder, const RecordEntry& entry) {
    const uint64_t id = recorder.begin(entry);
    recorder.started(id);
    recorder.completed(id, BP_OK);
  });
}

void two_clocks(benchmark::State& state) {
  record(state, [](Recorder& recorder, const RecordEntry& entry) {
    const auto now = Recorder::Clock::now();
    const uint64_t id = recorder.begin(entry, now);
    recorder.started(id, now);
    recorder.completed(id, BP_OK);
  });
}

void no_clock(benchmark::State& state) {
  const auto now = Recorder::Clock::now();
  record(state, [now](Recorder& recorder, const RecordEntry& entry) {
    const uint64_t id = recorder.begin(entry, now);
    recorder.started(id, now);
    recorder.completed(id, BP_OK, now);
  });
}

void clock_alone(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Recorder::Clock::now());
}

BENCHMARK(three_clocks);
BENCHMARK(two_clocks);
BENCHMARK(no_clock);
BENCHMARK(clock_alone);

}  // namespace
}  // namespace bp::ccl

BENCHMARK_MAIN();
