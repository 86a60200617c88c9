// SPDX-License-Identifier: Apache-2.0
//
// The short way of a call to its end, of one that waits for nothing but other ranks: a collective
// by messages over memory that the host has, whose caller waits, in a group that has nothing else
// to do. No work, no batch and no queue is made for it, which take longer than a short message.
#include "ccl/group/chunked_run.hpp"
#include "ccl/group/enqueue.hpp"

namespace bp::ccl {

/// False: it has to go another way, and has not begun.
Result<bool> ProcessGroup::run_directly(const Call& call, std::chrono::nanoseconds timeout) {
  if (kind_info(call.kind).is_of_two || !device().default_stream().is_inline()) return false;
  EnqueuedOne one;
  BP_TRY(check_call(call, args_.place, device(), &one.call));
  const bool is_whole = fits_chunk(one.call, args_.place, agreement_.chunk_bytes);
  if (!is_whole || is_native(one.call) || serves_by_islands(one.call.operation)) return false;
  BP_TRY_ASSIGN(const bool has_begun, begin_directly(&one, timeout));
  if (!has_begun) return false;
  messenger_->drive_until([this] { return direct_.is_over.load(std::memory_order_acquire); },
                          direct_.item.deadline + patience(*runtime_, {}));
  BP_TRY(end_directly(&one));
  return true;
}

Result<bool> ProcessGroup::begin_directly(EnqueuedOne* one, std::chrono::nanoseconds timeout) {
  const std::lock_guard lock(enqueue_mutex_);
  if (is_failing()) BP_TRY(failure().to_status());
  if (!lanes_->is_idle() || has_direct_.load(std::memory_order_acquire)) return false;
  BP_TRY(order_input(&one->call, device().default_stream()));
  one->sequence = next_sequence(one->call.operation);
  const Status made = contain([&] { return make_direct(*one, timeout); });
  if (!made.ok()) {
    --last_sequence_;
    BP_TRY(failure().to_status());
    return made;
  }
  has_direct_.store(true, std::memory_order_relaxed);
  lanes_->submit_direct(&direct_);
  counters_.host_operations.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Status ProcessGroup::make_direct(const EnqueuedOne& one, std::chrono::nanoseconds timeout) {
  const CheckedCall& call = one.call;
  const HostBuffers buffers = host_buffers_of(call);
  BP_TRY_ASSIGN(Combiner* const combiner, combiner_of(call.operation));
  BP_TRY_ASSIGN(HostRunPool* const runs, runs_of(one, call.operation.count, call.is_in_place));
  HostItem& item = direct_.item;
  if (item.run != nullptr && item.run.get_deleter().pool.get() == runs) {
    item.run->begin(one.sequence, buffers, combiner);
  } else {
    BP_TRY_ASSIGN(item.run, runs->take(one.sequence, buffers, combiner));
  }
  const auto now = Clock::now();
  item.has_entered = false;
  item.deadline = now + timeout;
  item.record_id = recorder_.begin_started(
      record_entry_of(call, one.sequence, timeout, OperationPath::kHost), now);
  direct_.timeout = timeout;
  direct_.is_over.store(false, std::memory_order_relaxed);
  return {};
}

Status ProcessGroup::end_directly(EnqueuedOne* one) {
  CheckedCall& call = one->call;
  if (!direct_.is_over.load(std::memory_order_acquire)) {
    keep_for_ever(&call);
    return Status(BP_TIMEOUT, describe(call.operation) + " is still in progress");
  }
  if (!HostRunPool::may_stay(*direct_.item.run)) direct_.item.run.reset();
  const Status status = direct_.failure.to_status();
  if (!status.ok()) direct_.failure = {};
  has_direct_.store(false, std::memory_order_release);
  BP_TRY(status);
  note_marks(call, device().default_stream(), 0);
  note_faults(call);
  return {};
}

}  // namespace bp::ccl
