// SPDX-License-Identifier: Apache-2.0
//
// How two ends meet over a network.
//
// With the first message that is long, or finds its socket not ready, UCX joins the endpoint to the
// peer's by messages of its own (its "wireup"). Where the connection breaks meanwhile, an assertion
// of UCX 1.13 ends the process of the other side. So nothing is sent before both are there, and no
// endpoint is closed while it is being joined.
//
// The end with the greater id greets, in a way that joins nothing. Then the other one knows that
// both are there, and sends kMeeting over both endpoints; to this one UCX offers a way to reply,
// for which it joins them. Its sending is over when that is done, and the one that greeted knows it
// by its arrival. kMet answers; only then the other one sends, so that both have met by the time
// that the first long message begins. What is sent before is held here.
#include <new>
#include <utility>

#include "ccl/engine/ucx/end.hpp"

namespace bp_ucx {

/// While UCX is progressed: what is to be done about it comes later.
void End::hear(Peer& peer, Kind kind) noexcept {
  if (kind == Kind::kHeard) peer.has_heard_farewell = true;
  const bool is_begun = peer.is_begun_here;
  if (kind == Kind::kGreeting && is_begun && peer.stage == Stage::kApart) {
    peer.stage = Stage::kGreeted;
  } else if (kind == Kind::kMet && is_begun && peer.stage == Stage::kJoining) {
    peer.stage = Stage::kMet;
  } else if (kind == Kind::kMeeting && !is_begun && peer.unjoined_count > 0) {
    --peer.unjoined_count;
  } else {
    return;
  }
  has_met_news_ = true;
}

void End::meet() {
  bool is_anyone_apart = false;
  for (auto& [number, peer] : peers_) {
    if (peer->is_doomed || peer->endpoint == nullptr) continue;
    if (!peer->is_broken) go_on_meeting(*peer);
    if (peer->is_lost && peer->may_close()) part(*peer);
    is_anyone_apart = is_anyone_apart || (peer->stage == Stage::kApart && !peer->is_broken);
  }
  is_anyone_apart_ = is_anyone_apart;
  has_met_news_ = false;
}

/// From one that was lost before they had met, and could not be told of it.
void End::part(Peer& peer) {
  if (!peer.is_broken) {
    post(make_sending(peer, Kind::kFarewell, peer.next_sent++, {}), nullptr, 0);
  }
  close_endpoints(peer);
}

void End::go_on_meeting(Peer& peer) {
  if (peer.is_begun_here) {
    if (peer.stage == Stage::kGreeted) begin_joining(peer);
  } else if (peer.stage == Stage::kApart) {
    greet_from_afar(peer);
  } else if (peer.stage == Stage::kJoining && peer.unjoined_count == 0) {
    Sending& answer = make_sending(peer, Kind::kMet, 0, {});
    peer.stage = Stage::kMet;
    post(answer, nullptr, 0);
  }
  if (peer.stage == Stage::kMet) post_held(peer);
}

/// UCX refuses where it could not send at once, and joins nothing; then it is tried again.
void End::greet_from_afar(Peer& peer) {
  const Envelope envelope{kMessageMark, Kind::kGreeting, 0, id_, 0};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  void* const request =
      ucp().am_send_nbx(peer.endpoint, kMessageId, &envelope, sizeof(envelope), nullptr, 0, &param);
  if (request == nullptr) {
    peer.stage = Stage::kJoining;
    peer.unjoined_count = 2;
  } else if (UCS_PTR_STATUS(request) != UCS_ERR_NO_RESOURCE) {
    const char* const why = ucp().status_string(UCS_PTR_STATUS(request));
    doom(peer, BP_UNAVAILABLE, "the connection broke: ", why);
  }
}

void End::begin_joining(Peer& peer) {
  reserve_sendings(2);
  peer.stage = Stage::kJoining;
  peer.unjoined_count = 2;
  for (const ucp_ep_h endpoint : {peer.endpoint, peer.other}) {
    Sending& meeting = make_sending(peer, Kind::kMeeting, 0, {});
    if (post_on(endpoint, meeting, nullptr, 0) != BP_OK) peer.unjoined_count = 0;
  }
}

int32_t End::hold(Sending& sending, const void* data, uint64_t bytes) {
  Peer& peer = *sending.peer;
  sending.held_data = data;
  sending.held_bytes = bytes;
  sending.next = nullptr;
  (peer.last_held != nullptr ? peer.last_held->next : peer.first_held) = &sending;
  peer.last_held = &sending;
  if (!sending.is_short) return BP_PENDING;
  ++unsent_count_;
  ++peer.unsent_count;
  return BP_OK;
}

End::Sending* End::take_held(Peer& peer) {
  Sending* const sending = peer.first_held;
  if (sending == nullptr) return nullptr;
  peer.first_held = sending->next;
  if (peer.first_held == nullptr) peer.last_held = nullptr;
  return sending;
}

void End::post_held(Peer& peer) {
  while (peer.first_held != nullptr && !peer.is_doomed) {
    events_.reserve(events_.size() + 1);
    Sending& sending = *take_held(peer);
    void* const transfer = sending.transfer;
    if (sending.is_short) {
      --unsent_count_;
      --peer.unsent_count;
    }
    const int32_t status = post_on(peer.endpoint, sending, sending.held_data, sending.held_bytes);
    if (status == BP_UNAVAILABLE && transfer != nullptr) {
      events_.push_back({.kind = Event::Kind::kEnded, .transfer = transfer, .status = status});
    }
  }
}

/// Of a peer that is lost, or not waited for any more.
void End::drop_held(Peer& peer) {
  if (peer.stage != Stage::kMet) peer.next_sent = 1;  // as many as were sent
  while (Sending* const sending = take_held(peer)) {
    sending->status = UCS_ERR_CANCELED;
    note_done(*sending);
  }
}

bool End::is_joining() const {
  for (const auto& [number, peer] : peers_) {
    if (peer->unjoined_count > 0) return true;
  }
  return false;
}

}  // namespace bp_ucx
