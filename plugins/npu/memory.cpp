// SPDX-License-Identifier: Apache-2.0
//
// Allocation, translation, the two ends of a transfer, and the memory table.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <sstream>
#include <string>

#include "device.hpp"
#include "queue.hpp"

namespace bp::npu {
namespace {

constexpr auto kPinnedAlignment = std::align_val_t{64};

std::string hex(uint64_t address) {
  return (std::ostringstream() << std::showbase << std::hex << address).str();
}

bool is_npu_address(uint64_t address) { return address >> 52 == kFirstAddress >> 52; }

std::byte* host_end(bp_mem mem) {
  const uint64_t address = mem.handle + mem.offset_bytes;
  if (mem.handle == 0) refuse("mem_copy: the host end is NULL");
  if (is_npu_address(address)) refuse("mem_copy: the host end is NPU address ", hex(address));
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): the ABI's way
}

std::byte* map_pages(uint64_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

}  // namespace

void DeviceMemory::Unmap::operator()(std::byte* pages) const { munmap(pages, bytes); }

DeviceMemory::DeviceMemory(uint32_t device_index, uint64_t capacity_bytes)
    : first_address_(kFirstAddress + device_index * kWindowBytes),
      capacity_bytes_(capacity_bytes),
      arena_(map_pages(capacity_bytes), Unmap{capacity_bytes}) {}

uint64_t DeviceMemory::alloc(uint64_t bytes, uint64_t alignment_bytes) {
  if (bytes == 0 || std::popcount(alignment_bytes) > 1 || alignment_bytes > kMaxCapacityBytes) {
    refuse("mem_alloc: ", bytes, " bytes aligned to ", alignment_bytes,
           "; expected 1 or more, and a power of two up to 2^36");
  }
  const std::scoped_lock lock(mutex_);
  const uint64_t offset = find_gap(bytes, std::max(alignment_bytes, kAlignmentBytes));
  const uint64_t generation = ++alloc_count_ % (kWindowBytes / kMaxCapacityBytes);
  const uint64_t handle = first_address_ + generation * kMaxCapacityBytes + offset;
  live_.emplace(offset, Block{handle, bytes});
  used_bytes_ += bytes;
  return handle;
}

/// First fit: the core pools, so allocations are few and large and a search is cheap.
uint64_t DeviceMemory::find_gap(uint64_t bytes, uint64_t alignment_bytes) const {
  uint64_t offset = 0;
  for (const auto& [begin, block] : live_) {
    if (offset <= begin && bytes <= begin - offset) return offset;
    const uint64_t end = begin + block.bytes;
    offset = (end + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  }
  if (offset <= capacity_bytes_ && bytes <= capacity_bytes_ - offset) return offset;
  fail(BP_OUT_OF_MEMORY, "mem_alloc: no free piece of ", bytes, " bytes; ", used_bytes_, " of ",
       capacity_bytes_, " are in use");
}

const DeviceMemory::Block& DeviceMemory::find(uint64_t handle) const {
  if (!is_npu_address(handle)) {
    refuse(hex(handle), " is no NPU address (they begin with 0x4e5); is it a host pointer?");
  }
  const auto found = live_.find(handle % kMaxCapacityBytes);
  if (found != live_.end() && found->second.handle == handle) return found->second;
  refuse(hex(handle), " is not allocated on this device: freed, another device's, or an address ",
         "inside an allocation (distances go into offset_bytes)");
}

void DeviceMemory::free(uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  used_bytes_ -= find(handle).bytes;
  live_.erase(handle % kMaxCapacityBytes);
}

std::byte* DeviceMemory::translate(bp_mem mem, uint64_t bytes) const {
  const std::scoped_lock lock(mutex_);
  const Block& block = find(mem.handle);
  if (mem.offset_bytes > block.bytes || bytes > block.bytes - mem.offset_bytes) {
    refuse(bytes, " bytes at offset ", mem.offset_bytes, " reach beyond the ", block.bytes,
           " bytes of ", hex(mem.handle));
  }
  return arena_.get() + mem.handle % kMaxCapacityBytes + mem.offset_bytes;
}

Transfer resolve(const DeviceMemory& memory, const bp_copy_args& args) {
  if (args.kind > BP_COPY_DEVICE_TO_DEVICE) fail(BP_UNSUPPORTED, "mem_copy: kind ", args.kind);
  if (args.bytes == 0) return [] {};
  const bool to_host = args.kind == BP_COPY_DEVICE_TO_HOST;
  const bool from_host = args.kind == BP_COPY_HOST_TO_DEVICE;
  std::byte* const dst = to_host ? host_end(args.dst) : memory.translate(args.dst, args.bytes);
  std::byte* const src = from_host ? host_end(args.src) : memory.translate(args.src, args.bytes);
  if (dst < src + args.bytes && src < dst + args.bytes) refuse("mem_copy: the ranges overlap");
  return [dst, src, bytes = args.bytes] { std::memcpy(dst, src, bytes); };
}

Transfer resolve(const DeviceMemory& memory, const bp_fill_args& args) {
  const uint32_t size = args.pattern_bytes;
  if ((size != 1 && size != 2 && size != 4 && size != 8) || args.bytes % size != 0) {
    refuse("mem_fill: ", args.bytes, " bytes of ", size, "; expected a multiple of 1, 2, 4 or 8");
  }
  if (args.bytes == 0) return [] {};
  return [dst = memory.translate(args.dst, args.bytes), args] {
    for (uint64_t done = 0; done < args.bytes; done += args.pattern_bytes) {
      std::memcpy(dst + done, &args.pattern, args.pattern_bytes);
    }
  };
}

namespace {

bp_status mem_alloc(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle) {
  return slot("mem_alloc", device, {args, out_handle}, [&] {
    const bp_alloc_args wanted = read_args(args, 0);
    device->driver_call();
    *out_handle = device->memory().alloc(wanted.bytes, wanted.alignment_bytes);
  });
}

bp_status mem_free(bp_device* device, uint64_t handle) {
  return slot("mem_free", device, {}, [&] { device->memory().free(handle); });
}

bp_status mem_copy(bp_device* device, const bp_copy_args* args) {
  return slot("mem_copy", device, {args},
              [&] { device->run_dma(resolve(device->memory(), read_args(args, 0))); });
}

bp_status mem_fill(bp_device* device, const bp_fill_args* args) {
  return slot("mem_fill", device, {args}, [&] {
    device->require(BP_FEATURE_FILL_BIT);
    const bp_fill_args fill = read_args(args, 0);
    const auto transfer = [&memory = device->memory(), fill] { return resolve(memory, fill); };
    if (fill.stream != nullptr) return fill.stream->push_transfer(transfer);
    device->run_dma(transfer());
  });
}

bp_status host_alloc(bp_device* device, const bp_host_alloc_args* args, void** out_ptr) {
  return slot("host_alloc", device, {args, out_ptr}, [&] {
    device->require(BP_FEATURE_PINNED_BIT);
    const uint64_t bytes = read_args(args, 0).bytes;
    if (bytes == 0) refuse("host_alloc of 0 bytes; expected at least 1");
    // operator new would round a size near 2^64 up to 0.
    if (bytes > PTRDIFF_MAX) fail(BP_OUT_OF_MEMORY, "host_alloc of ", bytes, " bytes");
    device->driver_call();
    *out_ptr = ::operator new(bytes, kPinnedAlignment);
  });
}

bp_status host_free(bp_device* device, void* ptr) {
  return slot("host_free", device, {ptr}, [&] { ::operator delete(ptr, kPinnedAlignment); });
}

}  // namespace

constinit const bp_memory_api kMemoryApi = {
    .struct_size = sizeof(bp_memory_api),
    .flags = BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_copy = mem_copy,
    .mem_fill = mem_fill,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .mem_map = nullptr,  // No band MAP: the core emulates it with copies.
    .mem_unmap = nullptr,
};

}  // namespace bp::npu
