// SPDX-License-Identifier: Apache-2.0
//
// Opens a device, reads and checks its props, and gives the tables as this device has them.
#include "core/device/open_device.hpp"

#include <bit>

#include "core/device/features.hpp"
#include "core/plugin/foreign.hpp"
#include "core/plugin/loader.hpp"

namespace bp {
namespace {

Status check_props(const PluginTables& tables, bp_device_props* props) {
  constexpr uint32_t kHostMemory = BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT;
  const uint64_t announced = tables.memory.flags | tables.stream.flags;
  props->struct_size = sizeof(bp_device_props);
  props->flags &= kHostMemory | BP_DEVICE_CONCURRENT_BIT;
  props->features &= known_features();
  // A worker thread of the core's is no queue of the vendor's.
  if ((props->features & BP_FEATURE_ASYNC_BIT) == 0) props->features &= ~BP_FEATURE_NATIVE_BIT;
  if (props->alignment_bytes == 0) props->alignment_bytes = 1;
  if (props->execution > BP_EXECUTION_INLINE) {
    return fail(BP_UNSUPPORTED, "device_props: execution {} is new to this core", props->execution);
  }
  std::string defect;
  if ((props->features & ~announced) != 0) {
    defect = fmt::format("features {:#x} has bands that no table announces ({:#x})",
                         props->features, announced);
  } else if ((props->flags & kHostMemory) == BP_DEVICE_HOST_MEMORY_BIT) {
    defect = "BP_DEVICE_HOST_MEMORY_BIT needs BP_DEVICE_ADDRESS_BIT";
  } else if (!std::has_single_bit(props->alignment_bytes)) {
    defect = fmt::format("alignment_bytes {} is no power of two", props->alignment_bytes);
  } else if (!is_readable(props->name) || !is_readable(props->vendor) ||
             !is_readable(props->driver)) {
    defect = "name, vendor or driver is no UTF-8 text of at most 4 KiB";
  }
  return defect.empty() ? Status() : fail(BP_INTERNAL, "device_props: {}", defect);
}

// Slots of bands that this device does not have must not be called, so they are not there.
void fill_tables(const PluginTables& tables, DeviceTable* table) {
  const auto lacks = [table](uint64_t band) { return (table->props.features & band) == 0; };
  table->device_api = tables.device;
  table->memory = tables.memory;
  table->stream = tables.stream;
  table->kernel = tables.kernel;
  if (lacks(BP_FEATURE_FILL_BIT)) table->memory.mem_fill = nullptr;
  if (lacks(BP_FEATURE_PINNED_BIT)) table->memory.host_alloc = nullptr;
  if (lacks(BP_FEATURE_PINNED_BIT)) table->memory.host_free = nullptr;
  if (lacks(BP_FEATURE_MAP_BIT)) table->memory.mem_map = nullptr;
  if (lacks(BP_FEATURE_MAP_BIT)) table->memory.mem_unmap = nullptr;
  if (lacks(BP_FEATURE_NATIVE_BIT)) table->stream.stream_native_handle = nullptr;
  if (lacks(BP_FEATURE_NATIVE_BIT)) table->stream.stream_wrap = nullptr;
  const auto elapsed = table->stream.event_elapsed;
  if (lacks(BP_FEATURE_ASYNC_BIT)) table->stream = {};
  table->stream.struct_size = sizeof(bp_stream_api);
  table->stream.event_elapsed = lacks(BP_FEATURE_TIMING_BIT) ? nullptr : elapsed;
}

}  // namespace

Result<DeviceTable> open_device(const LoadedPlugin& plugin, uint32_t index,
                                const std::vector<OptionSetting>& options) {
  const std::string name = fmt::format("{}:{}", plugin.id(), index);
  if (index >= plugin.device_count()) {
    return fail(BP_INVALID_ARGUMENT, "there is no device {}: the plugin has {}", name,
                plugin.device_count());
  }
  std::vector<OptionSetting> settings = plugin.device_options();
  settings.insert(settings.end(), options.begin(), options.end());
  BP_TRY_ASSIGN(settings, check_options(plugin.manifest(), OptionScope::kDevice, settings));
  const OptionArrays arrays(settings);
  const bp_open_args args{
      sizeof(bp_open_args), 0, index, static_cast<uint32_t>(settings.size()), arrays.names.data(),
      arrays.values.data()};
  const bp_device_api& api = plugin.tables().device;
  HostContext& host = plugin.host();
  DeviceTable table;
  table.host = HostContext::api();
  table.host_ctx = &host;
  const bp_status code = api.device_open(plugin.instance(), &args, &table.device);
  if (code != BP_OK) return host.to_status(code, name + ": device_open");
  if (table.device == nullptr) return fail(BP_INTERNAL, "{}: device_open gave no device", name);
  table.props.struct_size = sizeof(table.props);
  // Out of memory for words, too, the device is closed again.
  const Status status = contain([&]() -> Status {
    BP_TRY(host.to_status(api.device_props(table.device, &table.props), "device_props"));
    return check_props(plugin.tables(), &table.props);
  });
  if (!status.ok()) {
    api.device_close(table.device);
    return status.with_prefix(name);
  }
  fill_tables(plugin.tables(), &table);
  return table;
}

}  // namespace bp
