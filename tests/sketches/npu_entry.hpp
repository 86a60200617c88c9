// SPDX-License-Identifier: Apache-2.0
//
// The mocks are the simulated NPU with something added: its sources are compiled into them, its
// entry under another name, and their own entry changes what that one filled in.
#ifndef BACKPLANE_TESTS_SKETCHES_NPU_ENTRY_HPP
#define BACKPLANE_TESTS_SKETCHES_NPU_ENTRY_HPP

#include <cstddef>
#include <cstdint>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"

extern "C" int32_t npu_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin);

namespace bp::sketch {

/// The entry of a mock: the NPU's description with these extensions, as `change(plugin)` leaves it.
template <size_t kCount, class Change>
int32_t mock_entry(uint32_t core_abi, bp_plugin* out_plugin,
                   const bp_extension* const (&extensions)[kCount], Change change) {
  if (out_plugin == nullptr) return BP_INVALID_ARGUMENT;
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  if (const bp_status status = npu_plugin_entry(core_abi, &plugin)) return status;
  plugin.extensions = extensions;
  plugin.extension_count = kCount;
  change(&plugin);
  sdk::write_out(out_plugin, plugin);
  return BP_OK;
}

}  // namespace bp::sketch

#endif
