// SPDX-License-Identifier: Apache-2.0
//
// A program that is timed in turns with others: it makes ready, says so, and then runs for as long
// as each line of its input says. sides.py is at the other end.
#ifndef BACKPLANE_TESTS_PERF_TURNS_HPP
#define BACKPLANE_TESTS_PERF_TURNS_HPP

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace perf {

inline uint64_t nanoseconds_since(std::chrono::steady_clock::time_point begin) {
  const auto taken = std::chrono::steady_clock::now() - begin;
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
}

/// Answers "go SECONDS" lines until the input ends: runs `once` at least three times and for as
/// long, after one run that wakes threads and does not count. `ready`: JSON members for the first
/// line that is printed.
template <class Once>
void serve_turns(const std::string& ready, Once once) {
  constexpr size_t kFewestRuns = 3;
  std::printf("{%s}\n", ready.c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line.starts_with("go ");) {
    const double wanted_ns = std::strtod(line.c_str() + 3, nullptr) * 1e9;
    std::vector<uint64_t> laps;
    once();
    const auto begin = std::chrono::steady_clock::now();
    while (laps.size() < kFewestRuns || static_cast<double>(nanoseconds_since(begin)) < wanted_ns) {
      const auto lap = std::chrono::steady_clock::now();
      once();
      laps.push_back(nanoseconds_since(lap));
    }
    std::printf("{\"latency_ns\": [");
    for (size_t i = 0; i < laps.size(); ++i) {
      std::printf(i == 0 ? "%llu" : ", %llu", static_cast<unsigned long long>(laps[i]));
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }
}

}  // namespace perf

#endif
