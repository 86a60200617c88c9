// SPDX-License-Identifier: Apache-2.0
//
// One open device as the core calls it: the plugin's slots where its props say they work, emulated
// ones elsewhere, and a lock round each of them where the device takes one call at a time. The core
// never calls through a plugin's own table; it calls through this copy.
#ifndef BACKPLANE_CORE_EMULATION_DEVICE_SLOTS_HPP
#define BACKPLANE_CORE_EMULATION_DEVICE_SLOTS_HPP

#include <memory>
#include <mutex>

#include "backplane/device_api.h"

namespace bp {

class Emulation;

/// Plain data, filled once when a device is opened and never changed after complete(). Stream and
/// event handles come from these slots only: they may be the core's own objects, so a kernel gets
/// one only through call_launch(), unless is_direct() holds.
struct DeviceSlots {
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
  // complete(), like all that follows.
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

/// To be held round plugin calls that are no slots of DeviceSlots::memory and ::stream:
/// kernel_list, supports, plan, plan_free, state_create, state_destroy, device_props. Owns nothing
/// on concurrent devices.
[[nodiscard]] inline std::unique_lock<std::mutex> lock_plugin(const DeviceSlots& slots) {
  if (slots.call_mutex == nullptr) return {};
  return std::unique_lock(*slots.call_mutex);
}

using EmulationPtr = std::unique_ptr<Emulation, void (*)(Emulation*)>;

/// Fills every slot that the plugin did not give, for a device whose props and native slots are
/// already in `slots`; the slots of each band in props.features are there (the loader has checked).
/// Band NATIVE is there only beside ASYNC, and is never emulated: nothing can stand in for a queue
/// of the vendor's, so its slots stay NULL. The returned object owns staging memory; it must be
/// destroyed before device_close, after every stream, event and mapping. NULL: out of host memory,
/// and `slots` is as before.
EmulationPtr complete(DeviceSlots* slots);

/// Launches where is_direct(stream) does not hold; args.stream is not looked at.
/// stream NULL: runs now, on this thread. An emulated stream: as emulated_launch(). A native stream
/// of a device that takes one call at a time: unwraps the handle and calls under the lock;
/// `keep_alive` is let go on return, as after a direct launch.
/// Errors: what the kernel answers; those of emulated_launch(). Threads: stream-ordered.
bp_status call_launch(const DeviceSlots& slots, bp_stream* stream, const bp_launch_args& args,
                      std::shared_ptr<const void> keep_alive);

/// Launches on an emulated stream: copies `args` (tensors, sizes, strides, host arguments) and runs
/// args.kernel->launch on the stream's worker with stream NULL. `keep_alive` (plan, state and
/// attributes) is held until the launch is done or skipped, and let go before a stream_sync that
/// covers it returns; its deleter runs on the worker, or here if the launch is refused.
/// Errors: BP_POISONED, BP_OUT_OF_MEMORY; BP_INVALID_ARGUMENT or BP_UNSUPPORTED for a host argument
/// that cannot be copied. Whatever the kernel answers breaks the stream. Threads: stream-ordered.
bp_status emulated_launch(bp_stream* stream, const bp_launch_args& args,
                          std::shared_ptr<const void> keep_alive);

/// The handle under which bp_report_info.stream names this stream. Any thread.
bp_stream* reported_stream(const DeviceSlots& slots, bp_stream* stream);

/// The launch that broke an emulated stream, or the stream that it waited for: its op_seq; 0 if
/// nothing has, or if it was no launch. Any thread.
uint64_t emulated_failed_op_seq(bp_stream* stream);

}  // namespace bp

#endif
