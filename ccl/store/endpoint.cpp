// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

// What the system allows for the name of an interface (IFNAMSIZ without its end).
constexpr size_t kMostInterfaceBytes = 15;

Status no_endpoint(std::string_view text, const std::string& words) {
  return Status(BP_INVALID_ARGUMENT,
                "cannot use the endpoint " + quoted(text) + ": " + words +
                    ". Expected such as 127.0.0.1:4711, [::1]:4711 or eth0:4711 (an interface)");
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::optional<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return port;
}

bool is_interface_letter(char letter) { return letter > ' ' && letter < 127 && letter != '/'; }

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return no_endpoint(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const auto port = port_of(text.substr(colon + 1));
  if (!port) return no_endpoint(text, "its port is no number from 0 to 65535");
  if (host.empty()) return no_endpoint(text, "it names no address");
  Endpoint endpoint;
  endpoint.port = *port;
  if (host.front() == '[') {
    if (host.back() != ']' || host.find(':') == std::string_view::npos) {
      return no_endpoint(text, "there is no IPv6 address in its brackets");
    }
    endpoint.kind = Endpoint::Kind::kIpv6;
    endpoint.host = host.substr(1, host.size() - 2);
    return endpoint;
  }
  if (host.find(':') != std::string_view::npos) {
    return no_endpoint(text, "an IPv6 address stands in brackets");
  }
  const bool is_address =
      std::ranges::all_of(host, [](char letter) { return is_digit(letter) || letter == '.'; });
  if (is_address) {
    endpoint.host = host;
    return endpoint;
  }
  if (host.size() > kMostInterfaceBytes || !std::ranges::all_of(host, is_interface_letter)) {
    return no_endpoint(text,
                       "its host is no address, and no interface has such a name; names of "
                       "hosts are not looked up");
  }
  endpoint.kind = Endpoint::Kind::kInterface;
  endpoint.host = host;
  return endpoint;
}

}  // namespace bp::ccl
