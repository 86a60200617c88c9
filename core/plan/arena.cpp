// SPDX-License-Identifier: Apache-2.0
//
// Static memory reuse within a segment: greedy by size, which is near the lower bound on real
// networks and simple to check.
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "core/base/checked.hpp"
#include "core/plan/planner.hpp"

namespace bp {
namespace {

constexpr uint64_t kArenaAlignment = 256;

/// Also what is empty takes a place: it is launched on like the rest, and needs a handle.
std::optional<uint64_t> aligned(uint64_t bytes) {
  return checked_align_up(std::max<uint64_t>(bytes, 1), kArenaAlignment);
}

/// Where an item ends that begins at `offset`; nullopt: nowhere.
std::optional<uint64_t> end_of(uint64_t offset, uint64_t bytes) {
  const auto whole = aligned(bytes);
  return whole ? checked_add(offset, *whole) : std::nullopt;
}

bool overlap_in_time(const ArenaItem& a, const ArenaItem& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

}  // namespace

Result<uint64_t> assign_arena(std::vector<ArenaItem>* items) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*items)[a].bytes > (*items)[b].bytes; });
  uint64_t arena_bytes = 0;
  std::vector<const ArenaItem*> placed;  // by offset
  for (const size_t index : order) {
    ArenaItem& item = (*items)[index];
    uint64_t offset = 0;
    auto end = end_of(offset, item.bytes);
    for (const ArenaItem* other : placed) {
      if (!overlap_in_time(item, *other)) continue;
      if (end && *end <= other->offset) break;
      // What is placed has an end: nothing else gets as far as `placed`.
      offset = std::max(offset, end_of(other->offset, other->bytes).value_or(0));
      end = end_of(offset, item.bytes);
    }
    if (!end || *end > kMostBytes) {
      return Status(BP_OUT_OF_MEMORY, "values and workspaces that live at once need more than " +
                                          std::to_string(kMostBytes) + " bytes, one of them " +
                                          std::to_string(item.bytes));
    }
    item.offset = offset;
    arena_bytes = std::max(arena_bytes, *end);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](uint64_t value, const ArenaItem* other) { return value < other->offset; });
    placed.insert(at, &item);
  }
  return arena_bytes;
}

Status lay_out_arenas(Segment* segment) {
  const auto base_of = [segment](PlanValueId id) {
    return segment->values[id].kind == PlanValueKind::kView ? segment->values[id].base : id;
  };
  for (PlanDevice where = 0; where < segment->arena_bytes.size(); ++where) {
    std::vector<ArenaItem> items;
    std::vector<int64_t> item_of(segment->values.size(), -1);
    std::vector<std::pair<size_t, Step*>> workspaces;
    for (uint32_t at = 0; at < segment->steps.size(); ++at) {
      Step& step = segment->steps[at];
      std::vector<PlanValueId> touched = step.args;
      touched.push_back(step.extents);
      for (PlanValueId arg : touched) {
        if (arg == kNoPlanValue) continue;
        const PlanValueId base = base_of(arg);
        const PlanValue& planned = segment->values[base];
        if (planned.kind != PlanValueKind::kArena || planned.device != where) continue;
        if (item_of[base] < 0) {
          item_of[base] = static_cast<int64_t>(items.size());
          items.push_back({.bytes = planned.bytes, .first_step = at, .last_step = at, .offset = 0});
        }
        items[static_cast<size_t>(item_of[base])].last_step = at;
      }
      const bool here = step.kernel != nullptr && step.device == where;
      if (here && step.kernel->workspace_bytes() > 0) {
        workspaces.emplace_back(items.size(), &step);
        items.push_back({.bytes = step.kernel->workspace_bytes(),
                         .first_step = at,
                         .last_step = at,
                         .offset = 0});
      }
    }
    BP_TRY_ASSIGN(segment->arena_bytes[where], assign_arena(&items));
    for (PlanValueId id = 0; id < segment->values.size(); ++id) {
      if (item_of[id] < 0) continue;
      segment->values[id].arena_offset = items[static_cast<size_t>(item_of[id])].offset;
    }
    for (const auto& [item, step] : workspaces) step->workspace_offset = items[item].offset;
  }
  return {};
}

}  // namespace bp
