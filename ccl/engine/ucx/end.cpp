// SPDX-License-Identifier: Apache-2.0
//
// See end.hpp. What a connection loses, and how it ends, is in end_loss.cpp.
#include "ccl/engine/ucx/end.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace bp_ucx {
namespace {

constexpr uint64_t kEagerBytes = 8192;
constexpr size_t kMostSpareCopies = 64;  // of kEagerBytes
constexpr size_t kGreetingBytes = 1024;  // more than UCX has room for in the queue itself
constexpr size_t kMostStrays = 1024;
constexpr size_t kMostGreeters = 65536;  // as many as there may be ranks
constexpr size_t kMostAhead = 65536;     // messages of one peer that wait for an earlier one

}  // namespace

End::End(const bp_engine_args& args)
    : uses_shared_memory_(args.uses_shared_memory != 0), worker_(args) {
  Address own = own_address();
  id_ = own.end;
  own_host_ = own.host;
  own.worker = worker_.address(false);
  if (args.interface_name[0] != 0) own.network = worker_.address(true);
  address_ = encode(own);
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kMessageId;
  param.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  param.cb = on_message;
  param.arg = this;
  if (ucp().worker_set_am_recv_handler(worker_.get(), &param) != UCS_OK) {
    throw Refusal(BP_UNAVAILABLE, "UCX takes no handler of messages");
  }
  watch_.add_messages(worker_.descriptor());
}

End::Peer* End::find(uint32_t peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() ? found->second.get() : nullptr;
}

ucp_ep_h End::make_endpoint(Peer& peer, const std::string& worker) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = &peer;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t made = ucp().ep_create(worker_.get(), &params, &endpoint);
  if (made == UCS_OK) return endpoint;
  throw Refusal(BP_UNAVAILABLE, std::string("no way to this peer: ") + ucp().status_string(made));
}

/// Before the bytes of a long message come its receiver asks for them, and what is asked waits
/// behind all that it sends itself on the same connection: of two long messages one would go after
/// the other. So over a network each direction has a connection of its own. UCX pairs the first
/// endpoints of both ends, then the second ones.
///
/// Containers may share their memory (--ipc=host), but not their process numbers. UCX finds its
/// shared memory there, and then neither opens all of it nor can tell whether its peer lives; so it
/// is given no address but the network's.
void End::open_endpoints(Peer& peer, const Address& address) {
  requests_.reserve(requests_.size() + 4 * peers_.size());  // to flush and close two of each
  const bool is_elsewhere = address.host != own_host_;
  const bool knows_network = is_elsewhere && !address.network.empty();
  const std::string& worker = knows_network ? address.network : address.worker;
  const ucp_ep_h first = make_endpoint(peer, worker);
  peer.endpoint = first;
  const bool is_over_network = is_elsewhere || !uses_shared_memory_;
  if (!is_over_network || peer.id == id_) return;
  const ucp_ep_h second = make_endpoint(peer, worker);
  const bool is_first = id_ < peer.id;
  peer.endpoint = is_first ? first : second;
  peer.other = is_first ? second : first;
  peer.stage = Stage::kApart;
  peer.is_begun_here = is_first;
  is_anyone_apart_ = true;
}

void End::connect(uint32_t number, std::string_view bytes) {
  const auto address = decode_address(bytes);
  if (!address) {
    throw Refusal(BP_INVALID_ARGUMENT, "expected an address of this engine, found " +
                                           std::to_string(bytes.size()) + " bytes that are none");
  }
  if (find(number) != nullptr || peer_by_id_.count(address->end) != 0) {
    throw Refusal(BP_INVALID_ARGUMENT,
                  "peer " + std::to_string(number) + ", or its address, is connected already");
  }
  auto made = std::make_unique<Peer>(*this, number, address->end);
  Peer& peer = *made;
  const bool is_watched = address->host == own_host_ && address->process != getpid();
  if (is_watched && !watch_.add_process(number, address->process, address->start_time)) {
    throw Refusal(BP_UNAVAILABLE, "its process " + std::to_string(address->process) + " has ended");
  }
  try {
    peers_.emplace(number, std::move(made));
    peer_by_id_.emplace(address->end, &peer);
    reserve_sendings(1);  // before there are endpoints, of which UCX pairs the first ones
    open_endpoints(peer, *address);
    ++spared_count_;
    peer.is_owed_farewell = true;
  } catch (...) {
    close_endpoints(peer);
    watch_.remove_process(number);
    latest_sender_ = nullptr;
    peer_by_id_.erase(address->end);
    peers_.erase(number);
    throw;
  }
  if (is_watched) {
    peer.process = address->process;
    peer.start_time = address->start_time;
    if (peer.stage == Stage::kMet) greet(peer);
  }
  if (greeters_.erase(peer.id) > 0) hear(peer, Kind::kGreeting);
  is_behind_ = is_behind_ || !strays_.empty();  // some may be its own
}

