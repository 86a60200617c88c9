// SPDX-License-Identifier: Apache-2.0
#include "ccl/engine/proven_engine.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ccl/store/handshake.hpp"
#include "ccl/store/refusal_log.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

/// The first byte of every header.
enum class Kind : uint8_t { kMessage = 1, kHandshake = 2 };

/// Up to which a message to one that has not proved itself is kept for its sender. Words of a
/// failure are shorter.
constexpr uint64_t kShortBytes = 8192;
/// For those words, where the end goes before the proof.
constexpr auto kLastWordsWithin = std::chrono::seconds(1);
constexpr auto kLastWordsLook = std::chrono::milliseconds(10);

/// A message's header, as the inner engine gets it.
struct InnerHeader {
  InnerHeader(Kind kind, std::span<const std::byte> header) : size(1 + header.size()) {
    bytes[0] = static_cast<std::byte>(kind);
    std::copy(header.begin(), header.end(), bytes.begin() + 1);
  }
  std::span<const std::byte> get() const { return {bytes.data(), size}; }
  std::array<std::byte, 1 + Engine::kMostHeaderBytes> bytes;
  size_t size;
};

class ProvenEngine final : public Engine, private Inbox {
 public:
  ProvenEngine(std::unique_ptr<Engine> inner, Proof proof)
      : proof_(std::move(proof)), inner_(std::move(inner)) {}
  ~ProvenEngine() override;

  std::string_view name() const override { return inner_->name(); }
  std::string address() const override;
  Status connect(uint32_t peer, std::string_view address) override;
  void send(uint32_t peer, std::span<const std::byte> header, const void* data, uint64_t bytes,
            Transfer* transfer) override;
  void receive(uint64_t token, void* into, Transfer* transfer) override {
    inner_->receive(token, into, transfer);
  }
  void drop(uint64_t token) override { inner_->drop(token); }
  void cancel(Transfer* transfer) override;
  PeerState state_of(uint32_t peer) const override { return inner_->state_of(peer); }
  bool has_unsent() const override { return waiting_count_ > 0 || inner_->has_unsent(); }
  bool progress(Inbox& inbox) override;
  void wait(Clock::time_point until) override { inner_->wait(until); }
  void wake() noexcept override { inner_->wake(); }

 private:
  /// A send that waits for the peer's proof. A short one is over for its sender: its last words
  /// come also where it leaves before the proof.
  struct Waiting {
    InnerHeader header;
    const void* data;
    uint64_t bytes;
    Transfer* transfer;               // nullptr: of a short one
    std::vector<std::byte> copied{};  // all bytes of a short one
  };
  struct OwnSend {
    Transfer transfer;
    std::vector<std::byte> payload{};
  };
  struct Peer {
    std::optional<Handshake> handshake;  // while it goes on
    bool is_proven = false;
    bool is_lost = false;
    std::deque<Waiting> waiting;
  };
  struct Output {
    uint32_t peer;
    std::string bytes;
  };

  void message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                       uint64_t token) noexcept override;
  void peer_lost(uint32_t peer, const Status& why) noexcept override;
  void take_handshake(uint32_t number, Peer* peer, std::string_view bytes);
  void send_handshake(uint32_t peer, const std::string& bytes);
  void send_own(uint32_t peer, const InnerHeader& header, std::vector<std::byte> payload);
  void let_waiting_go(uint32_t peer, Peer* found);
  void follow();
  void send_last_words();
  void lose(uint32_t peer, Peer* found, const Status& why);
  void tell_dropped(uint32_t peer);

  const Proof proof_;
  const std::unique_ptr<Engine> inner_;
  std::map<uint32_t, Peer> peers_;
  size_t waiting_count_ = 0;      // of all of them
  std::list<OwnSend> own_sends_;  // of handshakes, and of short messages that waited
  uint64_t dropped_count_ = 0;
  RefusalLog dropped_log_;

  // Of a progress() that goes on, for its end: an inbox must not call the engine.
  Inbox* outer_ = nullptr;
  bool is_to_follow_ = false;       // any of these
  std::vector<Output> outputs_;     // of handshakes
  std::vector<uint32_t> proven_;    // peers that have just proved themselves
  std::vector<uint64_t> unwanted_;  // tokens
  std::vector<uint32_t> unproven_;  // who sent them
};

/// Of an end that is going: nobody wants what comes.
class NoInbox final : public Inbox {
 public:
  explicit NoInbox(Engine* engine) : engine_(*engine) {}
  void message_arrived(uint32_t, std::span<const std::byte>, uint64_t,
                       uint64_t token) noexcept override {
    [[maybe_unused]] const Status noted = contain([&] { tokens_.push_back(token); });
  }
  void peer_lost(uint32_t, const Status&) noexcept override {}
  void drop_all() {
    for (const uint64_t token : std::exchange(tokens_, {})) engine_.drop(token);
  }

