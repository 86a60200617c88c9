// SPDX-License-Identifier: Apache-2.0
//
// One client of a store's server: its handshake, its requests, and what it is still to be sent.
#ifndef BACKPLANE_CCL_STORE_SERVER_CONNECTION_HPP
#define BACKPLANE_CCL_STORE_SERVER_CONNECTION_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "ccl/store/handshake.hpp"
#include "ccl/store/sockets.hpp"
#include "ccl/store/store_service.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Not for several threads at once.
class ServerConnection {
 public:
  using TimePoint = Store::Clock::time_point;
  /// With more to send, no more of the client's requests are read.
  static constexpr uint64_t kMostUnsentBytes = uint64_t{4} << 20;
  /// Of one turn, so that no client holds up the others.
  static constexpr uint64_t kMostReadBytes = uint64_t{256} << 10;

  /// `handshake`: of the accepting side.
  ServerConnection(uint64_t id, Descriptor socket, SocketAddress peer, Handshake handshake)
      : id_(id), socket_(std::move(socket)), peer_(peer), handshake_(std::move(handshake)) {}

  enum class Outcome : uint8_t { kGoesOn, kHasEnded };
  /// Reads what the client has sent, through `room`. Errors: INVALID_ARGUMENT and INCOMPATIBLE for
  /// a client that is to be closed, as take().
  Result<Outcome> read(std::span<char> room, StoreService* service, TimePoint now);
  /// The same for bytes that are here. Errors: what the handshake refuses, and a frame that is
  /// none.
  Status take(std::string_view bytes, StoreService* service, TimePoint now);

  /// Puts a reply behind what is still to be sent.
  void queue(std::string head, KeyMap::Value body);
  /// Sends as much as the system takes now. False: the connection has failed.
  bool flush();

  uint64_t id() const { return id_; }
  int descriptor() const { return socket_.get(); }
  const SocketAddress& peer() const { return peer_; }
  bool is_known() const { return handshake_.is_done(); }
  /// Whether it has sent anything that can be told of.
  bool has_begun() const { return has_begun_; }
  bool has_unsent() const { return !unsent_.empty(); }
  bool is_full() const { return unsent_bytes_ > kMostUnsentBytes; }

 private:
  struct Piece {
    std::string head;
    KeyMap::Value body;
    size_t bytes() const { return head.size() + (body != nullptr ? body->size() : 0); }
  };
  Result<size_t> take_frames(std::string_view bytes, StoreService* service, TimePoint now);
  void drop_sent(size_t bytes);

  const uint64_t id_;
  Descriptor socket_;
  SocketAddress peer_;
  Handshake handshake_;
  bool has_begun_ = false;
  std::string input_;  // the begin of a frame
  std::deque<Piece> unsent_;
  size_t sent_of_first_ = 0;
  uint64_t unsent_bytes_ = 0;
};

}  // namespace bp::ccl

#endif
