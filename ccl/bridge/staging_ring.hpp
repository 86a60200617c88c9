// SPDX-License-Identifier: Apache-2.0
//
// Host memory that the chunks of operations go through, between a device and the network: a few
// slots that take turns, each for a chunk on its way in, in progress, or on its way out.
#ifndef BACKPLANE_CCL_BRIDGE_STAGING_RING_HPP
#define BACKPLANE_CCL_BRIDGE_STAGING_RING_HPP

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ccl/bridge/device_hold.hpp"

namespace bp::ccl {

/// Of operations that run one after the other. Its memory stays until it ends.
class StagingRing {
 public:
  /// One chunk comes in, two are in progress, one goes out.
  static constexpr size_t kSlots = 4;
  struct Slot {
    std::shared_ptr<DeviceHold> hold;  // of the memory, and of the copies
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
  };

  /// `*counter`: counts the bytes that are taken.
  StagingRing(Device& device, std::atomic<uint64_t>* counter)
      : device_(device), counter_(*counter) {}

  /// Room in each slot. What was given before stays good. Errors: OUT_OF_MEMORY; the plugin's. One
  /// thread at a time.
  Result<std::array<Slot, kSlots>> take(uint64_t send_bytes, uint64_t recv_bytes);

 private:
  struct Room {
    Slot slot;
    uint64_t send_bytes = 0;
    uint64_t recv_bytes = 0;
  };
  Status grow(DeviceHold& hold, uint64_t bytes, std::byte** memory, uint64_t* room);

  Device& device_;
  std::atomic<uint64_t>& counter_;
  std::array<Room, kSlots> rooms_;
};

}  // namespace bp::ccl

#endif
