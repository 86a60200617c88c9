// SPDX-License-Identifier: Apache-2.0
//
// Device memory: a handle is the cl_mem itself, and a place in it is always {handle, byte offset}.
// Sub-buffers would be the obvious way to name the middle of a buffer, but drivers demand offsets
// that are multiples of 128 bytes or so; commands and kernels that take an offset have no such
// limit.
#ifndef BACKPLANE_PLUGINS_XPU_MEMORY_HPP
#define BACKPLANE_PLUGINS_XPU_MEMORY_HPP

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "driver.hpp"

namespace bp::xpu {

class Device;

// NOLINTNEXTLINE(performance-no-int-to-ptr): the ABI's handles are integers.
inline cl_mem buffer_of(uint64_t handle) { return reinterpret_cast<cl_mem>(handle); }

/// A place that was checked: inside a live allocation.
struct Place {
  cl_mem buffer = nullptr;
  size_t offset_bytes = 0;
};

/// What a device has allocated. Any thread; the lock is held for look-ups and bookkeeping only.
class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}
  ~Memory();

  uint64_t alloc(const bp_alloc_args& args);
  void free(uint64_t handle);

  /// Throws sdk::Failure with BP_INVALID_ARGUMENT unless the range lies in live memory; `what`
  /// begins the sentence.
  Place place(bp_mem mem, uint64_t bytes, const char* what);

  void* host_alloc(uint64_t bytes);
  void host_free(void* ptr);

  void* map(const bp_map_args& args);
  void unmap(void* ptr);

 private:
  struct Allocation {
    Owned<cl_mem> buffer;
    uint64_t bytes = 0;
    uint32_t map_count = 0;
  };
  /// Host memory: a buffer that stays mapped for as long as it lives.
  struct Pinned {
    Owned<cl_mem> buffer;
    void* mapped = nullptr;
  };

  Owned<cl_mem> create(cl_mem_flags flags, uint64_t bytes) const;
  void* map_buffer(cl_mem buffer, cl_map_flags access, uint64_t offset_bytes, uint64_t bytes);
  void unmap_buffer(cl_mem buffer, void* mapped);

  Device& device_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Allocation> allocations_;
  std::unordered_map<void*, Pinned> pinned_;
  /// Pointer to handle. The same range may be mapped more than once, at the same pointer.
  std::unordered_multimap<void*, uint64_t> mappings_;
};

extern const bp_memory_api kMemoryApi;

}  // namespace bp::xpu

#endif
