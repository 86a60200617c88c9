// SPDX-License-Identifier: Apache-2.0
//
// Meetings: the last rank to arrive compares, moves the data of all, and lets the others go.
#include "tests/sketches/collective_mock/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace bp::sketch {
namespace {

uint64_t element_bytes(const bp_collective& what) { return sdk::dtype_bytes(what.dtype); }

std::string describe(const bp_collective& what) {
  constexpr const char* kNames[] = {"all_reduce", "broadcast", "all_gather", "send", "recv"};
  return std::string(kNames[what.kind]) + " of " + std::to_string(what.count) +
         " elements of dtype " + std::to_string(what.dtype) + " with reduction " +
         std::to_string(what.reduction) + " and peer " + std::to_string(what.peer);
}

bool is_point_to_point(const bp_collective& what) {
  return what.kind == BP_COLLECTIVE_SEND || what.kind == BP_COLLECTIVE_RECV;
}

/// Those that all ranks take part in, in the order of the array.
std::vector<Operation> shared_ones(const Arrival& arrival) {
  std::vector<Operation> found;
  for (const Operation& operation : *arrival.operations) {
    if (!is_point_to_point(operation.what)) found.push_back(operation);
  }
  return found;
}

/// Sends (or receives) of `rank` to (from) `peer`, in the order of the array.
std::vector<Operation> point_to_point(const Arrival& arrival, uint32_t kind, uint32_t peer) {
  std::vector<Operation> found;
  for (const Operation& operation : *arrival.operations) {
    if (operation.what.kind == kind && operation.what.peer == peer) found.push_back(operation);
  }
  return found;
}

template <class T>
void reduce(const std::vector<Operation>& of_ranks) {
  const bp_collective& what = of_ranks[0].what;
  std::vector<T> total(what.count);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const T* const values = reinterpret_cast<const T*>(of_ranks[rank].send);
    for (uint64_t i = 0; i < what.count; ++i) {
      const bool is_max = what.reduction == BP_REDUCTION_MAX;
      const T both = is_max ? std::max(total[i], values[i]) : static_cast<T>(total[i] + values[i]);
      total[i] = rank == 0 ? values[i] : both;
    }
  }
  for (const Operation& operation : of_ranks) {
    std::memcpy(operation.recv, total.data(), what.count * sizeof(T));
  }
}

void all_gather(const std::vector<Operation>& of_ranks) {
  const uint64_t bytes = of_ranks[0].what.count * element_bytes(of_ranks[0].what);
  std::vector<std::byte> all(bytes * of_ranks.size());
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    std::memcpy(all.data() + rank * bytes, of_ranks[rank].send, bytes);
  }
  for (const Operation& operation : of_ranks) std::memcpy(operation.recv, all.data(), all.size());
}

void broadcast(const std::vector<Operation>& of_ranks) {
  const bp_collective& what = of_ranks[0].what;
  const std::byte* const source = of_ranks[what.peer].send;
  for (const Operation& operation : of_ranks) {
    if (operation.recv != source) {
      std::memcpy(operation.recv, source, what.count * element_bytes(what));
    }
  }
}

void run_shared(const std::vector<Operation>& of_ranks) {
  const bp_collective& what = of_ranks[0].what;
  if (what.count == 0) return;
  if (what.kind == BP_COLLECTIVE_ALL_GATHER) return all_gather(of_ranks);
  if (what.kind == BP_COLLECTIVE_BROADCAST) return broadcast(of_ranks);
  if (what.dtype == BP_DTYPE_F32) return reduce<float>(of_ranks);
  reduce<int64_t>(of_ranks);
}

}  // namespace

void Group::join(uint32_t rank, Clock::time_point deadline) {
  const std::scoped_lock lock(mutex_);
  if (joined_[rank]) sdk::refuse("comm_init: rank ", rank, " is taken");
  joined_[rank] = true;
  ++joined_count_;
  join_deadline_ = std::max(join_deadline_, deadline);
}

std::string Group::missing(const std::vector<bool>& there) const {
  std::string names;
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    if (there[rank]) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(rank);
  }
  return names;
}

npu::StreamFailure Group::poll(bool* out_ready) {
  const std::scoped_lock lock(mutex_);
  *out_ready = joined_count_ == rank_count_;
  if (!*out_ready && Clock::now() >= join_deadline_) {
    fail_locked(BP_UNAVAILABLE, "comm_init: these ranks did not come: " + missing(joined_));
  }
  return failure_;
}

void Group::fail(bp_status status, const std::string& message) {
  const std::scoped_lock lock(mutex_);
  fail_locked(status, message);
}

/// The first failure is everybody's.
void Group::fail_locked(bp_status status, const std::string& message) {
  if (failure_.status != BP_OK) return;
  failure_ = {status, message, 0};
  changed_.notify_all();
}

void Group::throw_if_failed() const {
  if (failure_.status != BP_OK) throw npu::StreamFailure(failure_);
}

