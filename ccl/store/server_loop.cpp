// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/server_loop.hpp"

#include <algorithm>
#include <cerrno>

#include "ccl/store/store_rules.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

// Names of what is waited for; clients come after them.
constexpr uint64_t kListenerId = 0;
constexpr uint64_t kWakeupId = 1;
constexpr uint64_t kFirstClientId = 2;
constexpr size_t kRoomBytes = size_t{64} << 10;
// Of one turn, so that those who are connected wait little for those who come.
constexpr int kMostAccepted = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

bool is_of_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Result<Descriptor> listener_of(const TcpServerOptions& options) {
  if (options.bound_socket >= 0) return listen_with(Descriptor(options.bound_socket));
  BP_TRY_ASSIGN(const Endpoint endpoint, parse_endpoint(options.endpoint));
  BP_TRY_ASSIGN(const SocketAddress address, SocketAddress::of_listener(endpoint));
  return listen_at(address);
}

}  // namespace

Result<std::shared_ptr<ServerLoop>> ServerLoop::make(TcpServerOptions options) {
  BP_TRY_ASSIGN(Descriptor listener, listener_of(options));
  // What would fail for each client is told now.
  const HandshakeTerms terms = {.token = options.token, .job = options.job};
  BP_TRY(Handshake::begin(Handshake::Side::kAccepts, terms));
  BP_TRY_ASSIGN(const SocketAddress address, SocketAddress::of_socket(listener.get()));
  BP_TRY_ASSIGN(Poller poller, Poller::make());
  BP_TRY_ASSIGN(Wakeup wakeup, Wakeup::make());
  BP_TRY(poller.add(listener.get(), kListenerId, {}));
  BP_TRY(poller.add(wakeup.descriptor(), kWakeupId, {}));
  if (address.is_of_all_interfaces()) {
    log(BP_LOG_WARNING, "store tcp " + address.text() +
                            " listens on all interfaces, as it was told; what goes over it is not "
                            "encrypted");
  }
  return std::shared_ptr<ServerLoop>(new ServerLoop(std::move(options), std::move(listener),
                                                    address, std::move(poller), std::move(wakeup)));
}

ServerLoop::ServerLoop(TcpServerOptions options, Descriptor listener, SocketAddress address,
                       Poller poller, Wakeup wakeup)
    : options_(std::move(options)),
      endpoint_(address.text()),
      listener_(std::move(listener)),
      poller_(std::move(poller)),
      wakeup_(std::move(wakeup)),
      service_(options_.most_bytes),
      next_client_(kFirstClientId),
      room_(kRoomBytes) {}

void ServerLoop::stop() noexcept {
  is_stopping_.store(true, std::memory_order_release);
  wakeup_.wake();
}

void ServerLoop::run() noexcept {
  while (!is_stopping_.load(std::memory_order_acquire)) {
    const Status status = contain([this] { turn(); });
    if (status.ok()) continue;
    [[maybe_unused]] const Status told =
        contain([&] { log(BP_LOG_ERROR, "store tcp " + endpoint_ + ": " + status.to_string()); });
  }
  [[maybe_unused]] const Status ended = contain([this] {
    listener_.close();
    clients_.clear();
    client_count_.store(0, std::memory_order_relaxed);
  });
}

void ServerLoop::turn() {
  const auto events = poller_.wait(next_deadline());
  const TimePoint now = Store::Clock::now();
  for (const Poller::Event& event : events) {
    if (event.id == kWakeupId) {
      wakeup_.clear();
    } else if (event.id == kListenerId) {
      accept_clients(now);
    } else {
      serve(event, now);
    }
  }
  service_.expire(now);
  deliver();
  close_the_slow(now);
  if (accepts_again_ <= now) {
    accepts_again_ = TimePoint::max();
    poller_.change(listener_.get(), kListenerId, {});
  }
}

ServerLoop::TimePoint ServerLoop::next_deadline() const {
  const TimePoint handshake = handshakes_.empty() ? TimePoint::max() : handshakes_.front().first;
  return std::min({service_.next_deadline(), handshake, accepts_again_});
}

// --- clients that come ---

void ServerLoop::accept_clients(TimePoint now) {
  for (int i = 0; i < kMostAccepted; ++i) {
    Accepted accepted = accept_from(listener_.get());
    if (!accepted.socket.is_open()) {
      if (is_of_exhaustion(accepted.error)) pause_accepting(accepted.error, now);
      return;
    }
    const SocketAddress peer = accepted.peer;
    const Status status = admit(std::move(accepted), now);
    if (!status.ok()) log_refusal(peer, status.message(), now);
  }
}

