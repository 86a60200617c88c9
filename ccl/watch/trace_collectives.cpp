// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a group are numbered, and a rank enters them in this order: so the number that it
// came to says which it has not entered, however little of the past is recorded.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ccl/watch/group_trace.hpp"
#include "ccl/watch/words.hpp"

namespace bp::ccl {
namespace {

using BySequence = std::map<uint64_t, std::vector<Entered>>;

BySequence collectives_of(const GroupDumps& dumps) {
  BySequence collectives;
  for (const RankDump* dump : dumps) {
    for (const Record& record : dump->records) {
      if (record.entry.is_of_two()) continue;
      std::vector<Entered>& all = collectives[record.entry.sequence];
      // A number is given again where a call fails.
      if (!all.empty() && all.back().dump == dump) all.pop_back();
      all.push_back({dump, &record});
    }
  }
  return collectives;
}

uint64_t least_entered(const GroupDumps& dumps) {
  uint64_t least = UINT64_MAX;
  for (const RankDump* dump : dumps) least = std::min(least, dump->last.entered);
  return least;
}

/// "seq 118 all_reduce sum f32 1 Mi", or without the operation where nobody has it any more.
std::string sequence_words(const BySequence& collectives, uint64_t sequence) {
  const auto found = collectives.find(sequence);
  if (found == collectives.end()) return fmt::format("seq {}", sequence);
  return fmt::format("seq {} {}", sequence, operation_words(found->second.front().operation()));
}

/// Adds the first; answers its sequence, or UINT64_MAX.
uint64_t find_mismatch(const BySequence& collectives, GroupFindings* out) {
  for (const auto& [sequence, all] : collectives) {
    const auto differs = [&all = all](const Entered& each) {
      return each.operation() != all.front().operation();
    };
    if (std::none_of(all.begin(), all.end(), differs)) continue;
    std::map<std::string, std::vector<uint32_t>> by_words;
    for (const Entered& each : all)
      by_words[operation_words(each.operation())].push_back(each.rank());
    std::vector<std::pair<std::string, std::vector<uint32_t>>> sides(by_words.begin(),
                                                                     by_words.end());
    // The most first: the others are more likely to be wrong.
    std::sort(sides.begin(), sides.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() > b.second.size()
                                                : a.second.front() < b.second.front();
    });
    std::string words = fmt::format("seq {}: ", sequence);
    std::vector<uint32_t> others;
    for (size_t i = 0; i < sides.size(); ++i) {
      words += fmt::format("{}{} entered {}", i == 0 ? "" : ", ", ranks_words(sides[i].second),
                           sides[i].first);
      if (i > 0) others.insert(others.end(), sides[i].second.begin(), sides[i].second.end());
    }
    std::sort(others.begin(), others.end());
    out->add(FindingKind::kMismatch, sequence, std::move(others), std::move(words));
    return sequence;
  }
  return UINT64_MAX;
}

/// Whether some rank is in it, not only in front of it. What is recorded no more is long ago.
bool has_begun(const GroupDumps& dumps, const BySequence& collectives, uint64_t sequence) {
  const auto found = collectives.find(sequence);
  size_t recorded = 0;
  if (found != collectives.end()) {
    const std::vector<Entered>& all = found->second;
    recorded = all.size();
    const auto has_started = [](const Entered& each) { return each.has_started(); };
    if (std::any_of(all.begin(), all.end(), has_started)) return true;
  }
  const auto entered = std::count_if(dumps.begin(), dumps.end(), [&](const RankDump* dump) {
    return dump->last.entered >= sequence;
  });
  return static_cast<size_t>(entered) > recorded;
}

void find_laggards(const GroupDumps& dumps, const BySequence& collectives, GroupFindings* out) {
  const uint64_t least = least_entered(dumps);
  if (!has_begun(dumps, collectives, least + 1)) return;
  std::vector<uint32_t> ranks;
  for (const RankDump* dump : dumps) {
    if (dump->last.entered == least) ranks.push_back(dump->group.place.rank);
  }
  const GroupInfo& group = dumps.front()->group;
  const std::string who = ranks.size() == 1 ? rank_words(group, ranks[0]) : ranks_words(ranks);
  std::string words =
      fmt::format("{} never entered {}; last {}", who, sequence_words(collectives, least + 1),
                  least == 0 ? "none" : std::to_string(least));
  out->add(FindingKind::kNeverEntered, least + 1, std::move(ranks), std::move(words));
}

/// Each rank's first collective that it is in, where somebody has not come to it.
void find_waits(const GroupDumps& dumps, const BySequence& collectives, GroupFindings* out) {
  std::set<const RankDump*> waiting;
  for (const auto& [sequence, all] : collectives) {
    Wait wait;
    std::set<const RankDump*> started;
    for (const Entered& each : all) {
      if (!each.has_started()) continue;
      started.insert(each.dump);
      if (!each.is_completed() && waiting.insert(each.dump).second) {
        wait.waiters.push_back({each.dump, each.record});
      }
    }
    if (wait.waiters.empty()) continue;
    for (const RankDump* dump : dumps) {
      // Recorded no more, or not called, or called and not begun.
      const bool is_over = dump->last.started >= sequence || dump->last.completed >= sequence;
      if (!started.contains(dump) && !is_over) wait.awaited.push_back(dump);
    }
    if (!wait.awaited.empty()) out->waits.push_back(std::move(wait));
  }
}

std::vector<uint32_t> ranks_of(const std::vector<Entered>& all) {
  std::vector<uint32_t> ranks;
  for (const Entered& each : all) ranks.push_back(each.rank());
  return ranks;
}

/// Which ranks a collective was completed by, and which are still in it, or in front of it.
struct Sides {
  std::vector<uint32_t> completed;
  std::vector<uint32_t> started;
  std::vector<uint32_t> not_started;  // failed ones too
  std::vector<Entered> failed;
  std::vector<Entered> inside;
};

Sides sides_of(const GroupDumps& dumps, uint64_t sequence, const std::vector<Entered>& all) {
  Sides sides;
  auto next = all.begin();
  for (const RankDump* dump : dumps) {
    if (next == all.end() || next->dump != dump) {  // recorded no more
      if (dump->last.completed >= sequence) sides.completed.push_back(dump->group.place.rank);
      continue;
    }
    if (next->is_completed()) {
      sides.completed.push_back(next->rank());
    } else {
      (next->is_failed() ? sides.failed : sides.inside).push_back(*next);
    }
    (next->has_started() ? sides.started : sides.not_started).push_back(next->rank());
    ++next;
  }
  return sides;
}

/// Of ranks that are all in it, or completed it.
void tell_inside(const std::string& what, uint64_t sequence, const Sides& sides,
                 GroupFindings* out) {
  std::vector<uint32_t> inside = ranks_of(sides.inside);
  if (!sides.completed.empty()) {
    std::string words = fmt::format("{} entered {} and did not complete it, {} did",
                                    ranks_words(inside), what, ranks_words(sides.completed));
    out->add(FindingKind::kNotCompleted, sequence, std::move(inside), std::move(words));
    return;
  }
  const auto overdue = std::find_if(sides.inside.begin(), sides.inside.end(),
                                    [](const Entered& each) { return each.is_overdue(); });
  if (overdue == sides.inside.end()) {
    out->add(FindingKind::kRunning, sequence, std::move(inside),
             fmt::format("all ranks are in {}", what));
    return;
  }
  const double seconds = static_cast<double>(overdue->record->entry.timeout_ns) / 1e9;
  out->add(FindingKind::kOverdue, sequence, std::move(inside),
           fmt::format("all ranks entered {}, none completed it within {:g} s", what, seconds));
}

void tell_failed(const std::string& what, uint64_t sequence, const Sides& sides,
                 GroupFindings* out) {
  std::string words = fmt::format("{} failed{}", what, failure_words(sides.failed));
  if (!sides.completed.empty()) {
    words += fmt::format("; {} completed it", ranks_words(sides.completed));
  }
  out->add(FindingKind::kFailed, sequence, ranks_of(sides.failed), std::move(words));
}

/// The first collective before `end` that is not completed by all who called it.
void find_unfinished(const GroupDumps& dumps, const BySequence& collectives, uint64_t end,
                     GroupFindings* out) {
  for (const auto& [sequence, all] : collectives) {
    if (sequence >= end) return;
    const bool is_over = std::all_of(all.begin(), all.end(),
                                     [](const Entered& each) { return each.is_completed(); });
    if (is_over) continue;
    const Sides sides = sides_of(dumps, sequence, all);
    const std::string what = sequence_words(collectives, sequence);
    if (!sides.failed.empty()) tell_failed(what, sequence, sides, out);
    // Who is in what others have not called waits for them, and that is told.
    if (sequence > least_entered(dumps)) return;
    if (!sides.not_started.empty() && !sides.started.empty()) {
      out->add(FindingKind::kNeverEntered, sequence, sides.not_started,
               fmt::format("{} called {} and never began it, {} did",
                           ranks_words(sides.not_started), what, ranks_words(sides.started)));
    } else if (sides.failed.empty()) {
      tell_inside(what, sequence, sides, out);
    }
    return;
  }
}

}  // namespace

std::string failure_words(const std::vector<Entered>& failed) {
  std::map<bp_status, std::vector<uint32_t>> by_code;
  for (const Entered& each : failed) by_code[each.record->error].push_back(each.rank());
  std::string words;
  for (const auto& [code, ranks] : by_code) {
    words += fmt::format("{}{} with {}", words.empty() ? ": " : ", ", ranks_words(ranks),
                         status_name(code));
  }
  return words;
}

void find_in_collectives(const GroupDumps& dumps, GroupFindings* out) {
  const BySequence collectives = collectives_of(dumps);
  // Beyond a mismatch the numbers mean nothing.
  const uint64_t mismatch = find_mismatch(collectives, out);
  find_laggards(dumps, collectives, out);
  find_waits(dumps, collectives, out);
  find_unfinished(dumps, collectives, mismatch, out);
}

uint64_t last_in_common(const GroupDumps& dumps) {
  const BySequence collectives = collectives_of(dumps);
  for (auto place = collectives.rbegin(); place != collectives.rend(); ++place) {
    if (place->second.size() == dumps.size()) return place->first;
  }
  return 0;
}

}  // namespace bp::ccl
