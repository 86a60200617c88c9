// SPDX-License-Identifier: Apache-2.0
//
// From a running plugin instance to an open device that the emulation can complete.
#ifndef BACKPLANE_CORE_DEVICE_OPEN_DEVICE_HPP
#define BACKPLANE_CORE_DEVICE_OPEN_DEVICE_HPP

#include <vector>

#include "core/base/status.hpp"
#include "core/device/device_table.hpp"
#include "core/plugin/manifest.hpp"

namespace bp {

class LoadedPlugin;

/// Opens device `index` and fills device, props, host and the tables of DeviceTable; slots of bands
/// that this device's props switch off are null. emulate_missing() and, at the end, device_close
/// are the caller's. `options` (device scope) come on top of plugin.device_options(). Any thread.
/// Blocks. Errors: INVALID_ARGUMENT for the index or an option; the plugin's own; INTERNAL naming
/// what is wrong in the props.
Result<DeviceTable> open_device(const LoadedPlugin& plugin, uint32_t index,
                                const std::vector<OptionSetting>& options);

}  // namespace bp

#endif