/// UCX maps the memory in which a peer of this host takes messages with the first one that needs
/// it. If it cannot, the place that it had taken in the peer's queue stays empty, and the peer
/// hears nobody any more: so this comes while the ranks join, and not when memory has become
/// scarce.
void End::greet(Peer& peer) {
  Sending& sending = make_sending(peer, Kind::kGreeting, 0, {});
  static constexpr std::array<char, kGreetingBytes> kNothing{};
  if (post(sending, kNothing.data(), kNothing.size()) == BP_OK) return;
  throw Refusal(BP_UNAVAILABLE, "no way to this peer: " + peer.why);
}

uint32_t End::state_of(uint32_t number) const {
  const Peer* const peer = find(number);
  if (peer == nullptr || peer->process == 0) return BP_ENGINE_PEER_UNKNOWN;
  const auto state = state_of_process(peer->process);
  if (!state || state->start_time != peer->start_time) return BP_ENGINE_PEER_UNKNOWN;
  if (state->letter == 'T' || state->letter == 't') return BP_ENGINE_PEER_STOPPED;
  // All that send to this process within the host write into one queue.
  return uses_shared_memory_ ? BP_ENGINE_PEER_RUNS : BP_ENGINE_PEER_UNKNOWN;
}

// --- Sending

void End::reserve_sendings(size_t count) {
  while (free_sendings_.size() < spared_count_ + count) {
    free_sendings_.reserve(sendings_.size() + 1);  // for when all are sent
    free_sendings_.push_back(&sendings_.emplace_back(*this));
  }
}

End::Sending& End::make_sending(Peer& peer, Kind kind, uint64_t sequence, std::string_view header,
                                std::string_view inline_data) {
  reserve_sendings(1);
  Sending& sending = *free_sendings_.back();
  free_sendings_.pop_back();
  sending.peer = &peer;
  sending.sequence = sequence;
  const Envelope envelope{kMessageMark, kind, static_cast<uint16_t>(inline_data.size()), id_,
                          sequence};
  std::memcpy(sending.head.data(), &envelope, sizeof(envelope));
  char* const behind =
      std::copy(header.begin(), header.end(), sending.head.data() + sizeof(envelope));
  std::copy(inline_data.begin(), inline_data.end(), behind);
  sending.head_bytes = sizeof(envelope) + header.size() + inline_data.size();
  sending.is_short = true;
  sending.is_meeting = kind == Kind::kMeeting;
  sending.transfer = nullptr;
  sending.request = nullptr;
  sending.is_done = false;
  sending.status = UCS_OK;
  return sending;
}

void End::recycle(Sending& sending) {
  if (free_sendings_.size() >= kMostSpareCopies) std::vector<char>().swap(sending.copied);
  free_sendings_.push_back(&sending);
}

int32_t End::send(uint32_t number, std::string_view header, const void* data, uint64_t bytes,
                  void* transfer) {
  if (header.size() > BP_ENGINE_HEADER_BYTES_MAX) return BP_INVALID_ARGUMENT;
  Peer* const peer = find(number);
  if (peer == nullptr || peer->is_lost || peer->is_doomed) return BP_UNAVAILABLE;
  if (bytes > kEagerBytes) lent_.reserve(lent_.size() + 1);
  const bool is_inline = bytes <= kInlineBytes;
  const std::string_view inline_data(static_cast<const char*>(data), is_inline ? bytes : 0);
  Sending& sending = make_sending(*peer, Kind::kMessage, peer->next_sent, header, inline_data);
  try {
    if (bytes > kEagerBytes) {
      sending.transfer = transfer;
      sending.is_short = false;
      lent_.emplace(transfer, &sending);
    } else if (!is_inline) {
      const char* const first = static_cast<const char*>(data);
      sending.copied.assign(first, first + bytes);
      data = sending.copied.data();
    }
  } catch (...) {
    recycle(sending);
    throw;
  }
  const int32_t status = post(sending, data, is_inline ? 0 : bytes);
  ++peer->next_sent;
  return status;
}

