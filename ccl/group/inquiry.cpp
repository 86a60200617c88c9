// SPDX-License-Identifier: Apache-2.0
//
// See inquiry.hpp.
#include "ccl/group/inquiry.hpp"

#include <algorithm>

namespace bp::ccl {

Inquiry::Inquiry(Args args, Control* control, Clock::time_point now)
    : args_(std::move(args)), end_(now + kLongest), ranks_(args_.place.rank_count) {
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

bool Inquiry::is_over(Clock::time_point now) const {
  if (now >= end_) return true;
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.answer == Answer::kNone; });
}

std::string Inquiry::explain(uint32_t rank) const {
  const Rank& asked = ranks_[rank];
  const std::string& name = args_.names[rank];
  if (asked.answer == Answer::kLost) return name + " is gone";
  if (asked.answer == Answer::kNone) return name + " does not answer";
  const Whereabouts& there = asked.whereabouts;
  const uint64_t sequence = args_.overdue.sequence;
  const bool is_of_two = kind_info(args_.overdue.operation.kind).is_of_two;
  if (is_of_two || there.entered >= sequence) return {};
  if (there.held == 0 || there.held > sequence) {
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

Failure Inquiry::failure() const {
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
    failure.culprits.push_back(rank);
  }
  if (!reasons.empty()) {
    failure.words += reasons;
    return failure;
  }
  failure.culprits = args_.overdue.waits_for;
  failure.words += kind_info(args_.overdue.operation.kind).is_of_two
                       ? "its other end is not there, on "
                       : "all ranks have entered it, and it is not over; it waits for ";
  for (const uint32_t rank : failure.culprits) {
    failure.words += (rank == failure.culprits.front() ? "" : ", ") + args_.names[rank];
  }
  if (failure.culprits.empty()) failure.words += "nobody";
  return failure;
}

}  // namespace bp::ccl
