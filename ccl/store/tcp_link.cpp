// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/tcp_link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "ccl/store/handshake.hpp"
#include "ccl/store/told_wait.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kLinkRoomBytes = size_t{16} << 10;

/// Nobody listens yet, or too many come at once.
bool may_listen_later(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ECONNABORTED;
}

Result<Descriptor> connect_in_time(const SocketAddress& address, const TcpStoreOptions& options) {
  constexpr std::chrono::milliseconds kLongestRetryPause{200};
  std::chrono::milliseconds pause{1};
  ToldWait wait(options.deadline, options.telling, [&] {
    return "waiting for the store tcp " + address.text() + ", where nobody answers";
  });
  for (;;) {
    int error = 0;
    auto connected = connect_to(address, wait.next_look(), &error);
    // Where a packet gets no answer at all, another try is as good as going on.
    const bool may_come_later = may_listen_later(error) || connected.status().code() == BP_TIMEOUT;
    if (connected.ok() || !may_come_later) return connected;
    wait.look();
    const auto left = time_left(options.deadline);
    if (left == left.zero()) return connected;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, left));
    pause = std::min(2 * pause, kLongestRetryPause);
  }
}

Status send_all(int socket, std::string_view bytes, Store::Clock::time_point deadline) {
  while (!bytes.empty()) {
    const SocketTransfer transfer = send_to(socket, {&bytes, 1});
    if (transfer.error != 0) {
      return Status(BP_UNAVAILABLE, "the connection failed: " + reason_of(transfer.error));
    }
    bytes.remove_prefix(transfer.bytes);
    Awaited awaited{socket, true, false};
    if (transfer.would_wait && !wait_for_ready({&awaited, 1}, deadline)) {
      return Status(BP_TIMEOUT, "the server did not read the handshake by the deadline");
    }
  }
  return {};
}

/// The connecting side's part. Nothing follows it before this side asks for something.
Status shake_hands(int socket, Handshake handshake, Store::Clock::time_point deadline) {
  std::array<char, Handshake::kMostMessageBytes> room;
  for (;;) {
    BP_TRY(send_all(socket, handshake.take_output(), deadline));
    if (handshake.is_done()) return {};
    Awaited awaited{socket, false, false};
    if (!wait_for_ready({&awaited, 1}, deadline)) {
      return Status(BP_TIMEOUT, "the server did not answer the handshake by the deadline");
    }
    const SocketTransfer transfer = receive_from(socket, room);
    if (transfer.would_wait) continue;
    if (transfer.error != 0 || transfer.has_ended) {
      return Status(BP_UNAVAILABLE, "the server closed the connection during the handshake");
    }
    const std::string_view bytes(room.data(), transfer.bytes);
    BP_TRY_ASSIGN(const size_t used, handshake.receive(bytes));
    if (used < bytes.size()) {
      return Status(BP_INVALID_ARGUMENT, "the server sent more than the handshake");
    }
  }
}

}  // namespace

Result<std::shared_ptr<TcpLink>> TcpLink::connect(const TcpStoreOptions& options) {
  BP_TRY_ASSIGN(const Endpoint endpoint, parse_endpoint(options.endpoint));
  BP_TRY_ASSIGN(const SocketAddress address, SocketAddress::of_address(endpoint));
  const std::string name = "tcp " + address.text();
  BP_TRY_ASSIGN(
      Handshake handshake,
      Handshake::begin(Handshake::Side::kConnects, {.token = options.token, .job = options.job}));
  BP_TRY_ASSIGN(Wakeup wakeup, Wakeup::make());
  BP_TRY_ASSIGN(Descriptor socket, connect_in_time(address, options));
  const Status status = shake_hands(socket.get(), std::move(handshake), options.deadline);
  if (!status.ok()) return status.with_prefix(name);
  return std::shared_ptr<TcpLink>(new TcpLink(name, std::move(socket), std::move(wakeup)));
}

TcpLink::TcpLink(std::string name, Descriptor socket, Wakeup wakeup)
    : name_(std::move(name)),
      socket_(std::move(socket)),
      wakeup_(std::move(wakeup)),
      room_(kLinkRoomBytes) {}

