// SPDX-License-Identifier: Apache-2.0
//
// Sends and recvs are numbered by the two ranks and the direction: so a send and the recv of it
// have one number, and a side that is missing has not been called.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ccl/watch/group_trace.hpp"
#include "ccl/watch/words.hpp"

namespace bp::ccl {
namespace {

/// From one rank to another.
using Direction = std::pair<uint32_t, uint32_t>;

struct Pair {
  std::optional<Entered> send;
  std::optional<Entered> recv;
};

std::vector<uint32_t> ranks_of(Direction direction) {
  return {std::min(direction.first, direction.second), std::max(direction.first, direction.second)};
}

Direction direction_of(const Entered& entered) {
  const uint32_t other = entered.operation().root;
  return entered.operation().kind == Kind::kSend ? Direction(entered.rank(), other)
                                                 : Direction(other, entered.rank());
}

class PairTrace {
 public:
  PairTrace(const GroupDumps& dumps, GroupFindings* out);
  void find();

 private:
  /// True: something is told of this direction, and what follows comes from it.
  bool look_at(Direction direction, const Pair& pair);
  bool look_at_one_side(Direction direction, const Entered& present);
  bool look_at_both_sides(Direction direction, const Entered& send, const Entered& recv);
  const RankDump* dump_of(uint32_t rank) const;
  uint64_t last(bool is_send, Direction direction) const;

  const GroupDumps& dumps_;
  GroupFindings* const out_;
  std::map<std::pair<Direction, uint64_t>, Pair> pairs_;
  std::map<std::pair<bool, Direction>, uint64_t> last_;  // the highest that a side was called for
};

PairTrace::PairTrace(const GroupDumps& dumps, GroupFindings* out) : dumps_(dumps), out_(out) {
  for (const RankDump* dump : dumps) {
    for (const Record& record : dump->records) {
      if (!record.entry.is_of_two()) continue;
      const Entered entered = {dump, &record};
      const Direction direction = direction_of(entered);
      const bool is_send = entered.operation().kind == Kind::kSend;
      Pair& pair = pairs_[{direction, record.entry.sequence}];
      (is_send ? pair.send : pair.recv) = entered;
      uint64_t& last = last_[{is_send, direction}];
      last = std::max(last, record.entry.sequence);
    }
  }
}

const RankDump* PairTrace::dump_of(uint32_t rank) const {
  const auto found = std::find_if(dumps_.begin(), dumps_.end(), [rank](const RankDump* dump) {
    return dump->group.place.rank == rank;
  });
  return found == dumps_.end() ? nullptr : *found;
}

uint64_t PairTrace::last(bool is_send, Direction direction) const {
  const auto found = last_.find({is_send, direction});
  return found == last_.end() ? 0 : found->second;
}

bool PairTrace::look_at_one_side(Direction direction, const Entered& present) {
  const uint64_t sequence = present.record->entry.sequence;
  const bool is_send = present.operation().kind == Kind::kSend;
  const uint32_t missing = is_send ? direction.second : direction.first;
  const RankDump* const dump = dump_of(missing);
  const uint64_t its_last = last(!is_send, direction);
  const bool is_waiting = present.has_started() && !present.is_completed();
  // Without a dump nothing is known; what is recorded no more was called.
  if (!is_waiting || dump == nullptr || its_last >= sequence) return false;
  out_->add(
      FindingKind::kNeverEntered, sequence, {missing},
      fmt::format("{} never entered the {} of seq {} {} rank {}, which is in {}; last {}",
                  rank_words(dump->group, missing), is_send ? "recv" : "send", sequence,
                  is_send ? "from" : "to", present.rank(), operation_words(present.operation()),
                  its_last == 0 ? "none" : std::to_string(its_last)));
  out_->waits.push_back({{{present.dump, present.record}}, {dump}});
  return true;
}

bool PairTrace::look_at_both_sides(Direction direction, const Entered& send, const Entered& recv) {
  if (send.is_completed() && recv.is_completed()) return false;
  const uint64_t sequence = send.record->entry.sequence;
  const std::string what =
      fmt::format("seq {} from rank {} to rank {}", sequence, direction.first, direction.second);
  const auto say = [](const Entered& each, std::string_view verb) {
    return fmt::format("{} {} {}", rank_words(each.dump->group, each.rank()), verb,
                       operation_words(each.operation()));
  };
  if (send.has_started() != recv.has_started()) {
    const Entered& inside = send.has_started() ? send : recv;
    const Entered& other = send.has_started() ? recv : send;
    out_->add(FindingKind::kNeverEntered, sequence, {other.rank()},
              fmt::format("{}: {} and never began it, {}", what, say(other, "called"),
                          say(inside, "began")));
    if (!inside.is_completed()) {
      out_->waits.push_back({{{inside.dump, inside.record}}, {other.dump}});
    }
    return true;
  }
  std::vector<Entered> failed;
  for (const Entered& each : {send, recv}) {
    if (each.is_failed()) failed.push_back(each);
  }
  if (!failed.empty()) {
    std::vector<uint32_t> ranks;
    for (const Entered& each : failed) ranks.push_back(each.rank());
    std::sort(ranks.begin(), ranks.end());
    out_->add(FindingKind::kFailed, sequence, std::move(ranks),
              fmt::format("{} {} failed{}", what, operation_words(send.operation()),
                          failure_words(failed)));
    return true;
  }
  if (send.is_completed() || recv.is_completed()) {
    const Entered& inside = send.is_completed() ? recv : send;
    const Entered& done = send.is_completed() ? send : recv;
    out_->add(FindingKind::kNotCompleted, sequence, {inside.rank()},
              fmt::format("{}: {} and did not complete it, rank {} did", what,
                          say(inside, "entered"), done.rank()));
    return true;
  }
  const bool is_overdue = send.is_overdue() || recv.is_overdue();
  out_->add(is_overdue ? FindingKind::kOverdue : FindingKind::kRunning, sequence,
            ranks_of(direction),
            fmt::format("both ranks are in {} {}{}", what, operation_words(send.operation()),
                        is_overdue ? ", longer than it may take" : ""));
  return true;
}

bool PairTrace::look_at(Direction direction, const Pair& pair) {
  if (!pair.send || !pair.recv) {
    return look_at_one_side(direction, pair.send ? *pair.send : *pair.recv);
  }
  const Operation& send = pair.send->operation();
  const Operation& recv = pair.recv->operation();
  if (send.dtype == recv.dtype && send.count == recv.count) {
    return look_at_both_sides(direction, *pair.send, *pair.recv);
  }
  const uint64_t sequence = pair.send->record->entry.sequence;
  out_->add(FindingKind::kMismatch, sequence, ranks_of(direction),
            fmt::format("seq {} from rank {} to rank {}: rank {} entered {}, rank {} entered {}",
                        sequence, direction.first, direction.second, direction.first,
                        operation_words(send), direction.second, operation_words(recv)));
  return true;
}

void PairTrace::find() {
  std::set<Direction> told;
  for (const auto& [key, pair] : pairs_) {
    if (told.contains(key.first)) continue;
    if (look_at(key.first, pair)) told.insert(key.first);
  }
}

}  // namespace

void find_in_pairs(const GroupDumps& dumps, GroupFindings* out) { PairTrace(dumps, out).find(); }

}  // namespace bp::ccl
