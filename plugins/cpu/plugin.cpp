// SPDX-License-Identifier: Apache-2.0
//
// Entry point, root and device table: one device, cpu:0, that computes on the calling thread. Its
// memory is host memory. It has no stream table, because work is done when a launch returns; where
// a user makes streams, the core gives each a thread.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"
#include "device.hpp"
#include "onednn.hpp"

namespace bp::cpu {
namespace {

using sdk::slot;

constexpr int64_t kMaxThreads = 1024;

// The same as abi_min in the manifest.
constexpr uint32_t kAbiMin = BP_ABI_VERSION(0, 2);

// The core checks options against the manifest; another host of this plugin may not.
template <class Args>
void refuse_unknown_options(const Args* args, std::string_view known) {
  for (uint32_t i = 0; i < args->option_count; ++i) {
    const std::string_view name = sdk::view(args->option_names[i]);
    if (name == known) continue;
    throw sdk::Failure{
        BP_INVALID_ARGUMENT,
        "unknown option '" + std::string(name) + "'" +
            (known.empty() ? "; there are none here" : "; expected '" + std::string(known) + "'")};
  }
}

int thread_count_of(const bp_open_args* args) {
  refuse_unknown_options(args, "threads");
  const int64_t wanted = sdk::option_i64(args, "threads", 0);
  if (wanted < 0 || wanted > kMaxThreads) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "option threads: expected 0 (all cores) to " +
                                                std::to_string(kMaxThreads) + ", found " +
                                                std::to_string(wanted)};
  }
  const int count = wanted == 0 ? usable_core_count() : static_cast<int>(wanted);
  return std::min(count, std::max(1, runtime_thread_limit()));
}

bp_status init(const bp_host_api* host_api, void* host_context, const bp_config* config,
               bp_instance** out_instance) {
  const bp_instance instance{sdk::Host(host_api, host_context)};
  return slot("init", &instance, {host_api, config, out_instance}, [&] {
    const bp_config wanted = sdk::read_args(config, 0);
    refuse_unknown_options(&wanted, "");
    *out_instance = new bp_instance(instance);
  });
}

bp_status shutdown(bp_instance* instance) {
  return slot("shutdown", instance, {}, [&] { delete instance; });
}

bp_status device_count(bp_instance* instance, uint32_t* out_count) {
  return slot("device_count", instance, {out_count}, [&] { *out_count = 1; });
}

bp_status device_open(bp_instance* instance, const bp_open_args* args, bp_device** out_device) {
  return slot("device_open", instance, {args, out_device}, [&] {
    const bp_open_args wanted = sdk::read_args(args, 0);
    if (wanted.index != 0) {
      sdk::refuse("device_open: there is one device, index 0; found ", wanted.index);
    }
    auto device = std::make_unique<bp_device>(instance->host(), thread_count_of(&wanted));
    device->machine = read_machine();
    device->engine = make_dnnl_engine();
    device->driver = dnnl_version_text();
    *out_device = device.release();
  });
}

bp_status device_close(bp_device* device) {
  return slot("device_close", device, {}, [&] { delete device; });
}

bp_status device_props(bp_device* device, bp_device_props* out_props) {
  return slot("device_props", device, {out_props}, [&] {
    bp_device_props props{};
    props.flags = BP_DEVICE_CONCURRENT_BIT | BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT;
    props.features = BP_FEATURE_FILL_BIT | BP_FEATURE_MAP_BIT;
    props.execution = BP_EXECUTION_INLINE;
    props.compute_unit_count = static_cast<uint32_t>(device->workers.thread_count());
    props.memory_bytes = device->machine.memory_bytes;
    props.alignment_bytes = kMemoryAlignment;
    props.name = sdk::str(device->machine.name);
    props.vendor = sdk::str(device->machine.vendor);
    props.driver = sdk::str(device->driver);
    props.dlpack_device_type = 1;  // kDLCPU, of which there is one: number 0
    sdk::write_out(out_props, props);
  });
}

constinit const bp_root_api kRootApi{
    .struct_size = sizeof(bp_root_api), .flags = 0, .init = init, .shutdown = shutdown};

constinit const bp_device_api kDeviceApi{.struct_size = sizeof(bp_device_api),
                                         .flags = 0,
                                         .device_count = device_count,
                                         .device_open = device_open,
                                         .device_close = device_close,
                                         .device_props = device_props};

}  // namespace
}  // namespace bp::cpu

extern "C" int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  if (core_abi < bp::cpu::kAbiMin) return BP_INCOMPATIBLE;
  bp_plugin plugin{};
  plugin.root = &bp::cpu::kRootApi;
  plugin.device = &bp::cpu::kDeviceApi;
  plugin.memory = &bp::cpu::kMemoryApi;
  plugin.kernel = &bp::sdk::KernelSlots<bp_device>::kTable;
  bp::sdk::write_out(out_plugin, plugin);
  return BP_OK;
}
