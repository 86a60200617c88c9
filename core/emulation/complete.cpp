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

void install_streams(Emulation& emulation, DeviceSlots* slots) {
  if (emulation.emulates(BP_FEATURE_ASYNC_BIT)) {
    install_emulated_streams(emulation, slots);
    install_emulated_events(slots);
    return;
  }
  if (emulation.serialised()) install_serialised_streams(emulation, slots);
  if (emulation.serialised() || emulation.emulates(BP_FEATURE_TIMING_BIT)) {
    install_native_events(emulation, slots);
  }
}

void install_all(Emulation& emulation, DeviceSlots* slots) {
  if (emulation.serialised()) install_serialised_memory(emulation, slots);
  install_streams(emulation, slots);
  // A native mem_fill knows the plugin's own stream handles only.
  const bool fill_direct = !emulation.serialised() && !emulation.emulates(BP_FEATURE_FILL_BIT) &&
                           !emulation.emulates(BP_FEATURE_ASYNC_BIT);
  if (!fill_direct) install_fill(emulation, slots);
  if (emulation.emulates(BP_FEATURE_PINNED_BIT)) install_pinned(emulation, slots);
  if (emulation.emulates(BP_FEATURE_MAP_BIT)) install_map(emulation, slots);
}

}  // namespace

Emulation::Emulation(const DeviceSlots& slots)
    : native_(slots),
      emulated_(bands_to_emulate(slots.props.features)),
      serialised_((slots.props.flags & BP_DEVICE_CONCURRENT_BIT) == 0) {}

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

EmulationPtr complete(DeviceSlots* slots) {
  auto* emulation = new (std::nothrow) Emulation(*slots);
  EmulationPtr owner(emulation, [](Emulation* object) { delete object; });
  if (emulation == nullptr) return owner;
  slots->memory_self = slots->device;
  slots->fill_self = slots->device;
  slots->pinned_self = slots->device;
  slots->map_self = slots->device;
  slots->stream_self = slots->device;
  slots->emulated = emulation->emulated();
  slots->call_mutex = emulation->call_mutex();
  slots->launch_direct = !emulation->serialised() && !slots->stream_emulated();
  install_all(*emulation, slots);
  return owner;
}

}  // namespace bp
