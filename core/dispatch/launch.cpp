// SPDX-License-Identifier: Apache-2.0
//
// Two ways to the plugin: straight, or through the emulation where the stream is a worker thread.
#include "core/dispatch/launch.hpp"

#include "core/emulation/emulate_missing.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

// Assigned one by one: a braced list makes the compiler zero the struct first, which costs as much
// as the rest of the path.
[[gnu::always_inline]] inline void write_args(Stream& stream, const LaunchRequest& request,
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
  out_args->workspace = request.workspace;
  out_args->op_seq = 0;
  out_args->fault.handle = 0;
  out_args->fault.offset_bytes = 0;
  out_args->out_extents = request.out_extents;
}

bp_status enqueue(const PlannedKernel& kernel, Stream& stream, const bp_launch_args& args,
                  const std::shared_ptr<PlannedKernel>& keep_alive) {
  const DeviceTable& table = kernel.device().table();
  if (!table.stream_emulated()) return table.launch(kernel.record().kernel, args);
  return emulated_launch(stream.handle(), args, keep_alive);
}

Status explain(Stream& stream, const PlannedKernel& kernel, bp_status code) {
  const auto& registry = kernel.device().runtime().registry();
  return stream.failure(code, Slot::kLaunch, &kernel.record().kernel,
                        registry.schema(kernel.op()).name);
}

// Launches of one thread are numbered by themselves: an atomic per launch alone would cost as much
// as the rest of the path.
uint64_t next_inline_seq() {
  static thread_local uint64_t seq = 0;
  return ++seq & ((uint64_t{1} << 40) - 1);
}

/// Until a fault word is free. `lock` holds the stream, and does again on return.
Status make_room_for_fault(Stream& stream, TimedLock& lock) {
  while (stream.fault_words_full()) {
    lock.unlock();
    BP_TRY(stream.sync());
    BP_TRY(stream.hold(lock));
  }
  return {};
}

/// On an inline stream.
Status launch_that_can_fault(Stream& stream, const LaunchRequest& request) {
  const PlannedKernel& kernel = request.kernel;
  bp_launch_args args;
  write_args(stream, request, &args);
  // Launches that may fault take turns, so that a reader of the words finds finished ones only.
  BP_TRY(stream.prepare_faults());
  bp_status code = BP_OK;
  uint64_t seq = 0;
  {
    TimedLock lock;
    BP_TRY(stream.hold(lock));
    BP_TRY(make_room_for_fault(stream, lock));
    seq = stream.next_seq();
    args.fault = stream.fault_word(seq);
    args.op_seq = stream.op_seq(seq);
    stream.note_launch(seq, kernel.op(), &kernel.record().kernel);
    code = kernel.device().table().launch(kernel.record().kernel, args);
  }
  BP_TRY(stream.collect_faults(seq));
  if (code != BP_OK) return explain(stream, kernel, code);
  return stream.claim_fault(seq, seq);
}

}  // namespace

Status launch_now(Stream& stream, const LaunchRequest& request) {
  const PlannedKernel& kernel = request.kernel;
  kernel.device().counters().launches.add(1);
  bp_launch_args args;
  write_args(stream, request, &args);
  args.op_seq = next_inline_seq();
  const bp_status code = kernel.device().table().launch(kernel.record().kernel, args);
  return code == BP_OK ? Status() : explain(stream, kernel, code);
}

namespace {

Result<uint64_t> launch_queued(Stream& stream, const LaunchRequest& request) {
  const PlannedKernel& kernel = request.kernel;
  if (kernel.can_fault()) BP_TRY(stream.prepare_faults());
  uint64_t seq = 0;
  bp_status code = BP_OK;
  {
    TimedLock lock;
    BP_TRY(stream.hold(lock));
    if (kernel.can_fault()) BP_TRY(make_room_for_fault(stream, lock));
    BP_TRY(stream.check_healthy());
    bp_launch_args args;
    write_args(stream, request, &args);
    seq = stream.next_seq();
    if (kernel.can_fault()) args.fault = stream.fault_word(seq);
    args.op_seq = stream.op_seq(seq);
    stream.note_launch(seq, kernel.op(), &kernel.record().kernel);
    // An emulated stream keeps the plan by itself.
    if (!kernel.device().table().stream_emulated()) kernel.note_queued();
    code = enqueue(kernel, stream, args, request.keep_alive);
  }
  if (code != BP_OK) return explain(stream, kernel, code);
  if (kernel.device().runtime().sync_launches()) {
    BP_TRY(stream.sync());
    BP_TRY(stream.claim_fault(seq, seq));
  }
  return seq;
}

}  // namespace

Result<uint64_t> launch_elsewhere(Stream& stream, const LaunchRequest& request) {
  const PlannedKernel& kernel = request.kernel;
  kernel.device().counters().launches.add(1);
  if (!stream.is_inline()) return launch_queued(stream, request);
  BP_TRY(launch_that_can_fault(stream, request));
  return uint64_t{0};
}

}  // namespace bp
