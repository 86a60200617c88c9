// SPDX-License-Identifier: Apache-2.0
//
// The memory table: aligned host allocations, plain copies and fills. Everything is done when the
// function returns, since this device has no streams of its own.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device.hpp"

namespace bp::cpu {
namespace {

using sdk::slot;

constexpr uint64_t kHugePage = uint64_t{2} << 20;

std::byte* address_of(const bp_mem& mem) {
  return reinterpret_cast<std::byte*>(mem.handle + mem.offset_bytes);
}

bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

std::string in_words(const bp_mem& mem, uint64_t bytes) {
  return std::to_string(bytes) + " bytes at handle " + std::to_string(mem.handle) + " + " +
         std::to_string(mem.offset_bytes);
}

// Of huge pages where that is worth it and the system can: walking a large tensor by small ones
// takes a third longer, and twice as long across its rows.
void* allocate_pages(uint64_t alignment, uint64_t bytes) {
  if (bytes < 2 * kHugePage) return std::aligned_alloc(alignment, bytes);
  // Not aligned_alloc, which takes only multiples of the alignment.
  void* ptr = nullptr;
  if (posix_memalign(&ptr, std::max(alignment, kHugePage), bytes) != 0) return nullptr;
  // Only whole pages, so that nobody else's memory grows. A refusal changes nothing but speed.
  madvise(ptr, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return ptr;
}

// Throws unless [mem, mem + bytes) can be touched.
void require_inside(bp_device* device, const char* what, const bp_mem& mem, uint64_t bytes) {
  if (mem.handle != 0 && device->memory.contains(mem, bytes)) return;
  throw sdk::Failure{BP_INVALID_ARGUMENT,
                     std::string(what) + ": " + in_words(mem, bytes) + " are outside its memory"};
}

bp_status mem_alloc(bp_device* device, const bp_alloc_args* caller_args, uint64_t* out_handle) {
  return slot("mem_alloc", device, {caller_args, out_handle}, [&] {
    const bp_alloc_args args = sdk::read_args(caller_args, 0);
    const uint64_t alignment = args.alignment_bytes == 0 ? kMemoryAlignment : args.alignment_bytes;
    if (args.bytes == 0 || !is_power_of_two(alignment)) {
      throw sdk::Failure{BP_INVALID_ARGUMENT,
                         "mem_alloc: " + std::to_string(args.bytes) + " bytes aligned to " +
                             std::to_string(alignment) +
                             "; expected more than 0 bytes and a power of two"};
    }
    // Linux grants far more than there is and ends the process when it is touched, so the one
    // certain case is refused here.
    const uint64_t limit = device->machine.memory_bytes;
    const bool fits = limit == 0 || (args.bytes <= limit && alignment <= limit);
    const uint64_t handle = fits ? device->memory.allocate(args.bytes, alignment) : 0;
    if (handle == 0) {
      throw sdk::Failure{BP_OUT_OF_MEMORY, "mem_alloc: no " + std::to_string(args.bytes) +
                                               " bytes of host memory (the machine has " +
                                               std::to_string(limit) + ")"};
    }
    *out_handle = handle;
    return BP_OK;
  });
}

bp_status mem_free(bp_device* device, uint64_t handle) {
  return slot("mem_free", device, {}, [&] {
    if (device->memory.release(handle)) return BP_OK;
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       "mem_free: handle " + std::to_string(handle) + " is not allocated"};
  });
}

bp_status mem_copy(bp_device* device, const bp_copy_args* caller_args) {
  return slot("mem_copy", device, {caller_args}, [&] {
    const bp_copy_args args = sdk::read_args(caller_args, 0);
    if (args.kind > BP_COPY_DEVICE_TO_DEVICE) {
      throw sdk::Failure{BP_UNSUPPORTED, "mem_copy: kind " + std::to_string(args.kind) +
                                             " is not known to this plugin"};
    }
    if (args.bytes == 0) return BP_OK;
    require_inside(device, "mem_copy: destination", args.dst, args.bytes);
    require_inside(device, "mem_copy: source", args.src, args.bytes);
    std::byte* const dst = address_of(args.dst);
    const std::byte* const src = address_of(args.src);
    if (args.kind == BP_COPY_DEVICE_TO_DEVICE && dst < src + args.bytes && src < dst + args.bytes) {
      sdk::refuse("mem_copy: ranges of ", args.bytes, " bytes that overlap");
    }
    std::memcpy(dst, src, args.bytes);
    return BP_OK;
  });
}

bp_status mem_fill(bp_device* device, const bp_fill_args* caller_args) {
  return slot("mem_fill", device, {caller_args}, [&] {
    const bp_fill_args args = sdk::read_args(caller_args, 0);
    const uint32_t width = args.pattern_bytes;
    if (args.stream != nullptr || !is_power_of_two(width) || width > 8 || args.bytes % width != 0) {
      throw sdk::Failure{BP_INVALID_ARGUMENT,
                         "mem_fill: " + std::to_string(args.bytes) + " bytes with a pattern of " +
                             std::to_string(width) +
                             "; expected a pattern of 1, 2, 4 or 8 bytes, a multiple of it, and no "
                             "stream, since this device has none"};
    }
    if (args.bytes == 0) return BP_OK;
    require_inside(device, "mem_fill", args.dst, args.bytes);
    std::byte* const dst = address_of(args.dst);
    if (width == 1) {
      std::memset(dst, static_cast<int>(args.pattern & 0xff), args.bytes);
      return BP_OK;
    }
    for (uint64_t i = 0; i < args.bytes; i += width) std::memcpy(dst + i, &args.pattern, width);
    return BP_OK;
  });
}

bp_status mem_map(bp_device* device, const bp_map_args* caller_args, void** out_ptr) {
  return slot("mem_map", device, {caller_args, out_ptr}, [&] {
    const bp_map_args args = sdk::read_args(caller_args, 0);
    if ((args.access & ~(BP_MAP_READ_BIT | BP_MAP_WRITE_BIT)) != 0) {
      sdk::fail(BP_UNSUPPORTED, "mem_map: unknown access bits in ", args.access);
    }
    if (args.access == 0 || args.bytes == 0) {
      sdk::refuse("mem_map: access ", args.access, " and ", args.bytes,
                  " bytes; expected neither to be 0");
    }
    require_inside(device, "mem_map", args.mem, args.bytes);
    void* const ptr = address_of(args.mem);
    device->memory.map(ptr);
    *out_ptr = ptr;
    return BP_OK;
  });
}

bp_status mem_unmap(bp_device* device, void* ptr) {
  return slot("mem_unmap", device, {}, [&] {
    if (device->memory.unmap(ptr)) return BP_OK;
    throw sdk::Failure{BP_INVALID_ARGUMENT, "mem_unmap: this pointer is not mapped"};
  });
}

}  // namespace

MemoryBook::~MemoryBook() {
  for (const auto& [handle, bytes] : bytes_by_handle_) std::free(reinterpret_cast<void*>(handle));
}

uint64_t MemoryBook::allocate(uint64_t bytes, uint64_t alignment_bytes) {
  const uint64_t alignment =
      alignment_bytes < kMemoryAlignment ? kMemoryAlignment : alignment_bytes;
  const uint64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return 0;
  void* const ptr = allocate_pages(alignment, rounded);
  if (ptr == nullptr) return 0;
  const uint64_t handle = reinterpret_cast<uint64_t>(ptr);
  try {
    const std::lock_guard lock(mutex_);
    bytes_by_handle_.emplace(handle, bytes);
  } catch (...) {
    std::free(ptr);
    throw;
  }
  return handle;
}

bool MemoryBook::release(uint64_t handle) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes_by_handle_.erase(handle) == 0) return false;
  }
  std::free(reinterpret_cast<void*>(handle));
  return true;
}

bool MemoryBook::contains(const bp_mem& mem, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = bytes_by_handle_.find(mem.handle);
  if (at == bytes_by_handle_.end()) return true;
  return mem.offset_bytes <= at->second && bytes <= at->second - mem.offset_bytes;
}

void MemoryBook::map(const void* ptr) {
  const std::lock_guard lock(mutex_);
  ++mapping_counts_[ptr];
}

bool MemoryBook::unmap(const void* ptr) {
  const std::lock_guard lock(mutex_);
  const auto at = mapping_counts_.find(ptr);
  if (at == mapping_counts_.end()) return false;
  if (--at->second == 0) mapping_counts_.erase(at);
  return true;
}

constinit const bp_memory_api kMemoryApi{
    .struct_size = sizeof(bp_memory_api),
    .flags = BP_FEATURE_FILL_BIT | BP_FEATURE_MAP_BIT,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_copy = mem_copy,
    .mem_fill = mem_fill,
    .host_alloc = nullptr,
    .host_free = nullptr,
    .mem_map = mem_map,
    .mem_unmap = mem_unmap,
};

}  // namespace bp::cpu
