// SPDX-License-Identifier: Apache-2.0
//
// See lanes.hpp.
#include "ccl/group/lanes.hpp"

#include <algorithm>
#include <utility>

namespace bp::ccl {
namespace {

/// A copy of a chunk takes some hundred microseconds, and another chunk is under way meanwhile.
constexpr auto kCopyLook = std::chrono::microseconds(100);

/// Two ranks that disagree do not know which of them the others agree with.
void blame_both(Failure* failure, uint32_t own_rank) {
  if (failure->culprits.empty()) return;
  failure->culprits.push_back(own_rank);
  std::sort(failure->culprits.begin(), failure->culprits.end());
}

auto is_on_track(uint32_t track) {
  return [track](const Arrival& arrival) { return track_of(arrival.header) == track; };
}

/// The ranks of queues, each once.
std::vector<uint32_t> ranks_of(const std::vector<Wire::Queue>& queues) {
  std::vector<uint32_t> ranks;
  for (const Wire::Queue& queue : queues) ranks.push_back(queue.rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// Others read it, and who drives alone writes it.
void count(std::atomic<uint64_t>* counter, uint64_t more) {
  counter->store(counter->load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

Lanes::Lanes(Args args) : args_(std::move(args)), ranks_(args_.place.rank_count) {}

Lanes::Lane Lanes::prepare(const std::shared_ptr<Batch>& batch) {
  Lane entries;
  for (size_t i = 0; i < batch->items().size(); ++i) entries.push_back({batch, i});
  return entries;
}

void Lanes::submit(Lane* prepared, bool is_driven) noexcept {
  {
    const std::lock_guard lock(submit_mutex_);
    submitted_.splice(submitted_.end(), *prepared);
    open_count_.fetch_add(1, std::memory_order_relaxed);
    has_submitted_.store(true, std::memory_order_release);
  }
  if (!is_driven) args_.messenger.kick();
}

Lanes::Lane& Lanes::lane_of(const Operation& operation) {
  if (operation.kind == Kind::kSend) return ranks_[operation.root].sends_to;
  if (operation.kind == Kind::kRecv) return ranks_[operation.root].recvs_from;
  return collectives_;
}

void Lanes::take_submitted() {
  if (!has_submitted_.load(std::memory_order_acquire)) return;
  Lane entries;
  {
    const std::lock_guard lock(submit_mutex_);
    entries.swap(submitted_);
    has_submitted_.store(false, std::memory_order_relaxed);
  }
  while (!entries.empty()) {
    const Operation& operation = entries.front().get().operation();
    Lane& lane = lane_of(operation);
    lane.splice(lane.end(), entries, entries.begin());
    if (kind_info(operation.kind).is_of_two) ++two_count_;
  }
}

void Lanes::message_arrived(uint32_t rank, const Header& header, uint64_t bytes, uint64_t token) {
  const bool is_of_two = header.kind == Kind::kSend;
  auto& waiting = is_of_two ? ranks_[rank].sends : ranks_[rank].collectives;
  waiting.push_back({header, token});
  waiting.back().header.bytes = bytes;
  if (is_of_two) return;
  ++arrival_count_;
  if (!disagreeing_rank_ && disagrees(rank)) disagreeing_rank_ = rank;
}

/// In progress by messages, which are its own: those of a comparison come before them.
const HostItem* Lanes::collective_in_progress() const {
  const Direct* const direct = direct_.load(std::memory_order_acquire);
  const HostItem* item = direct != nullptr ? &direct->item : nullptr;
  if (item == nullptr && !collectives_.empty()) item = &collectives_.front().get();
  return item != nullptr && item->has_entered && !item->is_check() ? item : nullptr;
}

/// Whether its next message is of a collective that is over here, which expected none, or that is
/// another one here, which may never wait for it.
bool Lanes::disagrees(uint32_t rank) const {
  const auto& waiting = ranks_[rank].collectives;
  if (waiting.empty()) return false;
  const Header& header = waiting.front().header;
  if (header.sequence <= taken_) return true;
  const HostItem* const item = collective_in_progress();
  if (item == nullptr || header.sequence != item->sequence()) return false;
  Operation theirs = operation_of(header);
  // Of blocks that other ranks do not know the run compares the one that goes between the two.
  if (theirs.blocks == kOwnBlocks) theirs.count = item->operation().count;
  return !agree(item->operation(), theirs);
}

void Lanes::look_who_disagrees() {
  for (uint32_t rank = 0; arrival_count_ > 0 && rank < ranks_.size(); ++rank) {
    if (!disagreeing_rank_ && disagrees(rank)) disagreeing_rank_ = rank;
  }
}

void Lanes::rank_lost(uint32_t rank, const Status& why) {
  if (!ranks_[rank].lost) ++lost_count_;
  ranks_[rank].lost = why;
  if (why.code() != BP_GONE && !dead_rank_) dead_rank_ = rank;
}

void Lanes::send(uint32_t rank, const Header& header, const void* data, Transfer* transfer) {
  count(&wire_.sent_messages, 1);
  count(&wire_.sent_bytes, header.bytes);
  args_.messenger.engine().send(args_.peers[rank], bytes_of(header), data, header.bytes, transfer);
}

std::deque<Arrival>& Lanes::waiting_of(const Queue& queue) {
  Rank& rank = ranks_[queue.rank];
  return queue.is_of_two ? rank.sends : rank.collectives;
}

const Arrival* Lanes::front(const Queue& queue) {
  const auto& waiting = waiting_of(queue);
  const auto found = std::find_if(waiting.begin(), waiting.end(), is_on_track(queue.track));
  return found != waiting.end() ? &*found : nullptr;
}

void Lanes::receive_front(const Queue& queue, void* into, Transfer* transfer) {
  auto& waiting = waiting_of(queue);
  const auto found = std::find_if(waiting.begin(), waiting.end(), is_on_track(queue.track));
  const auto [header, token] = *found;
  waiting.erase(found);
  if (!queue.is_of_two) --arrival_count_;
  count(&wire_.received_messages, 1);
  count(&wire_.received_bytes, header.bytes);
  args_.messenger.engine().receive(token, into, transfer);
}

void Lanes::cancel(Transfer* transfer) { args_.messenger.engine().cancel(transfer); }

template <class Visit>
void Lanes::for_each_lane(Visit visit) const {
  visit(collectives_);
  if (two_count_ == 0) return;
  for (const Rank& rank : ranks_) {
    visit(rank.sends_to);
    visit(rank.recvs_from);
  }
}

template <class Visit>
void Lanes::for_each_lane(Visit visit) {
  visit(collectives_);
  if (two_count_ == 0) return;
  for (Rank& rank : ranks_) {
    visit(rank.sends_to);
    visit(rank.recvs_from);
  }
}

Failure Lanes::failure_of(const HostItem& item, const Status& status,
                          std::optional<uint32_t> culprit) const {
  Failure failure;
  failure.code = status.code();
  failure.words = status.message();
  if (culprit) failure.culprits = {*culprit};
  failure.sequence = item.sequence();
  failure.operation = describe(item.operation());
  return failure;
}

void Lanes::enter(HostItem* item) {
  item->has_entered = true;
  if (kind_info(item->operation().kind).is_of_two) return;
  latest_ = item->operation();
  (item->is_check() ? checking_ : entered_) = item->sequence();
  look_who_disagrees();
}

std::optional<Failure> Lanes::begin(Entry& entry, Clock::time_point now) {
  HostItem& item = entry.get();
  enter(&item);
  if (item.record_id) args_.recorder.started(*item.record_id, now);
  item.deadline = now + entry.batch->timeout();
  const bp_status lost = entry.batch->stream_status();
  if (lost == BP_OK) return std::nullopt;
  const std::string words = rank_name(args_.place.rank) + " cannot take part in " +
                            describe(item.operation()) + ": earlier work on its stream failed";
  const Mark mark = entry.batch->work().mark();
  const Status why = mark.stream->failure_told(lost);
  return failure_of(item, why.with_prefix(words), args_.place.rank);
}

/// A rank that is gone and sent nothing more will not send what is waited for. One that has died
/// may have left others unable to send as well, whom it would be wrong to wait for and to name.
std::optional<Failure> Lanes::find_lost(const HostItem& item) {
  for (const Queue& queue : item.waits_for()) {
    if (!ranks_[queue.rank].lost || front(queue) != nullptr) continue;
    return failure_of_lost(item, queue.rank, " waits for it in ");
  }
  if (dead_rank_) return failure_of_lost(item, *dead_rank_, " is in ");
  return std::nullopt;
}

Failure Lanes::failure_of_lost(const HostItem& item, uint32_t rank, const char* relation) const {
  const Status words(BP_UNAVAILABLE,
                     rank_name(rank) + " has left the group, while " + rank_name(args_.place.rank) +
                         relation + describe(item.operation()) + " as number " +
                         std::to_string(item.sequence()) + ": " + ranks_[rank].lost->message());
  return failure_of(item, words, rank);
}

/// It called something else; ranks that need no message of each other would not notice.
Failure Lanes::failure_of_disagreement(uint32_t rank) const {
  const Header& header = ranks_[rank].collectives.front().header;
  const Operation theirs = operation_of(header);
  const auto ours = args_.recorder.find_collective(header.sequence);
  const std::string number = " as number " + std::to_string(header.sequence);
  Failure failure{.code = BP_INVALID_ARGUMENT,
                  .words = "the ranks disagree: " + rank_name(args_.place.rank) +
                           (header.sequence <= taken_ ? " has done " : " has called ") +
                           (ours ? describe(*ours) : "another operation") + number + ", " +
                           rank_name(rank) + " has called " + describe(theirs) + number,
                  .culprits = {rank},
                  .sequence = header.sequence,
                  .operation = describe(ours.value_or(theirs))};
  if (!ours || !agree(*ours, theirs)) {
    blame_both(&failure, args_.place.rank);
    return failure;
  }
  failure.code = BP_INTERNAL;
  failure.words = rank_name(rank) + " runs " + describe(theirs) +
                  " by another schedule: it sent a message that is not expected";
  return failure;
}

void Lanes::note_ended(const HostItem& item, Clock::time_point now) {
  if (item.is_last && item.record_id) args_.recorder.completed(*item.record_id, BP_OK, now);
  if (kind_info(item.operation().kind).is_of_two) {
    --two_count_;
  } else if (item.is_check()) {
    checking_ = 0;
  } else {
    if (item.is_last) completed_ = item.sequence();
    taken_ = item.sequence();
    look_who_disagrees();
  }
}

void Lanes::end_entry(Entry& entry, Clock::time_point now) {
  note_ended(entry.get(), now);
  if (!entry.batch->end_one()) return;
  entry.batch->end_well();
  entry.batch->release_stream();
  open_count_.fetch_sub(1, std::memory_order_release);
}

/// One that has entered.
std::optional<Failure> Lanes::advance_item(HostItem& item, bool* out_done) {
  const Result<bool> is_done = contain([&] { return item.advance(*this); });
  if (!is_done.ok()) {
    Failure failure = failure_of(item, is_done.status(), item.culprit());
    if (failure.code == BP_INVALID_ARGUMENT) blame_both(&failure, args_.place.rank);
    return failure;
  }
  *out_done = *is_done;
  return *is_done || lost_count_ == 0 ? std::nullopt : find_lost(item);
}

std::optional<Failure> Lanes::advance_direct(Clock::time_point now, bool* out_moved) {
  Direct& direct = *direct_.load(std::memory_order_relaxed);
  HostItem& item = direct.item;
  if (!item.has_entered) {
    enter(&item);
    *out_moved = true;
  }
  bool is_done = false;
  if (auto failure = advance_item(item, &is_done)) return failure;
  if (!is_done) return std::nullopt;
  *out_moved = true;
  // Another thread may have read the clock before the call began.
  note_ended(item, std::max(now, item.deadline - direct.timeout));
  end_direct({});
  return std::nullopt;
}

/// Its caller may begin another one at once. Where memory is short the failure's code has to tell.
void Lanes::end_direct(const Failure& failure) noexcept {
  Direct* const direct = direct_.load(std::memory_order_acquire);
  const auto keep = [&] { direct->failure = failure; };
  if (!failure.ok() && !contain(keep).ok()) direct->failure = {.code = failure.code};
  direct_.store(nullptr, std::memory_order_release);
  direct->is_over.store(true, std::memory_order_release);
}

std::optional<Failure> Lanes::advance_lane(Lane* lane, Clock::time_point now, bool* out_moved) {
  if (lane == &collectives_ && direct_.load(std::memory_order_relaxed) != nullptr) return {};
  while (!lane->empty() && lane->front().batch->may_begin()) {
    Entry& entry = lane->front();
    if (!entry.get().has_entered) {
      if (auto failure = begin(entry, now)) return failure;
      *out_moved = true;
    }
    bool is_done = false;
    if (auto failure = advance_item(entry.get(), &is_done)) return failure;
    if (!is_done) break;
    *out_moved = true;
    end_entry(entry, now);
    lane->pop_front();
  }
  return std::nullopt;
}

std::optional<Failure> Lanes::advance(Clock::time_point now, bool* out_moved) {
  if (direct_.load(std::memory_order_acquire) != nullptr) {
    if (auto failure = advance_direct(now, out_moved)) return failure;
  }
  take_submitted();
  std::optional<Failure> first;
  for_each_lane([&](Lane& lane) {
    if (first || lane.empty()) return;
    first = advance_lane(&lane, now, out_moved);
  });
  if (!first && disagreeing_rank_) first = failure_of_disagreement(*disagreeing_rank_);
  return first;
}

std::optional<Overdue> Lanes::overdue(Clock::time_point now) const {
  const auto overdue_of = [](const HostItem& item, std::chrono::nanoseconds timeout) {
    return Overdue{item.operation(), item.sequence(), timeout, ranks_of(item.waits_for())};
  };
  const Direct* const direct = direct_.load(std::memory_order_acquire);
  if (direct != nullptr && now >= direct->item.deadline) {
    return overdue_of(direct->item, direct->timeout);
  }
  std::optional<Overdue> found;
  for_each_lane([&](const Lane& lane) {
    if (found || lane.empty() || now < lane.front().get().deadline) return;
    found = overdue_of(lane.front().get(), lane.front().batch->timeout());
  });
  return found;
}

Clock::time_point Lanes::next_look(Clock::time_point now) const {
  const Direct* const direct = direct_.load(std::memory_order_acquire);
  auto next = direct != nullptr ? direct->item.deadline : Clock::time_point::max();
  for_each_lane([&](const Lane& lane) {
    if (lane.empty()) return;
    next = std::min(next, lane.front().get().deadline);
    if (lane.front().get().looks_for_copies()) next = std::min(next, now + kCopyLook);
  });
  return next;
}

void Lanes::end_all(const Failure& failure) {
  if (const Direct* const direct = direct_.load(std::memory_order_acquire)) {
    direct->item.cancel(*this);
    args_.recorder.completed(*direct->item.record_id, failure.code);
    end_direct(failure);
  }
  take_submitted();
  Lane entries;
  for_each_lane([&](Lane& lane) {
    for (Entry& entry : lane) {
      entry.get().cancel(*this);
      const auto record_id = entry.get().record_id;
      if (record_id) args_.recorder.completed(*record_id, failure.code);
    }
    entries.splice(entries.end(), lane);
  });
  two_count_ = 0;
  // Once no message uses any memory of theirs.
  for (const Entry& entry : entries) {
    if (!entry.batch->has_ended()) entry.batch->end(failure);
  }
  ending_.splice(ending_.end(), entries);
  for (const Entry& entry : ending_) {
    if (entry.batch->has_released() || !entry.batch->release_stream()) continue;
    open_count_.fetch_sub(1, std::memory_order_release);
  }
  std::erase_if(ending_, [](const Entry& entry) { return entry.batch->has_released(); });
  for (Rank& rank : ranks_) {
    for (auto* waiting : {&rank.collectives, &rank.sends}) {
      for (const Arrival& arrival : *waiting) args_.messenger.engine().drop(arrival.token);
      waiting->clear();
    }
  }
  arrival_count_ = 0;
  disagreeing_rank_.reset();
}

}  // namespace bp::ccl
