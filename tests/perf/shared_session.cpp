// SPDX-License-Identifier: Apache-2.0
//
// Runs of digits within a window of time, by threads that share a session:
//   shared_session THREADS BEGIN_NS END_NS     (of the steady clock, which all processes share)
// Prints how many runs began and ended within it. Not google-benchmark: what several processes do
// at once can only be added up over one window, and each of its programs times one of its own.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/perf/model.hpp"

namespace bp {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t runs_within(const Model& model, Clock::time_point begin, Clock::time_point end) {
  for (int i = 0; i < 20; ++i) must(model.session->run(model.inputs));
  if (Clock::now() >= begin) give_up(Status(BP_TIMEOUT, "the window began before all was ready"));
  std::this_thread::sleep_until(begin);
  uint64_t count = 0;
  while (true) {
    must(model.session->run(model.inputs));
    if (Clock::now() >= end) return count;
    ++count;
  }
}

int run(int thread_count, Clock::time_point begin, Clock::time_point end) {
  const Model model(BP_DIGITS_DIR "/digits.onnx", {{"cpu.threads", "1"}});
  std::atomic<uint64_t> count{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] { count += runs_within(model, begin, end); });
  }
  threads.clear();
  std::printf("%llu\n", static_cast<unsigned long long>(count.load()));
  return 0;
}

}  // namespace
}  // namespace bp

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: shared_session THREADS BEGIN_NS END_NS\n");
    return 2;
  }
  const auto time = [&](int index) {
    const std::chrono::nanoseconds since_epoch(std::strtoll(argv[index], nullptr, 10));
    return bp::Clock::time_point(since_epoch);
  };
  return bp::run(std::atoi(argv[1]), time(2), time(3));
}
