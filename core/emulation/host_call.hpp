// SPDX-License-Identifier: Apache-2.0
//
// Host functions of the core's own on a plugin's stream. The plugin gets a number in place of a
// pointer: one that it passes twice, from two threads, or after its device was closed does no harm.
#ifndef BACKPLANE_CORE_EMULATION_HOST_CALL_HPP
#define BACKPLANE_CORE_EMULATION_HOST_CALL_HPP

#include <memory>

#include "core/device/device_table.hpp"

namespace bp {

/// Lets go of `owned` when the plugin's stream has come so far, after `task` was run if there is
/// one, with the failure of the stream, or BP_OK. A task may block, for its own stream only.
/// Errors: the plugin's; then `owned` is still the caller's, and nothing is ever run.
/// Stream-ordered. Throws std::bad_alloc.
bp_status call_host_once(const DeviceTable& table, bp_stream* stream, std::shared_ptr<void>* owned,
                         void (*task)(void* owned, bp_status stream_status));

}  // namespace bp

#endif
