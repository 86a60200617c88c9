// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the driver program share: the checks it counts, and an open device. The program
// is compiled against each generation of the ABI headers; where a part needs to know which one, the
// headers say it (BP_GENERATION_PAST, BP_GENERATION_FUTURE).
#ifndef BACKPLANE_TESTS_ABI_DRIVER_HPP
#define BACKPLANE_TESTS_ABI_DRIVER_HPP

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device_table.hpp"
#include "core/plugin/loader.hpp"

namespace bp::abi {

/// Counts what was looked at and keeps what was wrong.
class Checks {
 public:
  void expect(bool holds, std::string_view what) {
    ++count_;
    if (!holds) failures_.emplace_back(what);
  }
  /// The plugin's status is the expected one, and a failure has words.
  void expect_status(HostContext& host, bp_status code, bp_status expected, std::string_view what);
  void expect_ok(HostContext& host, bp_status code, std::string_view what) {
    expect_status(host, code, BP_OK, what);
  }

  size_t count() const { return count_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  size_t count_ = 0;
  std::vector<std::string> failures_;
};

enum class Generation { kPast, kNow, kFuture };

struct Subject {
  const LoadedPlugin& plugin;
  Generation plugin_generation;
  DeviceTable& table;
  Checks& checks;
};

/// Device memory that is freed at the end, checked.
class DeviceMemory {
 public:
  DeviceMemory(const Subject& subject, uint64_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bp_mem at(uint64_t offset = 0) const { return {handle_, offset}; }
  uint64_t bytes() const { return bytes_; }
  void upload(const void* data) const;
  void download(void* data) const;

 private:
  const Subject& subject_;
  uint64_t bytes_;
  uint64_t handle_ = 0;
};

bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes);
inline bp_mem host_mem(const void* data) { return {reinterpret_cast<uint64_t>(data), 0}; }

/// No wait of the driver lasts longer.
inline constexpr uint64_t kDeadlineNs = 60'000'000'000;

void check_memory(const Subject& subject);
void check_errors(const Subject& subject);
void check_streams(const Subject& subject);
void check_kernels(const Subject& subject);
void check_attributes(const Subject& subject);
void check_collectives(const Subject& subject);

}  // namespace bp::abi

#endif
