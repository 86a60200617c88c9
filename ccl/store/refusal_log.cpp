// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/refusal_log.hpp"

namespace bp::ccl {

std::optional<uint64_t> RefusalLog::count(const std::string& host, TimePoint now) {
  if (told_.size() >= kMostHosts && !told_.contains(host)) {
    std::erase_if(told_, [&](const auto& entry) { return now - entry.second.at >= kInterval; });
  }
  const bool has_room = told_.size() < kMostHosts || told_.contains(host);
  const auto [found, is_new] = told_.try_emplace(has_room ? host : std::string(), Told{now, 0});
  Told& told = found->second;
  if (!is_new && now - told.at < kInterval) {
    ++told.kept_back;
    return std::nullopt;
  }
  const uint64_t kept_back = told.kept_back;
  told = {now, 0};
  return kept_back;
}

}  // namespace bp::ccl
