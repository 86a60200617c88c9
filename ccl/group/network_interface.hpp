// SPDX-License-Identifier: Apache-2.0
//
// The network interface that a user names for groups between hosts (BACKPLANE_CCL_INTERFACE).
#ifndef BP_CCL_GROUP_NETWORK_INTERFACE_HPP
#define BP_CCL_GROUP_NETWORK_INTERFACE_HPP

#include <string>

#include "core/base/status.hpp"

namespace bp::ccl {

/// INVALID_ARGUMENT: this host has no interface of that name.
Status check_interface_is_there(const std::string& name);

/// UNAVAILABLE: it is down, has no carrier, or no address. Engines may leave such an interface out
/// without a word: ranks of other hosts would be waited for until the deadline.
Status check_interface_runs(const std::string& name);

}  // namespace bp::ccl

#endif