Result<TcpLink::Reply> TcpLink::call(Request request, TimePoint until, const AbortFlag& aborted) {
  Lock lock(mutex_);
  const auto has_room = [this] { return unsent_.size() - sent_ <= kMostUnsentBytes; };
  BP_TRY(wait(has_room, "the store does not read what it is sent", &lock, until, aborted));
  BP_TRY(lost_);
  Waiting waiting;
  request.number = next_number_++;
  // Whatever happens meanwhile, nobody is to write to this stack afterwards.
  struct Entry {
    std::map<uint64_t, Waiting*>* map;
    uint64_t number;
    ~Entry() { map->erase(number); }
  };
  waiting_.emplace(request.number, &waiting);
  const Entry entry{&waiting_, request.number};
  unsent_ += encode_request(request);
  flush();
  // The thread that waits for answers does not know yet that there is something to send.
  if (!unsent_.empty() && is_moved_) wakeup_.wake();
  const auto is_done = [&waiting] { return waiting.is_done; };
  BP_TRY(wait(is_done, "the store does not answer", &lock, until, aborted));
  return std::move(waiting.reply);
}

void TcpLink::wake() noexcept {
  // Of the thread that moves bytes, which wakes the others: where there is none, nobody waits.
  if (!forked()) wakeup_.wake();
}

/// Until it is so; `late` are the words where that takes too long.
template <class IsSo>
Status TcpLink::wait(IsSo is_so, std::string_view late, Lock* lock, TimePoint until,
                     const AbortFlag& aborted) {
  for (;;) {
    if (aborted.is_set()) return aborted_error(name_);
    if (is_so()) return {};
    BP_TRY(lost_);
    if (Store::Clock::now() >= until) return store_error(BP_TIMEOUT, name_, late);
    if (is_moved_) {
      changed_.wait_until(*lock, until);
      continue;
    }
    is_moved_ = true;
    const Status status = contain([&] { move_bytes(lock, until); });
    if (!lock->owns_lock()) lock->lock();
    is_moved_ = false;
    // Also where nothing came: another is to take this one's place, should it leave.
    changed_.notify_all();
    BP_TRY(status);
  }
}

/// Waits until something comes or can be sent, or the thread is woken, and does it.
void TcpLink::move_bytes(Lock* lock, TimePoint until) {
  std::array<Awaited, 2> awaited = {Awaited{socket_.get(), !unsent_.empty(), false},
                                    Awaited{wakeup_.descriptor(), false, false}};
  lock->unlock();
  wait_for_ready(awaited, until);
  lock->lock();
  if (awaited[1].is_ready) wakeup_.clear();
  if (!awaited[0].is_ready) return;
  flush();
  receive();
}

void TcpLink::flush() {
  while (lost_.ok() && sent_ < unsent_.size()) {
    const std::string_view bytes = std::string_view(unsent_).substr(sent_);
    const SocketTransfer transfer = send_to(socket_.get(), {&bytes, 1});
    // A server that closes may have said why: what it sent is read first.
    if (transfer.would_wait || transfer.error != 0) return;
    sent_ += transfer.bytes;
  }
  if (sent_ < unsent_.size()) return;
  unsent_ = std::string();
  sent_ = 0;
}

void TcpLink::receive() {
  while (lost_.ok()) {
    const SocketTransfer transfer = receive_from(socket_.get(), room_);
    if (transfer.would_wait) return;
    if (transfer.has_ended) return lose("the store closed the connection");
    if (transfer.error != 0) return lose("the connection failed: " + reason_of(transfer.error));
    input_.append(room_.data(), transfer.bytes);
    const Status status = take_answers();
    if (!status.ok()) return lose("the server sent what is no answer: " + status.message());
    if (transfer.bytes < room_.size()) return;
  }
}

Status TcpLink::take_answers() {
  size_t used = 0;
  for (;;) {
    BP_TRY_ASSIGN(const auto frame, next_frame(std::string_view(input_).substr(used)));
    if (!frame) break;
    BP_TRY_ASSIGN(const Answer answer, decode_answer(*frame));
    if (answer.number == 0 || answer.number >= next_number_) {
      return Status(BP_INVALID_ARGUMENT, "an answer to a request that was not made");
    }
    const auto found = waiting_.find(answer.number);
    if (found != waiting_.end()) {  // else its caller has left
      found->second->reply = {answer.status, answer.kind, std::string(answer.text), answer.amount};
      found->second->is_done = true;
    }
    used += frame->bytes;
  }
  input_.erase(0, used);
  if (input_.empty()) input_ = std::string();
  return {};
}

void TcpLink::lose(const std::string& words) {
  lost_ = store_error(BP_UNAVAILABLE, name_, words);
  changed_.notify_all();
}

}  // namespace bp::ccl
