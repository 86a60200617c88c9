// SPDX-License-Identifier: Apache-2.0
//
// The last step before foreign code: arguments on the stack, the stream's lock and sequence number
// on queued streams, the fault word where the plan asked for it.
#ifndef BACKPLANE_CORE_DISPATCH_LAUNCH_HPP
#define BACKPLANE_CORE_DISPATCH_LAUNCH_HPP

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/ref.hpp"
#include "core/base/status.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/stream.hpp"
#include "core/runtime/tensor.hpp"

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

/// Assigned word by word: a braced list makes the compiler zero the struct first, which costs as
/// much as the rest of the path, and a copied member is read at once right after its words were
/// written one by one, for which the processor waits.
[[gnu::always_inline]] inline void write_launch_args(Stream& stream, const LaunchRequest& request,
                                                     bp_launch_args* out_args) {
  const PlannedKernel& kernel = request.kernel;
  out_args->struct_size = sizeof(bp_launch_args);
  out_args->flags = 0;
  out_args->device = kernel.device().table().device;
  out_args->kernel = kernel.record().original;
  out_args->plan = kernel.plan();
  out_args->state = request.state;
  out_args->stream = stream.handle();
  out_args->tensors = request.tensors;
  out_args->input_count = request.input_count;
  out_args->output_count = request.output_count;
  out_args->attributes = kernel.attributes();
  out_args->workspace.handle = request.workspace.handle;
  out_args->workspace.offset_bytes = request.workspace.offset_bytes;
  out_args->op_seq = 0;
  out_args->fault.handle = 0;
  out_args->fault.offset_bytes = 0;
  out_args->out_extents.handle = request.out_extents.handle;
  out_args->out_extents.offset_bytes = request.out_extents.offset_bytes;
}

/// Launches of one thread are numbered by themselves: an atomic per launch alone would cost as much
/// as the rest of the path.
inline uint64_t next_inline_seq() {
  static constinit thread_local uint64_t seq = 0;
  return ++seq & ((uint64_t{1} << 40) - 1);
}

/// The error of a launch that answered `code`.
Status explain_launch(Stream& stream, const PlannedKernel& kernel, bp_status code);

/// For a kernel that cannot fault, on an inline stream: most of what is launched. Inlined, since
/// the request and what reads it would cost as much as a small kernel.
[[gnu::always_inline]] inline Status launch_now(Stream& stream, const LaunchRequest& request) {
  const PlannedKernel& kernel = request.kernel;
  kernel.device().counters().launches.add(1);
  bp_launch_args args;
  write_launch_args(stream, request, &args);
  args.op_seq = next_inline_seq();
  const bp_status code = kernel.device().table().launch(kernel.record().kernel, args);
  if (code != BP_OK) [[unlikely]]
    return explain_launch(stream, kernel, code);
  return {};
}

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

/// launch_planned() of what takes a workspace, a state or a queue, or may fault or narrow. Defined
/// in call.cpp, where outputs are made.
Status launch_with_extras(Stream& stream, LaunchRequest request, std::span<Tensor* const> inputs,
                          std::span<Ref<Tensor>> outputs);

/// One eager launch, with workspace and state, marked on what it uses. `tensors` are `inputs`
/// (nullptr: absent) and then `outputs` as the kernel takes them, which this stream may touch by
/// now; outputs that were made at their upper bound are narrowed.
[[gnu::always_inline]] inline Status launch_planned(Stream& stream,
                                                    const std::shared_ptr<PlannedKernel>& planned,
                                                    const bp_tensor* tensors,
                                                    std::span<Tensor* const> inputs,
                                                    std::span<Ref<Tensor>> outputs) {
  const LaunchRequest request{.kernel = *planned,
                              .tensors = tensors,
                              .input_count = static_cast<uint32_t>(inputs.size()),
                              .output_count = static_cast<uint32_t>(outputs.size()),
                              .keep_alive = planned};
  if (!planned->is_plain() || !stream.is_inline()) [[unlikely]]
    return launch_with_extras(stream, request, inputs, outputs);
  return launch_now(stream, request);
}

}  // namespace bp

#endif
