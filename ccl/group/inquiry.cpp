// SPDX-License-Identifier: Apache-2.0
//
// See inquiry.hpp.
#include "ccl/group/inquiry.hpp"

#include <algorithm>
#include <map>

namespace bp::ccl {
namespace {

/// Whether no rank can have completed it before all have brought what is theirs. By its words,
/// since ranks tell no more of what they are in: "all_reduce sum f32 3". Where blocks differ in
/// size, or there is nothing to bring, a rank may need nobody.
bool needs_all_ranks(const std::string& operation) {
  const std::string name = operation.substr(0, operation.find(' '));
  if ((operation + " ").find(" 0 ") != std::string::npos) return false;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const KindInfo& kind = kind_info(static_cast<Kind>(i));
    if (kind.name == name) return !kind.has_root && !kind.is_of_two;
  }
  return false;
}

}  // namespace

Inquiry::Inquiry(Args args, Control* control, Clock::time_point now)
    : args_(std::move(args)),
      end_(now + kLongest),
      latest_end_(end_ + kMostStill),
      looked_(now),
      ranks_(args_.place.rank_count) {
  ranks_[args_.place.rank] = {Answer::kHere, args_.own};
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    if (rank == args_.place.rank) continue;
    control->send(rank, MessageType::kWhere, {}, args_.overdue.sequence);
  }
}

void Inquiry::answered(uint32_t rank, const Whereabouts& whereabouts) {
  ranks_[rank] = {Answer::kHere, whereabouts};
}

void Inquiry::lost(uint32_t rank) { ranks_[rank].answer = Answer::kLost; }

bool Inquiry::is_over(Clock::time_point now) {
  // What others sent meanwhile may not have been taken: not even they need have run.
  const auto still = now - std::exchange(looked_, now);
  if (still > kLook) end_ = std::min(end_ + (still - kLook), latest_end_);
  if (now >= end_) return true;
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.answer == Answer::kNone; });
}

bool Inquiry::is_held_up(uint32_t rank) const {
  const Rank& asked = ranks_[rank];
  const Whereabouts& there = asked.whereabouts;
  return asked.answer == Answer::kHere && there.held == 0 && there.completed < there.entered &&
         there.entered < args_.overdue.sequence;
}

std::string Inquiry::explain(uint32_t rank) const {
  const Rank& asked = ranks_[rank];
  const std::string& name = args_.names[rank];
  if (asked.answer == Answer::kLost) return name + " is gone";
  if (asked.answer == Answer::kNone) return name + " does not answer";
  if (asked.answer == Answer::kStopped) return name + " does not answer: its process is stopped";
  if (asked.answer == Answer::kUnheard) {
    return name + " is not heard, whose words may be stuck behind those of a stopped one";
  }
  const Whereabouts& there = asked.whereabouts;
  const uint64_t sequence = args_.overdue.sequence;
  const bool is_of_two = kind_info(args_.overdue.operation.kind).is_of_two;
  if (is_of_two || there.entered >= sequence) return {};
  if (is_held_up(rank)) {
    return name + " is still in number " + std::to_string(there.entered) + " (" + there.operation +
           ")";
  }
  if (there.held == 0 || there.held > sequence) {
    if (there.entered == 0) return name + " never entered it, it has called nothing yet";
    return name + " never entered it, its last was number " + std::to_string(there.entered) +
           (there.operation.empty() ? "" : " (" + there.operation + ")");
  }
  std::string words = name + " has " +
                      (there.held == sequence ? "it" : "number " + std::to_string(there.held)) +
                      " " + there.held_by;
  const auto& behind = args_.groups_behind;
  if (std::find(behind.begin(), behind.end(), there.held_group) != behind.end()) {
    words += ", whose work waits behind this group's on " + args_.names[args_.place.rank] +
             ": the ranks called the two groups in different orders";
  }
  return words;
}

/// Those that have called it differently, as far as they told. ok(): nobody.
Failure Inquiry::find_disagreement() const {
  struct Callers {
    Operation operation;
    std::vector<uint32_t> ranks;
  };
  const Operation& own = args_.overdue.operation;
  if (kind_info(own.kind).is_of_two) return {};
  std::vector<Callers> all = {{own, {args_.place.rank}}};
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    const auto& called = ranks_[rank].whereabouts.called;
    if (!called || rank == args_.place.rank) continue;
    auto same = std::find_if(all.begin(), all.end(), [&](const Callers& callers) {
      return agree(callers.operation, *called);
    });
    if (same == all.end()) same = all.insert(all.end(), {*called, {}});
    same->ranks.push_back(rank);
  }
  if (all.size() < 2) return {};
  // The cause is whoever is not with the most, or with this rank where there are as many.
  const auto most = std::max_element(
      all.begin(), all.end(),
      [](const Callers& a, const Callers& b) { return a.ranks.size() < b.ranks.size(); });
  Failure failure{
      .code = BP_INVALID_ARGUMENT, .sequence = args_.overdue.sequence, .operation = describe(own)};
  failure.words = "the ranks disagree on number " + std::to_string(failure.sequence) + ":";
  for (auto callers = all.begin(); callers != all.end(); ++callers) {
    const size_t more = callers->ranks.size() - 1;
    failure.words += (callers == all.begin() ? " " : ", ") + args_.names[callers->ranks.front()] +
                     (more > 0 ? " and " + std::to_string(more) + " more have" : " has") +
                     " called " + describe(callers->operation);
    if (callers == most) continue;
    failure.culprits.insert(failure.culprits.end(), callers->ranks.begin(), callers->ranks.end());
  }
  std::sort(failure.culprits.begin(), failure.culprits.end());
  return failure;
}

