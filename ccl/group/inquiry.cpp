// SPDX-License-Identifier: Apache-2.0
//
// See inquiry.hpp.
#include "ccl/group/inquiry.hpp"

#include <algorithm>

namespace bp::ccl {

Inquiry::Inquiry(Overdue overdue, RankPlace place, std::vector<std::string> names, Control* control,
                 Clock::time_point now)
    : overdue_(std::move(overdue)),
      place_(place),
      names_(std::move(names)),
      end_(now + kLongest),
      ranks_(place.rank_count) {
  for (uint32_t rank = 0; rank < place_.rank_count; ++rank) {
    if (rank != place_.rank) control->send(rank, MessageType::kWhere, {}, overdue_.sequence);
  }
}

void Inquiry::answered(uint32_t rank, const Whereabouts& whereabouts) {
  ranks_[rank] = {Answer::kHere, whereabouts};
}

void Inquiry::lost(uint32_t rank) { ranks_[rank].answer = Answer::kLost; }

bool Inquiry::is_over(Clock::time_point now) const {
  if (now >= end_) return true;
  for (uint32_t rank = 0; rank < place_.rank_count; ++rank) {
    if (rank != place_.rank && ranks_[rank].answer == Answer::kNone) return false;
  }
  return true;
}

std::string Inquiry::explain(uint32_t rank) const {
  const Rank& asked = ranks_[rank];
  if (asked.answer == Answer::kLost) return names_[rank] + " is gone";
  if (asked.answer == Answer::kNone) return names_[rank] + " does not answer";
  const bool is_of_two = kind_info(overdue_.operation.kind).is_of_two;
  if (is_of_two || asked.whereabouts.entered >= overdue_.sequence) return {};
  return names_[rank] + " never entered it, its last was number " +
         std::to_string(asked.whereabouts.entered) +
         (asked.whereabouts.operation.empty() ? "" : " (" + asked.whereabouts.operation + ")");
}

Failure Inquiry::failure() const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(overdue_.timeout).count();
  Failure failure;
  failure.code = BP_TIMEOUT;
  failure.sequence = overdue_.sequence;
  failure.operation = describe(overdue_.operation);
  failure.words = failure.operation + " as number " + std::to_string(overdue_.sequence) +
                  " was not done on " + names_[place_.rank] + " within " + std::to_string(ms) +
                  " ms: ";
  std::string reasons;
  for (uint32_t rank = 0; rank < place_.rank_count; ++rank) {
    const std::string reason = rank == place_.rank ? std::string() : explain(rank);
    if (reason.empty()) continue;
    reasons += (reasons.empty() ? "" : "; ") + reason;
    failure.culprits.push_back(rank);
  }
  if (!reasons.empty()) {
    failure.words += reasons;
    return failure;
  }
  failure.culprits = overdue_.waits_for;
  failure.words += kind_info(overdue_.operation.kind).is_of_two
                       ? "its other end is not there, on "
                       : "all ranks have entered it, and it is not over; it waits for ";
  for (const uint32_t rank : failure.culprits) {
    failure.words += (rank == failure.culprits.front() ? "" : ", ") + names_[rank];
  }
  if (failure.culprits.empty()) failure.words += "nobody";
  return failure;
}

}  // namespace bp::ccl
