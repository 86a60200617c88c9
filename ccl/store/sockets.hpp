// SPDX-License-Identifier: Apache-2.0
//
// POSIX: stream sockets over IPv4 and IPv6. None of them waits by itself, none is inherited by what
// this process executes, and no write raises SIGPIPE.
#ifndef BACKPLANE_CCL_STORE_SOCKETS_HPP
#define BACKPLANE_CCL_STORE_SOCKETS_HPP

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ccl/store/descriptor.hpp"
#include "ccl/store/endpoint.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// An IPv4 or IPv6 address with its port.
class SocketAddress {
 public:
  /// Of an endpoint that is an address. Errors: INVALID_ARGUMENT for one that is none.
  static Result<SocketAddress> of_address(const Endpoint& endpoint);
  /// Also of an interface: its first IPv4 address, or else its first IPv6 address. Errors:
  /// UNAVAILABLE for an interface that is not there or has no address, with those that there are.
  static Result<SocketAddress> of_listener(const Endpoint& endpoint);
  /// Errors: INVALID_ARGUMENT for a socket of another kind.
  static Result<SocketAddress> of_socket(int descriptor);

  /// "127.0.0.1" or "fe80::1%eth0"; with the port "127.0.0.1:4711" or "[::1]:4711".
  std::string host() const;
  std::string text() const;
  uint16_t port() const;
  /// 0.0.0.0 or ::, which are every interface's.
  bool is_of_all_interfaces() const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  void set_size(socklen_t size) { size_ = size; }
  static constexpr socklen_t kMostSize = sizeof(sockaddr_storage);

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = kMostSize;
};

/// A new listener. Errors: UNAVAILABLE with the address, such as for a port that is taken.
Result<Descriptor> listen_at(const SocketAddress& address);
/// Makes a listener of a socket that another has bound, and owns it. Errors: INVALID_ARGUMENT for a
/// descriptor that is no bound stream socket.
Result<Descriptor> listen_with(Descriptor bound);

struct Accepted {
  Descriptor socket;  // not open: see error
  SocketAddress peer;
  int error = 0;  // EAGAIN: nobody is there
};
Accepted accept_from(int listener);

/// A connection, once it is made or has failed by the deadline. Errors: UNAVAILABLE with the
/// address; TIMEOUT. `error`: the system's number, where it has one.
Result<Descriptor> connect_to(const SocketAddress& address,
                              std::chrono::steady_clock::time_point deadline, int* error);

/// What a read or write of a socket came to.
struct SocketTransfer {
  size_t bytes = 0;
  bool would_wait = false;
  bool has_ended = false;  // the peer sends no more
  int error = 0;
};
SocketTransfer receive_from(int socket, std::span<char> room);
/// The pieces one after the other.
SocketTransfer send_to(int socket, std::span<const std::string_view> pieces);

/// Waits until one of at most two descriptors is ready, or the deadline has come. True: ready.
struct Awaited {
  int descriptor = -1;
  bool to_write = false;  // as well as to be read
  bool is_ready = false;
};
bool wait_for_ready(std::span<Awaited> awaited, std::chrono::steady_clock::time_point deadline);

}  // namespace bp::ccl

#endif
