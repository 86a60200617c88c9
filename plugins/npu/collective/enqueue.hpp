// SPDX-License-Identifier: Apache-2.0
//
// Arrays of operations, from the call to the queues of their streams.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_ENQUEUE_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_ENQUEUE_HPP

#include "backplane/collective.h"
#include "device.hpp"

namespace bp::npu {

/// All batches, or none: throws Failure.
void enqueue(Device& device, const bp_collective_args& args);

}  // namespace bp::npu

#endif
