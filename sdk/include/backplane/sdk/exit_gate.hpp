// SPDX-License-Identifier: Apache-2.0
//
// For plugins over a library that keeps its state in statics (compilers and code generators do):
// exit() destroys them while threads that were not ended may still be inside that library. The gate
// makes exit() wait for those inside and turns away who comes later.
#ifndef BACKPLANE_SDK_EXIT_GATE_HPP
#define BACKPLANE_SDK_EXIT_GATE_HPP

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "backplane/sdk/sdk.hpp"

namespace bp::sdk {

/// Being inside the library, as long as it lives. One gate per plugin (its library hides symbols).
/// Any thread, nested as deep as you like; two atomic additions.
class ExitGate {
 public:
  ExitGate() {
    ++inside_;
    open_ = !closed_;
  }
  ~ExitGate() { --inside_; }
  ExitGate(const ExitGate&) = delete;
  ExitGate& operator=(const ExitGate&) = delete;

  /// False: the process is ending, and the library must not be called any more.
  bool open() const { return open_; }
  /// Throws Failure with BP_UNAVAILABLE unless open().
  void require_open() const {
    if (!open_) throw Failure{BP_UNAVAILABLE, "the process is ending"};
  }

  /// To be called once `what` has made its statics: from then on exit() waits for those inside, 5 s
  /// at most (all of them where one inside called exit() itself, from a log sink), before it
  /// destroys them. Exit handlers run in reverse of their registration, hence one call for each
  /// part of a library that makes statics of its own; further calls do nothing.
  static void watch(std::string_view what) {
    static std::mutex mutex;
    static auto* const watched = new std::set<std::string, std::less<>>();  // outlives all handlers
    const std::lock_guard lock(mutex);
    if (watched->empty()) process_ = current_process();
    if (watched->contains(what) || std::atexit(close) != 0) return;
    watched->emplace(what);
  }

 private:
  static void close() {
    closed_ = true;
    // In a forked child those inside are threads that it does not have.
    if (current_process() != process_) return;
    static const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (inside_ > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  static long current_process() {
#if defined(__unix__) || defined(__APPLE__)
    return static_cast<long>(getpid());
#else
    return 0;
#endif
  }

  static constinit inline std::atomic<int> inside_{0};
  static constinit inline std::atomic<long> process_{0};
  static constinit inline std::atomic<bool> closed_{false};
  bool open_;
};

}  // namespace bp::sdk

#endif
