// SPDX-License-Identifier: Apache-2.0
//
// Places in an arena, by lifetime: greedy by size, which is near the lower bound on real networks
// and simple to check.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "core/base/checked.hpp"
#include "core/plan/planner.hpp"

namespace bp {
namespace {

constexpr uint64_t kArenaAlignment = 256;
// Among more an item goes to the end: a search through all of them would take minutes for a graph
// of some ten thousand values that live at once, and seldom find room.
constexpr size_t kMostNeighbours = 4096;

/// Also what is empty takes a place: it is launched on like the rest, and needs a handle.
std::optional<uint64_t> aligned(uint64_t bytes) {
  return checked_align_up(std::max<uint64_t>(bytes, 1), kArenaAlignment);
}

/// Where an item ends that begins at `offset`; nullopt: nowhere.
std::optional<uint64_t> end_of(uint64_t offset, uint64_t bytes) {
  const auto whole = aligned(bytes);
  return whole ? checked_add(offset, *whole) : std::nullopt;
}

/// The items that have their place. In a long chain few of them live at one time, so they are found
/// by time: by the first step, and by a tree over the steps whose nodes list who lives throughout.
class Placed {
 public:
  explicit Placed(const std::vector<ArenaItem>& items) {
    for (const ArenaItem& item : items) {
      while (leaf_count_ <= item.last_step) leaf_count_ *= 2;
    }
    living_.resize(2 * leaf_count_);
  }

  void add(const ArenaItem& item) {
    by_first_step_.emplace(item.first_step, &item);
    size_t first = item.first_step + leaf_count_;
    size_t end = item.last_step + leaf_count_ + 1;
    for (; first < end; first /= 2, end /= 2) {
      if (first % 2 == 1) living_[first++].push_back(&item);
      if (end % 2 == 1) living_[--end].push_back(&item);
    }
  }

  /// Those that live at the same time as `item`, by offset; nullptr: more than kMostNeighbours.
  const std::vector<const ArenaItem*>* beside(const ArenaItem& item) {
    found_.clear();
    for (size_t node = item.first_step + leaf_count_; node > 0; node /= 2) {
      if (living_[node].size() > kMostNeighbours - found_.size()) return nullptr;
      found_.insert(found_.end(), living_[node].begin(), living_[node].end());
    }
    const auto end = by_first_step_.upper_bound(item.last_step);
    for (auto at = by_first_step_.upper_bound(item.first_step); at != end; ++at) {
      if (found_.size() == kMostNeighbours) return nullptr;
      found_.push_back(at->second);
    }
    std::sort(found_.begin(), found_.end(),
              [](const ArenaItem* a, const ArenaItem* b) { return a->offset < b->offset; });
    return &found_;
  }

 private:
  size_t leaf_count_ = 1;
  std::vector<std::vector<const ArenaItem*>> living_;  // a heap: node n has 2n and 2n + 1 below it
  std::multimap<uint32_t, const ArenaItem*> by_first_step_;
  std::vector<const ArenaItem*> found_;
};

}  // namespace

Result<uint64_t> assign_arena(std::vector<ArenaItem>* items) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*items)[a].bytes > (*items)[b].bytes; });
  uint64_t arena_bytes = 0;
  Placed placed(*items);
  for (const size_t index : order) {
    ArenaItem& item = (*items)[index];
    const auto* const neighbours = placed.beside(item);
    uint64_t offset = neighbours == nullptr ? arena_bytes : 0;
    auto end = end_of(offset, item.bytes);
    if (neighbours != nullptr) {
      for (const ArenaItem* other : *neighbours) {
        if (end && *end <= other->offset) break;
        // What is placed has an end: nothing else gets as far as `placed`.
        offset = std::max(offset, end_of(other->offset, other->bytes).value_or(0));
        end = end_of(offset, item.bytes);
      }
    }
    if (!end || *end > kMostBytes) {
      return Status(BP_OUT_OF_MEMORY, "values and workspaces that live at once need more than " +
                                          std::to_string(kMostBytes) + " bytes, one of them " +
                                          std::to_string(item.bytes));
    }
    item.offset = offset;
    arena_bytes = std::max(arena_bytes, *end);
    placed.add(item);
  }
  return arena_bytes;
}

uint64_t live_bytes_peak(std::span<const ArenaItem> items) {
  std::map<uint32_t, uint64_t> change;  // of what lives, by step; a decrease wraps
  for (const ArenaItem& item : items) {
    const uint64_t bytes = aligned(item.bytes).value_or(0);
    change[item.first_step] += bytes;
    change[item.last_step + 1] -= bytes;
  }
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const auto& [step, bytes] : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace bp