 private:
  Engine& engine_;
  std::vector<uint64_t> tokens_;
};

/// Waits for the proofs of those to whom short messages wait, while they live.
void ProvenEngine::send_last_words() {
  const auto until = Clock::now() + kLastWordsWithin;
  const auto is_done = [&] {
    return std::all_of(peers_.begin(), peers_.end(), [](const auto& entry) {
      const auto& waiting = entry.second.waiting;
      return std::none_of(waiting.begin(), waiting.end(),
                          [](const Waiting& one) { return one.transfer == nullptr; });
    });
  };
  NoInbox inbox(inner_.get());
  while (!is_done() && Clock::now() < until) {
    const bool has_moved = progress(inbox);
    inbox.drop_all();
    if (!has_moved) inner_->wait(std::min(until, Clock::now() + kLastWordsLook));
  }
}

ProvenEngine::~ProvenEngine() {
  if (!forked()) {
    [[maybe_unused]] const Status said = contain([&] { send_last_words(); });
  }
  for (auto& [number, peer] : peers_) {
    for (const Waiting& waiting : peer.waiting) {
      if (waiting.transfer == nullptr) continue;
      waiting.transfer->status.store(BP_CANCELLED, std::memory_order_release);
    }
  }
  for (OwnSend& own : own_sends_) {
    if (!own.transfer.is_over()) inner_->cancel(&own.transfer);
  }
}

std::string ProvenEngine::address() const {
  const std::string inner = inner_->address();
  const Mac mac = proof_.token->mac("address " + inner);
  return std::string(mac.begin(), mac.end()) + inner;
}

Status ProvenEngine::connect(uint32_t number, std::string_view address) {
  const std::string_view mac = address.substr(0, kMacBytes);
  const std::string_view inner = address.substr(mac.size());
  if (!is_same_mac(mac, proof_.token->mac("address " + std::string(inner)))) {
    return Status(BP_INVALID_ARGUMENT,
                  "engine " + std::string(name()) +
                      ": expected an address that a rank of this job has made, found " +
                      std::to_string(address.size()) + " bytes of something else");
  }
  const auto side =
      proof_.own_rank < number ? Handshake::Side::kConnects : Handshake::Side::kAccepts;
  BP_TRY_ASSIGN(Handshake handshake,
                Handshake::begin(side, {.token = proof_.token,
                                        .job = proof_.job,
                                        .purpose = HandshakeTerms::Purpose::kEngine,
                                        .own_rank = proof_.own_rank,
                                        .peer_rank = number}));
  BP_TRY(inner_->connect(number, inner));
  Peer& peer = peers_[number];
  peer = {};
  if (number == proof_.own_rank) {
    peer.is_proven = true;
    return {};
  }
  const std::string first = handshake.take_output();
  peer.handshake = std::move(handshake);
  send_handshake(number, first);
  return {};
}

void ProvenEngine::send_own(uint32_t peer, const InnerHeader& header,
                            std::vector<std::byte> payload) {
  std::erase_if(own_sends_, [](const OwnSend& send) { return send.transfer.is_over(); });
  OwnSend& own = own_sends_.emplace_back();
  own.payload = std::move(payload);
  inner_->send(peer, header.get(), own.payload.data(), own.payload.size(), &own.transfer);
}

void ProvenEngine::send_handshake(uint32_t peer, const std::string& bytes) {
  if (bytes.empty()) return;
  send_own(peer, InnerHeader(Kind::kHandshake, std::as_bytes(std::span(bytes))), {});
}

void ProvenEngine::send(uint32_t number, std::span<const std::byte> header, const void* data,
                        uint64_t bytes, Transfer* transfer) {
  transfer->status.store(BP_PENDING, std::memory_order_relaxed);
  const auto found = peers_.find(number);
  if (found == peers_.end() || found->second.is_lost) {
    transfer->status.store(BP_UNAVAILABLE, std::memory_order_release);
    return;
  }
  const InnerHeader whole(Kind::kMessage, header);
  if (found->second.is_proven) return inner_->send(number, whole.get(), data, bytes, transfer);
  Waiting waiting{whole, data, bytes, transfer};
  if (bytes <= kShortBytes) {
    const auto* const first = static_cast<const std::byte*>(data);
    waiting.copied.assign(first, first + bytes);
    waiting.transfer = nullptr;
  }
  found->second.waiting.push_back(std::move(waiting));
  ++waiting_count_;
  if (bytes <= kShortBytes) transfer->status.store(BP_OK, std::memory_order_release);
}

void ProvenEngine::let_waiting_go(uint32_t number, Peer* peer) {
  while (!peer->waiting.empty()) {
    Waiting waiting = std::move(peer->waiting.front());
    peer->waiting.pop_front();
    --waiting_count_;
    if (waiting.transfer != nullptr) {
      inner_->send(number, waiting.header.get(), waiting.data, waiting.bytes, waiting.transfer);
    } else {
      send_own(number, waiting.header, std::move(waiting.copied));
    }
  }
}

