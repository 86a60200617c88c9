// SPDX-License-Identifier: Apache-2.0
//
// See symbolic_run_test.hpp.
#include "ccl/schedule/symbolic_run_test.hpp"

#include <algorithm>
#include <utility>

#include "core/base/hash.hpp"

namespace bp::ccl::symbolic {
namespace {

bool continues(const Run& before, const Run& run) {
  return before.first + before.count == run.first && before.value == run.value &&
         before.element + before.count == run.element;
}

void append(std::vector<Run>* runs, const Run& run) {
  if (!runs->empty() && continues(runs->back(), run)) {
    runs->back().count += run.count;
  } else {
    runs->push_back(run);
  }
}

/// The part of a run between two places.
Run cut(const Run& run, uint64_t begin, uint64_t end) {
  const uint64_t first = std::max(run.first, begin);
  return {first, std::min(run.first + run.count, end) - first, run.value,
          run.element + (first - run.first)};
}

std::string text_of(const Part& part) {
  constexpr std::array<const char*, 3> kNames = {"send", "recv", "scratch"};
  return std::string(kNames[static_cast<size_t>(part.buffer)]) + "[" + std::to_string(part.first) +
         ", " + std::to_string(part.first + part.count) + ")";
}

}  // namespace

Expressions::Expressions(uint32_t rank_count)
    : rank_count_(rank_count),
      nodes_(rank_count),
      ranks_in_order_(rank_count, 0),
      is_complete_(rank_count, rank_count == 1) {
  ranks_in_order_[0] = 1;
  slots_.resize(1024, 0);
}

Expressions::Id Expressions::combine(Id first, Id second) {
  const size_t mask = slots_.size() - 1;  // sizes are powers of two
  for (size_t slot = mix(mix(1, first), second);; ++slot) {
    Id& id = slots_[slot & mask];
    if (id != 0 && nodes_[id].first == first && nodes_[id].second == second) return id;
    if (id != 0) continue;
    id = static_cast<Id>(nodes_.size());
    nodes_.push_back({first, second});
    const uint32_t in_order = ranks_in_order_[first];
    ranks_in_order_.push_back(in_order > 0 && second == in_order ? in_order + 1 : 0);
    is_complete_.push_back(false);
    if (2 * nodes_.size() > slots_.size()) grow();
    return static_cast<Id>(nodes_.size() - 1);
  }
}

void Expressions::grow() {
  slots_.assign(4 * slots_.size(), 0);
  for (Id id = rank_count_; id < nodes_.size(); ++id) {
    size_t slot = mix(mix(1, nodes_[id].first), nodes_[id].second);
    while (slots_[slot % slots_.size()] != 0) ++slot;
    slots_[slot % slots_.size()] = id;
  }
}

std::string Expressions::problem_of_leaves(Id id) {
  if (is_complete_[id]) return "";
  std::vector<bool> has(rank_count_, false);
  std::vector<Id> left = {id};
  uint32_t leaves = 0;
  while (!left.empty()) {
    const Id node = left.back();
    left.pop_back();
    if (node >= rank_count_) {
      left.push_back(nodes_[node].second);
      left.push_back(nodes_[node].first);
      continue;
    }
    if (has[node]) return "has the contribution of rank " + std::to_string(node) + " twice";
    has[node] = true;
    ++leaves;
  }
  if (leaves < rank_count_) {
    const auto lacking = std::find(has.begin(), has.end(), false) - has.begin();
    return "lacks the contribution of rank " + std::to_string(lacking);
  }
  is_complete_[id] = true;
  return "";
}

bool Memory::read(uint64_t first, uint64_t count, std::vector<Run>* found) const {
  found->clear();
  const uint64_t end = first + count;
  auto run = std::upper_bound(runs_.begin(), runs_.end(), first,
                              [](uint64_t at, const Run& r) { return at < r.first + r.count; });
  uint64_t at = first;
  if (run != runs_.end() && run->first <= first && end <= run->first + run->count) {
    found->push_back({0, count, run->value, run->element + (first - run->first)});
    return true;
  }
  for (; at < end && run != runs_.end() && run->first <= at; ++run) {
    Run part = cut(*run, at, end);
    at += part.count;
    part.first -= first;
    found->push_back(part);
  }
  return at == end;
}

void Memory::write(uint64_t first, const std::vector<Run>& values) {
  const uint64_t end = first + values.back().first + values.back().count;
  // Runs that touch what is written are made anew, with what is left of them.
  const auto begin_run =
      std::lower_bound(runs_.begin(), runs_.end(), first,
                       [](const Run& r, uint64_t at) { return r.first + r.count < at; });
  auto end_run = begin_run;
  while (end_run != runs_.end() && end_run->first <= end) ++end_run;
  rest_.clear();
  for (auto run = begin_run; run != end_run && run->first < first; ++run) {
    append(&rest_, cut(*run, 0, first));
  }
  for (Run value : values) {
    value.first += first;
    append(&rest_, value);
  }
  for (auto run = begin_run; run != end_run; ++run) {
    if (run->first + run->count > end) append(&rest_, cut(*run, end, UINT64_MAX));
  }
  const auto at = begin_run - runs_.begin();
  const auto old_count = end_run - begin_run;
  const auto new_count = static_cast<std::ptrdiff_t>(rest_.size());
  const auto kept = std::min(old_count, new_count);
  std::copy(rest_.begin(), rest_.begin() + kept, runs_.begin() + at);
  if (new_count > old_count) {
    runs_.insert(runs_.begin() + at + kept, rest_.begin() + kept, rest_.end());
  } else {
    runs_.erase(runs_.begin() + at + kept, runs_.begin() + at + old_count);
  }
}

void SymbolicRun::fail(uint32_t rank, const std::string& words) {
  if (!problem_.empty()) return;
  problem_ = "rank " + std::to_string(rank) + ", round " + std::to_string(states_[rank].round) +
             ": " + words;
}

SymbolicRun::Spot SymbolicRun::spot(uint32_t rank, const Part& part, bool is_written) {
  const Rank& r = (*ranks_)[rank];
  const uint64_t size = part.buffer == Buffer::kSend   ? r.counts.send
                        : part.buffer == Buffer::kRecv ? r.counts.recv
                                                       : r.schedule.scratch_count;
  if (part.count == 0 || part.first > size || part.count > size - part.first) {
    fail(rank, text_of(part) + " is not in the buffer of " + std::to_string(size));
    return {};
  }
  Spot found{static_cast<Place>(part.buffer), part.first, part.count, is_written};
  if (part.buffer == Buffer::kScratch) return found;
  const bool is_send_larger = r.counts.send > r.counts.recv;
  if (r.is_in_place) {
    // The smaller buffer is a block of the larger one, or both are one.
    const Buffer larger = is_send_larger ? Buffer::kSend : Buffer::kRecv;
    found.memory = static_cast<Place>(larger);
    if (part.buffer != larger) found.first += r.own_block;
  }
  if (is_written && found.memory == kSendMemory) {
    const bool is_own = r.is_in_place && found.first >= r.own_block &&
                        found.first + found.count <= r.own_block + r.counts.recv;
    if (!is_own) fail(rank, text_of(part) + " is written, and is what the caller sends");
  }
  return found;
}

bool SymbolicRun::read(uint32_t rank, const Spot& spot, std::vector<Run>* found) {
  if (states_[rank].memories[spot.memory].read(spot.first, spot.count, found)) return true;
  constexpr std::array<Buffer, 3> kBuffers = {Buffer::kSend, Buffer::kRecv, Buffer::kScratch};
  fail(rank, text_of({kBuffers[spot.memory], spot.first, spot.count}) +
                 " is read, and was never written");
  return false;
}

void SymbolicRun::prepare() {
  const auto size = static_cast<uint32_t>(ranks_->size());
  const bool is_barrier = kind_ == Kind::kBarrier;
  states_.resize(size);
  rounds_.clear();
  problem_.clear();
  ready_.clear();
  for (uint32_t rank = 0; rank < size; ++rank) {
    State& state = states_[rank];
    for (Memory& memory : state.memories) memory.clear();
    state.next = 0;
    state.round = 0;
    state.locals = 0;
    state.open = 0;
    state.is_over = false;
    state.sends_to_here.clear();
    state.recvs.clear();
    const uint64_t count = (*ranks_)[rank].counts.send;
    if (count > 0) {
      const Spot sent = spot(rank, {Buffer::kSend, 0, count}, false);
      state.memories[sent.memory].write(sent.first, {{0, count, rank, 0}});
    }
    if (is_barrier) {
      // What its messages hold means nothing; that they came does.
      state.memories[kScratchMemory].write(0, {{0, 1, rank, 0}});
      state.known.assign((size + 63) / 64, 0);
      state.known[rank / 64] |= uint64_t{1} << (rank % 64);
      state.learned.assign(state.known.size(), 0);
    }
  }
}

Outcome SymbolicRun::run(Kind kind, const std::vector<Rank>& ranks,
                         std::span<const uint32_t> hosts) {
  kind_ = kind;
  ranks_ = &ranks;
  hosts_ = hosts;
  prepare();
  for (uint32_t rank = 0; rank < ranks.size() && problem_.empty(); ++rank) {
    begin_round(rank);
    while (!ready_.empty() && problem_.empty()) {
      const uint32_t next = ready_.back();
      ready_.pop_back();
      finish_round(next);
      begin_round(next);
    }
  }
  if (problem_.empty()) problem_ = stuck_words();
  if (problem_.empty() && kind_ == Kind::kBarrier) check_barrier();
  Outcome outcome{problem_, {}};
  for (const Cost& round : rounds_) {
    outcome.cost.messages += round.messages;
    outcome.cost.moved += round.moved;
    outcome.cost.host_messages += round.host_messages;
    outcome.cost.host_moved += round.host_moved;
    outcome.cost.reduced += round.reduced;
    outcome.cost.copied += round.copied;
  }
  return outcome;
}

void SymbolicRun::begin_round(uint32_t rank) {
  const std::vector<Step>& steps = (*ranks_)[rank].schedule.steps;
  State& state = states_[rank];
  const size_t begin = state.next;
  if (begin == steps.size()) {
    state.is_over = true;
    return;
  }
  const uint32_t round = steps[begin].round;
  state.round = round;
  if (begin > 0 && round <= steps[begin - 1].round) return fail(rank, "rounds go back");
  size_t end = begin;
  state.open = 0;
  state.locals = begin;
  for (; end < steps.size() && steps[end].round == round; ++end) {
    const bool is_message =
        steps[end].kind == StepKind::kSend || steps[end].kind == StepKind::kRecv;
    if (!is_message) continue;
    if (state.locals != end) return fail(rank, "a message comes after a local step");
    state.locals = end + 1;
    ++state.open;
  }
  state.next = end;
  measure(rank, begin, end);
  check_overlap(rank, begin, state.locals);
  if (state.open == 0) ready_.push_back(rank);
  for (size_t i = begin; i < state.locals && problem_.empty(); ++i) post(rank, steps[i]);
}

bool SymbolicRun::is_within_host(uint32_t rank, const Step& step) const {
  return !hosts_.empty() && step.peer < hosts_.size() && hosts_[step.peer] == hosts_[rank];
}

void SymbolicRun::measure(uint32_t rank, size_t begin, size_t end) {
  const std::vector<Step>& steps = (*ranks_)[rank].schedule.steps;
  Cost sent;
  Cost received;
  for (size_t i = begin; i < end; ++i) {
    const Step& step = steps[i];
    if (step.kind == StepKind::kReduce) sent.reduced += step.to.count;
    if (step.kind == StepKind::kCopy) sent.copied += step.to.count;
    if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
    Cost& side = step.kind == StepKind::kSend ? sent : received;
    const bool is_local = is_within_host(rank, step);
    ++(is_local ? side.host_messages : side.messages);
    (is_local ? side.host_moved : side.moved) +=
        step.kind == StepKind::kSend ? step.from.count : step.to.count;
  }
  const uint32_t round = steps[begin].round;
  if (rounds_.size() <= round) rounds_.resize(round + 1);
  Cost& most = rounds_[round];
  for (const Cost& side : {sent, received}) {
    most.messages = std::max(most.messages, side.messages);
    most.moved = std::max(most.moved, side.moved);
    most.host_messages = std::max(most.host_messages, side.host_messages);
    most.host_moved = std::max(most.host_moved, side.host_moved);
  }
  most.reduced = std::max(most.reduced, sent.reduced);
  most.copied = std::max(most.copied, sent.copied);
}

void SymbolicRun::check_overlap(uint32_t rank, size_t begin, size_t end) {
  const std::vector<Step>& steps = (*ranks_)[rank].schedule.steps;
  spots_.clear();
  for (size_t i = begin; i < end; ++i) {
    const bool is_recv = steps[i].kind == StepKind::kRecv;
    const Part& part = is_recv ? steps[i].to : steps[i].from;
    // Of this kind messages without elements may be asked for.
    if (kind_ == Kind::kAllToAll && part.count == 0) continue;
    spots_.push_back(spot(rank, part, is_recv));
  }
  const auto comes_first = [](const Spot& a, const Spot& b) {
    return a.memory != b.memory ? a.memory < b.memory : a.first < b.first;
  };
  if (spots_.size() == 2) {  // most rounds
    if (comes_first(spots_[1], spots_[0])) std::swap(spots_[0], spots_[1]);
  } else {
    std::sort(spots_.begin(), spots_.end(), comes_first);
  }
  uint64_t sent_end = 0;
  uint64_t received_end = 0;
  for (size_t i = 0; i < spots_.size(); ++i) {
    const Spot& s = spots_[i];
    if (i == 0 || spots_[i - 1].memory != s.memory) sent_end = received_end = 0;
    if (s.first < received_end || (s.is_written && s.first < sent_end)) {
      fail(rank, "a message is received over another one's elements");
    }
    uint64_t& side = s.is_written ? received_end : sent_end;
    side = std::max(side, s.first + s.count);
  }
}

void SymbolicRun::post(uint32_t rank, const Step& step) {
  if (step.peer >= states_.size()) return fail(rank, "there is no such peer");
  const bool is_send = step.kind == StepKind::kSend;
  // In the order in which they were posted.
  auto& others = is_send ? states_[step.peer].recvs : states_[rank].sends_to_here;
  const uint32_t wanted = is_send ? rank : step.peer;
  const auto found = std::find_if(others.begin(), others.end(),
                                  [wanted](const Waiting& w) { return w.peer == wanted; });
  if (found == others.end()) {
    auto& own = is_send ? states_[step.peer].sends_to_here : states_[rank].recvs;
    own.push_back({is_send ? rank : step.peer, &step});
    return;
  }
  const Step& other = *found->step;
  others.erase(found);
  if (is_send) {
    transfer(rank, step, step.peer, other);
  } else {
    transfer(step.peer, other, rank, step);
  }
}

void SymbolicRun::transfer(uint32_t from, const Step& send, uint32_t to, const Step& recv) {
  const auto ends = [&] {
    return "the message from rank " + std::to_string(from) + " to rank " + std::to_string(to);
  };
  if (send.from.count != recv.to.count) {
    return fail(to, ends() + " has " + std::to_string(send.from.count) + " elements, and " +
                        std::to_string(recv.to.count) + " are received");
  }
  if (send.round != recv.round) {
    return fail(to, ends() + " is sent in round " + std::to_string(send.round));
  }
  if (send.from.count == 0) {
    end_message(from);
    return end_message(to);
  }
  const Spot source = spot(from, send.from, false);
  const Spot target = spot(to, recv.to, true);
  if (!problem_.empty() || !read(from, source, &first_operand_)) return;
  states_[to].memories[target.memory].write(target.first, first_operand_);
  for (size_t i = 0; kind_ == Kind::kBarrier && i < states_[to].learned.size(); ++i) {
    states_[to].learned[i] |= states_[from].known[i];
  }
  end_message(from);
  end_message(to);
}

void SymbolicRun::end_message(uint32_t rank) {
  if (--states_[rank].open == 0) ready_.push_back(rank);
}

void SymbolicRun::finish_round(uint32_t rank) {
  const std::vector<Step>& steps = (*ranks_)[rank].schedule.steps;
  State& state = states_[rank];
  for (size_t i = state.locals; i < state.next && problem_.empty(); ++i) run_local(rank, steps[i]);
  for (size_t i = 0; kind_ == Kind::kBarrier && i < state.known.size(); ++i) {
    state.known[i] |= state.learned[i];
  }
}

void SymbolicRun::run_local(uint32_t rank, const Step& step) {
  if (step.from.count != step.to.count) {
    return fail(rank, text_of(step.from) + " and " + text_of(step.to) + " have different sizes");
  }
  const Spot from = spot(rank, step.from, false);
  const Spot to = spot(rank, step.to, true);
  if (from.memory == to.memory && from.first < to.first + to.count &&
      to.first < from.first + from.count) {
    fail(rank, text_of(step.from) + " and " + text_of(step.to) + " overlap");
  }
  if (!problem_.empty() || !read(rank, from, &first_operand_)) return;
  Memory& memory = states_[rank].memories[to.memory];
  if (step.kind == StepKind::kCopy) return memory.write(to.first, first_operand_);
  if (!read(rank, to, &second_operand_)) return;
  result_.clear();
  for (size_t i = 0, k = 0; i < first_operand_.size() && k < second_operand_.size();) {
    const Run& a = first_operand_[i];
    const Run& b = second_operand_[k];
    const uint64_t begin = std::max(a.first, b.first);
    const uint64_t end = std::min(a.first + a.count, b.first + b.count);
    const Run left = cut(a, begin, end);
    const Run right = cut(b, begin, end);
    if (left.element != right.element) {
      return fail(rank, "element " + std::to_string(left.element) + " is combined with element " +
                            std::to_string(right.element));
    }
    const auto value = step.is_from_first ? expressions_.combine(left.value, right.value)
                                          : expressions_.combine(right.value, left.value);
    append(&result_, {begin, end - begin, value, left.element});
    if (end == a.first + a.count) ++i;
    if (end == b.first + b.count) ++k;
  }
  memory.write(to.first, result_);
}

void SymbolicRun::check_barrier() {
  for (uint32_t rank = 0; rank < states_.size(); ++rank) {
    for (uint32_t other = 0; other < states_.size(); ++other) {
      if ((states_[rank].known[other / 64] >> (other % 64) & 1) == 0) {
        fail(rank, "passes the barrier before rank " + std::to_string(other) + " has come");
      }
    }
  }
}

std::string SymbolicRun::stuck_words() const {
  std::string words;
  for (uint32_t rank = 0; rank < states_.size() && words.size() < 300; ++rank) {
    for (const Waiting& recv : states_[rank].recvs) {
      words += "; rank " + std::to_string(rank) + " waits in round " +
               std::to_string(recv.step->round) + " for rank " + std::to_string(recv.peer);
    }
    for (const Waiting& send : states_[rank].sends_to_here) {
      words += "; rank " + std::to_string(send.peer) + " waits in round " +
               std::to_string(send.step->round) + " for rank " + std::to_string(rank) +
               " to receive";
    }
  }
  return words.empty() ? words : "deadlock" + words;
}

const std::vector<Run>& SymbolicRun::received(uint32_t rank) {
  const Rank& r = (*ranks_)[rank];
  const bool is_in_send = r.is_in_place && r.counts.send > r.counts.recv;
  if (!is_in_send) return states_[rank].memories[kRecvMemory].runs();
  states_[rank].memories[kSendMemory].read(r.own_block, r.counts.recv, &result_);
  return result_;
}

}  // namespace bp::ccl::symbolic
