// SPDX-License-Identifier: Apache-2.0
//
// mem_fill where the plugin's own cannot be called as it is: the device has none, or its streams
// are not the plugin's. A missing fill is copies from a staged pattern.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/checked.hpp"
#include "core/base/status.hpp"
#include "core/emulation/emulation.hpp"
#include "core/emulation/host_call.hpp"

namespace bp {
namespace {

// Bounds the staging memory of a fill of any size; a multiple of every pattern.
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

bp_status check_args(const Emulation& emulation, const bp_fill_args& args) {
  const uint32_t pattern_bytes = args.pattern_bytes;
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    return emulation.fail(
        BP_INVALID_ARGUMENT,
        "mem_fill: pattern_bytes is " + std::to_string(pattern_bytes) + "; expected 1, 2, 4 or 8");
  }
  if (args.bytes % pattern_bytes != 0) {
    return emulation.fail(BP_INVALID_ARGUMENT, "mem_fill: " + std::to_string(args.bytes) +
                                                   " bytes are no multiple of pattern_bytes " +
                                                   std::to_string(pattern_bytes));
  }
  if (!checked_add(args.dst.offset_bytes, args.bytes)) {
    return emulation.fail(BP_INVALID_ARGUMENT, "mem_fill: offset_bytes plus bytes overflows");
  }
  return BP_OK;
}

/// One chunk of the repeated pattern; empty if memory is out.
HostBuffer stage_pattern(const bp_fill_args& args) {
  const uint64_t bytes = std::min(args.bytes, kChunkBytes);
  HostBuffer staging(bytes);
  for (uint64_t at = 0; at < bytes && !staging.empty(); at += args.pattern_bytes) {
    std::memcpy(staging.data() + at, &args.pattern, args.pattern_bytes);
  }
  return staging;
}

/// Calls copy(bp_copy_args) for each chunk, until one fails. The number of good ones is added up.
/// The last chunk comes first, so that a range which ends outside its memory changes nothing.
template <class Copy>
bp_status for_each_chunk(const bp_fill_args& args, const HostBuffer& staging, Copy copy,
                         uint64_t* out_good_count) {
  const uint64_t chunk_count = args.bytes / kChunkBytes + (args.bytes % kChunkBytes != 0 ? 1 : 0);
  for (uint64_t left = chunk_count; left > 0; --left) {
    const uint64_t at = (left - 1) * kChunkBytes;
    const bp_copy_args chunk{.struct_size = sizeof(bp_copy_args),
                             .flags = 0,
                             .kind = BP_COPY_HOST_TO_DEVICE,
                             .reserved = 0,
                             .dst = {args.dst.handle, args.dst.offset_bytes + at},
                             .src = {reinterpret_cast<uint64_t>(staging.data()), 0},
                             .bytes = std::min(kChunkBytes, args.bytes - at)};
    const bp_status status = copy(chunk);
    if (status != BP_OK) return status;
    ++*out_good_count;
  }
  return BP_OK;
}

bp_status fill_staged(Emulation& emulation, const bp_fill_args& args) {
  const HostBuffer staging = stage_pattern(args);
  if (staging.empty()) return BP_OUT_OF_MEMORY;
  uint64_t good_count = 0;
  return for_each_chunk(
      args, staging, [&](const bp_copy_args& chunk) { return emulation.native().mem_copy(chunk); },
      &good_count);
}

/// A fill of 0 bytes does nothing, but a failed stream must still say that it has failed.
bp_status enqueue_nothing(Emulation& emulation, bp_stream* stream, bp_mem dst) {
  static constexpr std::byte kNothing{};
  const bp_copy_args args{.struct_size = sizeof(bp_copy_args),
                          .flags = 0,
                          .kind = BP_COPY_HOST_TO_DEVICE,
                          .reserved = 0,
                          .dst = dst,
                          .src = {reinterpret_cast<uint64_t>(&kNothing), 0},
                          .bytes = 0};
  return emulation.native().mem_copy_async(stream, args);
}

/// Copies in the order of a native stream, which frees the staged pattern when it is done with it.
/// The pattern is in plain memory: a host call may not call the plugin, so not its host_free
/// either.
bp_status fill_staged_async(Emulation& emulation, bp_stream* stream, const bp_fill_args& args) {
  if (args.bytes == 0) return enqueue_nothing(emulation, stream, args.dst);
  const auto staging = std::make_shared<HostBuffer>(stage_pattern(args));
  if (staging->empty()) return BP_OUT_OF_MEMORY;
  // Made first: where nothing tells when copies are done, the device keeps what they read.
  std::list<std::shared_ptr<void>> kept{staging};
  const DeviceTable& native = emulation.native();
  uint64_t good_count = 0;
  const bp_status status = for_each_chunk(
      args, *staging,
      [&](const bp_copy_args& chunk) { return native.mem_copy_async(stream, chunk); }, &good_count);
  if (good_count == 0) return status;
  bp_status told = BP_OUT_OF_MEMORY;
  const Status called =
      contain([&] { told = call_host_once(native, stream, &kept.front(), nullptr); });
  if (!called.ok() || told != BP_OK) emulation.keep_until_close(std::move(kept));
  // The copies are on their way all the same, so nobody else is told.
  if (called.ok()) native.warn(Slot::kStreamHostCall, told);
  return status;
}

/// With stream NULL, native or staged.
bp_status fill_now(Emulation& emulation, const bp_fill_args& args) {
  if (emulation.emulates(BP_FEATURE_FILL_BIT)) return fill_staged(emulation, args);
  bp_fill_args now = args;
  now.stream = nullptr;
  return emulation.native().mem_fill(now);
}

bp_status fill_on_stream(Emulation& emulation, const bp_fill_args& args) {
  bp_stream* stream = args.stream;
  if (emulation.emulates(BP_FEATURE_ASYNC_BIT)) {
    const Slot slot = emulation.emulates(BP_FEATURE_FILL_BIT) ? Slot::kMemCopy : Slot::kMemFill;
    return EmulatedStream::from(stream).queue->enqueue(
        make_work(slot, [&emulation, stream, copy = args] {
          const bp_status status = fill_now(emulation, copy);
          return status == BP_OK ? BP_OK : emulation.fail(status, "", stream);
        }));
  }
  return fill_staged_async(emulation, stream, args);
}

bp_status mem_fill(bp_device* self, const bp_fill_args* args) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    const bp_status status = check_args(emulation, *args);
    if (status != BP_OK) return status;
    return args->stream == nullptr ? fill_now(emulation, *args) : fill_on_stream(emulation, *args);
  });
}

}  // namespace

void install_fill(DeviceTable* table) { table->emulated_memory.mem_fill = mem_fill; }

}  // namespace bp
