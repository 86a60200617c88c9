// SPDX-License-Identifier: Apache-2.0
//
// Mappings for a device without the band MAP: a copy in host memory, written back at mem_unmap. It
// is filled from the device even for writing only, since the host may write a part of it.
#include <string>

#include "core/base/checked.hpp"
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

bp_copy_args copy_args(const Mapping& mapping, uint32_t kind) {
  const bp_mem host{reinterpret_cast<uint64_t>(mapping.buffer.data()), 0};
  const bool to_device = kind == BP_COPY_HOST_TO_DEVICE;
  return {.struct_size = sizeof(bp_copy_args),
          .flags = 0,
          .kind = kind,
          .reserved = 0,
          .dst = to_device ? mapping.mem : host,
          .src = to_device ? host : mapping.mem,
          .bytes = mapping.bytes};
}

bp_status check_args(const Emulation& emulation, const bp_map_args& args) {
  const uint32_t known = BP_MAP_READ_BIT | BP_MAP_WRITE_BIT;
  if ((args.access & ~known) != 0) {
    return emulation.fail(BP_UNSUPPORTED,
                          "mem_map: unknown access bits in " + std::to_string(args.access));
  }
  if (args.access == 0 || args.bytes == 0) {
    return emulation.fail(BP_INVALID_ARGUMENT, "mem_map: access is " + std::to_string(args.access) +
                                                   " and bytes is " + std::to_string(args.bytes) +
                                                   "; expected neither to be 0");
  }
  return BP_OK;
}

/// There is no host memory of that size. A range outside device memory is the caller's mistake all
/// the same: the plugin is asked for its last byte.
bp_status why_no_buffer(Emulation& emulation, const bp_map_args& args) {
  std::byte last{};
  const auto last_offset = checked_add(args.mem.offset_bytes, args.bytes - 1);
  if (!last_offset) {
    return emulation.fail(BP_INVALID_ARGUMENT, "mem_map: offset_bytes plus bytes overflows");
  }
  const bp_status status =
      emulation.native().mem_copy({.struct_size = sizeof(bp_copy_args),
                                   .flags = 0,
                                   .kind = BP_COPY_DEVICE_TO_HOST,
                                   .reserved = 0,
                                   .dst = {reinterpret_cast<uint64_t>(&last), 0},
                                   .src = {args.mem.handle, *last_offset},
                                   .bytes = 1});
  return status == BP_OK ? BP_OUT_OF_MEMORY : status;
}

bp_status mem_map(bp_device* self, const bp_map_args* args, void** out_ptr) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    bp_status status = check_args(emulation, *args);
    if (status != BP_OK) return status;
    Mapping mapping{HostBuffer(args->bytes), args->mem, args->bytes,
                    (args->access & BP_MAP_WRITE_BIT) != 0};
    if (mapping.buffer.empty()) return why_no_buffer(emulation, *args);
    status = emulation.native().mem_copy(copy_args(mapping, BP_COPY_DEVICE_TO_HOST));
    if (status != BP_OK) return status;
    void* ptr = mapping.buffer.data();
    const std::lock_guard lock(emulation.mappings_mutex);
    emulation.mappings.emplace(ptr, std::move(mapping));
    *out_ptr = ptr;
    return BP_OK;
  });
}

/// Ends the mapping even if the copy back fails: a second try would find the same device.
bp_status mem_unmap(bp_device* self, void* ptr) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    std::unique_lock lock(emulation.mappings_mutex);
    const auto mapping = emulation.mappings.extract(ptr);
    lock.unlock();
    if (mapping.empty()) {
      return emulation.fail(BP_INVALID_ARGUMENT, "mem_unmap: the pointer is not mapped");
    }
    if (!mapping.mapped().write_back) return BP_OK;
    return emulation.native().mem_copy(copy_args(mapping.mapped(), BP_COPY_HOST_TO_DEVICE));
  });
}

}  // namespace

void install_map(DeviceTable* table) {
  table->emulated_memory.mem_map = mem_map;
  table->emulated_memory.mem_unmap = mem_unmap;
}

}  // namespace bp
