// SPDX-License-Identifier: Apache-2.0
//
// See staging_ring.hpp.
#include "ccl/bridge/staging_ring.hpp"

namespace bp::ccl {

Status StagingRing::grow(DeviceHold& hold, uint64_t bytes, std::byte** memory, uint64_t* room) {
  if (bytes <= *room) return {};
  BP_TRY_ASSIGN(*memory, hold.allocate(bytes));
  *room = bytes;
  counter_.fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

Result<std::array<StagingRing::Slot, StagingRing::kSlots>> StagingRing::take(uint64_t send_bytes,
                                                                             uint64_t recv_bytes) {
  std::array<Slot, kSlots> slots;
  for (size_t i = 0; i < kSlots; ++i) {
    Room& room = rooms_[i];
    if (room.slot.hold == nullptr) room.slot.hold = DeviceHold::make(device_);
    BP_TRY(grow(*room.slot.hold, send_bytes, &room.slot.send, &room.send_bytes));
    BP_TRY(grow(*room.slot.hold, recv_bytes, &room.slot.recv, &room.recv_bytes));
    slots[i] = room.slot;
  }
  return slots;
}

}  // namespace bp::ccl
