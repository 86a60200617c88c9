// SPDX-License-Identifier: Apache-2.0
//
// Which ranks of a group share a host.
#ifndef BACKPLANE_CCL_SCHEDULE_HOSTS_HPP
#define BACKPLANE_CCL_SCHEDULE_HOSTS_HPP

#include <cstdint>
#include <span>
#include <vector>

namespace bp::ccl {

struct HostShape {
  uint32_t host_count = 1;
  uint32_t most_ranks = 1;  // on one host
  bool is_even = true;      // as many on each
};

/// The hosts of ranks by numbers from 0, in the order of their first ranks.
std::vector<uint32_t> numbered_hosts(std::span<const uint32_t> hosts);
/// `hosts`: of each rank, by any numbers.
HostShape host_shape(std::span<const uint32_t> hosts);

}  // namespace bp::ccl

#endif
