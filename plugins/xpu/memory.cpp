// SPDX-License-Identifier: Apache-2.0
//
// Allocation, pinned memory and mappings. Copies and fills are in transfer.cpp.
#include "memory.hpp"

#include <bit>
#include <cstddef>
#include <string>

#include "device.hpp"
#include "options.hpp"
#include "transfer.hpp"

namespace bp::xpu {
namespace {

constexpr uint64_t kPinnedAlignmentBytes = 64;

std::string hex(uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value % 16]);
    value /= 16;
  } while (value != 0);
  return "0x" + text;
}

std::string hex(const void* ptr) { return hex(reinterpret_cast<uintptr_t>(ptr)); }

[[noreturn]] void refuse(const std::string& words) {
  throw sdk::Failure{BP_INVALID_ARGUMENT, words};
}

}  // namespace

Memory::~Memory() {
  if (allocations_.empty() && pinned_.empty()) return;
  uint64_t bytes = 0;
  for (const auto& [handle, allocation] : allocations_) bytes += allocation.bytes;
  device_.host().log(BP_LOG_WARNING, "device_close releases what was not freed before: " +
                                         std::to_string(allocations_.size()) + " allocations of " +
                                         std::to_string(bytes) + " bytes in all and " +
                                         std::to_string(pinned_.size()) + " blocks of host memory");
  // A buffer that is released while it is mapped stays with the driver.
  const Driver& driver = device_.driver();
  for (const auto& [ptr, handle] : mappings_) {
    driver.clEnqueueUnmapMemObject(device_.queue(), buffer_of(handle), ptr, 0, nullptr, nullptr);
  }
  for (const auto& [ptr, pinned] : pinned_) {
    driver.clEnqueueUnmapMemObject(device_.queue(), pinned.buffer.get(), pinned.mapped, 0, nullptr,
                                   nullptr);
  }
  driver.clFinish(device_.queue());
}

Owned<cl_mem> Memory::create(cl_mem_flags flags, uint64_t bytes) const {
  if (bytes == 0) refuse("an allocation of 0 bytes; expected at least 1");
  const uint64_t max_bytes = device_.info().max_alloc_bytes;
  if (bytes > max_bytes) {
    throw sdk::Failure{BP_OUT_OF_MEMORY, "an allocation of " + std::to_string(bytes) +
                                             " bytes: the largest one on " + device_.info().name +
                                             " is " + std::to_string(max_bytes)};
  }
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      device_.driver().clCreateBuffer(device_.context(), flags, bytes, nullptr, &code);
  check(code, "clCreateBuffer of " + std::to_string(bytes) + " bytes");
  return {device_.driver(), buffer};
}

// A larger alignment than the device's own is granted for offsets: a handle has no address, its
// byte 0 lies at info().alignment_bytes, and no kernel here asks for more than an element's size.
uint64_t Memory::alloc(const bp_alloc_args& args) {
  check_flags(args.flags, 0, "bp_alloc_args");
  if (args.alignment_bytes != 0 && !std::has_single_bit(args.alignment_bytes)) {
    refuse("mem_alloc: an alignment of " + std::to_string(args.alignment_bytes) +
           " bytes is not a power of two");
  }
  Owned<cl_mem> buffer = create(CL_MEM_READ_WRITE, args.bytes);
  // Drivers allocate at first use. That must not happen in a launch, which may not fail for it, so
  // the buffer is moved to its device now.
  const cl_mem object = buffer.get();
  device_.run_now("clEnqueueMigrateMemObjects", [&](cl_command_queue queue, cl_event* out_event) {
    return device_.driver().clEnqueueMigrateMemObjects(
        queue, 1, &object, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, out_event);
  });
  const uint64_t handle = reinterpret_cast<uintptr_t>(object);
  const std::lock_guard lock(mutex_);
  allocations_[handle] = {std::move(buffer), args.bytes, 0};
  return handle;
}

void Memory::free(uint64_t handle) {
  Owned<cl_mem> released;
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(handle);
  if (found == allocations_.end()) {
    refuse("mem_free: " + hex(handle) + " is not an allocation of this device");
  }
  if (found->second.map_count != 0) {
    refuse("mem_free: " + hex(handle) + " is still mapped " +
           std::to_string(found->second.map_count) + " times");
  }
  released = std::move(found->second.buffer);
  allocations_.erase(found);
}

Place Memory::place(bp_mem mem, uint64_t bytes, const char* what) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(mem.handle);
  if (found == allocations_.end()) {
    refuse(std::string(what) + ": " + hex(mem.handle) + " is not an allocation of this device");
  }
  const uint64_t size_bytes = found->second.bytes;
  if (mem.offset_bytes > size_bytes || bytes > size_bytes - mem.offset_bytes) {
    refuse(std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
           std::to_string(mem.offset_bytes) + " reach beyond the " + std::to_string(size_bytes) +
           " bytes of " + hex(mem.handle));
  }
  return {buffer_of(mem.handle), mem.offset_bytes};
}

void* Memory::map_buffer(cl_mem buffer, cl_map_flags access, uint64_t offset_bytes,
                         uint64_t bytes) {
  cl_int code = CL_SUCCESS;
  void* mapped = device_.driver().clEnqueueMapBuffer(
      device_.queue(), buffer, CL_TRUE, access, offset_bytes, bytes, 0, nullptr, nullptr, &code);
  check(code, "clEnqueueMapBuffer");
  return mapped;
}

