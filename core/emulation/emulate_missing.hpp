// SPDX-License-Identifier: Apache-2.0
//
// Completes a device: what its plugin lacks is emulated, and what takes one call at a time is
// locked. Handles of emulated objects go out through the device's table.
#ifndef BACKPLANE_CORE_EMULATION_EMULATE_MISSING_HPP
#define BACKPLANE_CORE_EMULATION_EMULATE_MISSING_HPP

#include <memory>

#include "core/device/device_table.hpp"
#include "core/emulation/task_queue.hpp"

namespace bp {

class Emulation;

using EmulationPtr = std::unique_ptr<Emulation, void (*)(Emulation*)>;

/// Fills every slot that the plugin did not give, for a device whose props and native slots are
/// already in `table`; the slots of each band in props.features are there (the loader has checked).
/// Band NATIVE is there only beside ASYNC, and is never emulated: nothing can stand in for a queue
/// of the vendor's, so its slots stay NULL. The returned object owns staging memory; it must be
/// destroyed before device_close, after every stream, event and mapping. NULL: out of host memory,
/// and `table` is as before.
EmulationPtr emulate_missing(DeviceTable* table);

/// Launches on any stream of the device; args.stream is not looked at. An emulated stream: as
/// emulated_launch(). Else now: `keep_alive` is let go on return.
/// Errors: what the kernel answers; those of emulated_launch(). Threads: stream-ordered.
bp_status call_launch(const DeviceTable& table, bp_stream* stream, const bp_launch_args& args,
                      std::shared_ptr<const void> keep_alive);

/// Launches on an emulated stream: copies `args` (tensors, sizes, strides, host arguments) and runs
/// args.kernel->launch on the stream's worker with stream NULL. `keep_alive` (plan, state and
/// attributes) is held until the launch is done or skipped, and let go before a stream_sync that
/// covers it returns; its deleter runs on the worker, or here if the launch is refused.
/// Errors: BP_POISONED, BP_OUT_OF_MEMORY; BP_INVALID_ARGUMENT or BP_UNSUPPORTED for a host argument
/// that cannot be copied. Whatever the kernel answers breaks the stream. Threads: stream-ordered.
bp_status emulated_launch(bp_stream* stream, const bp_launch_args& args,
                          std::shared_ptr<const void> keep_alive);

/// What broke an emulated stream, or the stream that it waited for. Any thread.
Failure emulated_failure(bp_stream* stream);

}  // namespace bp

#endif