/// What is not lent is over for its sender at once, whatever becomes of it.
int32_t End::post(Sending& sending, const void* data, uint64_t bytes) {
  if (sending.peer->stage != Stage::kMet) return hold(sending, data, bytes);
  return post_on(sending.peer->endpoint, sending, data, bytes);
}

int32_t End::post_on(ucp_ep_h endpoint, Sending& sending, const void* data, uint64_t bytes) {
  Peer& peer = *sending.peer;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = sending.is_short ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  if (sending.is_meeting) param.flags |= UCP_AM_SEND_FLAG_REPLY;
  param.cb.send = on_sent;
  param.user_data = &sending;
  void* const request = ucp().am_send_nbx(endpoint, kMessageId, sending.head.data(),
                                          sending.head_bytes, data, bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    if (!sending.is_short) lent_.erase(sending.transfer);
    recycle(sending);
    const char* const why = ucp().status_string(UCS_PTR_STATUS(request));
    doom(peer, BP_UNAVAILABLE, "the connection broke: ", why);
    return BP_UNAVAILABLE;
  }
  if (request == nullptr && sending.is_short && !sending.is_meeting) {
    recycle(sending);
    return BP_OK;
  }
  sending.request = request;
  sending.is_done = sending.is_done || request == nullptr;
  if (sending.is_short) {
    ++unsent_count_;
    ++peer.unsent_count;
  }
  if (sending.is_done) note_done(sending);
  return sending.is_short ? BP_OK : BP_PENDING;
}

void End::on_sent(void*, ucs_status_t status, void* user_data) {
  auto& sending = *static_cast<Sending*>(user_data);
  sending.is_done = true;
  sending.status = status;
  // In the call that begins it, that call goes on from here.
  if (sending.request != nullptr) sending.end.note_done(sending);
}

void End::note_done(Sending& sending) {
  sending.next = done_sendings_;
  done_sendings_ = &sending;
}

void End::finish(Sending& sending) {
  if (void* const transfer = sending.transfer) {
    const bool is_ok = sending.status == UCS_OK && !sending.peer->is_lost;
    if (is_ok) settled_.reserve(settled_.size() + 1);
    events_.push_back({.kind = Event::Kind::kEnded,
                       .transfer = transfer,
                       .status = is_ok ? BP_OK : BP_UNAVAILABLE});
    if (is_ok) settled_.emplace_back(sending.peer, sending.sequence);
    lent_.erase(transfer);
  }
  if (sending.is_short) {
    --unsent_count_;
    --sending.peer->unsent_count;
  }
  if (sending.is_meeting && sending.peer->unjoined_count > 0) {
    --sending.peer->unjoined_count;
    has_met_news_ = true;
  }
  if (sending.request != nullptr) ucp().request_free(sending.request);
  recycle(sending);
}

/// Not where UCX tells of it, which no exception may leave.
void End::finish_done() {
  while (Sending* const sending = done_sendings_) {
    Sending* const next = sending->next;
    finish(*sending);
    done_sendings_ = next;
  }
  while (Receiving* const receiving = done_receivings_) {
    Receiving* const next = receiving->next_done;
    finish(*receiving);
    done_receivings_ = next;
  }
}

/// The bytes of these were taken while they were lent. Each is forgotten once it is told: without
/// the word its receiver waits.
void End::tell_settled() {
  while (!settled_.empty()) {
    const auto [peer, sequence] = settled_.back();
    if (!peer->is_lost && !peer->is_doomed) {
      post(make_sending(*peer, Kind::kSettled, sequence, {}), nullptr, 0);
    }
    settled_.pop_back();
  }
}

// --- Arriving

ucs_status_t End::on_message(void* self, const void* header, size_t header_bytes, void* data,
                             size_t bytes, const ucp_am_recv_param_t* param) {
  auto& end = *static_cast<End*>(self);
  Envelope envelope;
  if (header_bytes >= sizeof(envelope)) std::memcpy(&envelope, header, sizeof(envelope));
  // More than there are, if they are few.
  const size_t rest_bytes = header_bytes - sizeof(envelope);
  const bool is_ours = envelope.mark == kMessageMark && envelope.inline_bytes <= kInlineBytes &&
                       envelope.inline_bytes <= rest_bytes &&
                       rest_bytes - envelope.inline_bytes <= BP_ENGINE_HEADER_BYTES_MAX;
  const bool has_other_bytes = envelope.inline_bytes > 0 || envelope.kind == Kind::kFarewell;
  if (!is_ours || (bytes > 0 && has_other_bytes)) {
    end.note_dropped();
    return UCS_OK;  // which lets go of the data
  }
  const std::string_view rest(static_cast<const char*>(header) + sizeof(envelope), rest_bytes);
  try {
    const bool is_lent = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    return end.take(envelope, rest, data, bytes, is_lent) && bytes > 0 ? UCS_INPROGRESS : UCS_OK;
  } catch (...) {
    // A message is missing now, so that nothing which comes later may be believed.
    end.is_out_of_memory_ = true;
    return UCS_OK;
  }
}

