// SPDX-License-Identifier: Apache-2.0
//
// Decides, band by band, who serves a device: the plugin or this module.
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

constexpr uint64_t kBandsWithEmulation = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT |
                                         BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT |
                                         BP_FEATURE_MAP_BIT;

uint64_t bands_to_emulate(uint64_t features) {
  for (const Band& band : kFeatureBands) {
    if ((features & band.needs) != band.needs) features &= ~band.bit;
  }
  return kBandsWithEmulation & ~features;
}

void install_all(const Emulation& emulation, DeviceTable* table) {
  const bool streams = emulation.emulates(BP_FEATURE_ASYNC_BIT);
  if (streams) install_emulated_streams(table);
  if (streams) install_emulated_events(table);
  if (!streams && emulation.emulates(BP_FEATURE_TIMING_BIT)) install_native_events(table);
  // A native mem_fill knows the plugin's own stream handles only.
  if (streams || emulation.emulates(BP_FEATURE_FILL_BIT)) install_fill(table);
  if (emulation.emulates(BP_FEATURE_PINNED_BIT)) install_pinned(table);
  if (emulation.emulates(BP_FEATURE_MAP_BIT)) install_map(table);
}

}  // namespace

Emulation::Emulation(const DeviceTable& table)
    : native_(table), emulated_(bands_to_emulate(table.props.features)) {}

bp_status Emulation::fail(bp_status status, std::string_view message, bp_stream* stream,
                          uint64_t op_seq) const {
  if (native_.host == nullptr) return status;
  const bp_report_info info{.struct_size = sizeof(bp_report_info),
                            .flags = 0,
                            .status = status,
                            .reserved = 0,
                            .vendor_code = 0,
                            .op_seq = op_seq,
                            .stream = stream,
                            .message = {message.data(), message.size()}};
  native_.host->report(native_.host_ctx, &info);
  return status;
}

void Emulation::keep_until_close(std::list<std::shared_ptr<void>> object) {
  const std::lock_guard lock(kept_mutex_);
  kept_.splice(kept_.end(), object);
}

EmulationPtr emulate_missing(DeviceTable* table) {
  auto* emulation = new (std::nothrow) Emulation(*table);
  EmulationPtr owner(emulation, [](Emulation* object) { delete object; });
  if (emulation == nullptr) return owner;
  table->emulation = emulation->self();
  table->emulated = emulation->emulated();
  table->gate->report_to(table->host, table->host_ctx);
  if ((table->props.flags & BP_DEVICE_CONCURRENT_BIT) == 0) {
    table->gate->set_one_call_at_a_time();
  }
  install_all(*emulation, table);
  return owner;
}

}  // namespace bp
