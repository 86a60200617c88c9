// SPDX-License-Identifier: Apache-2.0
//
// The memory table through the slots that the core offers, and calls that must be refused.
#include <cstring>
#include <numeric>

#include "driver.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kBytes = 4096;

std::vector<uint8_t> pattern(uint8_t first) {
  std::vector<uint8_t> bytes(kBytes);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

void check_fill(const Subject& subject, const DeviceMemory& memory) {
  const bp_fill_args fill{.struct_size = sizeof(bp_fill_args),
                          .flags = 0,
                          .dst = memory.at(8),
                          .bytes = 1024,
                          .pattern = 0x0102030405060708,
                          .pattern_bytes = 4,
                          .reserved = 0,
                          .stream = nullptr};
  subject.checks.expect_ok(subject.plugin.host(), subject.table.mem_fill(fill), "mem_fill");
  std::vector<uint8_t> found(kBytes);
  memory.download(found.data());
  const uint8_t expected[] = {8, 7, 6, 5, 8, 7, 6, 5};
  subject.checks.expect(std::memcmp(found.data() + 8, expected, 8) == 0, "mem_fill: first bytes");
  subject.checks.expect(std::memcmp(found.data() + 1024, expected, 8) == 0, "mem_fill: last bytes");
  subject.checks.expect(found[7] == 17 && found[1032] == 18, "mem_fill: nothing beside it");
}

void check_pinned(const Subject& subject, const DeviceMemory& memory) {
  const DeviceTable& table = subject.table;
  const bp_host_alloc_args args{
      .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = kBytes};
  void* pinned = nullptr;
  subject.checks.expect_ok(subject.plugin.host(), table.host_alloc(args, &pinned), "host_alloc");
  if (pinned == nullptr) return;
  subject.checks.expect(reinterpret_cast<uint64_t>(pinned) % 64 == 0, "host_alloc: alignment");
  std::memset(pinned, 0x3c, kBytes);
  memory.upload(pinned);
  std::memset(pinned, 0, kBytes);
  memory.download(pinned);
  subject.checks.expect(static_cast<uint8_t*>(pinned)[kBytes - 1] == 0x3c, "pinned: round trip");
  subject.checks.expect_ok(subject.plugin.host(), table.host_free(pinned), "host_free");
}

// The past has no mapping: neither slots nor emulation.
[[maybe_unused]] void check_map(const Subject& subject, const DeviceMemory& memory) {
  const DeviceTable& table = subject.table;
  const auto before = pattern(5);
  memory.upload(before.data());
  bp_map_args map{.struct_size = sizeof(bp_map_args),
                  .flags = 0,
                  .mem = memory.at(16),
                  .bytes = 64,
                  .access = BP_MAP_READ_BIT | BP_MAP_WRITE_BIT,
                  .reserved = 0};
  void* mapped = nullptr;
  HostContext& host = subject.plugin.host();
  subject.checks.expect_ok(host, table.mem_map(map, &mapped), "mem_map");
  if (mapped == nullptr) return;
  subject.checks.expect(std::memcmp(mapped, before.data() + 16, 64) == 0, "mem_map: reads");
  std::memset(mapped, 0x77, 64);
  subject.checks.expect_ok(host, table.mem_unmap(mapped), "mem_unmap");
  std::vector<uint8_t> after(kBytes);
  memory.download(after.data());
  subject.checks.expect(
      after[15] == before[15] && after[16] == 0x77 && after[79] == 0x77 && after[80] == before[80],
      "mem_map: writes reach the device");
  map.access = 0x40000000u;
  void* none = nullptr;
  subject.checks.expect_status(host, table.mem_map(map, &none), BP_UNSUPPORTED,
                               "mem_map: unknown access");
}

}  // namespace

bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  return {.struct_size = sizeof(bp_copy_args),
          .flags = 0,
          .kind = kind,
          .reserved = 0,
          .dst = dst,
          .src = src,
          .bytes = bytes};
}

