// SPDX-License-Identifier: Apache-2.0
//
// The two ways in which this module waits, both bounded by the caller's timeout: on a condition
// variable, and by asking again with growing pauses (a device that takes one call at a time must
// never be blocked in).
#ifndef BACKPLANE_CORE_EMULATION_DEADLINE_HPP
#define BACKPLANE_CORE_EMULATION_DEADLINE_HPP

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "backplane/status.h"

namespace bp {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(uint64_t timeout_ns) {
    // A timeout of 146 years or more counts as for ever, so that the sum cannot overflow.
    if (timeout_ns < uint64_t{1} << 62) {
      at_ = Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(timeout_ns));
    }
  }

  bool passed() const { return at_.has_value() && Clock::now() >= *at_; }

  /// False: the deadline passed and `ready` still answers false.
  template <class Ready>
  bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            Ready ready) const {
    if (at_.has_value()) return changed.wait_until(lock, *at_, ready);
    changed.wait(lock, ready);
    return true;
  }

  void sleep_at_most(Clock::duration pause) const {
    if (at_.has_value()) pause = std::min(pause, *at_ - Clock::now());
    std::this_thread::sleep_for(pause);
  }

 private:
  std::optional<Clock::time_point> at_;  // nullopt: never
};

/// Asks until the answer is not BP_PENDING; BP_TIMEOUT if it still is at the deadline.
template <class Query>
bp_status poll(Query query, uint64_t timeout_ns) {
  constexpr Deadline::Clock::duration kLongestPause = std::chrono::milliseconds(1);
  const Deadline deadline(timeout_ns);
  Deadline::Clock::duration pause = std::chrono::microseconds(2);
  for (;;) {
    const bp_status status = query();
    if (status != BP_PENDING) return status;
    if (deadline.passed()) return BP_TIMEOUT;
    deadline.sleep_at_most(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace bp

#endif
