// SPDX-License-Identifier: Apache-2.0
//
// Setting up and taking down what the calls happen in.
#include "tests/fault_injection/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/api/handles.hpp"
#include "tests/fault_injection/interposer.hpp"

namespace bp::faults {
namespace {

uint64_t entries_of(const char* folder) {
  uint64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

void World::must(bpa_status status, const char* what) {
  if (status == BP_OK) return;
  std::printf("broken %s answered %s without a fault: %s\n", what, bpa_status_name(status),
              bpa_last_error());
  std::fflush(stdout);
  std::_Exit(3);
}

bpa_status World::open(const char* inject_kind, const char* inject_nth) {
  std::array<const char*, 10> names{"BACKPLANE_FALLBACK", "BACKPLANE_TIMEOUT", "BACKPLANE_LOG"};
  std::array<const char*, 10> settings{"allow", "20", "error"};
  uint64_t count = 3;
  for (size_t i = 0; i + 1 < target_.options.size() && target_.options[i] != nullptr; i += 2) {
    names[count] = target_.options[i];
    settings[count++] = target_.options[i + 1];
  }
  std::array<char, 32> kind_name{};
  std::array<char, 32> nth_name{};
  if (inject_kind != nullptr) {
    const auto length = static_cast<int>(target_.device.find(':'));
    const char* const plugin = target_.device.data();
    std::snprintf(kind_name.data(), kind_name.size(), "%.*s.inject", length, plugin);
    std::snprintf(nth_name.data(), nth_name.size(), "%.*s.inject_nth", length, plugin);
    names[count] = kind_name.data();
    settings[count++] = inject_kind;
    names[count] = nth_name.data();
    settings[count++] = inject_nth;
  }
  bpa_runtime_args args{};
  args.struct_size = sizeof(args);
  args.plugin_path = target_.plugin_path.c_str();
  args.install_dir = "";
  args.option_names = names.data();
  args.option_values = settings.data();
  args.option_count = count;
  bpa_status status = bpa_runtime_create(&args, &runtime);
  if (status == BP_OK) status = bpa_runtime_find_device(runtime, target_.device.data(), &device);
  if (status == BP_OK) status = bpa_runtime_find_device(runtime, "cpu:0", &host);
  return status;
}

void World::find_injection() {
  if (!target_.injects) return;
  const HandleUses uses;
  const auto found = object_of(device, "device");
  if (!found.ok()) return;
  const LoadedPlugin& plugin = (*found)->plugin();
  instance_ = plugin.instance();
  for (const PluginExtension& extension : plugin.tables().extensions) {
    if (extension.name == BP_TEST_INJECT_NAME && extension.version == BP_TEST_INJECT_VERSION) {
      injection_ = static_cast<const bp_test_inject_api*>(extension.table);
    }
  }
  must(injection_ != nullptr ? BP_OK : BP_UNSUPPORTED, "looking for bp.test_inject");
}

World::~World() {
  bpa_ccl_work_release(work);
  bpa_ccl_group_release(group);
  bpa_ccl_store_release(store);
  bpa_session_release(session);
  for (bpa_tensor* tensor : inputs) bpa_tensor_release(tensor);
  for (bpa_tensor* tensor : outputs) bpa_tensor_release(tensor);
  bpa_stream_release(other_stream);
  bpa_stream_release(stream);
  bpa_cancel_release(cancel);
  bpa_runtime_release(runtime);
}

void World::arm(const FaultKind& kind, uint64_t nth) {
  if (kind.is_host) {
    arm_host(kind.fault == Fault::kAlloc       ? HostFault::kAlloc
             : kind.fault == Fault::kAllocFrom ? HostFault::kAllocFrom
                                               : HostFault::kThread,
             nth);
    return;
  }
  const bp_inject_args args{
      .struct_size = sizeof(args),
      .flags = 0,
      .kind = kind.fault == Fault::kLost       ? BP_INJECT_LOSE_DEVICE
              : kind.fault == Fault::kCallFrom ? BP_INJECT_FAIL_FROM
                                               : BP_INJECT_FAIL_CALL,
      .status = kind.fault == Fault::kOutOfMemory ? BP_OUT_OF_MEMORY : BP_INTERNAL,
      .nth = nth};
  must(injection_->inject_arm(instance_, &args), "inject_arm");
}

World::Counts World::disarm(const FaultKind& kind) {
  if (kind.is_host) {
    const HostCounts counts = disarm_host();
    return {counts.requests, counts.refused};
  }
  if (injection_is_gone) return {};
  bp_inject_info info{};
  info.struct_size = sizeof(info);
  must(injection_->inject_read(instance_, &info), "inject_read");
  const bp_inject_args args{sizeof(args), 0, BP_INJECT_NONE, BP_OK, 0};
  must(injection_->inject_arm(instance_, &args), "inject_arm");
  return {info.call_count, info.failed_count};
}

Snapshot snapshot(const World& world) {
  Snapshot snapshot;
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  if (bpa_device_get_info(world.device, &info) == BP_OK) {
    snapshot.device_bytes = info.memory_used_bytes;
  }
  if (bpa_device_get_info(world.host, &info) == BP_OK) snapshot.host_bytes = info.memory_used_bytes;
  return snapshot;
}

Holdings holdings() {
  return {live_blocks(), entries_of("/proc/self/task"), entries_of("/proc/self/fd")};
}

}  // namespace bp::faults
