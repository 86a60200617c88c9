// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/store_rules.hpp"

#include "core/base/fork.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {

Status store_error(bp_status code, std::string_view store, std::string_view words) {
  return {code, std::string(store) + ": " + std::string(words)};
}

Status aborted_error(std::string_view store) {
  return store_error(BP_CANCELLED, store, "the store's calls were aborted");
}

Status key_timeout(std::string_view store, std::string_view key, Store::Clock::time_point begin) {
  return store_error(BP_TIMEOUT, store,
                     "nobody has set the key " + quoted(key) + " within " +
                         duration_text(Store::Clock::now() - begin));
}

Status check_call(std::string_view store, const AbortFlag& aborted, std::string_view key) {
  BP_TRY(check_not_forked());
  if (aborted.is_set()) return aborted_error(store);
  if (!key.empty() && key.size() <= Store::kMostKeyBytes) return {};
  return store_error(BP_INVALID_ARGUMENT, store,
                     "a key has 1 to " + std::to_string(Store::kMostKeyBytes) + " bytes, found " +
                         std::to_string(key.size()));
}

Status check_value(std::string_view store, std::string_view key, std::string_view value) {
  if (value.size() <= Store::kMostValueBytes) return {};
  return store_error(BP_INVALID_ARGUMENT, store,
                     "a value has at most " + std::to_string(Store::kMostValueBytes) +
                         " bytes, found " + std::to_string(value.size()) + " for the key " +
                         quoted(key));
}

std::string duration_text(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(duration).count()) + " ms";
}

Store::Clock::time_point time_after(Store::Clock::time_point begin, std::chrono::nanoseconds time) {
  return time < Store::Clock::time_point::max() - begin ? begin + time
                                                        : Store::Clock::time_point::max();
}

std::chrono::nanoseconds time_left(Store::Clock::time_point deadline) {
  const auto now = Store::Clock::now();
  return deadline > now ? deadline - now : std::chrono::nanoseconds::zero();
}

int poll_time(Store::Clock::time_point deadline) {
  using std::chrono::milliseconds;
  const auto left = time_left(deadline);
  constexpr milliseconds kMost(60'000);
  if (left >= kMost) return static_cast<int>(kMost.count());
  return static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
}

}  // namespace bp::ccl
