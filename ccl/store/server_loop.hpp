// SPDX-License-Identifier: Apache-2.0
//
// What the thread of a store's server does.
#ifndef BACKPLANE_CCL_STORE_SERVER_LOOP_HPP
#define BACKPLANE_CCL_STORE_SERVER_LOOP_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/store/events.hpp"
#include "ccl/store/refusal_log.hpp"
#include "ccl/store/server_connection.hpp"
#include "ccl/store/sockets.hpp"
#include "ccl/store/store_service.hpp"
#include "ccl/store/tcp_server.hpp"

namespace bp::ccl {

class ServerLoop {
 public:
  using TimePoint = Store::Clock::time_point;

  /// Listens. Errors: as TcpServer::start().
  static Result<std::shared_ptr<ServerLoop>> make(TcpServerOptions options);

  /// Until stop(). Lets no exception out.
  void run() noexcept;
  /// Any thread.
  void stop() noexcept;
  const std::string& endpoint() const { return endpoint_; }
  /// Any thread.
  size_t client_count() const { return client_count_.load(std::memory_order_relaxed); }

 private:
  struct Client {
    std::unique_ptr<ServerConnection> connection;
    Poller::Interest interest;
  };
  using Clients = std::unordered_map<uint64_t, Client>;

  ServerLoop(TcpServerOptions options, Descriptor listener, SocketAddress address, Poller poller,
             Wakeup wakeup);
  void turn();
  TimePoint next_deadline() const;
  void accept_clients(TimePoint now);
  Status admit(Accepted accepted, TimePoint now);
  void pause_accepting(int error, TimePoint now);
  void serve(const Poller::Event& event, TimePoint now);
  void deliver();
  void flush_and_watch(Clients::iterator client);
  void refuse(Clients::iterator client, const Status& status, TimePoint now);
  void log_refusal(const SocketAddress& peer, const std::string& words, TimePoint now);
  void close(Clients::iterator client);
  void close_the_slow(TimePoint now);

  const TcpServerOptions options_;
  const std::string endpoint_;
  Descriptor listener_;
  Poller poller_;
  const Wakeup wakeup_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<size_t> client_count_{0};

  StoreService service_;
  RefusalLog refusals_;
  Clients clients_;
  uint64_t next_client_;
  std::deque<std::pair<TimePoint, uint64_t>> handshakes_;  // when each is to be done
  TimePoint accepts_again_ = TimePoint::max();             // max(): it accepts
  TimePoint told_of_pause_ = TimePoint::min();
  std::vector<char> room_;
};

}  // namespace bp::ccl

#endif
