// SPDX-License-Identifier: Apache-2.0
//
// Places for names belong to thread cells.
#include "core/base/hazard.hpp"

#include <algorithm>
#include <array>

#include "core/base/process_fence.hpp"
#include "core/base/thread_counter.hpp"

namespace bp {
namespace {

constexpr size_t kPlaces = 4;

struct alignas(64) Cell {
  std::array<std::atomic<const void*>, kPlaces> places{};
  size_t depth = 0;  // the owning thread's
};

constinit std::array<Cell, kThreadCells> g_cells{};

}  // namespace

constinit std::atomic<bool> Hazard::uses_process_fence{false};

void Hazard::prepare() {
  uses_process_fence.store(has_process_fence(), std::memory_order_relaxed);
}

Hazard::Hazard() {
  const size_t index = this_thread_cell();
  if (index == kThreadCells) [[unlikely]]
    return;
  Cell& cell = g_cells[index];
  if (cell.depth == kPlaces) [[unlikely]]
    return;
  place_ = &cell.places[cell.depth++];
  depth_ = &cell.depth;
}

HazardScan::HazardScan() {
  used_.reserve(kThreadCells * kPlaces);
  // A reader that knew of no fence for the process fences by itself, which goes with either.
  if constexpr (!Hazard::kSequential) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (Hazard::uses_process_fence.load(std::memory_order_relaxed)) process_fence();
  for (Cell& cell : g_cells) {
    for (std::atomic<const void*>& place : cell.places) {
      if (const void* object = place.load(std::memory_order_seq_cst)) used_.push_back(object);
    }
  }
  std::sort(used_.begin(), used_.end());
}

bool HazardScan::contains(const void* object) const {
  return std::binary_search(used_.begin(), used_.end(), object);
}

}  // namespace bp
