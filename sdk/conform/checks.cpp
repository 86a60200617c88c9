// SPDX-License-Identifier: Apache-2.0
//
// Words of failed checks. Only the first few are kept: a wrong loop would drown the cause.
#include "sdk/conform/checks.hpp"

#include <algorithm>

#include "core/base/status.hpp"

namespace bp::conform {
namespace {

constexpr size_t kKeptFailures = 8;

}  // namespace

std::string status_words(bp_status status) {
  if (status < BP_OK || status > BP_INTERNAL) return words(status, " (no status)");
  return std::string(status_name(status));
}

bool Checks::note(bool holds, std::string failure) {
  const std::lock_guard lock(mutex_);
  ++check_count_;
  if (!holds && failures_.size() < kKeptFailures) failures_.push_back(std::move(failure));
  return holds;
}

bool Checks::expect(bool holds, std::string_view what) {
  return note(holds, holds ? std::string() : words("expected ", what));
}

bool Checks::expect_status(std::string_view what, bp_status found, bp_status expected) {
  const std::string said = found == BP_OK ? std::string() : take_plugin_words(found);
  if (found == expected) return note(true, {});
  return note(false, words(what, ": expected ", status_words(expected), ", found ",
                           status_words(found), said.empty() ? "" : "; the plugin says: ", said));
}

bool Checks::expect_bytes(std::string_view what, std::span<const std::byte> found,
                          std::span<const std::byte> expected) {
  if (found.size() != expected.size()) {
    return note(false, words(what, ": expected ", expected.size(), " bytes, found ", found.size()));
  }
  const auto [at, other] = std::mismatch(found.begin(), found.end(), expected.begin());
  if (at == found.end()) return note(true, {});
  size_t wrong_count = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong_count += found[i] != expected[i] ? 1 : 0;
  return note(false, words(what, ": byte ", at - found.begin(), " of ", found.size(), ": expected ",
                           static_cast<int>(*other), ", found ", static_cast<int>(*at), "; ",
                           wrong_count, " bytes differ"));
}

size_t Checks::check_count() const {
  const std::lock_guard lock(mutex_);
  return check_count_;
}

std::vector<std::string> Checks::failures() const {
  const std::lock_guard lock(mutex_);
  return failures_;
}

}  // namespace bp::conform