DeviceMemory::DeviceMemory(const Subject& subject, uint64_t bytes)
    : subject_(subject), bytes_(bytes) {
  bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                     .flags = 0,
                     .bytes = bytes,
                     .alignment_bytes = 64,
                     .usage = BP_USAGE_IO,
                     .reserved = 0};
#if defined(BP_GENERATION_FUTURE)
  args.usage = BP_USAGE_FUTURE;  // unknown to older plugins: a hint
#endif
  const DeviceTable& table = subject.table;
  subject.checks.expect_ok(subject.plugin.host(), table.mem_alloc(args, &handle_), "mem_alloc");
}

DeviceMemory::~DeviceMemory() {
  const DeviceTable& table = subject_.table;
  subject_.checks.expect_ok(subject_.plugin.host(), table.mem_free(handle_), "mem_free");
}

void DeviceMemory::upload(const void* data) const {
  const bp_copy_args args = copy_args(BP_COPY_HOST_TO_DEVICE, at(), host_mem(data), bytes_);
  subject_.checks.expect_ok(subject_.plugin.host(), subject_.table.mem_copy(args),
                            "mem_copy to the device");
}

void DeviceMemory::download(void* data) const {
  const bp_copy_args args = copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(data), at(), bytes_);
  subject_.checks.expect_ok(subject_.plugin.host(), subject_.table.mem_copy(args),
                            "mem_copy to the host");
}

void check_memory(const Subject& subject) {
  const DeviceMemory first(subject, kBytes);
  const DeviceMemory second(subject, kBytes);
  const auto sent = pattern(10);
  first.upload(sent.data());
  const bp_copy_args across = copy_args(BP_COPY_DEVICE_TO_DEVICE, second.at(), first.at(), kBytes);
  subject.checks.expect_ok(subject.plugin.host(), subject.table.mem_copy(across),
                           "mem_copy within the device");
  std::vector<uint8_t> received(kBytes);
  second.download(received.data());
  subject.checks.expect(received == sent, "copies: to the device, across it and back");
  check_fill(subject, second);
  check_pinned(subject, second);
#if !defined(BP_GENERATION_PAST)
  check_map(subject, first);
#endif
}

void check_errors(const Subject& subject) {
  const DeviceTable& table = subject.table;
  HostContext& host = subject.plugin.host();
  const DeviceMemory memory(subject, kBytes);
  std::vector<uint8_t> bytes(kBytes);
#if defined(BP_GENERATION_FUTURE)
  const uint32_t unknown_kind = BP_COPY_FUTURE;
#else
  const uint32_t unknown_kind = 4711;
#endif
  const bp_copy_args unknown = copy_args(unknown_kind, memory.at(), host_mem(bytes.data()), kBytes);
  subject.checks.expect_status(host, table.mem_copy(unknown), BP_UNSUPPORTED,
                               "mem_copy: unknown kind");
  const bp_copy_args beyond =
      copy_args(BP_COPY_HOST_TO_DEVICE, memory.at(kBytes - 1), host_mem(bytes.data()), 2);
  subject.checks.expect_status(host, table.mem_copy(beyond), BP_INVALID_ARGUMENT,
                               "mem_copy: beyond the memory");
  bp_alloc_args none{};
  none.struct_size = sizeof(none);
  uint64_t handle = 0;
  subject.checks.expect_status(host, table.mem_alloc(none, &handle), BP_INVALID_ARGUMENT,
                               "mem_alloc: no bytes");
  // A future plugin answers here with a status of its own, which is INTERNAL to an older core.
  const bool is_future = subject.plugin_generation == Generation::kFuture;
  subject.checks.expect_status(host, table.mem_free(0x1234567),
                               is_future ? BP_INTERNAL : BP_INVALID_ARGUMENT,
                               "mem_free: unknown handle");
}

}  // namespace bp::abi
