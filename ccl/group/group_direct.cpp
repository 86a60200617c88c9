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
  BP_TRY_ASSIGN(const bool has_begun, begin_directly(call, timeout, &one));
  if (!has_begun) return false;
  const auto begun = direct_.item.deadline - timeout;
  messenger_->drive_until([this] { return direct_.is_over.load(std::memory_order_acquire); },
                          direct_.item.deadline + patience(*runtime_, {}), begun);
  BP_TRY(end_directly(&one));
  return true;
}

Result<bool> ProcessGroup::begin_directly(const Call& call, std::chrono::nanoseconds timeout,
                                          EnqueuedOne* one) {
  std::unique_lock lock(enqueue_mutex_);
  const KnownCall::Served* known = known_call_.recall(call, device(), &one->call);
  if (known == nullptr) [[unlikely]] {
    lock.unlock();
    BP_TRY(check_call(call, args_.place, device(), &one->call));
    const bool is_whole = fits_chunk(one->call, args_.place, agreement_.chunk_bytes);
    const bool is_by_messages = !is_native(one->call) && !serves_by_islands(one->call.operation);
    if (!is_whole || !is_by_messages) return false;
    lock.lock();
  }
  if (is_failing()) BP_TRY(failure().to_status());
  if (!lanes_->is_idle() || has_direct_.load(std::memory_order_acquire)) return false;
  BP_TRY(order_input(&one->call, device().default_stream()));
  one->sequence = next_sequence(one->call.operation);
  const Status made = contain([&]() -> Status {
    if (known == nullptr) [[unlikely]] {
      BP_TRY_ASSIGN(known, find_served(call, *one));
    }
    return make_direct(*one, *known, timeout);
  });
  if (!made.ok()) [[unlikely]] {
    --last_sequence_;
    BP_TRY(failure().to_status());
    return made;
  }
  has_direct_.store(true, std::memory_order_relaxed);
  lanes_->submit_direct(&direct_);
  counters_.host_operations.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/// What serves the call, and is remembered for the next one.
Result<const KnownCall::Served*> ProcessGroup::find_served(const Call& call,
                                                           const EnqueuedOne& one) {
  const CheckedCall& checked = one.call;
  BP_TRY_ASSIGN(Combiner* const combiner, combiner_of(checked.operation));
  BP_TRY_ASSIGN(HostRunPool* const runs,
                runs_of(one, checked.operation.count, checked.is_in_place));
  return known_call_.remember(call, checked, {runs->shared_from_this(), combiner});
}

Status ProcessGroup::make_direct(const EnqueuedOne& one, const KnownCall::Served& served,
                                 std::chrono::nanoseconds timeout) {
  const HostBuffers buffers = host_buffers_of(one.call);
  HostItem& item = direct_.item;
  if (item.run != nullptr && item.run.get_deleter().pool == served.runs) {
    item.run->begin(one.sequence, buffers, served.combiner);
  } else {
    BP_TRY_ASSIGN(item.run, served.runs->take(one.sequence, buffers, served.combiner));
  }
  const auto now = Clock::now();
  item.has_entered = false;
  item.deadline = now + timeout;
  item.record_id = recorder_.begin_started(
      record_entry_of(one.call, one.sequence, timeout, OperationPath::kHost), now);
  direct_.timeout = timeout;
  direct_.is_over.store(false, std::memory_order_relaxed);
  return {};
}

Status ProcessGroup::end_directly(EnqueuedOne* one) {
  CheckedCall& call = one->call;
  if (!direct_.is_over.load(std::memory_order_acquire)) [[unlikely]] {
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
