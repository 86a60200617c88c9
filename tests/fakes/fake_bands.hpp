// SPDX-License-Identifier: Apache-2.0
//
// The memory table's bands of the hostile fake: fake_plugin.cpp includes it behind its streams. A
// device has them where FAKE_HOSTILE says "bands=all".
#ifndef BACKPLANE_TESTS_FAKES_FAKE_BANDS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_BANDS_HPP

namespace {

void fill_now(bp_device* device, const bp_fill_args& args) {
  char* const dst = device_end(device, args.dst, args.bytes);
  for (uint64_t at = 0; at < args.bytes; at += args.pattern_bytes) {
    std::memcpy(dst + at, &args.pattern, args.pattern_bytes);
  }
}

bp_status mem_fill(bp_device* device, const bp_fill_args* their_args) {
  if (!device || !their_args) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    const bp_fill_args args = bp::sdk::read_args(their_args, 0);
    if (!std::has_single_bit(args.pattern_bytes) || args.pattern_bytes > sizeof(args.pattern) ||
        args.bytes % args.pattern_bytes != 0) {
      throw Failure{BP_INVALID_ARGUMENT, "mem_fill with a pattern that does not fit"};
    }
    device_end(device, args.dst, args.bytes);
    if (args.stream == nullptr) return fill_now(device, args);
    enqueue(args.stream, [device, args](StreamState* state) {
      if (state->failure == BP_OK) fill_now(device, args);
      return true;
    });
  });
}

bp_status host_alloc(bp_device* device, const bp_host_alloc_args* their_args, void** out_ptr) {
  if (!device || !their_args || !out_ptr) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    constexpr uint64_t kAlignment = 64;
    const bp_host_alloc_args args = bp::sdk::read_args(their_args, 0);
    if (args.bytes == 0) throw Failure{BP_INVALID_ARGUMENT, "host_alloc of 0 bytes"};
    if (args.bytes > device->memory_bytes) {
      throw Failure{BP_OUT_OF_MEMORY, "the host's memory is full"};
    }
    const uint64_t rounded = (args.bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, rounded), std::free);
    if (memory == nullptr) throw Failure{BP_OUT_OF_MEMORY, "the host's memory is full"};
    device->lent.emplace(memory.get(), memory);
    *out_ptr = memory.get();
  });
}

/// host_free, mem_unmap.
bp_status take_back(bp_device* device, void* ptr) {
  if (!device || !ptr) return BP_INVALID_ARGUMENT;
  return device_call(device, [&] {
    const auto at = device->lent.find(ptr);
    if (at == device->lent.end()) throw Failure{BP_INVALID_ARGUMENT, "the pointer is not lent"};
    device->lent.erase(at);
  });
}
bp_status host_free(bp_device* device, void* ptr) { return take_back(device, ptr); }
bp_status mem_unmap(bp_device* device, void* ptr) { return take_back(device, ptr); }

bp_status mem_map(bp_device* device, const bp_map_args* their_args, void** out_ptr) {
  if (!device || !their_args || !out_ptr) return BP_INVALID_ARGUMENT;
  return driver_call(device, [&] {
    const bp_map_args args = bp::sdk::read_args(their_args, 0);
    if (args.bytes == 0 || args.access == 0) {
      throw Failure{BP_INVALID_ARGUMENT, "mem_map of 0 bytes, or for nothing"};
    }
    if (args.access > (BP_MAP_READ_BIT | BP_MAP_WRITE_BIT)) {
      throw Failure{BP_UNSUPPORTED, "mem_map for an unknown access"};
    }
    *out_ptr = device_end(device, args.mem, args.bytes);
    device->lent.emplace(*out_ptr, nullptr);
  });
}

constexpr void give_bands(bp_memory_api* memory) {
  memory->flags = BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT;
  memory->mem_fill = FAKE_SLOT(mem_fill);
  memory->host_alloc = FAKE_SLOT(host_alloc);
  memory->host_free = FAKE_SLOT(host_free);
  memory->mem_map = FAKE_SLOT(mem_map);
  memory->mem_unmap = FAKE_SLOT(mem_unmap);
}

}  // namespace

#endif
