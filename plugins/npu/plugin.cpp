// SPDX-License-Identifier: Apache-2.0
//
// A simulated accelerator, and the plugin to read first (README.md: in which order). Here is the
// one exported symbol, which only hands out tables, and the root table: init makes an instance.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

#include "backplane/device_api.h"
#include "collective/communicator.hpp"
#include "device.hpp"
#include "queue.hpp"

namespace bp::npu {
namespace {

CollectiveFaultPlan read_collective_fault(const bp_config& config) {
  constexpr std::string_view kFaults[] = {"none",      "never_comes", "dies",      "slow",
                                          "flips_bit", "disagrees",   "lies_ready"};
  const auto* const fault =
      std::find(std::begin(kFaults), std::end(kFaults),
                sdk::option(&config, "collective_fault").value_or(kFaults[0]));
  const auto number = [&](std::string_view name, int64_t otherwise) {
    return static_cast<uint64_t>(sdk::option_i64(&config, name, otherwise));
  };
  return {.fault = static_cast<CollectiveFault>(fault - std::begin(kFaults)),
          .device_index = static_cast<uint32_t>(number("collective_fault_device", 0)),
          .nth = number("collective_fault_nth", 1)};
}

bp_status init(const bp_host_api* host_api, void* host_ctx, const bp_config* config,
               bp_instance** out_instance) {
  bp_instance instance{sdk::Host(host_api, host_ctx), 0};
  return slot("init", &instance, {host_api, config, out_instance}, [&] {
    const bp_config wanted = read_args(config, 0);
    instance.device_count = static_cast<uint32_t>(sdk::option_i64(&wanted, "devices", 1));
    // A plugin for real hardware opens its driver here; BP_UNAVAILABLE where there is none.
    auto made = std::unique_ptr<bp_instance>(
        new bp_instance{instance.services, instance.device_count, read_collective_fault(wanted)});
    made->inject.arm(wanted);
    *out_instance = made.release();
  });
}

bp_status shutdown(bp_instance* instance) {
  return slot("shutdown", instance, {}, [&] { delete instance; });
}

constexpr const bp_extension* kExtensions[] = {&sdk::TestInjectSlots<bp_instance>::kExtension};

constexpr bp_root_api kRootApi = {
    .struct_size = sizeof(bp_root_api),
    .flags = 0,
    .init = init,
    .shutdown = shutdown,
};

}  // namespace
}  // namespace bp::npu

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  if (core_abi < BP_ABI_VERSION(0, 2)) return BP_INCOMPATIBLE;
  const bp_plugin plugin = {
      .struct_size = sizeof(bp_plugin),
      .flags = 0,
      .root = &bp::npu::kRootApi,
      .device = &bp::npu::kDeviceApi,
      .memory = &bp::npu::kMemoryApi,
      .stream = &bp::npu::kStreamApi,
      .kernel = &bp::sdk::KernelSlots<bp_device>::kTable,
      .extensions = bp::npu::kExtensions,
      .extension_count = std::size(bp::npu::kExtensions),
      .collective = &bp::npu::kCollectiveApi,
  };
  bp::sdk::write_out(out_plugin, plugin);
  return BP_OK;
}
