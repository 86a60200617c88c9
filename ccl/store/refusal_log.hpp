// SPDX-License-Identifier: Apache-2.0
//
// Who was refused, told once in a while for each host: a peer that tries for ever shall not fill
// the log.
#ifndef BACKPLANE_CCL_STORE_REFUSAL_LOG_HPP
#define BACKPLANE_CCL_STORE_REFUSAL_LOG_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace bp::ccl {

/// Not for several threads at once.
class RefusalLog {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kInterval{10};
  /// Further hosts are told of together.
  static constexpr size_t kMostHosts = 256;

  /// How many refusals of that host were not told since the last one that was; nullopt: this one is
  /// not to be told either.
  std::optional<uint64_t> count(const std::string& host, TimePoint now);

 private:
  struct Told {
    TimePoint at;
    uint64_t kept_back = 0;
  };
  std::unordered_map<std::string, Told> told_;
};

}  // namespace bp::ccl

#endif
