// SPDX-License-Identifier: Apache-2.0
//
// A counter of those inside, and exit handlers: one behind the statics of each implementation,
// since handlers run in reverse of their registration.
#include "exit_gate.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace bp::cpu {
namespace {

constexpr std::chrono::seconds kLongestWait{5};

constinit std::atomic<int> inside{0};
constinit std::atomic<bool> closed{false};

void close_gate() {
  closed = true;
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (inside > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace

void watch_exit(const std::string& implementation) {
  static std::mutex mutex;
  static auto* const watched = new std::set<std::string>();  // outlives all exit handlers
  const std::lock_guard lock(mutex);
  if (watched->insert(implementation).second && std::atexit(close_gate) != 0) {
    watched->erase(implementation);
  }
}

ExitGate::ExitGate() {
  ++inside;
  open_ = !closed;
}

ExitGate::~ExitGate() { --inside; }

}  // namespace bp::cpu
