// SPDX-License-Identifier: Apache-2.0
//
// The last step before foreign code: arguments on the stack, the stream's lock and sequence number
// on queued streams, the fault word where the plan asked for it.
#ifndef BACKPLANE_CORE_DISPATCH_LAUNCH_HPP
#define BACKPLANE_CORE_DISPATCH_LAUNCH_HPP

#include <cstdint>
#include <memory>

#include "core/base/status.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

struct LaunchRequest {
  const PlannedKernel& kernel;
  const bp_tensor* tensors;  // inputs, then outputs
  uint32_t input_count;
  uint32_t output_count;
  /// Keeps the plan while an emulated stream still has to run it; unused on others.
  const std::shared_ptr<PlannedKernel>& keep_alive;
  // What a plain kernel does without.
  bp_kernel_state* state = nullptr;
  bp_mem workspace = {};
  bp_mem out_extents = {};
};

/// For a kernel that cannot fault, on an inline stream: most of what is launched.
Status launch_now(Stream& stream, const LaunchRequest& request);
/// For all others.
Result<uint64_t> launch_elsewhere(Stream& stream, const LaunchRequest& request);

/// Launches, and answers the sequence number for marks (0 on an inline stream). On an inline stream
/// the work is done on return, and a data fault is its error. Errors: the plugin's, naming the
/// operator; POISONED. Stream-ordered; allocates nothing.
inline Result<uint64_t> launch(Stream& stream, const LaunchRequest& request) {
  if (!stream.is_inline() || request.kernel.can_fault()) [[unlikely]]
    return launch_elsewhere(stream, request);
  BP_TRY(launch_now(stream, request));
  return uint64_t{0};
}

}  // namespace bp

#endif
