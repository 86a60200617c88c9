// SPDX-License-Identifier: Apache-2.0
//
// Where a process listens or connects to, as text: "127.0.0.1:4711", "[::1]:4711", "eth0:0".
#ifndef BACKPLANE_CCL_STORE_ENDPOINT_HPP
#define BACKPLANE_CCL_STORE_ENDPOINT_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::ccl {

struct Endpoint {
  enum class Kind : uint8_t { kIpv4, kIpv6, kInterface };
  Kind kind = Kind::kIpv4;
  std::string host;  // an address without brackets, or the name of an interface
  uint16_t port = 0;
};

/// Takes the text apart; whether there is such an address or interface is not looked at. A host's
/// name is refused, since looking it up has no deadline. Errors: INVALID_ARGUMENT with the text.
Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace bp::ccl

#endif
