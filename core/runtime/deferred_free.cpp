// SPDX-License-Identifier: Apache-2.0
//
// Owners are let go without the lock: what they run is the application's.
#include "core/runtime/deferred_free.hpp"

#include <algorithm>
#include <utility>

#include "core/memory/allocator.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

void DeferredFree::keep(Entry entry) noexcept {
  const Status kept = contain([&] {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    count_.store(entries_.size(), std::memory_order_relaxed);
  });
  if (kept.ok()) return;
  union Forever {
    explicit Forever(Entry&& late) : entry(std::move(late)) {}
    ~Forever() {}
    Entry entry;
  } never_destroyed(std::move(entry));
}

void DeferredFree::release_done(Allocator& allocator) {
  const auto is_over = [](const Mark& mark) {
    return mark.stream == nullptr || mark.stream->known_done(mark.seq);
  };
  const auto is_done = [&](const Entry& entry) {
    return is_over(entry.last_write) &&
           std::all_of(entry.last_reads.begin(), entry.last_reads.end(), is_over);
  };
  // One way through the entries, in no order: the last takes the place of one that goes. What
  // others change meanwhile may be passed over, and goes the next time.
  for (size_t at = 0;;) {
    Entry over;
    {
      const std::lock_guard lock(mutex_);
      while (at < entries_.size() && !is_done(entries_[at])) ++at;
      if (at >= entries_.size()) return;
      over = std::move(entries_[at]);
      if (at + 1 < entries_.size()) entries_[at] = std::move(entries_.back());
      entries_.pop_back();
      count_.store(entries_.size(), std::memory_order_relaxed);
    }
    if (over.block != nullptr) allocator.free(over.block);
  }
}

void DeferredFree::clear() {
  std::vector<Entry> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(entries_);
    count_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace bp
