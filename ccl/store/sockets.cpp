// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "ccl/store/sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "ccl/store/store_rules.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

using Clock = std::chrono::steady_clock;

Status no_address(const Endpoint& endpoint) {
  return Status(BP_INVALID_ARGUMENT,
                quoted(endpoint.host) + " is no " +
                    (endpoint.kind == Endpoint::Kind::kIpv6 ? "IPv6" : "IPv4") + " address");
}

Status socket_error(const SocketAddress& address, const char* action, int error) {
  return Status(BP_UNAVAILABLE, address.text() + ": cannot " + action + ": " + reason_of(error));
}

bool set_option(int socket, int level, int name, int value) {
  return ::setsockopt(socket, level, name, &value, sizeof(value)) == 0;
}

/// Small messages go at once, and a peer whose machine has gone is noticed. No error of a socket
/// that already failed matters here: its next use tells.
void prepare_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool never_waits(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 &&
         ::fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0;
}

socklen_t size_of_family(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

}  // namespace

// --- addresses ---

Result<SocketAddress> SocketAddress::of_address(const Endpoint& endpoint) {
  SocketAddress address;
  if (endpoint.kind == Endpoint::Kind::kIpv4) {
    auto* const place = reinterpret_cast<sockaddr_in*>(&address.storage_);
    place->sin_family = AF_INET;
    place->sin_port = htons(endpoint.port);
    if (::inet_pton(AF_INET, endpoint.host.c_str(), &place->sin_addr) != 1) {
      return no_address(endpoint);
    }
    address.size_ = sizeof(sockaddr_in);
    return address;
  }
  if (endpoint.kind == Endpoint::Kind::kInterface) {
    return Status(BP_INVALID_ARGUMENT, "expected the address of the peer, found " +
                                           quoted(endpoint.host) + ", which is no address");
  }
  auto* const place = reinterpret_cast<sockaddr_in6*>(&address.storage_);
  place->sin6_family = AF_INET6;
  place->sin6_port = htons(endpoint.port);
  // A link's own addresses mean something only with its interface: "fe80::1%eth0".
  const size_t percent = endpoint.host.find('%');
  const std::string plain = endpoint.host.substr(0, percent);
  if (::inet_pton(AF_INET6, plain.c_str(), &place->sin6_addr) != 1) return no_address(endpoint);
  if (percent != std::string::npos) {
    place->sin6_scope_id = ::if_nametoindex(endpoint.host.substr(percent + 1).c_str());
    if (place->sin6_scope_id == 0) return no_address(endpoint);
  }
  address.size_ = sizeof(sockaddr_in6);
  return address;
}

Result<SocketAddress> SocketAddress::of_listener(const Endpoint& endpoint) {
  if (endpoint.kind != Endpoint::Kind::kInterface) return of_address(endpoint);
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Status(BP_UNAVAILABLE, "cannot list the interfaces: " + reason_of(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<std::string> names;
  const ifaddrs* chosen = nullptr;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    if (name != endpoint.host || entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET && (chosen == nullptr || chosen->ifa_addr->sa_family != AF_INET)) {
      chosen = entry;
    }
    if (family == AF_INET6 && chosen == nullptr) chosen = entry;
  }
  if (chosen == nullptr) {
    const bool is_there = std::ranges::find(names, endpoint.host) != names.end();
    std::string words = is_there ? " has no address" : " is not there";
    for (size_t i = 0; i < names.size(); ++i) words += (i == 0 ? "; there are " : ", ") + names[i];
    if (!is_there) words += "; names of hosts are not looked up: give an address instead";
    return Status(BP_UNAVAILABLE, "the interface " + quoted(endpoint.host) + words);
  }
  SocketAddress address;
  address.size_ = size_of_family(chosen->ifa_addr->sa_family);
  std::memcpy(&address.storage_, chosen->ifa_addr, address.size_);
  if (chosen->ifa_addr->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.storage_)->sin_port = htons(endpoint.port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.storage_)->sin6_port = htons(endpoint.port);
  }
  return address;
}

Result<SocketAddress> SocketAddress::of_socket(int descriptor) {
  SocketAddress address;
  if (::getsockname(descriptor, address.get(), &address.size_) != 0) {
    return Status(BP_INVALID_ARGUMENT, "descriptor " + std::to_string(descriptor) +
                                           " is no socket: " + reason_of(errno));
  }
  const int family = address.get()->sa_family;
  if (family == AF_INET || family == AF_INET6) return address;
  return Status(BP_INVALID_ARGUMENT,
                "descriptor " + std::to_string(descriptor) + " is no socket of IPv4 or IPv6");
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (get()->sa_family == AF_INET) {
    const auto* const place = reinterpret_cast<const sockaddr_in*>(&storage_);
    return ::inet_ntop(AF_INET, &place->sin_addr, text.data(), text.size());
  }
  const auto* const place = reinterpret_cast<const sockaddr_in6*>(&storage_);
  std::string host = ::inet_ntop(AF_INET6, &place->sin6_addr, text.data(), text.size());
  std::array<char, IF_NAMESIZE> name = {};
  if (place->sin6_scope_id != 0 && ::if_indextoname(place->sin6_scope_id, name.data()) != nullptr) {
    host += "%" + std::string(name.data());
  }
  return host;
}

