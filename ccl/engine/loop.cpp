// SPDX-License-Identifier: Apache-2.0
//
// The engine between threads of one process. A small payload is copied when it is sent; of a large
// one the receiver copies straight from the sender's memory, which stays until then.
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/engine/engine.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kCopiedBytes = 8192;

/// A message between its two ends, which may end at any time.
struct Message {
  std::vector<std::byte> header;
  std::vector<std::byte> copied;  // all of the payload, where it is small
  uint64_t bytes = 0;
  uint64_t from = 0;  // the sender's number

  std::mutex mutex;                     // held while the payload is copied
  const void* data = nullptr;           // the sender's memory; nullptr: withdrawn, or copied
  Transfer* sender = nullptr;           // with data
  std::atomic<bool> is_settled{false};  // no sender waits for it

  /// With the mutex: the sender's memory is not used any more.
  void let_sender_go(bp_status status) {
    data = nullptr;
    if (Transfer* const transfer = std::exchange(sender, nullptr)) {
      transfer->status.store(status, std::memory_order_release);
    }
    is_settled.store(true, std::memory_order_release);
  }
};

/// What others see of an end. It outlives the end itself.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = true;
  bool is_woken = false;
  // Lists, since their nodes move without memory.
  std::list<std::shared_ptr<Message>> messages;
  std::list<uint64_t> gone;  // ends that have closed

  void wake() {
    {
      const std::lock_guard lock(mutex);
      is_woken = true;
    }
    changed.notify_one();
  }
};

/// All ends of the process, by number. Never destroyed: ends may be as late as static objects.
struct Ends {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Mailbox>> by_number;
  uint64_t next_number = 1;
  static Ends& all() {
    static auto* ends = new Ends;
    return *ends;
  }
};

class LoopEngine final : public Engine {
 public:
  LoopEngine() {
    Ends& ends = Ends::all();
    const std::lock_guard lock(ends.mutex);
    number_ = ends.next_number++;
    ends.by_number.emplace(number_, mailbox_);
  }
  ~LoopEngine() override;

  std::string_view name() const override { return "loop"; }
  std::string address() const override { return "loop:" + std::to_string(number_); }
  Status connect(uint32_t peer, std::string_view address) override;
  void send(uint32_t peer, std::span<const std::byte> header, const void* data, uint64_t bytes,
            Transfer* transfer) override;
  void receive(uint64_t token, void* into, Transfer* transfer) override;
  void drop(uint64_t token) override;
  void cancel(Transfer* transfer) override;
  PeerState state_of(uint32_t) const override { return PeerState::kUnknown; }
  bool has_unsent() const override { return false; }  // a send is a call of the other's end
  bool progress(Inbox& inbox) override;
  void wait(Clock::time_point until) override;
  void wake() noexcept override { mailbox_->wake(); }

 private:
  struct Peer {
    uint64_t number = 0;
    std::shared_ptr<Mailbox> mailbox;  // nullptr: not connected, or lost
    std::list<uint64_t> own_number;    // one, for that mailbox when this end closes
  };
  class Taken;
  std::shared_ptr<Message> take(uint64_t token);
  void wake_sender(uint64_t number);
  uint32_t peer_of(uint64_t number) const;

  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  uint64_t number_ = 0;
  std::map<uint32_t, Peer> peers_;
  std::unordered_map<uint64_t, uint32_t> peer_by_number_;
  std::unordered_map<uint64_t, std::shared_ptr<Message>> arrived_;  // by token
  std::unordered_map<Transfer*, std::shared_ptr<Message>> sending_;
  std::list<std::shared_ptr<Message>> early_;  // from ends that are not connected yet
  uint64_t next_token_ = 1;
};

