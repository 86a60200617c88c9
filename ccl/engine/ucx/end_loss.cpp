// SPDX-License-Identifier: Apache-2.0
//
// How an end is driven, and how its connections, its transfers and itself come to an end.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <new>
#include <utility>

#include "ccl/engine/ucx/end.hpp"

namespace bp_ucx {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kLookInterval = kMillisecond;
constexpr uint32_t kDrivesBetweenLooks = 16;
/// Within which what a dead peer had sent is taken; it lies in this process's memory, or the
/// kernel's.
constexpr int64_t kMostDraining = 20 * kMillisecond;
/// For the last words to a peer whose connection is closed. They wait in UCX until the peer takes
/// what was sent before, which on a busy machine lasts this long; peers that take nothing share it.
constexpr int64_t kMostParting = 300 * kMillisecond;
constexpr int64_t kLeastParting = 5 * kMillisecond;
constexpr int64_t kMostFlushing = 1000 * kMillisecond;
constexpr int64_t kMostClosing = 1000 * kMillisecond;
/// UCX needs microseconds: nothing of it depends on the peer.
constexpr int64_t kMostGivingUp = 5000 * kMillisecond;
/// But where a peer is stopped, or died in the middle of its queue, it may keep for ever what it
/// has still to tell that peer. It copies while it is driven: where it does nothing for so long, it
/// uses no memory any more.
constexpr int64_t kStill = 100 * kMillisecond;
/// So that the rest of a pass is not kept waiting by a peer that sends without end.
constexpr int kMostRounds = 64;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

// --- Driving

bool End::drive() {
  bool has_moved = false;
  bool is_drained = false;
  for (int round = 0; round < kMostRounds && !is_drained; ++round) {
    is_drained = ucp().worker_progress(worker_.get()) == 0;
    has_moved = has_moved || !is_drained;
    // What has come is told first, unless somebody's last words are waited for.
    if (!events_.empty() && doomed_count_ == 0) break;
  }
  finish_done();
  if (is_behind_) catch_up();
  if (is_anyone_apart_ || has_met_news_) meet();
  // To ask for the time takes as long as to ask UCX.
  if (++drive_count_ % kDrivesBetweenLooks == 0 && now_ns() >= next_look_ns_) {
    look_for_deaths(false);
  }
  if (is_out_of_memory_) lose_all_for_memory();
  if (!settled_.empty()) tell_settled();
  if (doomed_count_ > 0) lose_doomed(is_drained);
  finish_done();  // what was lost with a peer
  if (!requests_.empty()) free_requests();
  return has_moved;
}

template <class Done>
bool End::drive_until(int64_t until_ns, Done is_done) {
  while (!is_done() && now_ns() < until_ns) {
    bool has_moved = false;
    try {
      has_moved = drive();
    } catch (const std::bad_alloc&) {
      // Without memory for a moment: what was not done is done next time.
    }
    if (!has_moved) sched_yield();
  }
  return is_done();
}

bool End::has_news() const {
  return !events_.empty() || !settled_.empty() || doomed_count_ > 0 || is_out_of_memory_ ||
         is_behind_ || has_met_news_ || done_sendings_ != nullptr || done_receivings_ != nullptr;
}

bool End::progress(const bp_engine_inbox& inbox) {
  const bool has_moved = drive();
  delivered_.clear();
  delivered_.swap(events_);
  for (const Event& event : delivered_) deliver(inbox, event);
  return has_moved || !delivered_.empty();
}

void End::deliver(const bp_engine_inbox& inbox, const Event& event) {
  switch (event.kind) {
    case Event::Kind::kArrived: {
      const Message* const message = arrived_.find(event.token);
      if (message == nullptr) return;  // nobody knows its token but this
      inbox.message_arrived(inbox.context, event.peer, message->header.bytes.data(),
                            message->header.size, message->bytes, event.token);
      return;
    }
    case Event::Kind::kLost:
      return inbox.peer_lost(inbox.context, event.peer, event.status,
                             find(event.peer)->why.c_str());
    case Event::Kind::kEnded:
      return inbox.transfer_ended(inbox.context, event.transfer, event.status);
  }
}

void End::wait(int64_t until_ns) {
  if (has_news() || !worker_.arm()) return;
  watch_.sleep(until_ns);
  look_for_deaths(true);
}

void End::free_requests() {
  std::erase_if(requests_, [](void* request) {
    if (ucp().request_check_status(request) == UCS_INPROGRESS) return false;
    ucp().request_free(request);
    return true;
  });
}

// --- Peers that go

void End::look_for_deaths(bool ends_wake) {
  const int64_t now = now_ns();
  next_look_ns_ = now + kLookInterval;
  for (const uint32_t number : watch_.look(ends_wake)) {
    Peer* const peer = find(number);
    if (peer != nullptr && !peer->is_doomed) {
      doom(*peer, BP_UNAVAILABLE, "its process has ended");
      peer->is_broken = true;
      peer->unjoined_count = 0;
      peer->drains_until_ns = now + kMostDraining;
    }
    watch_.remove_process(number);
  }
}

void End::on_error(void* user_data, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(user_data);
  peer.end.doom(peer, BP_UNAVAILABLE, "the connection broke: ", ucp().status_string(status));
  peer.is_broken = true;
  peer.unjoined_count = 0;
  peer.end.has_met_news_ = true;  // one that was lost before is closed now
}

/// Nobody knows whose message is missing.
void End::lose_all_for_memory() {
  const int64_t until = now_ns() + kMostParting;
  for (auto& [number, peer] : peers_) {
    if (peer->is_lost || peer->is_doomed) continue;
    say_farewell(*peer);
    doom(*peer, BP_UNAVAILABLE, "there was no memory for its message");
    peer->parts_until_ns = until;
  }
  is_out_of_memory_ = false;
}

/// Needs no memory: a loss that could not be noted would never be told.
void End::doom(Peer& peer, int32_t status, std::string_view why, std::string_view detail) noexcept {
  if (peer.is_doomed || peer.is_lost) return;
  peer.why.assign(why.substr(0, kMostWhyBytes));
  peer.why.append(detail.substr(0, kMostWhyBytes - peer.why.size()));
  peer.status = status;
  peer.drains_until_ns = 0;
  peer.parts_until_ns = 0;
  peer.is_doomed = true;
  ++doomed_count_;
}

void End::lose_doomed(bool is_drained) {
  const int64_t now = now_ns();
  for (auto& [number, peer] : peers_) {
    if (!peer->is_doomed) continue;
    if (std::exchange(peer->is_owed_answer, false)) answer_farewell(*peer);
    const bool is_told = peer->unsent_count == 0 || now >= peer->parts_until_ns;
    if (is_told && (is_drained || now >= peer->drains_until_ns)) lose(*peer);
  }
}

/// Without memory for a moment nothing of it is done, and all of it with the next progress.
void End::lose(Peer& peer) {
  if (peer.is_lost) return;  // and so not doomed
  events_.push_back({.kind = Event::Kind::kLost, .peer = peer.number, .status = peer.status});
  if (peer.is_doomed) --doomed_count_;
  peer.is_doomed = false;
  if (std::exchange(peer.is_owed_farewell, false)) --spared_count_;
  watch_.remove_process(peer.number);
  peer.is_lost = true;
  if (peer.may_close()) {
    close_endpoints(peer);
  } else {
    has_met_news_ = true;  // they go on meeting, then it is told, and they are closed
  }
  drop_held(peer);
  for (auto& [sequence, message] : peer.ahead) release(message);
  peer.ahead.clear();
  // Those that UCX has not ended it ends now; the others wait for a word that will not come.
  for (auto& [transfer, receiving] : receivings_) {
    const bool waits = receiving->has_left_ucx && !receiving->is_settled;
    if (&receiving->peer == &peer && waits) note_done(*receiving);
  }
}

void End::close_endpoints(Peer& peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (const ucp_ep_h endpoint :
       {std::exchange(peer.endpoint, nullptr), std::exchange(peer.other, nullptr)}) {
    if (endpoint == nullptr) continue;
    void* const request = ucp().ep_close_nbx(endpoint, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests_.push_back(request);
  }
}

/// The peer learns of an end that closes while its process lives by nothing else. Its memory is
/// there from the start.
void End::say_farewell(Peer& peer) noexcept {
  if (peer.is_lost || peer.is_doomed || !peer.is_owed_farewell) return;
  peer.is_owed_farewell = false;
  --spared_count_;
  post(make_sending(peer, Kind::kFarewell, peer.next_sent++, {}), nullptr, 0);
}

/// Over a network the other end waits for the answer. It is not sent here, where UCX may be in the
/// middle of its progress: it does not bear that a connection turns out to be broken then.
void End::hear_farewell(Peer& peer) noexcept {
  const bool is_heard = !peer.is_doomed;
  doom(peer, BP_GONE, "its end of the engine was closed");
  peer.is_owed_answer = is_heard && peer.other != nullptr && peer.is_owed_farewell;
}

/// In place of the farewell that it is owed no more, so that there is memory for it.
void End::answer_farewell(Peer& peer) {
  peer.is_owed_farewell = false;
  --spared_count_;
  peer.parts_until_ns = now_ns() + kMostParting;
  post(make_sending(peer, Kind::kHeard, 0, {}), nullptr, 0);
}

/// Nothing that was sent to it may be on its way, or it does not hear any more.
bool End::has_parted(const Peer& peer) const {
  const bool is_waited_for = peer.other != nullptr && peer.stage == Stage::kMet;
  return !is_waited_for || peer.has_heard_farewell || peer.is_lost || peer.is_broken;
}

// --- Transfers that are given up

bool End::take_back_event(void* transfer, int32_t* out_status) {
  const auto found = std::find_if(events_.begin(), events_.end(), [&](const Event& event) {
    return event.kind == Event::Kind::kEnded && event.transfer == transfer;
  });
  if (found == events_.end()) return false;
  *out_status = found->status;
  events_.erase(found);
  return true;
}

/// A peer that takes nothing does not hear of it, and learns it at its own deadline.
void End::give_up(Peer& peer) {
  say_farewell(peer);
  const int64_t begin = now_ns();
  const int64_t patience = std::max(kMostParting - parted_ns_, kLeastParting);
  drive_until(begin + patience, [&] { return peer.is_lost || peer.unsent_count == 0; });
  parted_ns_ += now_ns() - begin;
  doom(peer, BP_UNAVAILABLE, "the connection was closed, since a transfer over it was given up");
  lose(peer);
}

/// False: UCX does not tell that it is done with it.
bool End::await_end_of(void* transfer) {
  const int64_t until = now_ns() + kMostGivingUp;
  int64_t moved_ns = now_ns();
  while (lent_.count(transfer) != 0 || receivings_.count(transfer) != 0) {
    const bool has_moved = drive();
    const int64_t now = now_ns();
    if (has_moved) moved_ns = now;
    if (now - moved_ns >= kStill) return false;
    if (now >= until) {
      tell(kLogError, "engine ucx: UCX does not let go of a transfer's memory");
      return false;
    }
    if (!has_moved) sched_yield();
  }
  return true;
}

int32_t End::cancel(void* transfer) {
  int32_t status = BP_CANCELLED;
  if (take_back_event(transfer, &status)) return status;
  const auto sending = lent_.find(transfer);
  if (sending != lent_.end()) give_up(*sending->second->peer);
  const auto receiving = receivings_.find(transfer);
  if (receiving != receivings_.end()) {
    const Receiving& found = *receiving->second;
    const bool is_unused = found.has_left_ucx && !found.is_settled && !found.peer.is_lost;
    if (is_unused) {
      receivings_.erase(receiving);
      return BP_CANCELLED;
    }
    give_up(receiving->second->peer);
  }
  if (!await_end_of(transfer)) abandon(transfer);
  take_back_event(transfer, &status);
  return BP_CANCELLED;
}

/// What UCX still has of it ends with the worker, and is told to nobody.
void End::abandon(void* transfer) {
  if (const auto sending = lent_.find(transfer); sending != lent_.end()) {
    sending->second->transfer = nullptr;
    lent_.erase(sending);
  }
  abandoned_.reserve(abandoned_.size() + 1);
  if (auto receiving = receivings_.extract(transfer); !receiving.empty()) {
    receiving.mapped()->is_abandoned = true;
    abandoned_.push_back(std::move(receiving.mapped()));
  }
}

// --- The end itself

/// Until what was sent has reached its peers, as far as they take it in time. UCX flushes what goes
/// over TCP by a write without bytes; where the peer closes while that is on its way, an assertion
/// of UCX 1.13 may end the process (tcp_ep.c: PUT_TX_WAITING_ACK). So there the peer's answer to
/// the last message is waited for.
void End::flush() {
  const int64_t until = now_ns() + kMostFlushing;
  for (auto& [number, peer] : peers_) say_farewell(*peer);
  drive_until(until, [&] { return unsent_count_ == 0 && !is_joining(); });
  for (auto& [number, peer] : peers_) {
    if (peer->is_lost || peer->is_doomed || peer->other != nullptr) continue;
    const ucp_request_param_t param{};
    void* const request = ucp().ep_flush_nbx(peer->endpoint, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests_.push_back(request);
  }
  drive_until(until, [&] {
    return requests_.empty() && std::all_of(peers_.begin(), peers_.end(), [&](const auto& each) {
             return has_parted(*each.second);
           });
  });
}

End::~End() {
  flush();
  for (auto& [number, peer] : peers_) {
    drop_held(*peer);
    // Nothing is sent to it while the end is driven below.
    peer->is_lost = true;
    peer->is_owed_answer = false;
    close_endpoints(*peer);
  }
  drive_until(now_ns() + kMostClosing,
              [&] { return requests_.empty() && free_sendings_.size() == sendings_.size(); });
  arrived_.for_each([&](Message& message) { release(message); });
  for (Message& message : strays_) release(message);
  for (auto& [number, peer] : peers_) {
    for (auto& [sequence, message] : peer->ahead) release(message);
  }
}

}  // namespace bp_ucx
