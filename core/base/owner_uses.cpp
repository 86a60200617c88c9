// SPDX-License-Identifier: Apache-2.0
//
// Each place that a thread may note a use in is looked at once. What is noted there after the first
// look began late, and is no concern of ours. A thread that goes on calling may use the same place
// for the same handle at every look, so it also counts its calls that fail: once that has changed
// the call is over that it was in at first.
#include "core/base/owner_uses.hpp"

#include <algorithm>
#include <thread>

#include "core/base/process_fence.hpp"

namespace bp {
namespace {

using detail::HandleSlot;
using detail::ThreadUses;

struct Wanted {
  const void* owner;
  OwnerOf owner_of;
};

/// For who has counted itself, or uses the slot anyway.
bool belongs(const HandleSlot& slot, const Wanted& wanted) {
  const auto kind = static_cast<HandleKind>(slot.kind.load(std::memory_order_relaxed));
  return wanted.owner_of(kind, slot.object.load(std::memory_order_relaxed)) == wanted.owner;
}

/// Another thread's use may end at any time, and the object with it, unless this one counts too.
bool may_belong(HandleSlot& slot, const Wanted& wanted) {
  slot.counted_uses.fetch_add(1, std::memory_order_seq_cst);
  const bool is_live = (slot.state.load(std::memory_order_seq_cst) & detail::kOwnersMask) != 0;
  const bool may = !is_live || belongs(slot, wanted);
  detail::count_down(slot);
  return may;
}

bool may_belong(uintptr_t word, const Wanted& wanted) {
  if (word == 0) return false;
  if ((word & ThreadUses::kOwnerBit) != 0) {
    return (word & ~ThreadUses::kOwnerBit) == reinterpret_cast<uintptr_t>(wanted.owner);
  }
  return may_belong(*reinterpret_cast<HandleSlot*>(word), wanted);
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

/// Waits for the calls that one thread was in at the beginning. False: not in time.
class ThreadWait {
 public:
  ThreadWait(const ThreadUses& uses, const Wanted& wanted,
             std::chrono::steady_clock::time_point deadline)
      : uses_(uses),
        wanted_(wanted),
        deadline_(deadline),
        failed_before_(uses.failed_calls.load(std::memory_order_acquire)) {}

  bool wait() {
    for (const auto& place : uses_.held) wait_for(place);
    uses_.counted.for_each_place([this](const auto& place) { wait_for(place); });
    return is_in_time_;
  }

 private:
  template <class Place>
  void wait_for(const Place& place) {
    const auto seen = place.load(std::memory_order_seq_cst);
    if (!is_in_time_ || !may_belong(reinterpret_cast<uintptr_t>(seen), wanted_)) return;
    for (Patience patience(deadline_); is_in_time_; patience.pause()) {
      if (place.load(std::memory_order_acquire) != seen) return;
      if (uses_.failed_calls.load(std::memory_order_acquire) != failed_before_) return;
      is_in_time_ = !patience.is_over();
    }
  }

  const ThreadUses& uses_;
  const Wanted wanted_;
  const std::chrono::steady_clock::time_point deadline_;
  const uint64_t failed_before_;
  bool is_in_time_ = true;
};

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
                               : belongs(*reinterpret_cast<const HandleSlot*>(word), wanted));
  });
  return found;
}

bool wait_for_uses_by_others(const void* owner, OwnerOf owner_of,
                             std::chrono::steady_clock::time_point deadline) {
  if (has_process_fence()) process_fence();
  const Wanted wanted{owner, owner_of};
  bool all_over = true;
  for (const ThreadUses* uses = detail::first_thread_uses(); uses != nullptr; uses = uses->next) {
    if (uses == detail::this_thread_uses) continue;
    all_over = ThreadWait(*uses, wanted, deadline).wait() && all_over;
  }
  return all_over;
}

}  // namespace bp