Failure Inquiry::failure(const std::function<PeerState(uint32_t rank)>& state_of) {
  bool is_any_stopped = false;
  std::vector<Rank*> running;
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    if (ranks_[rank].answer != Answer::kNone) continue;
    const PeerState state = state_of(rank);
    if (state == PeerState::kRuns) running.push_back(&ranks_[rank]);
    if (state != PeerState::kStopped) continue;
    ranks_[rank].answer = Answer::kStopped;
    is_any_stopped = true;
  }
  if (is_any_stopped) {
    for (Rank* const rank : running) rank->answer = Answer::kUnheard;
  }
  Failure disagreement = find_disagreement();
  return disagreement.ok() ? find_late() : disagreement;
}

Inquiry::Unfinished Inquiry::find_unfinished() const {
  Unfinished found{args_.overdue.sequence, {}, 0};
  std::string operation = describe(args_.overdue.operation);
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    const Whereabouts& there = ranks_[rank].whereabouts;
    if (!is_held_up(rank) || there.entered >= found.sequence) continue;
    found.sequence = there.entered;
    operation = there.operation;
  }
  const bool is_of_two = kind_info(args_.overdue.operation.kind).is_of_two;
  if (is_of_two || !needs_all_ranks(operation)) return found;
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    const Whereabouts& there = ranks_[rank].whereabouts;
    if (ranks_[rank].answer != Answer::kHere || there.entered < found.sequence) continue;
    if (there.completed >= found.sequence) found.ahead.push_back(rank);
    if (there.completed < found.sequence) ++found.open_count;
  }
  if (found.open_count == 0) found.ahead.clear();  // of nobody
  return found;
}

/// Where nothing is wrong with any rank.
std::string Inquiry::explain_all_here() const {
  const Operation& operation = args_.overdue.operation;
  const bool is_of_two = kind_info(operation.kind).is_of_two;
  std::string whom;
  for (const uint32_t rank : args_.overdue.waits_for) {
    whom += (whom.empty() ? "" : ", ") + args_.names[rank];
  }
  if (is_of_two && whom.empty()) {
    return "whether its other end is there, on " + args_.names[operation.root] + ", is not known";
  }
  if (is_of_two) return "its other end is not there, on " + whom;
  return "all ranks have entered it, and it is not over" +
         (whom.empty() ? "" : "; it waits for " + whom);
}

Failure Inquiry::find_late() const {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(args_.overdue.timeout).count();
  Failure failure;
  failure.code = BP_TIMEOUT;
  failure.sequence = args_.overdue.sequence;
  failure.operation = describe(args_.overdue.operation);
  failure.words = failure.operation + " as number " + std::to_string(args_.overdue.sequence) +
                  " was not done on " + args_.names[args_.place.rank] + " within " +
                  std::to_string(ms) + " ms: ";
  std::string reasons;
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    const std::string reason = explain(rank);
    if (reason.empty()) continue;
    reasons += (reasons.empty() ? "" : "; ") + reason;
    const bool is_excused = is_held_up(rank) || ranks_[rank].answer == Answer::kUnheard;
    if (!is_excused) failure.culprits.push_back(rank);
  }
  if (reasons.empty()) {
    reasons = explain_all_here();
    failure.culprits = args_.overdue.waits_for;
  }
  failure.words += reasons;
  if (!failure.culprits.empty()) return failure;
  const Unfinished unfinished = find_unfinished();
  std::vector<uint32_t> finished;
  for (const uint32_t rank : unfinished.ahead) {
    const uint64_t completed = ranks_[rank].whereabouts.completed;
    failure.words += "; " + args_.names[rank] + " says that it has completed number " +
                     std::to_string(completed) + ", while others are still in number " +
                     std::to_string(unfinished.sequence);
    // A later one proves nothing: what runs by messages may overtake the plugin's work.
    if (completed == unfinished.sequence) finished.push_back(rank);
  }
  // Where most have completed it they may have had what they need, and the others lost it.
  if (finished.size() < unfinished.open_count) failure.culprits = std::move(finished);
  return failure;
}

}  // namespace bp::ccl
