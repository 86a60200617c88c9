// SPDX-License-Identifier: Apache-2.0
//
// How this module waits, bounded by the caller's timeout.
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

 private:
  std::optional<Clock::time_point> at_;  // nullopt: never
};

}  // namespace bp

#endif
