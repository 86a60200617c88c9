// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills.
#include "transfer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "device.hpp"
#include "options.hpp"
#include "stream.hpp"

namespace bp::xpu {
namespace {

/// Where a copy's host end starts. Throws for an address of zero.
void* host_pointer(bp_mem mem, const char* end) {
  if (mem.handle == 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT,
                       std::string("mem_copy: the host address of the ") + end + " is NULL"};
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the ABI's host addresses are integers.
  return reinterpret_cast<void*>(mem.handle + mem.offset_bytes);
}

void refuse_overlap(const Place& dst, const Place& src, uint64_t bytes) {
  if (dst.buffer != src.buffer) return;
  const uint64_t low = std::min(dst.offset_bytes, src.offset_bytes);
  const uint64_t high = std::max(dst.offset_bytes, src.offset_bytes);
  if (high - low >= bytes) return;
  throw sdk::Failure{BP_INVALID_ARGUMENT,
                     "mem_copy: " + std::to_string(bytes) + " bytes from offset " +
                         std::to_string(src.offset_bytes) + " to offset " +
                         std::to_string(dst.offset_bytes) + " of the same memory overlap"};
}

/// A part of a fill that one command can do: offset and size are multiples of the pattern's size.
struct FillPart {
  uint64_t offset_bytes = 0;
  uint64_t bytes = 0;
  uint32_t pattern_bytes = 0;
};

/// Drivers fill at multiples of the pattern's size only. Off such a place, the whole patterns in
/// the middle are filled with the pattern turned, and the bytes round them with pieces of it.
FillPart next_part(uint64_t offset_bytes, uint64_t end_bytes, uint32_t pattern_bytes) {
  const uint64_t left_bytes = end_bytes - offset_bytes;
  if (offset_bytes % pattern_bytes == 0 && left_bytes >= pattern_bytes) {
    return {offset_bytes, left_bytes - left_bytes % pattern_bytes, pattern_bytes};
  }
  uint32_t piece_bytes = pattern_bytes / 2;
  while (offset_bytes % piece_bytes != 0 || left_bytes < piece_bytes) piece_bytes /= 2;
  return {offset_bytes, piece_bytes, piece_bytes};
}

}  // namespace

bp_status copy(bp_device& device, bp_stream* stream, const bp_copy_args& args) {
  const Driver& driver = device.driver();
  Memory& memory = device.memory();
  const size_t bytes = args.bytes;
  check_flags(args.flags, 0, "bp_copy_args");
  if (args.kind > BP_COPY_DEVICE_TO_DEVICE) {
    throw sdk::Failure{BP_UNSUPPORTED, "mem_copy: unknown kind " + std::to_string(args.kind)};
  }
  if (bytes == 0) return stream != nullptr ? stream->check_healthy() : BP_OK;
  if (args.kind == BP_COPY_HOST_TO_DEVICE) {
    const Place dst = memory.place(args.dst, bytes, "mem_copy to the device");
    const void* src = host_pointer(args.src, "source");
    return submit(device, stream, "mem_copy to the device", 0,
                  [&](cl_command_queue queue, cl_event* out_event) {
                    return driver.clEnqueueWriteBuffer(queue, dst.buffer, CL_FALSE,
                                                       dst.offset_bytes, bytes, src, 0, nullptr,
                                                       out_event);
                  });
  }
  const Place src = memory.place(args.src, bytes, "mem_copy from the device");
  if (args.kind == BP_COPY_DEVICE_TO_HOST) {
    void* dst = host_pointer(args.dst, "destination");
    return submit(device, stream, "mem_copy to the host", 0,
                  [&](cl_command_queue queue, cl_event* out_event) {
                    return driver.clEnqueueReadBuffer(queue, src.buffer, CL_FALSE, src.offset_bytes,
                                                      bytes, dst, 0, nullptr, out_event);
                  });
  }
  const Place dst = memory.place(args.dst, bytes, "mem_copy to the device");
  refuse_overlap(dst, src, bytes);
  return submit(device, stream, "mem_copy within the device", 0,
                [&](cl_command_queue queue, cl_event* out_event) {
                  return driver.clEnqueueCopyBuffer(queue, src.buffer, dst.buffer, src.offset_bytes,
                                                    dst.offset_bytes, bytes, 0, nullptr, out_event);
                });
}

bp_status fill(bp_device& device, const bp_fill_args& args) {
  bp_stream* const stream = args.stream;
  const uint32_t pattern_bytes = args.pattern_bytes;
  check_flags(args.flags, 0, "bp_fill_args");
  if (!std::has_single_bit(pattern_bytes) || pattern_bytes > 8) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "mem_fill: a pattern of " +
                                                std::to_string(pattern_bytes) +
                                                " bytes; expected 1, 2, 4 or 8"};
  }
  if (args.bytes % pattern_bytes != 0) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "mem_fill: " + std::to_string(args.bytes) +
                                                " bytes are no multiple of the pattern's " +
                                                std::to_string(pattern_bytes)};
  }
  if (args.bytes == 0) return stream != nullptr ? stream->check_healthy() : BP_OK;
  const Place place = device.memory().place(args.dst, args.bytes, "mem_fill");

  const uint64_t end_bytes = place.offset_bytes + args.bytes;
  uint64_t offset_bytes = place.offset_bytes;
  while (offset_bytes < end_bytes) {
    const FillPart part = next_part(offset_bytes, end_bytes, pattern_bytes);
    std::array<uint8_t, 8> pattern{};
    for (uint32_t i = 0; i < part.pattern_bytes; ++i) {
      const uint64_t index = (part.offset_bytes - place.offset_bytes + i) % pattern_bytes;
      pattern[i] = static_cast<uint8_t>(args.pattern >> (8 * index));
    }
    const bp_status status =
        submit(device, stream, "mem_fill", 0, [&](cl_command_queue queue, cl_event* out_event) {
          return device.driver().clEnqueueFillBuffer(queue, place.buffer, pattern.data(),
                                                     part.pattern_bytes, part.offset_bytes,
                                                     part.bytes, 0, nullptr, out_event);
        });
    if (status != BP_OK) return status;
    offset_bytes += part.bytes;
  }
  return BP_OK;
}

}  // namespace bp::xpu
