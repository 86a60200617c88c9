// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/server_connection.hpp"

#include <array>
#include <utility>

#include "ccl/store/wire.hpp"

namespace bp::ccl {

Result<ServerConnection::Outcome> ServerConnection::read(std::span<char> room,
                                                         StoreService* service, TimePoint now) {
  for (uint64_t done = 0; done < kMostReadBytes;) {
    const SocketTransfer transfer = receive_from(descriptor(), room);
    if (transfer.would_wait) break;
    if (transfer.has_ended || transfer.error != 0) return Outcome::kHasEnded;
    done += transfer.bytes;
    BP_TRY(take(std::string_view(room.data(), transfer.bytes), service, now));
    if (transfer.bytes < room.size()) break;
  }
  return Outcome::kGoesOn;
}

Status ServerConnection::take(std::string_view bytes, StoreService* service, TimePoint now) {
  has_begun_ = has_begun_ || !bytes.empty();
  if (!is_known()) {
    const auto used = handshake_.receive(bytes);
    std::string output = handshake_.take_output();
    if (!output.empty()) queue(std::move(output), nullptr);
    BP_TRY(used);
    bytes.remove_prefix(*used);
  }
  if (input_.empty()) {
    BP_TRY_ASSIGN(const size_t used, take_frames(bytes, service, now));
    input_ = bytes.substr(used);
  } else {
    input_ += bytes;
    BP_TRY_ASSIGN(const size_t used, take_frames(input_, service, now));
    input_.erase(0, used);
    if (input_.empty()) input_ = std::string();  // thousands of clients keep no room for nothing
  }
  return {};
}

/// How many bytes the whole frames have.
Result<size_t> ServerConnection::take_frames(std::string_view bytes, StoreService* service,
                                             TimePoint now) {
  size_t used = 0;
  for (;;) {
    BP_TRY_ASSIGN(const std::optional<Frame> frame, next_frame(bytes.substr(used)));
    if (!frame) return used;
    BP_TRY_ASSIGN(const Request request, decode_request(*frame));
    BP_TRY(service->handle(id_, request, now));
    used += frame->bytes;
  }
}

void ServerConnection::queue(std::string head, KeyMap::Value body) {
  unsent_.push_back({std::move(head), std::move(body)});
  unsent_bytes_ += unsent_.back().bytes();
}

bool ServerConnection::flush() {
  while (!unsent_.empty()) {
    std::array<std::string_view, 32> pieces;
    size_t count = 0;
    size_t skipped = sent_of_first_;
    for (const Piece& piece : unsent_) {
      if (count + 2 > pieces.size()) break;
      const std::string_view body = piece.body != nullptr ? *piece.body : std::string_view();
      for (std::string_view part : {std::string_view(piece.head), body}) {
        const size_t left_out = std::min(skipped, part.size());
        skipped -= left_out;
        part.remove_prefix(left_out);
        if (!part.empty()) pieces[count++] = part;
      }
    }
    const SocketTransfer transfer = send_to(descriptor(), std::span(pieces).first(count));
    if (transfer.would_wait) return true;
    if (transfer.error != 0) return false;
    drop_sent(transfer.bytes);
  }
  return true;
}

void ServerConnection::drop_sent(size_t bytes) {
  unsent_bytes_ -= bytes;
  sent_of_first_ += bytes;
  while (!unsent_.empty() && sent_of_first_ >= unsent_.front().bytes()) {
    sent_of_first_ -= unsent_.front().bytes();
    unsent_.pop_front();
  }
}

}  // namespace bp::ccl
