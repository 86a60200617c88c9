// SPDX-License-Identifier: Apache-2.0
//
// Owners are let go without the lock: what they run is the application's.
#include "core/runtime/deferred_free.hpp"

#include <algorithm>
#include <utility>

#include "core/runtime/storage.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

void DeferredFree::keep(Entry entry) noexcept {
  const Status kept = contain([&] {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    count_.fetch_add(1, std::memory_order_relaxed);
  });
  if (kept.ok()) return;
  union Forever {
    explicit Forever(Entry&& late) : entry(std::move(late)) {}
    ~Forever() {}
    Entry entry;
  } never_destroyed(std::move(entry));
}

void DeferredFree::keep(Storage* storage) noexcept {
  const std::lock_guard lock(mutex_);
  storage->next_deferred_ = std::exchange(first_storage_, storage);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void DeferredFree::release_done_storages() {
  Storage* over = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (Storage** link = &first_storage_; *link != nullptr;) {
      Storage* const storage = *link;
      if (!storage->is_unused()) {
        link = &storage->next_deferred_;
        continue;
      }
      *link = std::exchange(storage->next_deferred_, over);
      over = storage;
      count_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  end_storages(over);
}

void DeferredFree::end_storages(Storage* first) {
  while (first != nullptr) delete std::exchange(first, first->next_deferred_);
}

void DeferredFree::release_done() {
  release_done_storages();
  const auto is_over = [](const Mark& mark) {
    return mark.stream == nullptr || mark.stream->is_over(mark.seq);
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
      count_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
}

void DeferredFree::clear() {
  std::vector<Entry> all;
  Storage* storages = nullptr;
  {
    const std::lock_guard lock(mutex_);
    all.swap(entries_);
    storages = std::exchange(first_storage_, nullptr);
    count_.store(0, std::memory_order_relaxed);
  }
  end_storages(storages);
}

}  // namespace bp
