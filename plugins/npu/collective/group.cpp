// SPDX-License-Identifier: Apache-2.0
//
// See group.hpp.
#include "collective/group.hpp"

#include <algorithm>
#include <new>
#include <random>
#include <sstream>
#include <utility>

namespace bp::npu {
namespace {

constexpr uint32_t kAllRanks = UINT32_MAX;

struct Groups {
  std::mutex mutex;
  std::map<GroupId, std::weak_ptr<Group>> by_id;

  static Groups& instance() {
    static Groups groups;
    return groups;
  }
};

uint64_t random_word() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

/// Begins every id of this process.
uint64_t process_word() {
  static const uint64_t kWord = random_word();
  return kWord;
}

constexpr uint64_t kIdTag = 0x756e'6c69'6e6b'0001;

}  // namespace

void Waiter::wake() {
  const std::scoped_lock lock(mutex_);
  is_woken_ = true;
  changed_.notify_all();
}

bool Waiter::wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const bool was_woken = changed_.wait(lock, stop, [this] { return is_woken_; });
  is_woken_ = false;
  return was_woken;
}

void Waiter::wait_for(std::chrono::nanoseconds time, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, time, [this] { return is_woken_; });
}

void Group::join(uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  if (members_[rank].has_joined) refuse("comm_init: rank ", rank, " is taken");
  members_[rank].has_joined = true;
  ++joined_count_;
}

RankState Group::state(uint32_t rank) {
  const std::scoped_lock lock(mutex_);
  const Member& member = members_[rank];
  return {joined_count_ == members_.size(), member.withheld_number, member.failure, member.culprit};
}

void Group::abort(uint32_t rank) noexcept {
  const std::scoped_lock lock(mutex_);
  fail_rank(rank, BP_CANCELLED, 0,
            [rank] { return "the communicator of rank " + std::to_string(rank) + " was aborted"; });
}

void Group::leave(uint32_t rank, bp_status status, std::string_view words) noexcept {
  const std::scoped_lock lock(mutex_);
  fail_rank(rank, status, 0, [words] { return std::string(words); });
  members_[rank].has_left = true;
  // A rank that aborted is silent, as one whose process hangs is; one that has ended is missed.
  for (uint32_t other = 0; other < rank_count(); ++other) {
    if (waits_for(other, rank)) fail_for_one_that_left(other, rank);
  }
}

bool Group::waits_for(uint32_t rank, uint32_t other) const {
  return std::any_of(meetings_.begin(), meetings_.end(), [&](const auto& entry) {
    const auto& [key, meeting] = entry;
    if (key.to != kAllRanks && key.to != other && key.from != other) return false;
    return std::any_of(meeting.begin(), meeting.end(),
                       [&](const Arrival& arrival) { return arrival.rank == rank; });
  });
}

void Group::fail_for_one_that_left(uint32_t rank, uint32_t left) noexcept {
  fail_rank(rank, BP_UNAVAILABLE, left + 1,
            [left] { return "rank " + std::to_string(left) + " has left the group"; });
}

/// The first failure stays.
template <class Words>
void Group::fail_rank(uint32_t rank, bp_status status, uint32_t culprit, Words words) noexcept {
  Member& member = members_[rank];
  if (member.failure.status != BP_OK) return;
  member.failure.status = status;
  member.culprit = culprit;
  try {
    member.failure.message = words();
  } catch (const std::bad_alloc&) {
  }
  const std::vector<Posting*> postings = std::exchange(member.postings, {});
  for (Posting* const posting : postings) end(posting);
}

/// Nothing of it is in a meeting afterwards, so that nobody touches its memory.
void Group::end(Posting* posting) noexcept {
  for (auto& [key, meeting] : meetings_) {
    std::erase_if(meeting, [&](const Arrival& arrival) { return arrival.posting == posting; });
  }
  std::erase_if(meetings_, [](const auto& entry) { return entry.second.empty(); });
  std::erase(members_[posting->rank].postings, posting);
  posting->is_over = true;
  posting->waiter->wake();
}

void Group::end_one(Posting* posting) {
  if (--posting->open_count == 0) end(posting);
}

Group::MeetingKey Group::key_of(const Posting& posting, size_t index) const {
  const bp_collective_op& what = posting.operations[index].what;
  const uint64_t number = posting.numbers[index];
  if (what.kind == BP_COLLECTIVE_SEND) return {posting.rank, what.peer, number};
  if (what.kind == BP_COLLECTIVE_RECV) return {what.peer, posting.rank, number};
  return {kAllRanks, kAllRanks, number};
}

