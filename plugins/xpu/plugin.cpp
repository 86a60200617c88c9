// SPDX-License-Identifier: Apache-2.0
//
// xpu: whatever an OpenCL driver offers. Read on in this order: driver (the library and its codes),
// device, memory and transfer, tracker and stream, kernels/. The entry below only names tables; the
// OpenCL library is opened by init.
#include "device.hpp"
#include "stream.hpp"

namespace {

bp_status init(const bp_host_api* host, void* host_ctx, const bp_config* config,
               bp_instance** out_instance) {
  if (host == nullptr || config == nullptr || out_instance == nullptr) return BP_INVALID_ARGUMENT;
  *out_instance = nullptr;
  const bp::sdk::Host services(host, host_ctx);
  return bp::sdk::guard(services, [&] {
    *out_instance = new bp_instance(services, bp::sdk::read_args(config));
    return BP_OK;
  });
}

bp_status shutdown(bp_instance* instance) {
  if (instance == nullptr) return BP_INVALID_ARGUMENT;
  delete instance;
  return BP_OK;
}

constinit const bp_root_api kRootApi{
    .struct_size = sizeof(bp_root_api), .flags = 0, .init = init, .shutdown = shutdown};

}  // namespace

int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  if (core_abi < BP_ABI_VERSION(0, 2)) return BP_INCOMPATIBLE;
  bp_plugin plugin{};
  plugin.root = &kRootApi;
  plugin.device = &bp::xpu::kDeviceApi;
  plugin.memory = &bp::xpu::kMemoryApi;
  plugin.stream = &bp::xpu::kStreamApi;
  plugin.kernel = &bp::sdk::KernelSlots<bp_device>::kTable;
  bp::sdk::write_out(out_plugin, plugin);
  return BP_OK;
}
