// SPDX-License-Identifier: Apache-2.0
//
// A lock for a handful of instructions that hardly ever meet: it costs half of a mutex, whose
// unlock has to look for sleepers. A waiting thread gives the processor away, so that a holder that
// was interrupted comes to its end.
#ifndef BACKPLANE_CORE_BASE_SPIN_LOCK_HPP
#define BACKPLANE_CORE_BASE_SPIN_LOCK_HPP

#include <atomic>
#include <chrono>
#include <thread>

namespace bp {

/// For std::lock_guard. Not recursive, not fair. Nothing that waits, allocates or calls foreign
/// code may happen while it is held.
class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) [[unlikely]] wait();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline]] void wait() const {
    for (int i = 0; held_.load(std::memory_order_relaxed); ++i) {
      if (i < kYields) {
        std::this_thread::yield();
      } else {  // a holder of lower priority runs only while no thread above it does
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  static constexpr int kYields = 1000;
  std::atomic<bool> held_{false};
};

}  // namespace bp

#endif