void ProvenEngine::cancel(Transfer* transfer) {
  for (auto& [number, peer] : peers_) {
    const size_t count = std::erase_if(
        peer.waiting, [&](const Waiting& waiting) { return waiting.transfer == transfer; });
    waiting_count_ -= count;
    if (count == 0) continue;
    transfer->status.store(BP_CANCELLED, std::memory_order_release);
    return;
  }
  inner_->cancel(transfer);
}

void ProvenEngine::message_arrived(uint32_t number, std::span<const std::byte> header,
                                   uint64_t bytes, uint64_t token) noexcept {
  const auto found = peers_.find(number);
  const bool is_known = found != peers_.end() && !found->second.is_lost && !header.empty();
  const auto kind = is_known ? static_cast<Kind>(header.front()) : Kind();
  if (is_known && kind == Kind::kMessage && found->second.is_proven) {
    return outer_->message_arrived(number, header.subspan(1), bytes, token);
  }
  is_to_follow_ = true;
  [[maybe_unused]] const Status noted = contain([&] {
    unwanted_.push_back(token);
    const bool is_handshake = kind == Kind::kHandshake && found->second.handshake && bytes == 0;
    if (!is_handshake) return unproven_.push_back(number);
    // At once: what comes behind the last message of a handshake is to be delivered.
    const auto body = header.subspan(1);
    take_handshake(number, &found->second,
                   std::string_view(reinterpret_cast<const char*>(body.data()), body.size()));
  });
}

void ProvenEngine::peer_lost(uint32_t number, const Status& why) noexcept {
  const auto found = peers_.find(number);
  if (found != peers_.end()) lose(number, &found->second, why);
}

void ProvenEngine::lose(uint32_t number, Peer* peer, const Status& why) {
  if (peer->is_lost) return;
  peer->is_lost = true;
  peer->is_proven = false;
  peer->handshake.reset();
  for (const Waiting& waiting : peer->waiting) {
    if (waiting.transfer == nullptr) continue;
    waiting.transfer->status.store(BP_UNAVAILABLE, std::memory_order_release);
  }
  waiting_count_ -= peer->waiting.size();
  peer->waiting.clear();
  outer_->peer_lost(number, why);
}

void ProvenEngine::take_handshake(uint32_t number, Peer* peer, std::string_view bytes) {
  const auto taken = peer->handshake->receive(bytes);
  outputs_.push_back({number, peer->handshake->take_output()});
  Status status = taken.status();
  if (taken.ok() && *taken != bytes.size()) {
    status = Status(BP_INVALID_ARGUMENT, "it sent more than a handshake has");
  }
  const bool is_done = status.ok() && peer->handshake->is_done();
  if (is_done && peer->handshake->peer_rank() != number) {
    status = Status(BP_INVALID_ARGUMENT,
                    "it says that it is rank " + std::to_string(peer->handshake->peer_rank()));
  }
  if (!status.ok()) {
    return lose(
        number, peer,
        Status(BP_UNAVAILABLE, "it did not prove that it is rank " + std::to_string(number) +
                                   " of this job: " + status.message()));
  }
  if (!is_done) return;
  proven_.push_back(number);
  peer->handshake.reset();
  peer->is_proven = true;
}

void ProvenEngine::tell_dropped(uint32_t number) {
  ++dropped_count_;
  const auto kept_back = dropped_log_.count(std::to_string(number), Clock::now());
  if (!kept_back) return;
  log(BP_LOG_WARNING, "engine " + std::string(name()) + ": dropped a message of rank " +
                          std::to_string(number) + ", which has not proved itself (" +
                          std::to_string(dropped_count_) + " in all)");
}

bool ProvenEngine::progress(Inbox& inbox) {
  outer_ = &inbox;
  const bool has_moved = inner_->progress(*this);
  outer_ = nullptr;
  if (is_to_follow_) follow();
  return has_moved;
}

/// What handshakes and messages of peers that have proved nothing lead to.
void ProvenEngine::follow() {
  is_to_follow_ = false;
  for (const Output& output : std::exchange(outputs_, {})) {
    send_handshake(output.peer, output.bytes);
  }
  for (const uint32_t number : std::exchange(proven_, {})) let_waiting_go(number, &peers_[number]);
  for (const uint64_t token : std::exchange(unwanted_, {})) inner_->drop(token);
  for (const uint32_t number : std::exchange(unproven_, {})) tell_dropped(number);
}

}  // namespace

std::unique_ptr<Engine> make_proven_engine(std::unique_ptr<Engine> inner, Proof proof) {
  return std::make_unique<ProvenEngine>(std::move(inner), std::move(proof));
}

}  // namespace bp::ccl
