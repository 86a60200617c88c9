// SPDX-License-Identifier: Apache-2.0
//
// The NPU's memory. Its addresses are no host pointers: every access is translated and checked, so
// a host pointer taken for device memory, a stale handle or a range that is too long is an error
// with words, and a device address taken for a host pointer is known by its looks.
#ifndef BACKPLANE_PLUGINS_NPU_MEMORY_HPP
#define BACKPLANE_PLUGINS_NPU_MEMORY_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "backplane/memory.h"

namespace bp::npu {

// An address: 0x4e5, 4 bits of device, 12 bits of generation, 36 bits of place in the arena. Such
// numbers are outside what x86-64 and arm64 let a process map, so no host pointer looks like one.
// The generation is the allocation's, so that a handle is not valid again when its place is.
inline constexpr uint64_t kFirstAddress = 0x4e50'0000'0000'0000;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 48;  // of one device
inline constexpr uint64_t kMaxCapacityBytes = uint64_t{1} << 36;
inline constexpr uint64_t kAlignmentBytes = 256;

/// One device's memory, backed by one host arena. Any-thread. Failures are sdk::Failure.
class DeviceMemory {
 public:
  DeviceMemory(uint32_t device_index, uint64_t capacity_bytes);

  /// The address of new memory. alignment_bytes: a power of two, or 0.
  uint64_t alloc(uint64_t bytes, uint64_t alignment_bytes);
  void free(uint64_t handle);
  /// Where the arena holds `bytes` bytes from mem.offset_bytes on of the live allocation
  /// mem.handle.
  std::byte* translate(bp_mem mem, uint64_t bytes) const;
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  struct Block {
    uint64_t handle;
    uint64_t bytes;
  };

  uint64_t find_gap(uint64_t bytes, uint64_t alignment_bytes) const;
  const Block& find(uint64_t handle) const;

  const uint64_t first_address_;
  const uint64_t capacity_bytes_;
  /// Pages straight from the system, which gives each when it is first touched: the device is as
  /// large as it says, and takes what is used. (A sanitizer's heap would mark all of it.)
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* pages) const;
  };
  const std::unique_ptr<std::byte[], Unmap> arena_;

  mutable std::mutex mutex_;
  std::map<uint64_t, Block> live_;  // by place in the arena
  std::atomic<uint64_t> used_bytes_ = 0;
  uint64_t alloc_count_ = 0;
};

/// A copy or fill between checked places: what the DMA engine is given.
using Transfer = std::function<void()>;

Transfer resolve(const DeviceMemory& memory, const bp_copy_args& args);
Transfer resolve(const DeviceMemory& memory, const bp_fill_args& args);

extern const bp_memory_api kMemoryApi;

}  // namespace bp::npu

#endif
