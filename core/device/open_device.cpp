// SPDX-License-Identifier: Apache-2.0
//
// Opens a device, reads and checks its props, and gives the tables as this device has them.
#include "core/device/open_device.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/device/features.hpp"
#include "core/plugin/foreign.hpp"
#include "core/plugin/loader.hpp"
#include "core/plugin/process_state.hpp"

namespace bp {
namespace {

Status check_props(const PluginTables& tables, bp_device_props* props) {
  constexpr uint32_t kHostMemory = BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT;
  const uint64_t announced = tables.announced();
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
  } else if (props->dlpack_device_id < 0) {
    defect = fmt::format("dlpack_device_id {} is below 0", props->dlpack_device_id);
  } else if (!is_readable(props->name) || !is_readable(props->vendor) ||
             !is_readable(props->driver)) {
    defect = "name, vendor or driver is no UTF-8 text of at most 4 KiB";
  }
  return defect.empty() ? Status() : fail(BP_INTERNAL, "device_props: {}", defect);
}

/// Names that people read are the core's cleaned copies from here on.
void clean_texts(DeviceTable* table) {
  bp_device_props& props = table->props;
  const auto kept = std::make_shared<std::array<std::string, 3>>();
  size_t count = 0;
  const auto clean = [&](auto* text) {
    std::string& copy = (*kept)[count++];
    copy = foreign_text(*text);
    *text = bp_str{copy.data(), copy.size()};
  };
  clean(&props.name);
  clean(&props.vendor);
  clean(&props.driver);
  table->texts = kept;
}

// Slots of bands that this device does not have must not be called, so they are not there.
template <class Table>
void clear_bands(uint64_t features, Table* table) {
  for (const Band& band : kBands<Table>) {
    if (band.bit == 0 || (features & band.bit) != 0) continue;
    std::memset(reinterpret_cast<std::byte*>(table) + band.begin, 0, band.end - band.begin);
  }
}

struct OpenCall {
  decltype(bp_device_api::device_open) function;
  bp_instance* instance;
  bp_open_args args;
  bp_device* device;
  bp_status operator()() { return function(instance, &args, &device); }
};

bp_status call_open(const LoadedPlugin& plugin, uint32_t index,
                    std::shared_ptr<const OwnedOptions> options, DeviceTable* table) {
  const bp_open_args args{sizeof(bp_open_args),
                          0,
                          index,
                          static_cast<uint32_t>(options->settings.size()),
                          options->arrays.names.data(),
                          options->arrays.values.data()};
  OpenCall call{plugin.tables().device.device_open, plugin.instance(), args, nullptr};
  const auto open = [&] { return table->gate->control(Slot::kDeviceOpen, &call); };
  const auto defect = [] { return AnswerDefect(); };
  const bp_status code = table->gate->make_live(Slot::kDeviceOpen, LiveKind::kDeviceClose,
                                                &call.device, open, defect, [] {});
  if (table->gate->is_abandoned()) table->gate->keep_for_late_call(std::move(options));
  table->device = call.device;
  return code;
}

}  // namespace

void SlotTables::warn(Slot slot, bp_status status) const {
  if (status == BP_OK || gate->is_abandoned()) return;
  [[maybe_unused]] const Status logged = contain([&] {
    const std::string what = gate->call_name(slot);
    const bool is_lent = host == HostContext::api();
    const Status words = is_lent ? static_cast<HostContext*>(host_ctx)->to_status(status, what)
                                 : HostContext::error_of(status, what, std::nullopt);
    log(BP_LOG_WARNING, words.to_string());
  });
}

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
  const KeepProcessState keep;
  HostContext& host = plugin.host();
  DeviceTable table;
  table.host = HostContext::api();
  table.host_ctx = &host;
  table.take(plugin.tables());
  table.gate = std::make_shared<CallGate>(name);
  table.gate->report_to(table.host, table.host_ctx);
  table.gate->set_timeout(plugin.call_timeout());
  table.gate->belongs_to(plugin.gate());
  const bp_status code =
      call_open(plugin, index, std::make_shared<const OwnedOptions>(std::move(settings)), &table);
  if (code != BP_OK) return host.to_status(code, table.gate->call_name(Slot::kDeviceOpen));
  table.props.struct_size = sizeof(table.props);
  // Out of memory for words, too, the device is closed again.
  const Status status = contain([&]() -> Status {
    const bp_status answer = table.device_props(&table.props);
    if (answer != BP_OK) return host.to_status(answer, table.gate->call_name(Slot::kDeviceProps));
    BP_TRY(check_props(plugin.tables(), &table.props).with_prefix(name));
    clean_texts(&table);
    return {};
  });
  if (!status.ok()) {
    table.warn(Slot::kDeviceClose, table.device_close());
    return status;
  }
  take_bands(~table.props.features, &table);
  return table;
}

void take_bands(uint64_t bands, DeviceTable* table) {
  table->props.features &= ~bands;
  uint64_t features = table->props.features;
  for (const Band& band : kFeatureBands) {
    if ((features & band.needs) != band.needs) features &= ~band.bit;
  }
  table->for_each_with_bands([&](auto* own) { clear_bands(features, own); });
}

}  // namespace bp
