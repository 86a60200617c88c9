// SPDX-License-Identifier: Apache-2.0
//
// What all stores have in common: which keys and values can be, how waits are ended, and the words
// of their errors.
#ifndef BACKPLANE_CCL_STORE_STORE_RULES_HPP
#define BACKPLANE_CCL_STORE_STORE_RULES_HPP

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ccl/store/store.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// That an object's calls are to end. Those made of it look at it as well.
class AbortFlag {
 public:
  explicit AbortFlag(std::shared_ptr<const AbortFlag> outer = nullptr) : outer_(std::move(outer)) {}

  void set() noexcept { is_set_.store(true, std::memory_order_release); }
  bool is_set() const noexcept {
    for (const AbortFlag* flag = this; flag != nullptr; flag = flag->outer_.get()) {
      if (flag->is_set_.load(std::memory_order_acquire)) return true;
    }
    return false;
  }

 private:
  const std::shared_ptr<const AbortFlag> outer_;
  std::atomic<bool> is_set_{false};
};

/// "store: words", as every error of a store reads.
Status store_error(bp_status code, std::string_view store, std::string_view words);
Status aborted_error(std::string_view store);
/// A wait since `begin` in which nobody set the key.
Status key_timeout(std::string_view store, std::string_view key, Store::Clock::time_point begin);

/// Before each call: FORKED, CANCELLED, and INVALID_ARGUMENT for a key that cannot be.
Status check_call(std::string_view store, const AbortFlag& aborted, std::string_view key);
/// INVALID_ARGUMENT for a value that cannot be.
Status check_value(std::string_view store, std::string_view key, std::string_view value);

/// "1500 ms", rounded up.
std::string duration_text(std::chrono::nanoseconds duration);
/// `begin` and a time after it, as late as the clock can tell at most.
Store::Clock::time_point time_after(Store::Clock::time_point begin, std::chrono::nanoseconds time);
/// From now on; zero once it has passed, however long ago.
std::chrono::nanoseconds time_left(Store::Clock::time_point deadline);
/// How long poll() may wait, in its milliseconds; the far future in parts.
int poll_time(Store::Clock::time_point deadline);

}  // namespace bp::ccl

#endif
