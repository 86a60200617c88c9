// SPDX-License-Identifier: Apache-2.0
//
// Whether work is quicker on all threads of the device or on one. How much there is to do does not
// tell: threads share caches, units for matrices and the memory bus, and other programs take cores.
// So the launches of a plan are timed both ways and the quicker way is taken.
#ifndef BACKPLANE_PLUGINS_CPU_THREAD_CHOICE_HPP
#define BACKPLANE_PLUGINS_CPU_THREAD_CHOICE_HPP

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bp::cpu {

enum class ThreadUse : uint8_t { kAll, kOne };

/// The choice of one user of one plan. Not for two threads at once.
class ThreadChoice {
 public:
  /// How the next launch should run.
  ThreadUse next() const noexcept {
    if (!is_trying()) return chosen_;
    return tried_ % 2 == 0 ? ThreadUse::kOne : ThreadUse::kAll;
  }

  bool is_trying() const noexcept { return tried_ < kTries; }

  /// What a launch on one thread takes, as trials found it; 0: not known yet.
  int64_t one_ns() const noexcept { return one_ns_; }

  /// After each launch. duration_ns: what it took; negative: it did not run as asked for.
  void launched(int64_t duration_ns) noexcept {
    if (!is_trying()) {
      if (--until_next_trial_ == 0) begin_trial();
      return;
    }
    if (duration_ns < 0) return;
    int64_t& least = least_ns_[tried_ % 2];
    least = std::min(least, duration_ns);
    one_ns_ = least_ns_[0];
    if (++tried_ == kTries) decide();
  }

 private:
  static constexpr uint32_t kTries = 6;  // half of them each way; the quickest counts
  // Launches until the choice is tried again, since other programs come and go: doubled each time.
  static constexpr uint32_t kFirstInterval = 128;
  static constexpr uint32_t kLongestInterval = 8192;

  void begin_trial() noexcept {
    tried_ = 0;
    least_ns_[0] = least_ns_[1] = std::numeric_limits<int64_t>::max();
  }

  // One thread has to be clearly quicker: a trial is noisy, and the rest of the machine idle.
  void decide() noexcept {
    chosen_ = least_ns_[0] < least_ns_[1] - least_ns_[1] / 16 ? ThreadUse::kOne : ThreadUse::kAll;
    until_next_trial_ = interval_;
    interval_ = std::min(2 * interval_, kLongestInterval);
  }

  uint32_t tried_ = 0;
  uint32_t until_next_trial_ = 0;
  uint32_t interval_ = kFirstInterval;
  int64_t one_ns_ = 0;
  int64_t least_ns_[2] = {std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::max()};  // on one thread, on all
  ThreadUse chosen_ = ThreadUse::kAll;
};

}  // namespace bp::cpu

#endif
