// SPDX-License-Identifier: Apache-2.0
//
// Keeping and dropping entries. All of it is under the mutex, but for what frees.
#include "core/dispatch/route_cache.hpp"

#include <utility>

namespace bp {

RouteCache::RouteCache(size_t op_count, size_t capacity)
    : capacity_(capacity),
      mask_(capacity - 1),
      buckets_(std::make_unique<Bucket[]>(capacity)),
      latest_(op_count) {
  Hazard::prepare();
}

RouteCache::~RouteCache() = default;

RoutePtr RouteCache::find_shared(const CallKey<ArgType>& call) const {
  Hazard hazard;
  if (!hazard.has_place()) return find_locked(call);
  const RoutePtr* found = find(call, &hazard);
  return found == nullptr ? nullptr : *found;
}

RoutePtr RouteCache::find_locked(const CallKey<ArgType>& call) const {
  const uint64_t hash = call.hash();
  const std::lock_guard lock(mutex_);
  for (const size_t neighbour : {size_t{0}, size_t{1}}) {
    const Bucket& bucket = buckets_[(hash & mask_) ^ neighbour];
    for (const std::atomic<const Entry*>& way : bucket.entries) {
      const Entry* entry = way.load(std::memory_order_relaxed);
      if (entry == nullptr || entry->hash != hash || !entry->fits(call)) continue;
      entry->touch();
      return entry->route;
    }
  }
  return nullptr;
}

void RouteCache::insert(const CallKey<ArgType>& call, Attributes attributes, RoutePtr route) {
  if (find_shared(call) != nullptr) return;
  Line made(1);
  Entry& entry = made.front();
  entry.what = call.what();
  entry.hash = call.hash();
  entry.inputs.assign(call.inputs.begin(), call.inputs.end());
  for (ArgType& input : entry.inputs) input.host_data = nullptr;
  entry.attributes = std::move(attributes);
  entry.route = std::move(route);
  Line unused;  // ended after the lock: that may call the plugin
  const std::lock_guard lock(mutex_);
  while (young_.size() + kept_.size() >= capacity_) drop_one();
  // Two threads that add the same route may both come here. The later one's is found after the
  // other's has gone.
  place(&entry);
  young_.splice(young_.end(), made);
  if (unfreed_.size() >= kMostUnfreed) unused = take_unused();
}

void RouteCache::place(Entry* entry) {
  Entry* coldest = nullptr;
  for (const bool by_force : {false, true}) {
    if (by_force && coldest != nullptr) hide(coldest);
    for (const size_t neighbour : {size_t{0}, size_t{1}}) {
      Bucket& bucket = buckets_[(entry->hash & mask_) ^ neighbour];
      for (size_t way = 0; way < kWays; ++way) {
        const Entry* present = bucket.entries[way].load(std::memory_order_relaxed);
        if (present == nullptr) {
          bucket.hashes[way].store(entry->hash, std::memory_order_relaxed);
          bucket.entries[way].store(entry, std::memory_order_release);
          return;
        }
        if (!present->asked.load(std::memory_order_relaxed)) coldest = const_cast<Entry*>(present);
      }
    }
  }
}

void RouteCache::hide(Entry* entry) {
  for (const size_t neighbour : {size_t{0}, size_t{1}}) {
    Bucket& bucket = buckets_[(entry->hash & mask_) ^ neighbour];
    for (std::atomic<const Entry*>& way : bucket.entries) {
      if (way.load(std::memory_order_relaxed) == entry) way.store(nullptr);
    }
  }
}

void RouteCache::drop_one() {
  // Readers may ask again as quickly as this looks, so it does not look for ever.
  for (size_t looks = 2 * capacity_;; --looks) {
    Line& line = young_.empty() ? kept_ : young_;
    Entry& oldest = line.front();
    if (looks > 0 && oldest.asked.exchange(false, std::memory_order_relaxed)) {
      keep_front(&line);
      continue;
    }
    hide(&oldest);
    unfreed_.splice(unfreed_.end(), line, line.begin());
    const uint64_t dropped = dropped_.fetch_add(1, std::memory_order_relaxed);
    // Entries of a program's earlier phases must not stay for ever.
    if (dropped % kDropsPerLook == 0 && !kept_.empty()) look_at_oldest_kept();
    return;
  }
}

// A quarter of the room is for the young, or new entries would have no time to be asked again.
void RouteCache::keep_front(Line* line) {
  kept_.splice(kept_.end(), *line, line->begin());
  for (size_t looks = kept_.size(); kept_.size() > capacity_ / 4 * 3 && looks > 0; --looks) {
    look_at_oldest_kept();
  }
}

void RouteCache::look_at_oldest_kept() {
  const bool asked = kept_.front().asked.exchange(false, std::memory_order_relaxed);
  Line& next = asked ? kept_ : young_;
  next.splice(next.end(), kept_, kept_.begin());
}

RouteCache::Line RouteCache::take_unused() {
  for (const Entry& entry : unfreed_) {
    const Entry* found = &entry;
    latest_[entry.op()].compare_exchange_strong(found, nullptr);
  }
  const HazardScan scan;
  Line unused;
  for (auto entry = unfreed_.begin(); entry != unfreed_.end();) {
    const auto at = entry++;
    // Who used it before the scan may have made it the latest again: then it waits for the next.
    if (scan.contains(&*at) || latest_[at->op()].load() == &*at) continue;
    // Readers who found it before it was hidden had ended when the scan passed them, but may have
    // made it the latest meanwhile, for one whom the scan had passed before. From now on none
    // can: what the next scan does not find has no reader.
    if (!std::exchange(at->is_settled, true)) continue;
    unused.splice(unused.end(), unfreed_, at);
  }
  return unused;
}

size_t RouteCache::size() const {
  const std::lock_guard lock(mutex_);
  return young_.size() + kept_.size();
}

}  // namespace bp
