// SPDX-License-Identifier: Apache-2.0
//
// Two ways to the plugin: straight, or through the emulation where the stream is a worker thread.
#include "core/dispatch/launch.hpp"

#include "core/emulation/emulate_missing.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {

Status explain_launch(Stream& stream, const PlannedKernel& kernel, bp_status code) {
  return stream.failure(code, Slot::kLaunch, &kernel.record().kernel, kernel.op_name());
}

namespace {

bp_status enqueue(const PlannedKernel& kernel, Stream& stream, const bp_launch_args& args,
                  const std::shared_ptr<PlannedKernel>& keep_alive) {
  const DeviceTable& table = kernel.device().table();
  if (!table.stream_emulated()) return table.launch(kernel.record().kernel, args);
  return emulated_launch(stream.handle(), args, keep_alive);
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
  write_launch_args(stream, request, &args);
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
  if (code != BP_OK) return explain_launch(stream, kernel, code);
  return stream.claim_fault(seq, seq);
}

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
    write_launch_args(stream, request, &args);
    seq = stream.next_seq();
    if (kernel.can_fault()) args.fault = stream.fault_word(seq);
    args.op_seq = stream.op_seq(seq);
    stream.note_launch(seq, kernel.op(), &kernel.record().kernel);
    // An emulated stream keeps the plan by itself.
    if (!kernel.device().table().stream_emulated()) kernel.note_queued();
    code = enqueue(kernel, stream, args, request.keep_alive);
  }
  if (code != BP_OK) return explain_launch(stream, kernel, code);
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
