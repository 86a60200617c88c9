// SPDX-License-Identifier: Apache-2.0
//
// One open device as the core calls it: `table.mem_copy(args)`. The calls are made from the headers
// at build time (device_api/abi/slot_calls.py); what they stand on is in slot_tables.hpp and
// core/plugin/call_gate.hpp.
#ifndef BACKPLANE_CORE_DEVICE_DEVICE_TABLE_HPP
#define BACKPLANE_CORE_DEVICE_DEVICE_TABLE_HPP

#include "core/device/slot_calls.hpp"

namespace bp {

/// Takes bands (BP_FEATURE_*_BIT) from a device that is not completed yet, as if its props did not
/// have them; bands that need one of these go too.
void take_bands(uint64_t bands, DeviceTable* table);

}  // namespace bp

#endif
