// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory for a device without the band PINNED: plain memory with the promised alignment.
#include <string>

#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

bp_status host_alloc(bp_device* self, const bp_host_alloc_args* args, void** out_ptr) {
  const Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    const uint64_t bytes = args->bytes;
    if (bytes == 0) {
      return emulation.fail(BP_INVALID_ARGUMENT, "host_alloc of 0 bytes; expected at least 1");
    }
    void* ptr = aligned_host_alloc(bytes);
    if (ptr == nullptr) {
      return emulation.fail(BP_OUT_OF_MEMORY, "host_alloc: no " + std::to_string(bytes) + " bytes");
    }
    *out_ptr = ptr;
    return BP_OK;
  });
}

bp_status host_free(bp_device* self, void* ptr) {
  if (ptr == nullptr) {
    return Emulation::from(self).fail(BP_INVALID_ARGUMENT, "host_free: the pointer is NULL");
  }
  aligned_host_free(ptr);
  return BP_OK;
}

}  // namespace

void install_pinned(DeviceTable* table) {
  table->emulated_memory.host_alloc = host_alloc;
  table->emulated_memory.host_free = host_free;
}

}  // namespace bp
