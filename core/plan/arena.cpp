// SPDX-License-Identifier: Apache-2.0
//
// Static memory reuse within a segment: greedy by size, which is near the lower bound on real
// networks and simple to check.
#include <algorithm>
#include <numeric>

#include "core/plan/planner.hpp"

namespace bp {
namespace {

constexpr uint64_t kArenaAlignment = 256;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool overlap_in_time(const ArenaItem& a, const ArenaItem& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

}  // namespace

uint64_t assign_arena(std::vector<ArenaItem>* items) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*items)[a].bytes > (*items)[b].bytes; });
  uint64_t arena_bytes = 0;
  std::vector<const ArenaItem*> placed;  // by offset
  for (const size_t index : order) {
    ArenaItem& item = (*items)[index];
    const uint64_t bytes = aligned(item.bytes);
    uint64_t offset = 0;
    for (const ArenaItem* other : placed) {
      if (!overlap_in_time(item, *other)) continue;
      if (offset + bytes <= other->offset) break;
      offset = std::max(offset, other->offset + aligned(other->bytes));
    }
    item.offset = offset;
    arena_bytes = std::max(arena_bytes, offset + bytes);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](uint64_t value, const ArenaItem* other) { return value < other->offset; });
    placed.insert(at, &item);
  }
  return arena_bytes;
}

}  // namespace bp
