// SPDX-License-Identifier: Apache-2.0
//
// One open device as the core calls it: the plugin's slots where its props say they work, emulated
// ones elsewhere. The core never calls through a plugin's own table; it calls through this copy.
#ifndef BACKPLANE_CORE_EMULATION_DEVICE_SLOTS_HPP
#define BACKPLANE_CORE_EMULATION_DEVICE_SLOTS_HPP

#include <memory>

#include "backplane/device_api.h"
#include "core/base/status.hpp"

namespace bp {

class Emulation;

/// Plain data, filled once when a device is opened and never changed after complete().
struct DeviceSlots {
  bp_device* device = nullptr;  // the plugin's
  bp_device_props props{};
  bp_device_api device_api{};
  bp_memory_api memory{};
  bp_stream_api stream{};
  bp_kernel_api kernel{};

  // The first argument of a band's device-taking slots: `device`, or the emulation in disguise.
  bp_device* fill_self = nullptr;    // mem_fill
  bp_device* pinned_self = nullptr;  // host_alloc, host_free
  bp_device* map_self = nullptr;     // mem_map, mem_unmap
  bp_device* stream_self = nullptr;  // stream_create, event_create

  /// Bands of props.features that the core emulates for this device.
  uint64_t emulated = 0;

  bool has_native(uint64_t feature) const { return (props.features & feature) != 0; }
  bool stream_emulated() const { return (emulated & BP_FEATURE_ASYNC_BIT) != 0; }
};

/// Fills every slot that the plugin did not give, for a device whose props and native slots are
/// already in `slots`. The returned object owns worker threads and staging memory; it must be
/// destroyed before device_close, after every stream and event.
std::unique_ptr<Emulation, void (*)(Emulation*)> complete(DeviceSlots* slots);

/// Launches on an emulated stream: copies `args` (tensors, sizes, strides, host arguments) and runs
/// args->kernel->launch on the stream's worker with stream NULL. `keep_alive` (plan and attributes)
/// is held until the launch is done. Errors: BP_POISONED, BP_OUT_OF_MEMORY. Stream-ordered.
bp_status emulated_launch(bp_stream* stream, const bp_launch_args& args,
                          std::shared_ptr<const void> keep_alive);

/// The launch that broke an emulated stream: its op_seq, or 0.
uint64_t emulated_failed_op_seq(bp_stream* stream);

}  // namespace bp

#endif
