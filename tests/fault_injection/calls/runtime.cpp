// SPDX-License-Identifier: Apache-2.0
//
// Runtimes, devices, the log.
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

void drop_runtime(World& world) { bpa_runtime_release(std::exchange(world.runtime, nullptr)); }

bpa_status act_create(World& world) { return world.open(); }
const char* check_devices(World& world) {
  uint64_t count = 0;
  if (bpa_runtime_device_count(world.runtime, &count) != BP_OK) return "device_count failed";
  const uint64_t expected = world.target().device == "cpu:0" ? 1 : 2;
  return count == expected ? nullptr : "a device is missing";
}

bpa_status act_device(World& world) {
  bpa_device* found = nullptr;
  return bpa_runtime_device(world.runtime, 0, &found);
}
bpa_status act_find(World& world) {
  bpa_device* found = nullptr;
  return bpa_runtime_find_device(world.runtime, world.target().device.data(), &found);
}
bpa_status act_info(World& world) {
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  return bpa_device_get_info(world.device, &info);
}
bpa_status act_features(World& world) {
  uint64_t count = 0;
  bpa_status status = bpa_device_feature_count(world.device, &count);
  for (uint64_t i = 0; i < count && status == BP_OK; ++i) {
    bpa_feature_info info{};
    info.struct_size = sizeof(info);
    status = bpa_device_get_feature(world.device, i, &info);
  }
  return status;
}
bpa_status act_sync(World& world) { return bpa_device_sync(world.device); }

void swallow(void*, uint32_t, const char*, uint64_t) {}
bpa_status act_log(World&) {
  bpa_log_set_sink(swallow, nullptr);
  const bpa_status status = bpa_log_set_level(1);
  bpa_log_set_sink(nullptr, nullptr);
  return status;
}

bpa_status act_close(World& world) {
  world.injection_is_gone = true;
  return bpa_runtime_close(world.runtime);
}
bpa_status act_release(World& world) {
  world.injection_is_gone = true;
  drop_runtime(world);
  return BP_OK;
}

constexpr Call kCalls[] = {
    {"runtime_create", true, false, prepare_nothing, act_create, check_devices, drop_runtime},
    {"runtime_device", false, false, prepare_nothing, act_device, check_devices, drop_tensors,
     false, true},
    {"runtime_find_device", false, false, prepare_nothing, act_find, check_nothing, drop_tensors,
     false, true},
    {"device_get_info", false, false, prepare_nothing, act_info, check_nothing, drop_tensors, false,
     true},
    {"device_get_feature", false, false, prepare_nothing, act_features, check_nothing, drop_tensors,
     false, true},
    {"device_sync", false, false, prepare_input, act_sync, check_nothing, drop_tensors},
    {"log_set_sink", false, false, prepare_nothing, act_log, check_nothing, drop_tensors, false,
     true},
};
constexpr Call kLast[] = {
    {"runtime_close", true, true, prepare_warm_session, act_close, check_nothing, drop_tensors},
    {"runtime_release", true, true, prepare_nothing, act_release, check_nothing, drop_tensors},
};

}  // namespace

std::span<const Call> runtime_calls() { return kCalls; }
std::span<const Call> last_calls() { return kLast; }

}  // namespace bp::faults