LoopEngine::~LoopEngine() {
  for (auto& [transfer, message] : sending_) {
    const std::lock_guard lock(message->mutex);
    message->let_sender_go(BP_CANCELLED);
  }
  std::list<std::shared_ptr<Message>> unread;
  {
    const std::lock_guard lock(mailbox_->mutex);
    mailbox_->is_open = false;
    unread.swap(mailbox_->messages);
  }
  unread.splice(unread.end(), early_);
  const auto refuse = [](Message& message) {
    const std::lock_guard lock(message.mutex);
    message.let_sender_go(BP_UNAVAILABLE);
  };
  for (const auto& message : unread) refuse(*message);
  for (const auto& [token, message] : arrived_) refuse(*message);
  {
    Ends& ends = Ends::all();
    const std::lock_guard lock(ends.mutex);
    ends.by_number.erase(number_);
  }
  for (auto& [index, peer] : peers_) {
    if (peer.mailbox == nullptr) continue;
    {
      const std::lock_guard lock(peer.mailbox->mutex);
      peer.mailbox->gone.splice(peer.mailbox->gone.end(), peer.own_number);
    }
    peer.mailbox->wake();
  }
}

Status LoopEngine::connect(uint32_t peer, std::string_view address) {
  constexpr std::string_view kPrefix = "loop:";
  uint64_t number = 0;
  if (address.starts_with(kPrefix)) {
    for (const char digit : address.substr(kPrefix.size())) {
      if (digit < '0' || digit > '9' || number > UINT64_MAX / 16) {
        number = 0;
        break;
      }
      number = number * 10 + static_cast<uint64_t>(digit - '0');
    }
  }
  if (number == 0) {
    return Status(BP_INVALID_ARGUMENT,
                  "engine loop: expected an address like loop:1, found " + std::string(address));
  }
  Ends& ends = Ends::all();
  const std::lock_guard lock(ends.mutex);
  const auto found = ends.by_number.find(number);
  auto mailbox = found != ends.by_number.end() ? found->second.lock() : nullptr;
  if (mailbox == nullptr) {
    return Status(BP_UNAVAILABLE, "engine loop: nobody in this process has the address " +
                                      std::string(address) +
                                      "; the engine serves threads of one process");
  }
  peers_[peer] = {number, std::move(mailbox), {number_}};
  peer_by_number_[number] = peer;
  // Who connected earlier may have sent already.
  if (!early_.empty()) {
    const std::lock_guard own(mailbox_->mutex);
    mailbox_->messages.splice(mailbox_->messages.begin(), early_);
    mailbox_->is_woken = true;
  }
  return {};
}

void LoopEngine::send(uint32_t peer, std::span<const std::byte> header, const void* data,
                      uint64_t bytes, Transfer* transfer) {
  transfer->status.store(BP_PENDING, std::memory_order_relaxed);
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.mailbox == nullptr) {
    transfer->status.store(BP_UNAVAILABLE, std::memory_order_release);
    return;
  }
  auto message = std::make_shared<Message>();
  message->header.assign(header.begin(), header.end());
  message->bytes = bytes;
  message->from = number_;
  const bool is_copied = bytes <= kCopiedBytes;
  if (is_copied) {
    const auto* const begin = static_cast<const std::byte*>(data);
    message->copied.assign(begin, begin + bytes);
  } else {
    message->data = data;
    message->sender = transfer;
    sending_.insert_or_assign(transfer, message);  // the place of an earlier one, which is over
  }
  Mailbox& mailbox = *found->second.mailbox;
  bool was_open = false;
  {
    const std::lock_guard lock(mailbox.mutex);
    was_open = mailbox.is_open;
    if (was_open) mailbox.messages.push_back(message);
    mailbox.is_woken = true;
  }
  if (!was_open) {
    sending_.erase(transfer);
    transfer->status.store(BP_UNAVAILABLE, std::memory_order_release);
    return;
  }
  mailbox.changed.notify_one();
  if (is_copied) transfer->status.store(BP_OK, std::memory_order_release);
}

std::shared_ptr<Message> LoopEngine::take(uint64_t token) {
  auto found = arrived_.extract(token);
  return found.empty() ? nullptr : std::move(found.mapped());
}

void LoopEngine::wake_sender(uint64_t number) {
  const auto peer = peer_by_number_.find(number);
  if (peer == peer_by_number_.end()) return;
  if (const auto& mailbox = peers_[peer->second].mailbox) mailbox->wake();
}

