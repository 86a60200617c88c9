// SPDX-License-Identifier: Apache-2.0
//
// Ordering, waiting, and finding the operator that a stream's failure belongs to.
#include "core/runtime/stream.hpp"

#include "core/base/log.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {

Stream::Stream(Device& device, bp_stream* handle, uint64_t index)
    : device_(device), handle_(handle), index_(index) {}

Result<bp_mem> Stream::fault_word() {
  if (fault_.handle == 0) {
    // Never freed: it goes back with the allocator, as the stream lives as long as its device.
    BP_TRY_ASSIGN(Block * block,
                  device_.allocator().allocate(sizeof(bp_fault_word), MemoryTag::kWorkspace, this));
    fault_ = {block->handle, block->offset_bytes};
    BP_TRY(device_.fill_zero(*this, fault_, sizeof(bp_fault_word)));
  }
  fault_armed_.store(true, std::memory_order_release);
  return fault_;
}

Status Stream::wait_for(Stream& producer, uint64_t seq) {
  if (&producer == this || producer.is_inline() || producer.known_done(seq)) return {};
  if (is_inline() || &producer.device_ != &device_) {
    device_.counters().host_waits.fetch_add(1, std::memory_order_relaxed);
    return producer.sync();
  }
  return device_.insert_wait(*this, producer);
}

Status Stream::sync() {
  BP_TRY(device_.check_open());
  if (is_inline()) return check_fault();
  uint64_t issued = 0;
  {
    std::lock_guard lock(mutex_);
    issued = issued_seq_;
  }
  const auto timeout_ns = static_cast<uint64_t>(device_.wait_timeout().count());
  const bp_status code = device_.slots().stream.stream_sync(handle_, timeout_ns);
  if (code == BP_TIMEOUT) {
    return Status(BP_TIMEOUT, device_.name() + ": the stream was not done after " +
                                  std::to_string(timeout_ns / 1'000'000'000) +
                                  " s (BACKPLANE_TIMEOUT)");
  }
  if (code != BP_OK) return failure(code, "stream_sync");
  uint64_t done = done_seq_.load(std::memory_order_relaxed);
  while (done < issued && !done_seq_.compare_exchange_weak(done, issued)) {
  }
  return check_fault();
}

Status Stream::check_fault() {
  if (!fault_armed_.exchange(false, std::memory_order_acq_rel)) return {};
  bp_fault_word word{};
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = BP_COPY_DEVICE_TO_HOST;
  args.dst.handle = reinterpret_cast<uint64_t>(&word);
  args.src = fault_;
  args.bytes = sizeof(word);
  const auto& memory = device_.slots().memory;
  if (const bp_status code = memory.mem_copy(device_.slots().memory_self, &args); code != BP_OK) {
    return device_.failure(code, "reading the fault word");
  }
  if (word.code == BP_FAULT_NONE) return {};
  const bp_fault_word zero{};
  args.kind = BP_COPY_HOST_TO_DEVICE;
  args.src.handle = reinterpret_cast<uint64_t>(&zero);
  args.src.offset_bytes = 0;
  args.dst = fault_;
  if (const bp_status code = memory.mem_copy(device_.slots().memory_self, &args); code != BP_OK) {
    return device_.failure(code, "clearing the fault word");
  }
  return Status(BP_INVALID_ARGUMENT, device_.name() + ": " + culprit(word.op_seq) + ": index " +
                                         std::to_string(word.index) + " in input " +
                                         std::to_string(word.input) +
                                         " is out of range for extent " +
                                         std::to_string(word.extent) + "; it was clamped");
}

std::string Stream::culprit(uint64_t op_seq) {
  // The launch may have been another stream's: failures travel along waits.
  Stream* owner = device_.stream_at(op_seq >> kSeqBits);
  const uint64_t seq = op_seq & kSeqMask;
  if (owner == nullptr || seq == 0) return "an earlier operator";
  std::lock_guard lock(owner->mutex_);
  const RecentOp& recent = owner->recent_ops_[seq % kRecentOps];
  if (recent.seq != seq) return "an earlier operator";
  return "operator " + std::string(device_.runtime().registry().schema(recent.op).name);
}

Status Stream::failure(bp_status code, std::string_view what) {
  auto report =
      handle_ != nullptr
          ? device_.plugin().host().take_stream_report(reported_stream(device_.slots(), handle_))
          : std::nullopt;
  if (!report) report = device_.plugin().host().take_report();
  uint64_t op_seq = report ? report->op_seq : 0;
  if (op_seq == 0 && device_.slots().stream_emulated() && handle_ != nullptr) {
    op_seq = emulated_failed_op_seq(handle_);
  }
  std::string text = device_.name() + ": ";
  // An inline launch fails while its caller is still there to name it.
  text += op_seq != 0 && !is_inline() ? culprit(op_seq) : std::string(what);
  text += " failed";
  if (report) text += ": " + report->message;
  return Status(code, text);
}

}  // namespace bp
