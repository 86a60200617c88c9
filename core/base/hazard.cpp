// SPDX-License-Identifier: Apache-2.0
//
// Places for names belong to thread cells.
#include "core/base/hazard.hpp"

#include <algorithm>

#include "core/base/process_fence.hpp"

namespace bp {

constinit std::array<Hazard::Cell, kThreadCells> Hazard::cells{};
constinit std::atomic<bool> Hazard::uses_process_fence{false};

void Hazard::prepare() { uses_process_fence.store(has_process_fence(), std::memory_order_relaxed); }

HazardScan::HazardScan() {
  used_.reserve(kThreadCells * Hazard::kPlaces);
  // A reader that knew of no fence for the process fences by itself, which goes with either.
  if constexpr (!Hazard::kSequential) std::atomic_thread_fence(std::memory_order_seq_cst);
  if (Hazard::uses_process_fence.load(std::memory_order_relaxed)) process_fence();
  for (Hazard::Cell& cell : Hazard::cells) {
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
