// SPDX-License-Identifier: Apache-2.0
//
// Runs of digits within a window of time, by threads that share a session:
//   shared_session MODEL THREADS BEGIN_NS END_NS     (of the steady clock, which all processes
//   share)
// Prints how many runs began and ended within it. Not google-benchmark: what several processes do
// at once can only be added up over one window, and each of its programs times one of its own.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/perf/model.hpp"

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t runs_within(const Model& model, Clock::time_point begin, Clock::time_point end) {
  Run run(model);
  for (int i = 0; i < 20; ++i) run.once();
  if (Clock::now() >= begin) throw std::runtime_error("the window began before all was ready");
  std::this_thread::sleep_until(begin);
  uint64_t count = 0;
  while (true) {
    run.once();
    if (Clock::now() >= end) return count;
    ++count;
  }
}

int run_threads(const char* path, int thread_count, Clock::time_point begin,
                Clock::time_point end) {
  const Model model(path);
  std::atomic<uint64_t> count{0};
  std::atomic<bool> failed{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      try {
        count += runs_within(model, begin, end);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        failed = true;
      }
    });
  }
  threads.clear();
  if (failed) return 5;
  std::printf("%llu\n", static_cast<unsigned long long>(count.load()));
  return 0;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: shared_session MODEL THREADS BEGIN_NS END_NS\n");
    return 2;
  }
  const auto time = [&](int index) {
    const std::chrono::nanoseconds since_epoch(std::strtoll(argv[index], nullptr, 10));
    return perf::Clock::time_point(since_epoch);
  };
  try {
    return perf::run_threads(argv[1], std::atoi(argv[2]), time(3), time(4));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 5;
  }
}
