// SPDX-License-Identifier: Apache-2.0
//
// Groups that are made from this one. It stays as it is, and may be let go of at any time.
#include <algorithm>

#include "ccl/group/group.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

/// Where the program gives none, it stays the one of the group that the next is made from.
void set_timeout(std::chrono::nanoseconds timeout, GroupArgs* next) {
  if (timeout.count() == 0) return;
  next->timeout = timeout;
  next->timeout_set_by = kSetByProgram;
}

}  // namespace

std::vector<uint32_t> ProcessGroup::job_ranks_of(std::span<const uint32_t> members) const {
  std::vector<uint32_t> ranks;
  for (const uint32_t member : members) ranks.push_back(job_ranks_[member]);
  return ranks;
}

Result<Ref<ProcessGroup>> ProcessGroup::rebuild(const RebuildArgs& args) {
  BP_TRY(check_not_forked());
  Result<Ref<ProcessGroup>> made = Ref<ProcessGroup>();
  const Status status = contain([&]() -> Status {
    made = rebuild_now(args);
    return made.status();
  });
  if (!status.ok()) return status.with_prefix("group " + words());
  return made;
}

Result<Ref<ProcessGroup>> ProcessGroup::rebuild_now(const RebuildArgs& args) {
  BP_TRY(check_timeout(*runtime_, args.timeout));
  BP_TRY(check_members(args.members, args_.place));
  BP_TRY(device().check_open());
  BP_TRY(runtime_->check_open());
  {
    const std::lock_guard lock(state_mutex_);
    if (args.epoch <= latest_epoch_) {
      return Status(BP_INVALID_ARGUMENT, "expected an epoch above " +
                                             std::to_string(latest_epoch_) + ", found " +
                                             std::to_string(args.epoch));
    }
    latest_epoch_ = args.epoch;
  }
  GroupArgs next = args_;
  set_timeout(args.timeout, &next);
  const JoinWait wait = {
      "group " + words(), Clock::now() + next.timeout, {.set_by = next.timeout_set_by}};
  next.join_deadline = wait.deadline;
  BP_TRY(agree_on_members({*descendants_, agreement_.group, args_.place.rank, agreement_.names,
                           wait, [] { return Status(); }},
                          args.epoch, args.members));
  const auto own = std::find(args.members.begin(), args.members.end(), args_.place.rank);
  next.place = {static_cast<uint32_t>(own - args.members.begin()),
                static_cast<uint32_t>(args.members.size())};
  next.descent = {path_of_rebuilt(agreement_.group, args.epoch, args.members), args.epoch,
                  job_ranks_of(args.members)};
  auto made = create(next);
  if (made.ok()) {
    forget_joining(*make_prefix_store(next.descent.path, args_.store), next.place.rank, false);
  }
  return made;
}

Result<Ref<ProcessGroup>> ProcessGroup::split(const SplitArgs& args) {
  BP_TRY(check_not_forked());
  Result<Ref<ProcessGroup>> made = Ref<ProcessGroup>();
  const Status status = contain([&]() -> Status {
    made = split_now(args);
    return made.status();
  });
  if (!status.ok()) return status.with_prefix("group " + words());
  return made;
}

Result<Ref<ProcessGroup>> ProcessGroup::split_now(const SplitArgs& args) {
  constexpr size_t kMostSuffixBytes = 41;  // "/", a number, ".", a color
  BP_TRY(check_timeout(*runtime_, args.timeout));
  if (args.color < kNoColor) {
    return Status(BP_INVALID_ARGUMENT, "color: expected " + std::to_string(kNoColor) +
                                           ", for no group, or more, found " +
                                           std::to_string(args.color));
  }
  if (args_.name.size() + kMostSuffixBytes > kMostNameBytes) {
    return Status(BP_INVALID_ARGUMENT,
                  "its name is too long to name others by it, expected at most " +
                      std::to_string(kMostNameBytes - kMostSuffixBytes) + " bytes, found " +
                      std::to_string(args_.name.size()));
  }
  BP_TRY(device().check_open());
  BP_TRY(runtime_->check_open());
  BP_TRY(failure().to_status());
  GroupArgs next = args_;
  set_timeout(args.timeout, &next);
  next.join_deadline = Clock::now() + next.timeout;
  const uint64_t number = ++split_count_;
  std::vector<uint32_t> missing;
  const Relatives relatives{
      *descendants_,
      agreement_.group,
      args_.place.rank,
      agreement_.names,
      {"group " + words(), *next.join_deadline, {.set_by = next.timeout_set_by}},
      [this] { return failure().to_status(); }};
  const auto choices = exchange_choices(relatives, number, {args.color, args.key}, &missing);
  // The other ranks count on this one, now and when they split it again.
  if (!choices.ok()) return give_up(choices.status(), missing);
  LastSplit last{.number = number};
  if (args.color == kNoColor) {
    forget_split(relatives, std::move(last));
    return Ref<ProcessGroup>();
  }
  const std::vector<uint32_t> members = members_of(*choices, args.color);
  const auto own = std::find(members.begin(), members.end(), args_.place.rank);
  next.name += "/" + std::to_string(number) + "." + std::to_string(args.color);
  next.place = {static_cast<uint32_t>(own - members.begin()),
                static_cast<uint32_t>(members.size())};
  next.descent = {path_of_split(agreement_.group, number, args.color), epoch(),
                  job_ranks_of(members)};
  last.path = next.descent.path;
  last.rank = next.place.rank;
  forget_split(relatives, std::move(last));
  return create(next);
}

/// All ranks are done with the split before this one, since they have begun this one.
void ProcessGroup::forget_split(const Relatives& relatives, LastSplit next) {
  {
    const std::lock_guard lock(state_mutex_);
    std::swap(last_split_, next);
  }
  if (next.number == 0) return;
  const Status removed = contain([&] { return forget_choice(relatives, next.number); });
  if (!removed.ok()) log(BP_LOG_DEBUG, removed.with_prefix("a choice stays").to_string());
  if (!next.path.empty()) {
    forget_joining(*make_prefix_store(next.path, args_.store), next.rank, true);
  }
}

/// Fails the group, on a thread that does not drive, and answers why it failed.
Status ProcessGroup::give_up(const Status& why, const std::vector<uint32_t>& culprits) {
  request_failure({.code = why.code(), .words = why.message(), .culprits = culprits});
  messenger_->drive_until([this] { return has_failed_.load(); },
                          Clock::now() + std::chrono::seconds(1));
  BP_TRY(failure().to_status());
  return why;
}

}  // namespace bp::ccl
