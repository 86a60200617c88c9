/* SPDX-License-Identifier: Apache-2.0
 *
 * The nine required functions and the kernel table in C. */
#include <stdlib.h>
#include <string.h>

#include "backplane/device_api.h"
#include "backplane/sdk/kernels.h"

struct bp_instance {
  int unused;
};
struct bp_device {
  size_t kernel_count;
  const bp_kernel* kernels[];
};

static void write_out(void* out, const void* value, uint32_t bytes) {
  uint32_t size = 0;
  memcpy(&size, out, sizeof size);
  memcpy(out, value, size < bytes ? size : bytes);
  memcpy(out, &size, sizeof size);
}

static bp_status init(const bp_host_api* host, void* host_ctx, const bp_config* config,
                      bp_instance** out_instance) {
  (void)host, (void)host_ctx, (void)config;
  *out_instance = calloc(1, sizeof **out_instance);
  return *out_instance == NULL ? BP_OUT_OF_MEMORY : BP_OK;
}
static bp_status shutdown(bp_instance* instance) {
  free(instance);
  return BP_OK;
}
static bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  (void)instance;
  *out_count = 1;
  return BP_OK;
}
static bp_status device_open(bp_instance* instance, const bp_open_args* args,
                             bp_device** out_device) {
  (void)instance, (void)args;
  const size_t count = bp_sdk_kernel_count();
  bp_device* device = malloc(sizeof *device + count * sizeof device->kernels[0]);
  if (device == NULL) return BP_OUT_OF_MEMORY;
  device->kernel_count = count;
  bp_sdk_list_kernels(device->kernels);
  *out_device = device;
  return BP_OK;
}
static bp_status device_close(bp_device* device) {
  free(device);
  return BP_OK;
}
static bp_status device_props(bp_device* device, bp_device_props* out_props) {
  (void)device;
  const bp_device_props props = {.flags = BP_DEVICE_CONCURRENT_BIT, .name = {"a chip in C", 11}};
  write_out(out_props, &props, sizeof props);
  return BP_OK;
}
static bp_status mem_alloc(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle) {
  (void)device;
  const uint64_t alignment = args->alignment_bytes < 64 ? 64 : args->alignment_bytes;
  void* memory = aligned_alloc(alignment, (args->bytes + alignment - 1) / alignment * alignment);
  if (memory == NULL) return BP_OUT_OF_MEMORY;
  *out_handle = (uint64_t)(uintptr_t)memory;
  return BP_OK;
}
static bp_status mem_free(bp_device* device, uint64_t handle) {
  (void)device;
  free((void*)(uintptr_t)handle);
  return BP_OK;
}
static bp_status mem_copy(bp_device* device, const bp_copy_args* args) {
  (void)device;
  memcpy((void*)(uintptr_t)(args->dst.handle + args->dst.offset_bytes),
         (const void*)(uintptr_t)(args->src.handle + args->src.offset_bytes), args->bytes);
  return BP_OK;
}
static bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  const bp_kernel_list list = {.kernels = device->kernels, .kernel_count = device->kernel_count};
  write_out(out_list, &list, sizeof list);
  return BP_OK;
}

static const bp_root_api kRoot = {sizeof kRoot, 0, init, shutdown};
static const bp_device_api kDevice = {sizeof kDevice, 0,           device_count, device_open,
                                      device_close,   device_props};
static const bp_memory_api kMemory = {.struct_size = sizeof kMemory,
                                      .mem_alloc = mem_alloc,
                                      .mem_free = mem_free,
                                      .mem_copy = mem_copy};
static const bp_kernel_api kKernel = {sizeof kKernel, 0, kernel_list};

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  if (core_abi < BP_ABI_VERSION(0, 2)) return BP_INCOMPATIBLE;
  const bp_plugin plugin = {
      .root = &kRoot, .device = &kDevice, .memory = &kMemory, .kernel = &kKernel};
  write_out(out_plugin, &plugin, sizeof plugin);
  return BP_OK;
}
