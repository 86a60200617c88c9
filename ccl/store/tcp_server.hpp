// SPDX-License-Identifier: Apache-2.0
//
// A store that a process serves over TCP. Clients prove that they know the job's token before
// anything else is read of them; what they then say is neither encrypted nor signed, see
// handshake.hpp.
#ifndef BACKPLANE_CCL_STORE_TCP_SERVER_HPP
#define BACKPLANE_CCL_STORE_TCP_SERVER_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "ccl/store/token.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

class ServerLoop;

struct TcpServerOptions {
  /// Where to listen: an address, or an interface for its first one. Port 0: a free one. Every
  /// interface only where 0.0.0.0 or [::] stands here, and then with a warning.
  std::string endpoint = "127.0.0.1:0";
  /// Instead of `endpoint`: a stream socket that is bound, such as by a launcher, so that its port
  /// was never free for another. The server owns it from the call on, whatever comes of it.
  int bound_socket = -1;
  std::shared_ptr<const Token> token = {};
  std::string job = {};  // see HandshakeTerms
  /// Who has not proved itself by then is closed.
  std::chrono::milliseconds handshake_timeout{10'000};
  /// What keys and values may take; more is refused with OUT_OF_MEMORY.
  uint64_t most_bytes = uint64_t{1} << 30;
};

/// One thread serves all clients. Any thread.
class TcpServer {
 public:
  /// Errors: INVALID_ARGUMENT for options that cannot be; UNAVAILABLE with the address, such as for
  /// a port that is taken, or with the interfaces that there are; OUT_OF_MEMORY without a thread.
  static Result<std::unique_ptr<TcpServer>> start(TcpServerOptions options);
  /// Closes all connections, which is UNAVAILABLE for the clients, and waits for the thread.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  /// Where it listens: "127.0.0.1:43211".
  const std::string& endpoint() const;
  /// Clients that have proved themselves and are still there.
  size_t client_count() const;

 private:
  explicit TcpServer(std::shared_ptr<ServerLoop> loop);
  std::shared_ptr<ServerLoop> loop_;  // the thread's too
  std::thread thread_;
};

}  // namespace bp::ccl

#endif