void Memory::unmap_buffer(cl_mem buffer, void* mapped) {
  device_.run_now("clEnqueueUnmapMemObject", [&](cl_command_queue queue, cl_event* out_event) {
    return device_.driver().clEnqueueUnmapMemObject(queue, buffer, mapped, 0, nullptr, out_event);
  });
}

void* Memory::host_alloc(uint64_t bytes) {
  if (bytes > UINT64_MAX - kPinnedAlignmentBytes) {
    throw sdk::Failure{BP_OUT_OF_MEMORY, "host_alloc of " + std::to_string(bytes) + " bytes"};
  }
  if (bytes == 0) refuse("host_alloc of 0 bytes; expected at least 1");
  // A mapping need not start on a cache line, hence the slack.
  Pinned pinned{.buffer = create(CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                 bytes + kPinnedAlignmentBytes - 1),
                .mapped = nullptr};
  pinned.mapped = map_buffer(pinned.buffer.get(), CL_MAP_READ | CL_MAP_WRITE, 0,
                             bytes + kPinnedAlignmentBytes - 1);
  const uintptr_t misaligned = reinterpret_cast<uintptr_t>(pinned.mapped) % kPinnedAlignmentBytes;
  void* ptr = static_cast<std::byte*>(pinned.mapped) +
              (misaligned == 0 ? 0 : kPinnedAlignmentBytes - misaligned);
  const std::lock_guard lock(mutex_);
  pinned_[ptr] = std::move(pinned);
  return ptr;
}

// Forgotten only once the driver has agreed, so that a refused call can be tried again.
void Memory::host_free(void* ptr) {
  cl_mem buffer = nullptr;
  void* mapped = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pinned_.find(ptr);
    if (found == pinned_.end()) refuse("host_free: " + hex(ptr) + " is not from host_alloc");
    buffer = found->second.buffer.get();
    mapped = found->second.mapped;
  }
  unmap_buffer(buffer, mapped);
  const std::lock_guard lock(mutex_);
  pinned_.erase(ptr);
}

void* Memory::map(const bp_map_args& args) {
  check_flags(args.flags, 0, "bp_map_args");
  check_flags(args.access, BP_MAP_READ_BIT | BP_MAP_WRITE_BIT, "bp_map_args.access");
  if (args.access == 0) refuse("mem_map: no access bit is set; expected read, write or both");
  if (args.bytes == 0) refuse("mem_map of 0 bytes; expected at least 1");
  const Place start = place(args.mem, args.bytes, "mem_map");
  cl_map_flags access = 0;
  if ((args.access & BP_MAP_READ_BIT) != 0) access |= CL_MAP_READ;
  if ((args.access & BP_MAP_WRITE_BIT) != 0) access |= CL_MAP_WRITE;
  void* ptr = map_buffer(start.buffer, access, start.offset_bytes, args.bytes);
  const std::lock_guard lock(mutex_);
  mappings_.emplace(ptr, args.mem.handle);
  allocations_[args.mem.handle].map_count += 1;
  return ptr;
}

void Memory::unmap(void* ptr) {
  uint64_t handle = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(ptr);
    if (found == mappings_.end()) refuse("mem_unmap: " + hex(ptr) + " is not mapped");
    handle = found->second;
  }
  unmap_buffer(buffer_of(handle), ptr);
  const std::lock_guard lock(mutex_);
  mappings_.erase(mappings_.find(ptr));
  allocations_[handle].map_count -= 1;
}

namespace {

bp_status mem_alloc(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle) {
  return sdk::slot("mem_alloc", device, {args, out_handle},
                   [&] { *out_handle = device->memory().alloc(sdk::read_args(args)); });
}

bp_status mem_free(bp_device* device, uint64_t handle) {
  return sdk::slot("mem_free", device, {}, [&] { device->memory().free(handle); });
}

bp_status mem_copy(bp_device* device, const bp_copy_args* args) {
  return sdk::slot("mem_copy", device, {args},
                   [&] { return copy(*device, nullptr, sdk::read_args(args)); });
}

bp_status mem_fill(bp_device* device, const bp_fill_args* args) {
  return sdk::slot("mem_fill", device, {args}, [&] { return fill(*device, sdk::read_args(args)); });
}

bp_status host_alloc(bp_device* device, const bp_host_alloc_args* args, void** out_ptr) {
  return sdk::slot("host_alloc", device, {args, out_ptr}, [&] {
    const bp_host_alloc_args wanted = sdk::read_args(args, 0);
    *out_ptr = device->memory().host_alloc(wanted.bytes);
  });
}

bp_status host_free(bp_device* device, void* ptr) {
  return sdk::slot("host_free", device, {}, [&] { device->memory().host_free(ptr); });
}

bp_status mem_map(bp_device* device, const bp_map_args* args, void** out_ptr) {
  return sdk::slot("mem_map", device, {args, out_ptr},
                   [&] { *out_ptr = device->memory().map(sdk::read_args(args)); });
}

bp_status mem_unmap(bp_device* device, void* ptr) {
  return sdk::slot("mem_unmap", device, {}, [&] { device->memory().unmap(ptr); });
}

}  // namespace

constinit const bp_memory_api kMemoryApi{
    .struct_size = sizeof(bp_memory_api),
    .flags = BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_copy = mem_copy,
    .mem_fill = mem_fill,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .mem_map = mem_map,
    .mem_unmap = mem_unmap};

}  // namespace bp::xpu
