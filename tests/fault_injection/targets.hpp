// SPDX-License-Identifier: Apache-2.0
//
// The two sides of the table: on what the calls are tried, and what goes wrong. Known to the sweep
// and to its parent.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_TARGETS_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_TARGETS_HPP

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bp::faults {

/// A device and how it is set up.
struct Target {
  std::string name;    // in the table
  std::string device;  // "npu:0"
  std::string plugin_path;
  std::array<const char*, 6> options{};  // names and values in turn; nullptr ends them
  bool injects = false;                  // offers bp.test_inject
  bool is_queued = true;
  bool has_native_streams = false;
  /// Has what data parallel needs: kernels to average with, has_progress, and words that go with a
  /// failure from stream to stream, which emulated streams lose.
  bool trains = true;
  bool has_progress = true;  // queues go on while nobody asks for them
  // Two thirds of what a sampled sweep under a sanitizer meets, which samples the least. 0: none.
  uint64_t least_host_points = 0;
  uint64_t least_driver_points = 0;
};

std::vector<Target> targets();

/// What goes wrong.
enum class Fault { kAlloc, kAllocFrom, kThread, kCall, kOutOfMemory, kCallFrom, kLost };
struct FaultKind {
  Fault fault;
  std::string_view name;  // "host_alloc"
  bool is_host;           // else the driver
};
const std::vector<FaultKind>& fault_kinds();

/// At how many points of all calls together the fault must come.
uint64_t least_points(const Target& target, const FaultKind& kind);

}  // namespace bp::faults

#endif
