// SPDX-License-Identifier: Apache-2.0
//
// How a conformance case says what it expected and what it found. Failures are words, collected
// until the case ends; a case without a single check has proven nothing and counts as failed.
#ifndef BACKPLANE_SDK_CONFORM_CHECKS_HPP
#define BACKPLANE_SDK_CONFORM_CHECKS_HPP

#include <cstddef>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/status.h"

namespace bp::conform {

using Bytes = std::vector<std::byte>;

/// Ends a case early; its failure is noted already.
struct Stop {};
/// Ends a case that the device gives nothing to do: UNSUPPORTED. Only the kernels themselves know
/// which calls they take, and only the device whether a call that it takes can fail later.
struct NotApplicable {
  std::string why;
};

template <class... Parts>
std::string words(const Parts&... parts) {
  return (std::ostringstream() << ... << parts).str();
}

/// Any thread.
class Checks {
 public:
  Checks() = default;
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;

  /// Each answers whether the expectation held. `what` is the call or the thing that was looked at.
  bool expect(bool holds, std::string_view what);
  bool expect_status(std::string_view what, bp_status found, bp_status expected);
  bool expect_ok(std::string_view what, bp_status found) {
    return expect_status(what, found, BP_OK);
  }
  template <class Found, class Expected>
  bool expect_equal(std::string_view what, const Found& found, const Expected& expected) {
    return note(found == expected, words(what, ": expected ", expected, ", found ", found));
  }
  bool expect_bytes(std::string_view what, std::span<const std::byte> found,
                    std::span<const std::byte> expected);

  // The same, and what follows would make no sense otherwise.
  void require(bool holds, std::string_view what) { stop_unless(expect(holds, what)); }
  void require_ok(std::string_view what, bp_status found) { stop_unless(expect_ok(what, found)); }

  bool fail(std::string_view what) { return note(false, std::string(what)); }

  size_t check_count() const;
  std::vector<std::string> failures() const;

 protected:
  ~Checks() = default;

 private:
  static void stop_unless(bool holds) {
    if (!holds) throw Stop{};
  }
  bool note(bool holds, std::string failure);
  /// What the plugin said when a call answered this; empty: nothing. Asked for each status that is
  /// not OK, so that no words are left for a later one.
  virtual std::string take_plugin_words(bp_status found) = 0;

  mutable std::mutex mutex_;
  size_t check_count_ = 0;
  std::vector<std::string> failures_;
};

/// "OUT_OF_MEMORY", or "4711 (no status)".
std::string status_words(bp_status status);

}  // namespace bp::conform

#endif
