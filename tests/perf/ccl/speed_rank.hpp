// SPDX-License-Identifier: Apache-2.0
//
// One rank of one side of the comparison of collectives. It is idle until it is told what to do, so
// that the sides take turns on the same processors: a line "COMMAND BYTES ITERATIONS" comes from
// PREFIX.RANK.in, and a figure, mostly the nanoseconds of one operation, or why there is none, goes
// to PREFIX.RANK.out.
#ifndef BACKPLANE_TESTS_PERF_CCL_SPEED_RANK_HPP
#define BACKPLANE_TESTS_PERF_CCL_SPEED_RANK_HPP

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace perf {

using Clock = std::chrono::steady_clock;

/// Gives a figure, or throws why there is none.
using Command = std::function<double(uint64_t bytes, uint64_t iterations)>;
using Commands = std::map<std::string, Command>;

/// A side runs out of place, `count` floats.
struct Side {
  /// Gives this rank's memory for so many floats: what is sent, and what is received.
  std::function<float*(uint64_t count)> send;
  std::function<float*(uint64_t count)> recv;
  /// The sum of all ranks; waits until it is done.
  std::function<void(uint64_t count)> all_reduce;
  std::function<void()> barrier;
};

inline void pin_to_processor(uint32_t number) {
  cpu_set_t all;
  CPU_ZERO(&all);
  CPU_SET(number, &all);
  if (sched_setaffinity(0, sizeof(all), &all) != 0) {
    throw std::runtime_error("cannot run on processor " + std::to_string(number) + " alone");
  }
}

template <class Body>
double nanoseconds_of(uint64_t iterations, Body body) {
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < iterations; ++i) body();
  const std::chrono::duration<double, std::nano> all = Clock::now() - begin;
  return all.count() / static_cast<double>(iterations);
}

/// What element `i` of a rank is, exact in f32 also as a sum. Each turn has other values.
inline float value_of(uint64_t i, uint32_t rank, uint64_t turn = 0) {
  return static_cast<float>((i + turn) % 1021) + static_cast<float>(rank) * 1024;
}

/// Calls behind those that are timed, whose results are looked at.
constexpr uint64_t kCheckedCalls = 3;

/// Empty, or the first element that `expected` says otherwise.
template <class Expected>
std::string wrong_value(const float* values, uint64_t count, Expected expected) {
  for (uint64_t i = 0; i < count; ++i) {
    if (values[i] == expected(i)) continue;
    return "wrong value at element " + std::to_string(i) + ": expected " +
           std::to_string(expected(i)) + ", found " + std::to_string(values[i]);
  }
  return "";
}

/// Of one that is called once more with the values of each turn, and with what it gave before
/// cleared: a result that is right may be an earlier call's. Throws only when all calls are over,
/// since the other rank waits in them.
template <class Call, class Expected>
void check_calls(float* send, float* recv, uint64_t count, uint32_t rank, Call call,
                 Expected expected) {
  std::string problem = wrong_value(recv, count, [&](uint64_t i) { return expected(i, 0); });
  for (uint64_t turn = 1; turn <= kCheckedCalls; ++turn) {
    for (uint64_t i = 0; i < count; ++i) send[i] = value_of(i, rank, turn);
    std::memset(recv, 0, count * sizeof(float));
    call();
    if (!problem.empty()) continue;
    problem = wrong_value(recv, count, [&](uint64_t i) { return expected(i, turn); });
  }
  if (!problem.empty()) throw std::runtime_error(problem);
}

inline double time_all_reduce(const Side& side, uint32_t rank, uint64_t bytes,
                              uint64_t iterations) {
  const uint64_t count = bytes / sizeof(float);
  float* const send = side.send(count);
  float* const recv = side.recv(count);
  for (uint64_t i = 0; i < count; ++i) send[i] = value_of(i, rank);
  std::memset(recv, 0, bytes);
  for (uint64_t i = 0; i < 1 + iterations / 10; ++i) side.all_reduce(count);  // warm
  std::memset(recv, 0, bytes);
  side.barrier();
  const double each = nanoseconds_of(iterations, [&] { side.all_reduce(count); });
  check_calls(
      send, recv, count, rank, [&] { side.all_reduce(count); },
      [](uint64_t i, uint64_t turn) { return value_of(i, 0, turn) + value_of(i, 1, turn); });
  return each;
}

/// Tells how quick the machine is just now.
inline double time_memcpy(uint64_t bytes, uint64_t iterations) {
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  std::memcpy(to.data(), from.data(), bytes);
  return nanoseconds_of(iterations, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
}

/// Of two ranks.
inline Commands commands_of(const Side& side, uint32_t rank) {
  return {{"memcpy", time_memcpy}, {"all_reduce", [=](uint64_t bytes, uint64_t iterations) {
                                      return time_all_reduce(side, rank, bytes, iterations);
                                    }}};
}

/// Until the line "end" comes, or no more lines.
inline void serve(const Commands& commands, const std::string& prefix, uint32_t rank) {
  const std::string place = prefix + "." + std::to_string(rank);
  std::ifstream in(place + ".in");
  std::ofstream out(place + ".out");
  out << "ready" << std::endl;
  std::string what;
  uint64_t bytes = 0;
  uint64_t iterations = 0;
  while (in >> what && what != "end" && in >> bytes >> iterations) {
    try {
      const auto found = commands.find(what);
      if (found == commands.end()) throw std::runtime_error("unknown command " + what);
      out << found->second(bytes, iterations) << std::endl;
    } catch (const std::exception& error) {
      out << "error " << error.what() << std::endl;
    }
  }
}

}  // namespace perf

#endif
