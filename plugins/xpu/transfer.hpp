// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills, on a stream or done when the call returns: one way through for both, so that
// the checks and the odd offsets are the same.
#ifndef BACKPLANE_PLUGINS_XPU_TRANSFER_HPP
#define BACKPLANE_PLUGINS_XPU_TRANSFER_HPP

#include "backplane/device_api.h"

namespace bp::xpu {

/// mem_copy (`stream` nullptr) and mem_copy_async. Throws sdk::Failure.
bp_status copy(bp_device& device, bp_stream* stream, const bp_copy_args& args);

/// mem_fill. Throws sdk::Failure.
bp_status fill(bp_device& device, const bp_fill_args& args);

}  // namespace bp::xpu

#endif