void Group::post(Posting* posting) {
  const std::scoped_lock lock(mutex_);
  Member& member = members_[posting->rank];
  posting->open_count = posting->operations.size();
  if (member.failure.status != BP_OK || posting->open_count == 0) return end(posting);
  member.postings.push_back(posting);
  if (posting->stays_away) {
    member.withheld_number = posting->numbers.front();
    return;
  }
  for (size_t i = 0; i < posting->operations.size() && !posting->is_over; ++i) arrive(posting, i);
}

void Group::arrive(Posting* posting, size_t index) {
  const MeetingKey key = key_of(*posting, index);
  const bool is_of_all = key.to == kAllRanks;
  for (uint32_t rank = 0; rank < rank_count(); ++rank) {
    if (members_[rank].has_left && (is_of_all || rank == key.to || rank == key.from)) {
      return fail_for_one_that_left(posting->rank, rank);
    }
  }
  Meeting& meeting = meetings_[key];
  meeting.push_back({posting->rank, &posting->operations[index], posting});
  if (meeting.size() == (is_of_all ? members_.size() : 2)) meet(key);
}

void Group::meet(const MeetingKey& key) {
  Meeting meeting = std::move(meetings_.extract(key).mapped());
  if (!agree(&meeting)) return;
  if (key.to == kAllRanks) {
    std::vector<Operation> of_ranks;
    for (const Arrival& arrival : meeting) of_ranks.push_back(*arrival.operation);
    run_together(of_ranks);
  } else {
    const bool sends_first = meeting[0].operation->what.kind == BP_COLLECTIVE_SEND;
    const Operation& sent = *meeting[sends_first ? 0 : 1].operation;
    const Operation& received = *meeting[sends_first ? 1 : 0].operation;
    run_together(sent, received);
  }
  for (const Arrival& arrival : meeting) end_one(arrival.posting);
}

/// Sorts the meeting by ranks. False: they disagree, and what becomes of that has happened.
bool Group::agree(Meeting* meeting) {
  std::sort(meeting->begin(), meeting->end(),
            [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  const Arrival& first = meeting->front();
  for (const Arrival& arrival : std::span(*meeting).subspan(1)) {
    if (fit_together(first.operation->what, arrival.operation->what) &&
        (arrival.rank != first.rank || is_between_two(first.operation->what.kind))) {
      continue;
    }
    if (first.posting->mismatch == Mismatch::kFails) fail_all(first, arrival);
    if (first.posting->mismatch == Mismatch::kPasses) {
      for (const Arrival& each : *meeting) end_one(each.posting);
    }
    return false;
  }
  return true;
}

void Group::fail_all(const Arrival& first, const Arrival& other) {
  const auto words_of = [](const Arrival& arrival) {
    return "rank " + std::to_string(arrival.rank) + " has " + describe(arrival.operation->what);
  };
  for (uint32_t rank = 0; rank < rank_count(); ++rank) {
    fail_rank(rank, BP_INVALID_ARGUMENT, other.rank + 1,
              [&] { return "the ranks disagree: " + words_of(first) + "; " + words_of(other); });
  }
}

void Group::withdraw(Posting* posting, const StreamFailure& why) noexcept {
  const std::scoped_lock lock(mutex_);
  if (posting->is_over) return;
  fail_rank(posting->rank, why.status, 0, [&] { return why.message; });
}

bool Group::is_over(const Posting& posting) {
  const std::scoped_lock lock(mutex_);
  if (!posting.is_over) return false;
  const StreamFailure& failure = members_[posting.rank].failure;
  if (posting.open_count != 0 && failure.status != BP_OK) throw StreamFailure(failure);
  return true;
}

GroupId new_group_id() { return {{kIdTag, process_word(), random_word(), random_word()}}; }

std::shared_ptr<Group> find_group(const GroupId& id, uint32_t rank_count) {
  if (id.words[0] != kIdTag || id.words[1] != process_word()) return nullptr;
  Groups& groups = Groups::instance();
  const std::scoped_lock lock(groups.mutex);
  std::erase_if(groups.by_id, [](const auto& entry) { return entry.second.expired(); });
  auto group = groups.by_id[id].lock();
  if (group == nullptr) {
    group = std::make_shared<Group>(rank_count);
    groups.by_id[id] = group;
  }
  return group;
}

std::string link_domain() {
  std::ostringstream words;
  words << "backplane.npu 1, process " << std::hex << process_word();
  return words.str();
}

}  // namespace bp::npu