std::string Group::disagreement() const {
  const Arrival& first = arrivals_.at(0);
  const std::vector<Operation> expected = shared_ones(first);
  for (const auto& [rank, arrival] : arrivals_) {
    const std::string who = "rank " + std::to_string(rank);
    if (arrival.sequence != first.sequence) {
      return who + " is at sequence " + std::to_string(arrival.sequence) + ", rank 0 at " +
             std::to_string(first.sequence);
    }
    const std::vector<Operation> found = shared_ones(arrival);
    if (found.size() != expected.size()) {
      return who + " brings " + std::to_string(found.size()) + " operations, rank 0 " +
             std::to_string(expected.size());
    }
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string theirs = describe(found[i].what);
      const std::string ours = describe(expected[i].what);
      if (theirs != ours) return who + ": " + theirs + "; rank 0: " + ours;
    }
    for (uint32_t peer = 0; peer < rank_count_; ++peer) {
      const auto sends = point_to_point(arrival, BP_COLLECTIVE_SEND, peer);
      const auto receives = point_to_point(arrivals_.at(peer), BP_COLLECTIVE_RECV, rank);
      const bool fits =
          std::equal(sends.begin(), sends.end(), receives.begin(), receives.end(),
                     [](const Operation& a, const Operation& b) {
                       return a.what.count == b.what.count && a.what.dtype == b.what.dtype;
                     });
      if (!fits) {
        return who + " sends " + std::to_string(sends.size()) + " times to rank " +
               std::to_string(peer) + ", which receives " + std::to_string(receives.size()) +
               " times, or other sizes";
      }
    }
  }
  return "";
}

void Group::move_data() const {
  const size_t count = shared_ones(arrivals_.at(0)).size();
  for (size_t i = 0; i < count; ++i) {
    std::vector<Operation> of_ranks;
    for (const auto& [rank, arrival] : arrivals_) of_ranks.push_back(shared_ones(arrival)[i]);
    run_shared(of_ranks);
  }
  for (const auto& [rank, arrival] : arrivals_) {
    for (uint32_t peer = 0; peer < rank_count_; ++peer) {
      const auto sends = point_to_point(arrival, BP_COLLECTIVE_SEND, peer);
      const auto receives = point_to_point(arrivals_.at(peer), BP_COLLECTIVE_RECV, rank);
      for (size_t i = 0; i < sends.size(); ++i) {
        std::memcpy(receives[i].recv, sends[i].send,
                    sends[i].what.count * element_bytes(sends[i].what));
      }
    }
  }
}

void Group::meet(uint32_t rank, const Arrival& arrival, Clock::time_point deadline,
                 const std::stop_token& stop) {
  Lock lock(mutex_);
  throw_if_failed();
  const uint64_t meeting = meeting_;
  arrivals_[rank] = arrival;
  if (arrivals_.size() == rank_count_) {
    // Under the lock, so that nobody who fails meanwhile takes memory away.
    const std::string words = disagreement();
    if (!words.empty()) {
      fail_locked(BP_INVALID_ARGUMENT, "the ranks of a collective disagree: " + words);
      throw_if_failed();
    }
    move_data();
    arrivals_.clear();
    ++meeting_;
    changed_.notify_all();
    return;
  }
  const auto is_over = [&] { return meeting_ != meeting || failure_.status != BP_OK; };
  const bool in_time = changed_.wait_until(lock, stop, deadline, is_over);
  if (meeting_ != meeting) return;  // a failure after that is the next one's
  if (!in_time && failure_.status == BP_OK) {
    std::vector<bool> there(rank_count_);
    for (const auto& [present, arrived] : arrivals_) there[present] = true;
    const std::string who = "sequence " + std::to_string(arrival.sequence) + ": rank ";
    if (stop.stop_requested()) {
      fail_locked(BP_CANCELLED, who + std::to_string(rank) + " was destroyed while it waited");
    } else {
      fail_locked(BP_UNAVAILABLE, who + missing(there) + " did not come");
    }
  }
  arrivals_.erase(rank);
  throw_if_failed();
}

namespace {

struct Groups {
  std::mutex mutex;
  uint64_t last_id = 0;
  std::map<uint64_t, std::weak_ptr<Group>> by_id;

  static Groups& instance() {
    static Groups groups;
    return groups;
  }
};

}  // namespace

uint64_t new_group_id() {
  Groups& groups = Groups::instance();
  const std::scoped_lock lock(groups.mutex);
  return ++groups.last_id;
}

std::shared_ptr<Group> find_group(uint64_t id, uint32_t rank_count) {
  Groups& groups = Groups::instance();
  const std::scoped_lock lock(groups.mutex);
  if (id == 0 || id > groups.last_id) return nullptr;
  std::erase_if(groups.by_id, [](const auto& entry) { return entry.second.expired(); });
  auto group = groups.by_id[id].lock();
  if (group == nullptr) {
    group = std::make_shared<Group>(rank_count);
    groups.by_id[id] = group;
  }
  return group;
}

}  // namespace bp::sketch