/// `rest`: the header, and inline bytes behind it. True: the data is kept.
bool End::take(const Envelope& envelope, std::string_view rest, void* data, uint64_t bytes,
               bool is_lent) {
  if (latest_sender_ == nullptr || latest_sender_->id != envelope.from) {
    const auto found = peer_by_id_.find(envelope.from);
    latest_sender_ = found != peer_by_id_.end() ? found->second : nullptr;
  }
  Peer* const sender = latest_sender_;
  if (envelope.kind == Kind::kSettled) {
    if (sender != nullptr && !sender->is_lost) settle(*sender, envelope.sequence);
    return false;
  }
  if (envelope.kind != Kind::kMessage && envelope.kind != Kind::kFarewell) {
    if (sender != nullptr) hear(*sender, envelope.kind);
    const bool is_greeting = envelope.kind == Kind::kGreeting && bytes == 0;
    if (sender == nullptr && is_greeting) note_greeter(envelope.from);
    return false;
  }
  Message message;
  message.from = envelope.from;
  message.sequence = envelope.sequence;
  message.is_farewell = envelope.kind == Kind::kFarewell;
  message.is_lent = is_lent;
  const std::string_view inline_data = rest.substr(rest.size() - envelope.inline_bytes);
  message.bytes = bytes + inline_data.size();
  message.data = bytes > 0 ? data : nullptr;
  message.header = HeaderText(rest.substr(0, rest.size() - inline_data.size()));
  message.inline_data = Text<kInlineBytes>(inline_data);
  if (sender != nullptr) return arrive(*sender, message);
  if (strays_.size() >= kMostStrays) {
    note_dropped();
    return false;
  }
  strays_.push_back(std::move(message));
  return true;
}

/// Where ranks connect each other in one order, nearly all of them greet the first one before that
/// has connected them; and each greets once.
void End::note_greeter(const EndId& from) {
  if (greeters_.size() >= kMostGreeters) return note_dropped();
  greeters_.insert(from);
}

/// Told at the first, and then more and more seldom.
void End::note_dropped() noexcept {
  ++dropped_count_;
  if ((dropped_count_ & (dropped_count_ - 1)) != 0) return;
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "engine ucx: dropped %llu messages of unknown senders",
                static_cast<unsigned long long>(dropped_count_));
  tell(kLogWarning, text.data());
}

/// UCX keeps the order of messages as a rule, and promises nothing. False: it is not kept.
bool End::arrive(Peer& peer, Message& message) {
  if (peer.is_lost || message.sequence < peer.next_expected) return false;
  if (message.sequence > peer.next_expected || is_behind_) {
    if (peer.ahead.size() >= kMostAhead) {
      doom(peer, BP_UNAVAILABLE, "it sends messages without order");
      return false;
    }
    return peer.ahead.emplace(message.sequence, std::move(message)).second;
  }
  accept(peer, message);
  try {
    accept_ahead(peer);
  } catch (const std::bad_alloc&) {
    is_behind_ = true;  // the message is kept all the same
  }
  return true;
}

/// One that there was no memory for stays where it is.
void End::accept_ahead(Peer& peer) {
  while (!peer.ahead.empty() && peer.ahead.begin()->first == peer.next_expected) {
    accept(peer, peer.ahead.begin()->second);
    peer.ahead.erase(peer.ahead.begin());
  }
}

/// Those of ends that are connected meanwhile.
void End::take_strays() {
  for (auto stray = strays_.begin(); stray != strays_.end();) {
    const auto found = peer_by_id_.find(stray->from);
    if (found == peer_by_id_.end()) {
      ++stray;
      continue;
    }
    if (!arrive(*found->second, *stray)) release(*stray);
    stray = strays_.erase(stray);
  }
}

