// SPDX-License-Identifier: Apache-2.0
//
// The switches of xpu_fault_layer, which tests look up in the loaded layer. Faults are armed one at
// a time, from any thread.
#ifndef BACKPLANE_PLUGINS_XPU_XPU_FAULT_LAYER_HPP
#define BACKPLANE_PLUGINS_XPU_XPU_FAULT_LAYER_HPP

#include <cstdint>

/// What happens to the chosen call.
enum class XpuFault : int32_t {
  kNone,
  /// It answers the code and does nothing.
  kRefused,
  /// It is enqueued, but its command fails on the device and takes those behind it along.
  kFailsLater,
  /// Its command fails on the device with the code; those behind it run.
  kFailsAlone,
};

extern "C" {
/// Lets call number `skip_count` (from 0) of `function` fail; nullptr: of any function of the
/// layer.
using XpuFaultArm = void(const char* function, XpuFault fault, int32_t code, uint32_t skip_count);
/// The function that failed since the layer was armed, or nullptr.
using XpuFaultFired = const char*();
}

#endif
