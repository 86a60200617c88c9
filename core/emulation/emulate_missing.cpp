// SPDX-License-Identifier: Apache-2.0
//
// Decides, slot by slot, who serves a device: the plugin straight, the plugin under the device's
// lock, or this module. Where the plugin serves straight, its own function pointer and its own
// device stay in the slots, so that a complete plugin pays nothing.
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

constexpr uint64_t kBands = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_FILL_BIT |
                            BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT;

uint64_t bands_to_emulate(uint64_t features) {
  // Native timing measures native events; emulated events have host timestamps.
  if ((features & BP_FEATURE_ASYNC_BIT) == 0) features &= ~BP_FEATURE_TIMING_BIT;
  return kBands & ~features;
}

void install_streams(Emulation& emulation, DeviceTable* table) {
  if (emulation.emulates(BP_FEATURE_ASYNC_BIT)) {
    install_emulated_streams(emulation, table);
    install_emulated_events(table);
    return;
  }
  if (emulation.serialised()) install_serialised_streams(emulation, table);
  if (emulation.serialised() || emulation.emulates(BP_FEATURE_TIMING_BIT)) {
    install_native_events(emulation, table);
  }
}

void install_all(Emulation& emulation, DeviceTable* table) {
  if (emulation.serialised()) install_serialised_memory(emulation, table);
  install_streams(emulation, table);
  // A native mem_fill knows the plugin's own stream handles only.
  const bool fill_direct = !emulation.serialised() && !emulation.emulates(BP_FEATURE_FILL_BIT) &&
                           !emulation.emulates(BP_FEATURE_ASYNC_BIT);
  if (!fill_direct) install_fill(emulation, table);
  if (emulation.emulates(BP_FEATURE_PINNED_BIT)) install_pinned(emulation, table);
  if (emulation.emulates(BP_FEATURE_MAP_BIT)) install_map(emulation, table);
}

}  // namespace

Emulation::Emulation(const DeviceTable& table)
    : native_(table),
      emulated_(bands_to_emulate(table.props.features)),
      serialised_((table.props.flags & BP_DEVICE_CONCURRENT_BIT) == 0) {}

std::unique_lock<std::mutex> Emulation::lock_call() {
  return serialised_ ? std::unique_lock(call_mutex_) : std::unique_lock<std::mutex>();
}

bp_status Emulation::copy_now(const bp_copy_args& args) {
  const auto lock = lock_call();
  return native_.memory.mem_copy(native_.device, &args);
}

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

void Emulation::abandon(std::list<HostBuffer> buffer) {
  const std::lock_guard lock(abandoned_mutex_);
  abandoned_.splice(abandoned_.end(), buffer);
}

EmulationPtr emulate_missing(DeviceTable* table) {
  auto* emulation = new (std::nothrow) Emulation(*table);
  EmulationPtr owner(emulation, [](Emulation* object) { delete object; });
  if (emulation == nullptr) return owner;
  table->memory_self = table->device;
  table->fill_self = table->device;
  table->pinned_self = table->device;
  table->map_self = table->device;
  table->stream_self = table->device;
  table->emulated = emulation->emulated();
  table->call_mutex = emulation->call_mutex();
  table->launch_direct = !emulation->serialised() && !table->stream_emulated();
  install_all(*emulation, table);
  return owner;
}

}  // namespace bp
