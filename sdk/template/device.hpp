// SPDX-License-Identifier: Apache-2.0
//
// What the plugin keeps: an instance, its devices, and which memory each device has handed out.
#pragma once

#include <backplane/sdk/sdk.hpp>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace sdk = bp::sdk;

// The ABI's opaque types are the plugin's own. sdk::slot asks each for host().
struct bp_instance {
  sdk::Host services;
  uint32_t device_count;
  const sdk::Host& host() const { return services; }
};

struct bp_device {
  explicit bp_device(bp_instance* owner) : instance_(owner) {}
  const sdk::Host& host() const { return instance_->services; }
  const std::vector<const bp_kernel*>& kernels() const { return kernels_; }

  uint64_t allocate(uint64_t bytes, uint64_t alignment) {
    const std::lock_guard lock(mutex_);
    if (bytes > kMemoryBytes - used_bytes_) sdk::fail(BP_OUT_OF_MEMORY, "no room for ", bytes);
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
    const auto handle = reinterpret_cast<uint64_t>(memory);
    blocks_[handle] = bytes;
    used_bytes_ += bytes;
    return handle;
  }
  void free(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(handle);
    if (block == blocks_.end()) sdk::refuse("no memory has the handle ", handle);
    used_bytes_ -= block->second;
    blocks_.erase(block);
    std::free(reinterpret_cast<void*>(handle));
  }
  // Where `bytes` bytes at `place` lie. A driver would look its own handles up like this.
  std::byte* at(bp_mem place, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(place.handle);
    if (block == blocks_.end()) sdk::refuse("no memory has the handle ", place.handle);
    const uint64_t size = block->second;
    if (place.offset_bytes > size || bytes > size - place.offset_bytes) {
      sdk::refuse(bytes, " bytes at offset ", place.offset_bytes, " of memory with ", size);
    }
    return reinterpret_cast<std::byte*>(place.handle) + place.offset_bytes;
  }

  static constexpr uint64_t kMemoryBytes = uint64_t{1} << 30;

 private:
  bp_instance* const instance_;
  const std::vector<const bp_kernel*> kernels_ = sdk::all_kernels();
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> blocks_;  // bytes by handle
  uint64_t used_bytes_ = 0;
};
