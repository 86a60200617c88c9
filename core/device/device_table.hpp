// SPDX-License-Identifier: Apache-2.0
//
// One open device as the core calls it: the plugin's slots where its props say they work, emulated
// ones elsewhere, and a lock round each of them where the device takes one call at a time. The core
// never calls through a plugin's own table; it calls through this copy.
#ifndef BACKPLANE_CORE_DEVICE_DEVICE_TABLE_HPP
#define BACKPLANE_CORE_DEVICE_DEVICE_TABLE_HPP

#include <mutex>

#include "backplane/device_api.h"

namespace bp {

/// Plain data, filled once when a device is opened and never changed after emulate_missing().
/// Stream and event handles come from these slots only: they may be the core's own objects, so a
/// kernel gets one only through call_launch(), unless is_direct() holds.
struct DeviceTable {
  bp_device* device = nullptr;  // the plugin's
  bp_device_props props{};
  bp_device_api device_api{};
  bp_memory_api memory{};
  bp_stream_api stream{};
  bp_kernel_api kernel{};

  // Where emulated slots put their failures in words, just as the plugin does; NULL: nowhere.
  const bp_host_api* host = nullptr;
  void* host_ctx = nullptr;

  // The first argument of the device-taking slots: `device`, or the emulation in disguise. Set by
  // emulate_missing(), like all that follows.
  bp_device* memory_self = nullptr;  // mem_alloc, mem_free, mem_copy
  bp_device* fill_self = nullptr;    // mem_fill
  bp_device* pinned_self = nullptr;  // host_alloc, host_free
  bp_device* map_self = nullptr;     // mem_map, mem_unmap
  bp_device* stream_self = nullptr;  // stream_create, stream_wrap, event_create

  /// Bands that the core emulates for this device (BP_FEATURE_*_BIT).
  uint64_t emulated = 0;
  /// Held during every plugin call of a device without BP_DEVICE_CONCURRENT_BIT; NULL for others.
  /// The slots above take it themselves.
  std::mutex* call_mutex = nullptr;
  /// Kernels take the stream handles of these slots as they are, from any thread.
  bool launch_direct = false;

  bool has_native(uint64_t feature) const { return (props.features & ~emulated & feature) != 0; }
  bool stream_emulated() const { return (emulated & BP_FEATURE_ASYNC_BIT) != 0; }
  /// The caller may call kernel->launch itself, with `stream` as it is.
  bool is_direct(bp_stream* stream_handle) const {
    return launch_direct || (stream_handle == nullptr && call_mutex == nullptr);
  }
};

/// To be held round plugin calls that are no slots of DeviceTable::memory and ::stream:
/// kernel_list, supports, plan, plan_free, state_create, state_destroy, device_props. Owns nothing
/// on concurrent devices.
[[nodiscard]] inline std::unique_lock<std::mutex> lock_plugin(const DeviceTable& table) {
  if (table.call_mutex == nullptr) return {};
  return std::unique_lock(*table.call_mutex);
}

}  // namespace bp

#endif
