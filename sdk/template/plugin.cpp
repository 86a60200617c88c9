// SPDX-License-Identifier: Apache-2.0
//
// The smallest plugin: nine functions, a kernel (relu.cpp) and the entry. The core emulates streams
// and all else, decomposes operators, or runs them elsewhere.
#include <algorithm>
#include <bit>
#include <cstring>

#include "device.hpp"

namespace {

// sdk::slot checks pointers, and turns what is thrown into a status with words. read_args(args, 0)
// copies a struct of any core's size, and refuses flags: here none is known.
bp_status init(const bp_host_api* host, void* host_ctx, const bp_config* config,
               bp_instance** out_instance) {
  bp_instance made{sdk::Host(host, host_ctx), 0};
  return sdk::slot("init", &made, {host, config, out_instance}, [&] {
    const bp_config wanted = sdk::read_args(config, 0);
    made.device_count = static_cast<uint32_t>(sdk::option_i64(&wanted, "devices", 1));
    *out_instance = new bp_instance(made);
  });
}
bp_status shutdown(bp_instance* instance) {
  return sdk::slot("shutdown", instance, {}, [&] { delete instance; });
}

bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  return sdk::slot("device_count", instance, {out_count},
                   [&] { *out_count = instance->device_count; });
}
bp_status device_open(bp_instance* instance, const bp_open_args* args, bp_device** out_device) {
  return sdk::slot("device_open", instance, {args, out_device}, [&] {
    const uint32_t index = sdk::read_args(args, 0).index;
    if (index >= instance->device_count) sdk::refuse("there is no device ", index);
    *out_device = new bp_device(instance);
  });
}
bp_status device_close(bp_device* device) {
  return sdk::slot("device_close", device, {}, [&] { delete device; });
}
bp_status device_props(bp_device* device, bp_device_props* out_props) {
  return sdk::slot("device_props", device, {out_props}, [&] {
    bp_device_props props{};  // no bands: the core emulates streams and all else
    props.flags = BP_DEVICE_CONCURRENT_BIT;
    props.memory_bytes = bp_device::kMemoryBytes;
    props.name = sdk::str("my chip");
    props.vendor = sdk::str("me");
    props.driver = sdk::str("none");
    sdk::write_out(out_props, props);
  });
}

std::byte* host_at(bp_mem mem) {
  if (mem.handle == 0) sdk::refuse("mem_copy: the host memory is NULL");
  return reinterpret_cast<std::byte*>(mem.handle + mem.offset_bytes);
}

bp_status mem_alloc(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle) {
  return sdk::slot("mem_alloc", device, {args, out_handle}, [&] {
    const bp_alloc_args wanted = sdk::read_args(args, 0);
    if (wanted.bytes == 0) sdk::refuse("mem_alloc of 0 bytes");
    const uint64_t alignment = std::max<uint64_t>(wanted.alignment_bytes, 1);
    if (!std::has_single_bit(alignment)) sdk::refuse("mem_alloc aligned to ", alignment);
    *out_handle = device->allocate(wanted.bytes, std::max<uint64_t>(alignment, 64));
  });
}
bp_status mem_free(bp_device* device, uint64_t handle) {
  return sdk::slot("mem_free", device, {}, [&] { device->free(handle); });
}
bp_status mem_copy(bp_device* device, const bp_copy_args* args) {
  return sdk::slot("mem_copy", device, {args}, [&] {
    const bp_copy_args copy = sdk::read_args(args, 0);
    if (copy.kind > BP_COPY_DEVICE_TO_DEVICE) sdk::fail(BP_UNSUPPORTED, "copy kind ", copy.kind);
    if (copy.bytes == 0) return;
    const bool to_host = copy.kind == BP_COPY_DEVICE_TO_HOST;
    const bool from_host = copy.kind == BP_COPY_HOST_TO_DEVICE;
    std::byte* const to = to_host ? host_at(copy.dst) : device->at(copy.dst, copy.bytes);
    std::byte* const from = from_host ? host_at(copy.src) : device->at(copy.src, copy.bytes);
    if (to < from + copy.bytes && from < to + copy.bytes) sdk::refuse("mem_copy onto itself");
    std::memcpy(to, from, copy.bytes);
  });
}

constexpr bp_root_api kRoot{sizeof(kRoot), 0, init, shutdown};
constexpr bp_device_api kDevice{sizeof(kDevice), 0,           device_count, device_open,
                                device_close,    device_props};
constexpr bp_memory_api kMemory{.struct_size = sizeof(kMemory),
                                .mem_alloc = mem_alloc,
                                .mem_free = mem_free,
                                .mem_copy = mem_copy};

}  // namespace

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  if (core_abi < BP_ABI_VERSION(0, 2)) return BP_INCOMPATIBLE;
  bp_plugin plugin{};
  plugin.root = &kRoot;
  plugin.device = &kDevice;
  plugin.memory = &kMemory;
  plugin.kernel = &sdk::KernelSlots<bp_device>::kTable;
  sdk::write_out(out_plugin, plugin);
  return BP_OK;
}
