// SPDX-License-Identifier: Apache-2.0
//
// What a plugin of a later ABI does that today's sources do not: it sets bits that no header has
// yet, announces a band of its own, answers with a new status, has an extension, uses a new host
// service where the core lends it. Wraps any plugin: its entry point is compiled under the name
// inner_entry. Compiled against the future headers only.
#include <algorithm>
#include <mutex>
#include <vector>

#include "backplane/sdk/sdk.hpp"

#undef bp_plugin_entry

extern "C" int32_t inner_entry(uint32_t core_abi, bp_plugin* out_plugin);

namespace {

/// Copies of the inner plugin's tables; static data, as tables are. Filled by the entry only.
struct Tables {
  bp_plugin inner{};
  bp::sdk::Host host;  // of the newest instance: the driver has one
  bp_root_api root{};
  bp_device_api device{};
  bp_memory_api memory{};
  bp_stream_api stream{};
  bp_kernel_api kernel{};
  bp_collective_api collective{};
};

Tables& tables() {
  static Tables all;
  return all;
}

bp_status init(const bp_host_api* host, void* host_ctx, const bp_config* config,
               bp_instance** out_instance) {
  tables().host = bp::sdk::Host(host, host_ctx);
  // A level that older cores do not know, and a service that they do not have.
  tables().host.log(BP_LOG_FUTURE, "a level of a later ABI");
  if (BP_SDK_HAS(host, future_first) && host->future_first == nullptr) return BP_INTERNAL;
  return tables().inner.root->init(host, host_ctx, config, out_instance);
}

bp_status device_props(bp_device* device, bp_device_props* out_props) {
  const bp_status status = tables().inner.device->device_props(device, out_props);
  if (status != BP_OK) return status;
  out_props->flags |= BP_DEVICE_FUTURE_BIT;
  out_props->features |= BP_FEATURE_FUTURE_BIT;
  if (BP_SDK_HAS(out_props, future_number)) out_props->future_number = BP_FUTURE_NUMBER;
  return BP_OK;
}

bp_status mem_free(bp_device* device, uint64_t handle) {
  const bp_status status = tables().inner.memory->mem_free(device, handle);
  if (status != BP_INVALID_ARGUMENT) return status;
  return tables().host.fail(BP_STATUS_FUTURE, "a reason that only a later ABI has");
}

constexpr bp_arg_rule kFutureRule{.struct_size = sizeof(bp_arg_rule),
                                  .flags = BP_ARG_FUTURE_BIT,
                                  .strides = BP_STRIDES_FUTURE,
                                  .alignment_bytes = 0};
constexpr const bp_arg_rule* kFutureRules[] = {&kFutureRule};

struct Kernels {
  std::vector<bp_kernel> descriptors;
  std::vector<const bp_kernel*> list;
};

Kernels make_kernels(const bp_kernel_list& inner) {
  Kernels kernels;
  for (uint64_t i = 0; i < inner.kernel_count; ++i) {
    bp_kernel copy = *inner.kernels[i];
    copy.flags |= BP_KERNEL_FUTURE_BIT;
    copy.depends_on |= BP_DEPENDS_FUTURE_BIT;
    kernels.descriptors.push_back(copy);
  }
  bp_kernel strange = kernels.descriptors.front();
  strange.name = bp::sdk::str("future_strides");
  strange.op = bp::sdk::str("future.op");
  strange.arg_rules = kFutureRules;
  strange.arg_rule_count = 1;
  kernels.descriptors.push_back(strange);
  for (const bp_kernel& kernel : kernels.descriptors) kernels.list.push_back(&kernel);
  return kernels;
}

bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
  bp_kernel_list inner{};
  inner.struct_size = sizeof(inner);
  const bp_status status = tables().inner.kernel->kernel_list(device, &inner);
  if (status != BP_OK) return status;
  static const Kernels kernels = make_kernels(inner);
  inner.kernels = kernels.list.data();
  inner.kernel_count = kernels.list.size();
  bp::sdk::write_out(out_list, inner);
  return BP_OK;
}

/// The device's rows and one of a kind that is yet to come.
bp_status collective_caps(bp_device* device, bp_collective_caps* out_caps) {
  bp_collective_caps inner{};
  inner.struct_size = sizeof(inner);
  const bp_status status = tables().inner.collective->collective_caps(device, &inner);
  if (status != BP_OK) return status;
  static const std::vector<bp_collective_row> rows = [&] {
    std::vector<bp_collective_row> all(inner.rows, inner.rows + inner.row_count);
    all.push_back(all.front());
    all.back().kind = BP_COLLECTIVE_FUTURE;
    all.back().flags |= BP_ROW_FUTURE_BIT;
    return all;
  }();
  inner.flags |= BP_CAPS_FUTURE_BIT;
  inner.rows = rows.data();
  inner.row_count = static_cast<uint32_t>(rows.size());
  bp::sdk::write_out(out_caps, inner);
  return BP_OK;
}

constexpr int kExtensionTable = 1;
constexpr bp_extension kExtension{.struct_size = sizeof(bp_extension),
                                  .flags = 0x80000000u,
                                  .name = bp::sdk::str("future.sample"),
                                  .version = 7,
                                  .reserved = 0,
                                  .table = &kExtensionTable};
constexpr const bp_extension* kExtensions[] = {&kExtension};

void wrap_tables(Tables* all) {
  const bp_plugin& inner = all->inner;
  all->root = *inner.root;
  all->device = *inner.device;
  all->memory = *inner.memory;
  all->kernel = *inner.kernel;
  all->root.flags |= 0x80000000u;
  all->root.init = init;
  all->device.device_props = device_props;
  all->memory.flags |= BP_FEATURE_FUTURE_BIT;
  all->memory.mem_free = mem_free;
  // Plugins that size a table themselves end it before the new slots.
  all->memory.struct_size = sizeof(bp_memory_api);
  all->kernel.kernel_list = kernel_list;
  if (inner.collective != nullptr) {
    all->collective = *inner.collective;
    all->collective.flags |= 0x80000000u;
    all->collective.collective_caps = collective_caps;
  }
  if (inner.stream == nullptr) return;
  all->stream = *inner.stream;
  all->stream.flags |= BP_FEATURE_FUTURE_BIT;
}

}  // namespace

extern "C" BP_EXPORT int32_t bp_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin) {
  static std::once_flag once;
  int32_t status = BP_OK;
  Tables& all = tables();
  std::call_once(once, [&] {
    all.inner.struct_size = sizeof(bp_plugin);
    status = inner_entry(core_abi, &all.inner);
    if (status == BP_OK) wrap_tables(&all);
  });
  if (status != BP_OK) return status;
  bp_plugin plugin = all.inner;
  plugin.flags |= BP_PLUGIN_FUTURE_BIT;
  plugin.root = &all.root;
  plugin.device = &all.device;
  plugin.memory = &all.memory;
  plugin.stream = plugin.stream == nullptr ? nullptr : &all.stream;
  plugin.kernel = &all.kernel;
  plugin.collective = plugin.collective == nullptr ? nullptr : &all.collective;
  plugin.extensions = kExtensions;
  plugin.extension_count = 1;
  plugin.future_table = &kExtensionTable;
  plugin.future_number = BP_FUTURE_NUMBER;
  bp::sdk::write_out(out_plugin, plugin);
  return BP_OK;
}