/// Accepts what has come and was put off.
void End::catch_up() {
  is_behind_ = false;
  try {
    take_strays();
    for (auto& [number, peer] : peers_) accept_ahead(*peer);
  } catch (...) {
    is_behind_ = true;
    throw;
  }
}

void End::accept(Peer& peer, Message& message) {
  if (message.is_farewell) {
    ++peer.next_expected;
    return hear_farewell(peer);
  }
  arrived_.reserve_one();
  Event& event = events_.emplace_back();
  message.peer = &peer;
  event.kind = Event::Kind::kArrived;
  event.peer = peer.number;
  event.token = arrived_.add(message);
  ++peer.next_expected;
}

void End::release(Message& message) {
  if (message.data != nullptr) ucp().am_data_release(worker_.get(), message.data);
  message.data = nullptr;
}

End::Receiving& End::make_receiving(const Message& message, void* transfer) {
  auto owned = std::make_unique<Receiving>(*this, *message.peer, message.sequence, transfer);
  return *receivings_.emplace(transfer, std::move(owned)).first->second;
}

/// Of bytes that are still the sender's, which UCX fetches.
int32_t End::begin_receiving(const Message& message, void* into, void* transfer) {
  Receiving& receiving = make_receiving(message, transfer);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = on_received;
  param.user_data = &receiving;
  void* const request =
      ucp().am_recv_data_nbx(worker_.get(), message.data, into, message.bytes, &param);
  if (UCS_PTR_IS_ERR(request)) {
    receivings_.erase(transfer);
    return BP_UNAVAILABLE;
  }
  receiving.request = request;
  receiving.is_done = receiving.is_done || request == nullptr;
  if (receiving.is_done) note_done(receiving);
  return BP_PENDING;
}

int32_t End::receive(uint64_t token, void* into, void* transfer) {
  Message* const message = arrived_.find(token);
  if (message == nullptr) return BP_INVALID_ARGUMENT;
  const bool is_lent = message->is_lent && message->data != nullptr;
  if (is_lent && !message->peer->is_lost && !message->peer->is_doomed) {
    Message lent = *message;
    arrived_.remove(token);
    try {
      return begin_receiving(lent, into, transfer);
    } catch (...) {
      release(lent);  // nobody can take it any more
      throw;
    }
  }
  int32_t status = BP_OK;
  if (message->data == nullptr) {
    const auto& [bytes, size] = message->inline_data;
    if (size > 0) std::memcpy(into, bytes.data(), size);
  } else if (is_lent) {
    status = BP_UNAVAILABLE;
  } else {
    std::memcpy(into, message->data, message->bytes);
  }
  release(*message);
  arrived_.remove(token);
  return status;
}

void End::on_received(void*, ucs_status_t status, size_t, void* user_data) {
  auto& receiving = *static_cast<Receiving*>(user_data);
  if (receiving.is_abandoned) return;
  receiving.is_done = true;
  receiving.status = status;
  if (receiving.request != nullptr) receiving.end.note_done(receiving);
}

void End::note_done(Receiving& receiving) {
  receiving.next_done = done_receivings_;
  done_receivings_ = &receiving;
}

void End::settle(Peer& peer, uint64_t sequence) {
  const auto found = std::find_if(receivings_.begin(), receivings_.end(), [&](const auto& entry) {
    return &entry.second->peer == &peer && entry.second->sequence == sequence;
  });
  // It was dropped, or this is told twice.
  if (found == receivings_.end() || found->second->is_settled) return;
  found->second->is_settled = true;
  if (found->second->has_left_ucx) note_done(*found->second);
}

/// The first time that UCX is done with it, and once more where that was not all.
void End::finish(Receiving& receiving) {
  if (receiving.request != nullptr) ucp().request_free(receiving.request);
  receiving.request = nullptr;
  receiving.has_left_ucx = true;
  const bool has_failed = receiving.status != UCS_OK || receiving.peer.is_lost;
  if (!has_failed && !receiving.is_settled) return;
  events_.push_back({.kind = Event::Kind::kEnded,
                     .transfer = receiving.transfer,
                     .status = has_failed ? BP_UNAVAILABLE : BP_OK});
  receivings_.erase(receiving.transfer);
}

void End::drop(uint64_t token) {
  Message* const message = arrived_.find(token);
  if (message == nullptr) return;
  release(*message);  // which tells the sender
  arrived_.remove(token);
}

}  // namespace bp_ucx
