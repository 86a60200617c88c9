// SPDX-License-Identifier: Apache-2.0
//
// See hosts.hpp.
#include "ccl/schedule/hosts.hpp"

#include <algorithm>
#include <unordered_map>

namespace bp::ccl {

std::vector<uint32_t> numbered_hosts(std::span<const uint32_t> hosts) {
  std::unordered_map<uint32_t, uint32_t> numbers;
  std::vector<uint32_t> result;
  result.reserve(hosts.size());
  for (const uint32_t host : hosts) {
    const auto number = static_cast<uint32_t>(numbers.size());
    result.push_back(numbers.try_emplace(host, number).first->second);
  }
  return result;
}

HostShape host_shape(std::span<const uint32_t> hosts) {
  std::vector<uint32_t> ranks;  // on each host
  for (const uint32_t host : numbered_hosts(hosts)) {
    if (host == ranks.size()) ranks.push_back(0);
    ++ranks[host];
  }
  if (ranks.empty()) return {};
  const auto [fewest, most] = std::minmax_element(ranks.begin(), ranks.end());
  return {static_cast<uint32_t>(ranks.size()), *most, *fewest == *most};
}

}  // namespace bp::ccl
