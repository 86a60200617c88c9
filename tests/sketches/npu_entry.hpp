// SPDX-License-Identifier: Apache-2.0
//
// The mocks are the simulated NPU with something added: its sources are compiled into them, its
// entry under another name, and their own entry changes what that one filled in.
#ifndef BACKPLANE_TESTS_SKETCHES_NPU_ENTRY_HPP
#define BACKPLANE_TESTS_SKETCHES_NPU_ENTRY_HPP

#include <cstdint>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"

extern "C" int32_t npu_plugin_entry(uint32_t core_abi, bp_plugin* out_plugin);

namespace bp::sketch {

/// The NPU's description, to be changed and handed on by write_out.
inline bp_status npu_description(uint32_t core_abi, bp_plugin* out_description) {
  *out_description = {};
  out_description->struct_size = sizeof(bp_plugin);
  return npu_plugin_entry(core_abi, out_description);
}

}  // namespace bp::sketch

#endif
