// SPDX-License-Identifier: Apache-2.0
//
// The devices: one inline, one with everything native but mapping, the same with emulated streams,
// the fake that has the required functions only and takes one call at a time, queued and inline,
// and the fake whose queues have names. Then every other plugin of this build, as it is.
#include "tests/fault_injection/targets.hpp"

#include "tests/plugins.hpp"

namespace bp::faults {
namespace {

// The host device's folder first: it is then the one that fallback uses.
constexpr const char* kCpuPath = BP_PLUGIN_DIR "/cpu";
constexpr const char* kNpuPath = BP_PLUGIN_DIR "/cpu:" BP_PLUGIN_DIR "/npu";
constexpr const char* kFakePath = BP_PLUGIN_DIR "/cpu:" BP_FAKES_DIR "/inject";
constexpr const char* kQueuesPath = BP_PLUGIN_DIR "/cpu:" BP_FAKES_DIR "/queues";

/// Those that are set up below; and xpu, whose driver keeps memory of each call that fails, so that
/// leaks of ours would not show.
const std::vector<std::string> kKnown = {"cpu", "npu", "xpu"};

/// A device of which nothing is known but that the host may fail under it.
Target other_target(const std::string& id) {
  return {.name = id,
          .device = id + ":0",
          .plugin_path = std::string(kCpuPath) + ":" BP_PLUGIN_DIR "/" + id};
}

std::vector<Target> known_targets() {
  // mul is taken away from the NPU, so that it falls back; little memory opens faster.
  return {{.name = "cpu",
           .device = "cpu:0",
           .plugin_path = kCpuPath,
           .options = {},
           .injects = false,
           .is_queued = false,
           .least_host_points = 90},
          {.name = "npu",
           .device = "npu:0",
           .plugin_path = kNpuPath,
           .options = {"npu.kernels", "mul", "npu.memory", "16MiB"},
           .injects = true,
           .least_host_points = 150,
           .least_driver_points = 64},
          {.name = "npu_emulated",
           .device = "npu:0",
           .plugin_path = kNpuPath,
           .options = {"npu.kernels", "mul", "npu.memory", "16MiB", "npu.async", "false"},
           .injects = true,
           .trains = false,
           .least_host_points = 150,
           .least_driver_points = 47},
          {.name = "fake",
           .device = "inject:0",
           .plugin_path = kFakePath,
           .options = {"inject.memory", "16MiB"},
           .injects = true,
           .trains = false,
           .least_host_points = 120,
           .least_driver_points = 40},
          {.name = "fake_inline",
           .device = "inject:0",
           .plugin_path = kFakePath,
           .options = {"inject.memory", "16MiB", "inject.inline", "true"},
           .injects = true,
           .is_queued = false,
           .trains = false,  // it has no kernel that averages where its memory is
           .least_host_points = 97,
           .least_driver_points = 40},
          {.name = "fake_queues",
           .device = "queues:0",
           .plugin_path = kQueuesPath,
           .options = {"queues.memory", "16MiB"},
           .injects = true,
           .has_native_streams = true,
           .trains = false,  // its queues go on while somebody waits for them
           .has_progress = false,
           .least_host_points = 136,
           .least_driver_points = 75}};
}

}  // namespace

std::vector<Target> targets() {
  std::vector<Target> all = known_targets();
  for (const std::string& id : tests::plugin_ids_but(kKnown)) all.push_back(other_target(id));
  return all;
}

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> kKinds = {
      {Fault::kAlloc, "host_alloc", true},        {Fault::kAllocFrom, "host_alloc_from", true},
      {Fault::kThread, "host_thread", true},      {Fault::kCall, "driver_call", false},
      {Fault::kOutOfMemory, "driver_oom", false}, {Fault::kCallFrom, "driver_call_from", false},
      {Fault::kLost, "device_lost", false}};
  return kKinds;
}

uint64_t least_points(const Target& target, const FaultKind& kind) {
  if (kind.fault == Fault::kThread) return 1;  // threads are few, and start late
  return kind.is_host ? target.least_host_points : target.least_driver_points;
}

}  // namespace bp::faults
