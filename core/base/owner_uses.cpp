// SPDX-License-Identifier: Apache-2.0
//
// Each place that a thread may note a use in is looked at once. What is noted there after the first
// look began late, and is no concern of ours. A thread that goes on calling may use the same place
// for the same handle at every look, so it also counts its calls that fail: once that has changed
// the call is over that it was in at first.
#include "core/base/owner_uses.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "core/base/process_fence.hpp"

namespace bp {
namespace {

using detail::HandleEntry;
using detail::ThreadUses;

struct Wanted {
  const void* owner;
  OwnerOf owner_of;
};

/// For who has counted itself, or uses the entry anyway.
bool belongs(const HandleEntry& entry, const Wanted& wanted) {
  const auto kind = static_cast<HandleKind>(entry.kind.load(std::memory_order_relaxed));
  return wanted.owner_of(kind, entry.object.load(std::memory_order_relaxed)) == wanted.owner;
}

/// Another thread's use may end at any time, and the object with it, unless this one counts too.
bool may_belong(HandleEntry& entry, const Wanted& wanted) {
  entry.counted_uses.fetch_add(1, std::memory_order_seq_cst);
  const bool is_live = (entry.state.load(std::memory_order_seq_cst) & detail::kOwnersMask) != 0;
  const bool may = !is_live || belongs(entry, wanted);
  detail::count_down(entry);
  return may;
}

bool may_belong(uintptr_t word, const Wanted& wanted) {
  if (word == 0) return false;
  if ((word & ThreadUses::kOwnerBit) != 0) {
    return (word & ~ThreadUses::kOwnerBit) == reinterpret_cast<uintptr_t>(wanted.owner);
  }
  return may_belong(*reinterpret_cast<HandleEntry*>(word), wanted);
}

/// Pauses get longer, since most calls are short.
class Patience {
 public:
  explicit Patience(std::chrono::steady_clock::time_point deadline) : deadline_(deadline) {}
  bool is_over() const { return std::chrono::steady_clock::now() >= deadline_; }
  void pause() {
    constexpr int kYields = 64;
    constexpr std::chrono::microseconds kLongest{1000};
    if (++count_ <= kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(length_);
    length_ = std::min(2 * length_, kLongest);
  }

 private:
  const std::chrono::steady_clock::time_point deadline_;
  int count_ = 0;
  std::chrono::microseconds length_{10};
};

/// A use that another thread had noted at the beginning.
class UseInProgress {
 public:
  UseInProgress(const ThreadUses& uses, const std::atomic<HandleEntry*>& place)
      : uses_(&uses), held_(&place) {
    note();
  }
  UseInProgress(const ThreadUses& uses, const std::atomic<uintptr_t>& place)
      : uses_(&uses), counted_(&place) {
    note();
  }
  uintptr_t seen() const { return seen_; }
  bool is_over() const {
    return load(std::memory_order_acquire) != seen_ ||
           uses_->failed_calls.load(std::memory_order_acquire) != failed_before_;
  }

 private:
  void note() {
    failed_before_ = uses_->failed_calls.load(std::memory_order_acquire);
    seen_ = load(std::memory_order_seq_cst);
  }
  uintptr_t load(std::memory_order order) const {
    return held_ != nullptr ? reinterpret_cast<uintptr_t>(held_->load(order))
                            : counted_->load(order);
  }

  const ThreadUses* uses_;
  const std::atomic<HandleEntry*>* held_ = nullptr;  // or
  const std::atomic<uintptr_t>* counted_ = nullptr;
  uint64_t failed_before_ = 0;
  uintptr_t seen_ = 0;
};

std::vector<UseInProgress> uses_of_others(const Wanted& wanted) {
  std::vector<UseInProgress> found;
  for (const ThreadUses* uses = detail::first_thread_uses(); uses != nullptr; uses = uses->next) {
    if (uses == detail::this_thread_uses) continue;
    const auto look = [&](const auto& place) {
      const UseInProgress use(*uses, place);
      if (may_belong(use.seen(), wanted)) found.push_back(use);
    };
    for (const auto& place : uses->held) look(place);
    uses->counted.for_each_place(look);
  }
  return found;
}

}  // namespace

bool is_used_by_this_thread(const void* owner, OwnerOf owner_of) {
  const ThreadUses* uses = detail::this_thread_uses;
  if (uses == nullptr) return false;
  const Wanted wanted{owner, owner_of};
  for (uint32_t i = 0; i < uses->held_count; ++i) {
    if (belongs(*uses->held[i].load(std::memory_order_relaxed), wanted)) return true;
  }
  bool found = false;
  uses->counted.for_each_place([&](const std::atomic<uintptr_t>& place) {
    const uintptr_t word = place.load(std::memory_order_relaxed);
    if (word == 0) return;
    const bool is_owner = (word & ThreadUses::kOwnerBit) != 0;
    found = found || (is_owner ? may_belong(word, wanted)
                               : belongs(*reinterpret_cast<const HandleEntry*>(word), wanted));
  });
  return found;
}

bool wait_for_uses_by_others(const void* owner, OwnerOf owner_of,
                             std::chrono::steady_clock::time_point deadline) {
  if (has_process_fence()) process_fence();
  // All are looked at in each round: threads that call without a pause are met outside a call by
  // chance only, which must not take the time of one after the other.
  std::vector<UseInProgress> pending = uses_of_others({owner, owner_of});
  for (Patience patience(deadline);; patience.pause()) {
    std::erase_if(pending, [](const UseInProgress& use) { return use.is_over(); });
    if (pending.empty()) return true;
    if (patience.is_over()) return false;
  }
}

}  // namespace bp
