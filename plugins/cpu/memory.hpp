// SPDX-License-Identifier: Apache-2.0
//
// Device memory that is host memory: a handle is the address. The book of what was allocated exists
// to refuse a wrong free and a copy that leaves its memory, both of which would otherwise corrupt
// the process silently. The core pools, so these calls are few.
#ifndef BACKPLANE_PLUGINS_CPU_MEMORY_HPP
#define BACKPLANE_PLUGINS_CPU_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "backplane/device_api.h"

namespace bp::cpu {

inline constexpr uint64_t kMemoryAlignment = 64;

/// Thread-safe.
class MemoryBook {
 public:
  MemoryBook() = default;
  MemoryBook(const MemoryBook&) = delete;
  MemoryBook& operator=(const MemoryBook&) = delete;
  ~MemoryBook();

  /// 0 if the system has no such block. alignment_bytes: a power of two.
  uint64_t allocate(uint64_t bytes, uint64_t alignment_bytes);

  /// False, and nothing happens, for a handle that is not allocated.
  bool release(uint64_t handle);

  /// Whether `bytes` from `mem` lie inside its memory. Memory of the user, wrapped by the core, is
  /// not in the book and is taken on trust.
  bool contains(const bp_mem& mem, uint64_t bytes);

  void map(const void* ptr);
  /// False for a pointer that is not mapped.
  bool unmap(const void* ptr);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> bytes_by_handle_;
  std::unordered_map<const void*, int> mapping_counts_;
};

extern const bp_memory_api kMemoryApi;

}  // namespace bp::cpu

#endif
