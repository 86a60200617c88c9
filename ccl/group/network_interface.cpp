// SPDX-License-Identifier: Apache-2.0
#include "ccl/group/network_interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace bp::ccl {

Status check_interface_is_there(const std::string& name) {
  if (if_nametoindex(name.c_str()) != 0) return {};
  return Status(BP_INVALID_ARGUMENT, "expected a network interface of this host, found '" + name +
                                         "' (BACKPLANE_CCL_INTERFACE)");
}

Status check_interface_runs(const std::string& name) {
  const auto refuse = [&](const char* why) {
    return Status(BP_UNAVAILABLE,
                  "network interface '" + name + "' " + why + " (BACKPLANE_CCL_INTERFACE)");
  };
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Status(BP_UNAVAILABLE,
                  std::string("this host's network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> kept(list, freeifaddrs);
  bool has_address = false;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (name != entry->ifa_name) continue;
    if ((entry->ifa_flags & IFF_UP) == 0) return refuse("is down");
    if ((entry->ifa_flags & IFF_RUNNING) == 0) return refuse("has no carrier: its link is down");
    const int family = entry->ifa_addr != nullptr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    has_address = has_address || family == AF_INET || family == AF_INET6;
  }
  return has_address ? Status() : refuse("has no address of IPv4 or IPv6");
}

}  // namespace bp::ccl