Status ServerLoop::admit(Accepted accepted, TimePoint now) {
  BP_TRY_ASSIGN(
      Handshake handshake,
      Handshake::begin(Handshake::Side::kAccepts, {.token = options_.token, .job = options_.job}));
  const uint64_t id = next_client_++;
  Client client;
  client.connection = std::make_unique<ServerConnection>(id, std::move(accepted.socket),
                                                         accepted.peer, std::move(handshake));
  const int descriptor = client.connection->descriptor();
  handshakes_.emplace_back(time_after(now, options_.handshake_timeout), id);
  clients_.emplace(id, std::move(client));
  const Status status = poller_.add(descriptor, id, {});
  if (!status.ok()) clients_.erase(id);
  return status;
}

/// Others go on meanwhile. The listener stays readable, so it is not looked at for a while.
void ServerLoop::pause_accepting(int error, TimePoint now) {
  poller_.change(listener_.get(), kListenerId, {.read = false});
  accepts_again_ = now + kAcceptPause;
  if (told_of_pause_ != TimePoint::min() && now - told_of_pause_ < RefusalLog::kInterval) return;
  told_of_pause_ = now;
  log(BP_LOG_WARNING,
      "store tcp " + endpoint_ + ": cannot accept a client, and tries again: " + reason_of(error));
}

void ServerLoop::close_the_slow(TimePoint now) {
  while (!handshakes_.empty() && handshakes_.front().first <= now) {
    const auto client = clients_.find(handshakes_.front().second);
    handshakes_.pop_front();
    if (client == clients_.end() || client->second.connection->is_known()) continue;
    refuse(client,
           Status(BP_TIMEOUT, "the peer did not finish the handshake within " +
                                  duration_text(options_.handshake_timeout)),
           now);
  }
}

// --- clients that are there ---

void ServerLoop::serve(const Poller::Event& event, TimePoint now) {
  const auto client = clients_.find(event.id);
  if (client == clients_.end()) return;  // closed by an event before
  ServerConnection& connection = *client->second.connection;
  if (event.has_failed && !client->second.interest.read) return close(client);
  if (event.is_readable || event.has_failed) {
    const bool was_known = connection.is_known();
    const auto outcome = contain([&] { return connection.read(room_, &service_, now); });
    if (!was_known && connection.is_known()) client_count_.fetch_add(1, std::memory_order_relaxed);
    if (!outcome.ok()) return refuse(client, outcome.status(), now);
    if (*outcome == ServerConnection::Outcome::kHasEnded) {
      const bool has_left_early = connection.has_begun() && !connection.is_known();
      if (has_left_early) log_refusal(connection.peer(), "the peer left the handshake", now);
      return close(client);
    }
  }
  flush_and_watch(client);
}

void ServerLoop::deliver() {
  std::vector<StoreService::Reply> replies = service_.take_replies();
  for (StoreService::Reply& reply : replies) {
    const auto client = clients_.find(reply.session);
    if (client == clients_.end()) continue;
    client->second.connection->queue(std::move(reply.head), std::move(reply.body));
  }
  for (const StoreService::Reply& reply : replies) {
    const auto client = clients_.find(reply.session);
    if (client != clients_.end()) flush_and_watch(client);
  }
}

/// Sends what can be sent, and sees to it that the rest is when it can.
void ServerLoop::flush_and_watch(Clients::iterator client) {
  ServerConnection& connection = *client->second.connection;
  if (!connection.flush()) return close(client);
  const Poller::Interest wanted = {.read = !connection.is_full(), .write = connection.has_unsent()};
  if (wanted == client->second.interest) return;
  client->second.interest = wanted;
  poller_.change(connection.descriptor(), connection.id(), wanted);
}

void ServerLoop::refuse(Clients::iterator client, const Status& status, TimePoint now) {
  ServerConnection& connection = *client->second.connection;
  const SocketAddress peer = connection.peer();
  connection.flush();  // what the peer is told of it
  close(client);
  log_refusal(peer, status.message(), now);
}

void ServerLoop::log_refusal(const SocketAddress& peer, const std::string& words, TimePoint now) {
  const auto kept_back = refusals_.count(peer.host(), now);
  if (!kept_back) return;
  std::string line = "store tcp " + endpoint_ + ": refused " + peer.text() + ": " + words;
  if (*kept_back > 0) {
    line += " (" + std::to_string(*kept_back) + " more from there were refused before)";
  }
  log(BP_LOG_WARNING, line);
}

void ServerLoop::close(Clients::iterator client) {
  const ServerConnection& connection = *client->second.connection;
  service_.forget(connection.id());
  if (connection.is_known()) client_count_.fetch_sub(1, std::memory_order_relaxed);
  poller_.remove(connection.descriptor());
  clients_.erase(client);
}

}  // namespace bp::ccl
