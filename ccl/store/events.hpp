// SPDX-License-Identifier: Apache-2.0
//
// Linux: waiting for many descriptors at once, and waking who waits. The only file of this folder
// that is not POSIX.
#ifndef BACKPLANE_CCL_STORE_EVENTS_HPP
#define BACKPLANE_CCL_STORE_EVENTS_HPP

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ccl/store/descriptor.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Wakes a thread that waits for descriptors: its descriptor is ready until it is cleared.
class Wakeup {
 public:
  /// Errors: UNAVAILABLE where there is no descriptor left.
  static Result<Wakeup> make();
  int descriptor() const { return descriptor_.get(); }
  /// Any thread.
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  explicit Wakeup(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

/// Not for several threads at once.
class Poller {
 public:
  struct Event {
    uint64_t id = 0;
    bool is_readable = false;
    bool is_writable = false;
    bool has_failed = false;  // told whatever the interest is
  };
  struct Interest {
    bool read = true;
    bool write = false;
    bool operator==(const Interest&) const = default;
  };

  /// Errors: UNAVAILABLE where there is no descriptor left.
  static Result<Poller> make();
  /// Errors: UNAVAILABLE where the system takes no more.
  Status add(int descriptor, uint64_t id, Interest interest);
  void change(int descriptor, uint64_t id, Interest interest);
  /// Before it is closed.
  void remove(int descriptor);
  /// What is ready, none after the deadline. Valid until the next call.
  std::span<const Event> wait(std::chrono::steady_clock::time_point deadline);

 private:
  explicit Poller(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
  std::vector<Event> events_;
};

}  // namespace bp::ccl

#endif