void LoopEngine::receive(uint64_t token, void* into, Transfer* transfer) {
  const auto message = take(token);
  bp_status status = BP_OK;
  if (message == nullptr) {
    status = BP_INVALID_ARGUMENT;
  } else if (message->bytes <= kCopiedBytes) {
    if (message->bytes > 0) std::memcpy(into, message->copied.data(), message->bytes);
  } else {
    const std::lock_guard lock(message->mutex);
    if (message->data != nullptr) {
      std::memcpy(into, message->data, message->bytes);
      message->let_sender_go(BP_OK);
    } else {
      status = BP_UNAVAILABLE;  // its sender withdrew it
    }
  }
  transfer->status.store(status, std::memory_order_release);
  if (message != nullptr && message->bytes > kCopiedBytes) wake_sender(message->from);
}

void LoopEngine::drop(uint64_t token) {
  const auto message = take(token);
  if (message == nullptr || message->bytes <= kCopiedBytes) return;
  {
    const std::lock_guard lock(message->mutex);
    message->let_sender_go(BP_OK);
  }
  wake_sender(message->from);
}

void LoopEngine::cancel(Transfer* transfer) {
  auto found = sending_.extract(transfer);
  if (!found.empty()) {
    const std::lock_guard lock(found.mapped()->mutex);
    found.mapped()->let_sender_go(BP_CANCELLED);
  }
  // Whatever else began ended in the call that began it.
  bp_status pending = BP_PENDING;
  transfer->status.compare_exchange_strong(pending, BP_CANCELLED);
}

uint32_t LoopEngine::peer_of(uint64_t number) const {
  const auto found = peer_by_number_.find(number);
  return found != peer_by_number_.end() ? found->second : UINT32_MAX;
}

/// What has come. What is left of it at the end, where memory was short, comes again.
class LoopEngine::Taken {
 public:
  explicit Taken(Mailbox& mailbox) : mailbox_(mailbox) {
    const std::lock_guard lock(mailbox_.mutex);
    messages.swap(mailbox_.messages);
    gone.swap(mailbox_.gone);
  }
  ~Taken() {
    if (is_empty()) return;
    const std::lock_guard lock(mailbox_.mutex);
    mailbox_.messages.splice(mailbox_.messages.begin(), messages);
    mailbox_.gone.splice(mailbox_.gone.begin(), gone);
    mailbox_.is_woken = true;
  }
  bool is_empty() const { return messages.empty() && gone.empty(); }

  std::list<std::shared_ptr<Message>> messages;
  std::list<uint64_t> gone;

 private:
  Mailbox& mailbox_;
};

bool LoopEngine::progress(Inbox& inbox) {
  Taken taken(*mailbox_);
  // A transfer that is over is its caller's, and may be gone.
  const size_t ended_count = std::erase_if(sending_, [](const auto& entry) {
    return entry.second->is_settled.load(std::memory_order_acquire);
  });
  const bool has_moved = !taken.is_empty() || ended_count != 0;
  while (!taken.messages.empty()) {
    const uint32_t peer = peer_of(taken.messages.front()->from);
    if (peer == UINT32_MAX) {
      early_.splice(early_.end(), taken.messages, taken.messages.begin());
      continue;
    }
    const uint64_t token = next_token_++;
    const auto& kept = arrived_.emplace(token, taken.messages.front()).first->second;
    taken.messages.pop_front();
    inbox.message_arrived(peer, kept->header, kept->bytes, token);
  }
  const Status closed(BP_GONE, "its end of the loop engine was closed");
  for (; !taken.gone.empty(); taken.gone.pop_front()) {
    const auto found = peer_by_number_.find(taken.gone.front());
    if (found == peer_by_number_.end()) continue;
    peers_[found->second].mailbox.reset();
    inbox.peer_lost(found->second, closed);
  }
  return has_moved;
}

void LoopEngine::wait(Clock::time_point until) {
  std::unique_lock lock(mailbox_->mutex);
  mailbox_->changed.wait_until(lock, until, [this] { return mailbox_->is_woken; });
  // Only here: whoever wakes before the wait begins wants that one to end.
  mailbox_->is_woken = false;
}

}  // namespace

std::unique_ptr<Engine> make_loop_engine() { return std::make_unique<LoopEngine>(); }

}  // namespace bp::ccl