uint16_t SocketAddress::port() const {
  return ntohs(get()->sa_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port
                   : reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
}

std::string SocketAddress::text() const {
  const std::string host_text = host();
  const bool is_ipv6 = get()->sa_family == AF_INET6;
  return (is_ipv6 ? "[" + host_text + "]" : host_text) + ":" + std::to_string(port());
}

bool SocketAddress::is_of_all_interfaces() const {
  if (get()->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

// --- listeners ---

Result<Descriptor> listen_at(const SocketAddress& address) {
  const int family = address.get()->sa_family;
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return socket_error(address, "make a socket", errno);
  // A port whose earlier connections are still being forgotten is free; one in use stays taken.
  set_option(made.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) set_option(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(made.get(), address.get(), address.size()) != 0) {
    return socket_error(address, "bind", errno);
  }
  if (::listen(made.get(), SOMAXCONN) != 0) return socket_error(address, "listen", errno);
  return made;
}

Result<Descriptor> listen_with(Descriptor bound) {
  const auto refuse = [&](const std::string& words) {
    return Status(BP_INVALID_ARGUMENT, "descriptor " + std::to_string(bound.get()) +
                                           " is no bound stream socket: " + words);
  };
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(bound.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    return refuse(reason_of(errno));
  }
  if (type != SOCK_STREAM) return refuse("its type is another");
  BP_TRY_ASSIGN(const SocketAddress address, SocketAddress::of_socket(bound.get()));
  if (address.port() == 0) return refuse("it has no port");
  if (!never_waits(bound.get())) return refuse(reason_of(errno));
  if (::listen(bound.get(), SOMAXCONN) != 0) return socket_error(address, "listen", errno);
  return bound;
}

Accepted accept_from(int listener) {
  Accepted accepted;
  socklen_t size = SocketAddress::kMostSize;
  int made = -1;
  do {
    made = ::accept4(listener, accepted.peer.get(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (made < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (made < 0) accepted.error = errno == EWOULDBLOCK ? EAGAIN : errno;
  accepted.socket = Descriptor(made);
  accepted.peer.set_size(size);
  if (made >= 0) prepare_connection(made);
  return accepted;
}

// --- connections ---

Result<Descriptor> connect_to(const SocketAddress& address, Clock::time_point deadline,
                              int* error) {
  *error = 0;
  const int family = address.get()->sa_family;
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) return socket_error(address, "make a socket", errno);
  prepare_connection(made.get());
  if (::connect(made.get(), address.get(), address.size()) == 0) return made;
  // EINTR: it goes on all the same.
  if (errno != EINPROGRESS && errno != EINTR) {
    *error = errno;
    return socket_error(address, "connect", errno);
  }
  Awaited awaited{made.get(), true, false};
  if (!wait_for_ready({&awaited, 1}, deadline)) {
    return Status(BP_TIMEOUT, address.text() + ": the connection was not made by the deadline");
  }
  socklen_t size = sizeof(*error);
  ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, error, &size);
  if (*error != 0) return socket_error(address, "connect", *error);
  return made;
}

SocketTransfer receive_from(int socket, std::span<char> room) {
  SocketTransfer transfer;
  ssize_t count = 0;
  do {
    count = ::recv(socket, room.data(), room.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count > 0) transfer.bytes = static_cast<size_t>(count);
  if (count == 0) transfer.has_ended = true;
  if (count < 0) {
    transfer.would_wait = errno == EAGAIN || errno == EWOULDBLOCK;
    transfer.error = transfer.would_wait ? 0 : errno;
  }
  return transfer;
}

SocketTransfer send_to(int socket, std::span<const std::string_view> pieces) {
  std::array<iovec, 64> parts = {};
  const size_t part_count = std::min(pieces.size(), parts.size());
  for (size_t i = 0; i < part_count; ++i) {
    parts[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = part_count;
  SocketTransfer transfer;
  ssize_t count = 0;
  do {
    count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count >= 0) transfer.bytes = static_cast<size_t>(count);
  if (count < 0) {
    transfer.would_wait = errno == EAGAIN || errno == EWOULDBLOCK;
    transfer.error = transfer.would_wait ? 0 : errno;
  }
  return transfer;
}

bool wait_for_ready(std::span<Awaited> awaited, Clock::time_point deadline) {
  std::array<pollfd, 2> polled = {};
  const size_t count = std::min(awaited.size(), polled.size());
  for (;;) {
    for (size_t i = 0; i < count; ++i) {
      polled[i] = {awaited[i].descriptor,
                   static_cast<short>(POLLIN | (awaited[i].to_write ? POLLOUT : 0)), 0};
    }
    const int ready = ::poll(polled.data(), count, poll_time(deadline));
    for (size_t i = 0; i < count; ++i) awaited[i].is_ready = ready > 0 && polled[i].revents != 0;
    if (ready > 0) return true;
    // What poll() refuses is told by the next read or write.
    if (ready < 0 && errno != EINTR) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace bp::ccl
