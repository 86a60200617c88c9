// SPDX-License-Identifier: Apache-2.0
//
// From a call to work in progress, by one of three ways: the plugin's own collectives; messages
// over memory that the host has; messages through copies in host memory, which the stream itself
// makes before and after it is held, or, of what is cut into chunks, another stream while it is.
#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "ccl/group/enqueue.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/dispatch/call.hpp"
#include "core/emulation/host_call.hpp"
#include "core/runtime/copy_args.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kMostCalls = 1024;
constexpr auto kLearnsWithin = std::chrono::milliseconds(100);

/// What a caller runs itself is in no stream, and comes behind the work of the one that was given.
Status come_behind(const ProcessGroup& group, const EnqueueArgs& args) {
  const Device& device = group.device();
  if (&args.stream->device() != &device) {
    return Status(BP_INVALID_ARGUMENT, "group " + group.name() + " is on " + device.name() +
                                           ", and the stream is of " +
                                           args.stream->device().name());
  }
  if (!args.waits || !device.is_host_like() || args.stream->is_inline()) return {};
  const Status done = args.stream->sync();
  if (!done.ok()) BP_TRY(group.failure().to_status());  // which it may have failed with
  return done;
}

}  // namespace

Result<Ref<Work>> ProcessGroup::enqueue(std::span<const Call> calls, const EnqueueArgs& args) {
  BP_TRY(check_not_forked());
  if (calls.empty() || calls.size() > kMostCalls) [[unlikely]] {
    return Status(BP_INVALID_ARGUMENT, "group " + args_.name + ": expected 1 to " +
                                           std::to_string(kMostCalls) + " operations, found " +
                                           std::to_string(calls.size()));
  }
  BP_TRY(device().check_open());
  BP_TRY(runtime_->check_open());
  const auto timeout = args.timeout.count() > 0 ? args.timeout : args_.timeout;
  if (timeout > runtime_->wait_timeout()) [[unlikely]] {
    return Status(BP_INVALID_ARGUMENT, "group " + args_.name +
                                           ": a timeout is longer than "
                                           "BACKPLANE_TIMEOUT");
  }
  if (args.stream != nullptr) BP_TRY(come_behind(*this, args));
  if (args.waits && calls.size() == 1 && device().is_host_like()) {
    BP_TRY_ASSIGN(const bool is_done, run_directly(calls[0], timeout));
    if (is_done) return Ref<Work>();
  }
  auto work = enqueue_all(calls, args, timeout);
  if (work.ok() || !may_be_about_to_fail(work.status().code())) return work;
  messenger_->kick();
  messenger_->drive_until([this] { return is_failing(); }, Clock::now() + kLearnsWithin);
  BP_TRY(failure().to_status());
  return work;
}

/// A call's error may be what others see first of a failure of the group, which has better words:
/// a stream that failed under operations of this group, or a plugin whose group a rank has left.
bool ProcessGroup::may_be_about_to_fail(bp_status code) const {
  if (code == BP_POISONED) return open_tasks_.load(std::memory_order_acquire) > 0;
  return code == BP_UNAVAILABLE && communicator_ != nullptr;
}

Result<Ref<Work>> ProcessGroup::enqueue_all(std::span<const Call> calls, const EnqueueArgs& args,
                                            std::chrono::nanoseconds timeout) {
  Enqueue enqueue;
  enqueue.timeout = timeout;
  BP_TRY(check_calls(calls, &enqueue));
  if (calls.size() > 1) find_users_of_results(&enqueue);
  const bool needs_order = (enqueue.is_in_pieces && island_ != nullptr) || enqueue.is_in_parts;
  BP_TRY_ASSIGN(enqueue.stream, choose_stream(args, needs_order));
  enqueue.is_inline = enqueue.stream->is_inline();
  Result<Ref<Work>> work = Ref<Work>();
  {
    const std::lock_guard lock(enqueue_mutex_);
    if (is_failing()) BP_TRY(failure().to_status());
    for (Enqueue::One& one : enqueue.ones) {
      if (!one.uses_results) BP_TRY(order_input(&one.call, *enqueue.stream));
    }
    enqueue.path = enqueue.is_native            ? OperationPath::kNative
                   : device().has_host_memory() ? OperationPath::kHost
                                                : OperationPath::kStaged;
    for (Enqueue::One& one : enqueue.ones) one.sequence = next_sequence(one.call.operation);
    work = contain([&] { return check_and_enqueue(&enqueue); });
    if (!work.ok()) {
      take_back_sequences(enqueue);
      // Meanwhile: the plugin tells no more than that its communicator was aborted.
      BP_TRY(failure().to_status());
    }
  }
  if (!work.ok()) return work;
  if (enqueue.is_inline) {
    BP_TRY(run_inline(&enqueue));
  } else if (args.waits) {
    BP_TRY((*work)->wait(Clock::now() + patience(*runtime_, timeout)));
  }
  return work;
}

/// What each is, and whether they go together.
Status ProcessGroup::check_calls(std::span<const Call> calls, Enqueue* enqueue) const {
  size_t native_count = 0;
  size_t of_two_count = 0;
  for (const Call& call : calls) {
    EnqueuedOne& one = enqueue->ones.emplace_back();
    BP_TRY(check_call(call, args_.place, device(), &one.call));
    one.is_native = is_native(one.call);
    if (one.is_native) ++native_count;
    if (kind_info(call.kind).is_of_two) ++of_two_count;
    one.is_among_leaders = serves_by_islands(one.call.operation);
    enqueue->is_in_pieces |= one.is_among_leaders;
  }
  enqueue->is_native = native_count == calls.size();
  if (enqueue->is_native) return check_averages(*enqueue);
  enqueue->is_in_pieces |= native_count != 0;
  // A send would wait behind what is before it in the stream, and its other end may wait for it.
  if (!enqueue->is_in_pieces || of_two_count == 0) return {};
  return Status(BP_UNSUPPORTED, "group " + args_.name +
                                    ": sends and receives cannot go in one batch with operations "
                                    "that the device's own collectives run, or run in part, where "
                                    "they do not run all of them: call them one by one");
}

/// `needs_order`: that of a stream, which is not that of an inline one.
Result<Stream*> ProcessGroup::choose_stream(const EnqueueArgs& args, bool needs_order) {
  // A caller who waits anyway need not wake another thread, where the host may touch the memory.
  if (args.waits && device().is_host_like() && !needs_order) return &device().default_stream();
  if (args.stream != nullptr && !args.stream->is_inline()) return args.stream;
  const std::lock_guard lock(enqueue_mutex_);
  if (own_stream_ == nullptr) {
    BP_TRY_ASSIGN(own_stream_, device().acquire_stream());
  }
  return own_stream_;
}

/// Behind whatever has its tensors.
Status ProcessGroup::order_input(CheckedCall* call, Stream& stream) {
  const auto order = [&]() -> Status {
    if (call->send) {
      const bool is_strided = !call->send->contiguous();
      if (is_strided) {
        BP_TRY_ASSIGN(call->send, make_contiguous(call->send, stream));
      }
      if (is_strided) counters_.contiguous_copies.fetch_add(1, std::memory_order_relaxed);
      BP_TRY(call->send->storage().order_before(stream, Access::kRead));
    }
    return call->recv ? call->recv->order_before_write(stream) : Status();
  };
  const Status ordered = order();
  // A group that has just failed has marked what it was to compute.
  if (!ordered.ok() && is_failing()) BP_TRY(failure().to_status());
  return ordered;
}

bool ProcessGroup::is_native(const CheckedCall& call) const {
  const Operation& operation = call.operation;
  if (!is_native() || operation.kind == Kind::kBarrier || operation.blocks != 0) return false;
  const auto has = [&](Kind kind) { return has_native(kind, operation, operation.reduction); };
  // Both ends must come to the same answer.
  if (kind_info(operation.kind).is_of_two) return has(Kind::kSend) && has(Kind::kRecv);
  return has(operation.kind) || is_composed_average(operation);
}

bool ProcessGroup::has_native(Kind kind, const Operation& operation, Reduction reduction) const {
  return native_rows_.has(static_cast<uint32_t>(kind), operation.dtype,
                          static_cast<uint32_t>(reduction), operation.is_deterministic);
}

/// All ranks' devices sum, none of them averages by itself, and all can divide.
bool ProcessGroup::is_composed_average(const Operation& operation) const {
  if (operation.reduction != Reduction::kAvg || !is_native() || operation.blocks != 0) return false;
  return !has_native(operation.kind, operation, Reduction::kAvg) &&
         has_native(operation.kind, operation, Reduction::kSum) &&
         (island_->divided_dtypes & BP_DTYPE_BIT(operation.dtype)) != 0;
}

/// Sums are divided when all operations of the array are in order: none of them may use a quotient.
Status ProcessGroup::check_averages(const Enqueue& enqueue) const {
  for (size_t i = 0; i < enqueue.ones.size(); ++i) {
    const CheckedCall& average = enqueue.ones[i].call;
    if (!is_composed_average(average.operation) || !average.recv) continue;
    for (size_t k = i + 1; k < enqueue.ones.size(); ++k) {
      const CheckedCall& later = enqueue.ones[k].call;
      const auto shares = [&](const Ref<Tensor>& tensor) {
        return tensor && (&tensor->storage() == &average.recv->storage() ||
                          may_overlap(*tensor, *average.recv));
      };
      if (!shares(later.send) && !shares(later.recv)) continue;
      return Status(BP_UNSUPPORTED,
                    "group " + args_.name + ": " + describe(later.operation) +
                        " has memory of what " + describe(average.operation) +
                        " gives, which is divided behind all of them: call them one by one");
    }
  }
  return {};
}

uint64_t ProcessGroup::next_sequence(const Operation& operation) {
  if (!kind_info(operation.kind).is_of_two) return ++last_sequence_;
  return ++pair_sequences_[{static_cast<uint32_t>(operation.kind), operation.root}];
}

/// None of them has begun.
void ProcessGroup::take_back_sequences(const Enqueue& enqueue) {
  for (const Enqueue::One& one : enqueue.ones) {
    const Operation& operation = one.call.operation;
    if (!kind_info(operation.kind).is_of_two) {
      --last_sequence_;
    } else {
      --pair_sequences_[{static_cast<uint32_t>(operation.kind), operation.root}];
    }
  }
}

void ProcessGroup::record(Enqueue* enqueue) {
  if (enqueue->is_check) return;
  const auto now = Clock::now();
  enqueue->begun = now;
  for (size_t i = 0; i < enqueue->ones.size(); ++i) {
    Enqueue::One& one = enqueue->ones[i];
    const CheckedCall& called = one.called();
    if (!one.is_recorded) {
      const auto path = one.whole != nullptr ? OperationPath::kIslands : enqueue->path;
      one.record_id =
          recorder_.begin(record_entry_of(called, one.sequence, enqueue->timeout, path), now);
    }
    one.is_recorded = true;
    if (enqueue->batch != nullptr) enqueue->batch->items()[i].record_id = one.record_id;
  }
}

Ref<Work> ProcessGroup::make_work(const Enqueue& enqueue, OperationPath path) {
  auto work = Ref<Work>::make(Work::Args{.sequence = enqueue.ones[0].sequence,
                                         .operation = enqueue.ones[0].called().operation,
                                         .more_count = enqueue.ones.size() - 1,
                                         .path = path,
                                         .is_queued = !enqueue.is_inline,
                                         .messenger = messenger_,
                                         .runtime = runtime_});
  for (const Enqueue::One& one : enqueue.ones) {
    if (enqueue.is_inline) break;  // the call has them until it is over
    if (one.call.send) work->keep(one.call.send);
    if (one.call.recv) work->keep(one.call.recv);
    if (!one.average) continue;
    work->keep(one.average->sum());
    work->keep(one.average->quotient());
  }
  return work;
}

/// Memory for what note_marks() notes.
void ProcessGroup::reserve_marks(const Enqueue& enqueue) {
  Stream& stream = *enqueue.stream;
  for (const Enqueue::One& one : enqueue.ones) {
    for (Tensor* tensor : {one.call.send.get(), one.call.recv.get()}) {
      if (tensor != nullptr) tensor->storage().note_use(stream, stream.issued_seq(), false);
    }
  }
}

/// `seq`: of its work in the stream; 0: it is done.
void ProcessGroup::note_marks(const CheckedCall& call, Stream& stream, uint64_t seq) {
  if (call.send && seq != 0) call.send->storage().note_use(stream, seq, false);
  if (call.recv) call.recv->note_written(stream, seq, {});
  if (call.recv && seq == 0) call.recv->storage().note_host_write(stream);
}

void ProcessGroup::note_marks(const Enqueue& enqueue, uint64_t seq) {
  for (const Enqueue::One& one : enqueue.ones) note_marks(one.call, *enqueue.stream, seq);
}

/// Data faults of what is sent are faults of what is received.
void ProcessGroup::note_faults(const CheckedCall& call) {
  if (!call.recv || !call.send || !call.send->storage().may_fault()) return;
  FaultOrigin origin;
  origin.contents = &call.send->storage();
  call.recv->storage().note_fault(origin);
}

void ProcessGroup::note_faults(const Enqueue& enqueue) {
  for (const Enqueue::One& one : enqueue.ones) note_faults(one.call);
}

// --- by the plugin ---

Result<Ref<Work>> ProcessGroup::enqueue_unchecked(Enqueue* enqueue) {
  if (enqueue->is_in_parts) return enqueue_in_parts(*enqueue);
  if (enqueue->is_native) return enqueue_native(enqueue);
  const bool is_inside = enqueue->is_in_pieces && island_ != nullptr;
  return is_inside ? enqueue_in_pieces(enqueue) : enqueue_host(enqueue);
}

/// The first of them to fail, where others are to learn of it. Messages alone compare by
/// themselves.
Result<Ref<Work>> ProcessGroup::check_and_enqueue(Enqueue* enqueue) {
  BP_TRY(check_kernels(*enqueue));
  const bool has_native = enqueue->is_native || enqueue->is_in_pieces;
  if (!agreement_.checks || !has_native) return enqueue_unchecked(enqueue);
  bool has_begun = false;
  BP_TRY(enqueue_check(*enqueue, &has_begun));
  auto work = contain([&] { return enqueue_unchecked(enqueue); });
  if (work.ok() || !has_begun) return work;
  // Others have seen the call, and would wait for it.
  request_failure({.code = work.status().code(), .words = work.status().message()});
  return work;
}

/// A barrier whose messages say what follows it: the stream is held until all ranks have called the
/// same, and what they called does not begin where they have not. Ranks without an island take part
/// in that of others.
Status ProcessGroup::enqueue_check(const Enqueue& native, bool* out_has_begun) {
  Enqueue check;
  check.is_check = true;
  check.is_inline = native.is_inline;
  check.stream = native.stream;
  check.timeout = native.timeout;
  for (const Enqueue::One& one : native.ones) {
    const Operation& operation = one.call.operation;
    const bool is_by_messages = !one.is_native && !one.is_among_leaders;
    if (kind_info(operation.kind).is_of_two || is_by_messages) continue;
    Enqueue::One& added = check.ones.emplace_back();
    added.call.operation = operation;
    added.sequence = one.sequence;
  }
  if (check.ones.empty()) return {};
  check.work = make_work(check, OperationPath::kHost);
  check.batch = std::make_shared<Batch>(check.work, check.timeout);
  EnqueuedOne barrier;
  barrier.call.operation.kind = Kind::kBarrier;
  BP_TRY_ASSIGN(const HostRunPool* const runs, runs_of(barrier, 0, false));
  for (const Enqueue::One& one : check.ones) {
    HostItem& item = check.batch->items().emplace_back();
    BP_TRY_ASSIGN(auto run, HostRun::make({.operation = one.call.operation,
                                           .group = agreement_.group,
                                           .sequence = one.sequence,
                                           .place = args_.place,
                                           .part = {runs->schedule(), {}, 0}}));
    item.run = HostRunPool::Lent(run.release());
  }
  check.entries = Lanes::prepare(check.batch);
  if (check.is_inline) {
    check.batch->let_begin(BP_OK);
    lanes_->submit(&check.entries, true);
  } else {
    check.hold = DeviceHold::make_waiting(device());
    check.copies.push_back(check.work);
    BP_TRY(put_on_stream(&check));
  }
  *out_has_begun = true;
  return {};
}

/// nullopt: this rank receives nothing.
Result<std::optional<Average>> ProcessGroup::make_average(const CheckedCall& call, Stream& stream) {
  if (!call.recv || call.recv->element_count() == 0) return std::optional<Average>();
  BP_TRY_ASSIGN(Average average, divider_.average_into(call.recv, stream));
  return std::optional<Average>(std::move(average));
}

/// What the plugin is asked for. Where the group divides, that is a sum.
Result<std::vector<NativeOperation>> ProcessGroup::native_operations(Enqueue* enqueue) {
  std::vector<NativeOperation> operations;
  for (Enqueue::One& one : enqueue->ones) {
    NativeOperation& operation = operations.emplace_back(NativeOperation{
        one.call.operation, native_place_of(one.call.send), native_place_of(one.call.recv)});
    if (!is_composed_average(operation.operation)) continue;
    operation.operation.reduction = Reduction::kSum;
    BP_TRY_ASSIGN(one.average, make_average(one.call, *enqueue->stream));
    if (one.average) operation.recv = place_of(one.average->sum());
  }
  return operations;
}

Status ProcessGroup::divide_averages(Enqueue* enqueue) {
  for (Enqueue::One& one : enqueue->ones) {
    if (one.average) BP_TRY(one.average->divide(*enqueue->stream));
  }
  return {};
}

Result<Ref<Work>> ProcessGroup::enqueue_native(Enqueue* enqueue) {
  Stream& stream = *enqueue->stream;
  BP_TRY_ASSIGN(const auto operations, native_operations(enqueue));
  const auto collective_count = static_cast<uint64_t>(std::count_if(
      operations.begin(), operations.end(),
      [](const NativeOperation& each) { return !kind_info(each.operation.kind).is_of_two; }));
  auto task = std::make_shared<NativeTask>();
  task->before = DeviceHold::make(device());
  auto hold = DeviceHold::make_waiting(device());
  Ref<Work> work = make_work(*enqueue, OperationPath::kNative);
  CommunicatorChain& chain = CommunicatorChain::of(device());
  std::unique_lock taking_turns(chain.mutex(), std::defer_lock);
  std::list<CommunicatorChain::Turn> turn;
  if (!is_concurrent_) {
    taking_turns.lock();
    turn.push_back({communicator_->number(), &stream, 0, name(), work->operation()});
    BP_TRY_ASSIGN(task->turns_before, chain.order_before(*communicator_, stream));
  }
  std::list<std::shared_ptr<NativeTask>> tasks{task};
  reserve_marks(*enqueue);
  BP_TRY(task->before->record(stream));
  BP_TRY_ASSIGN(const uint64_t seq,
                communicator_->enqueue(stream, last_native_sequence_ + 1, operations));
  last_native_sequence_ += collective_count;
  if (!is_concurrent_) {
    turn.front().seq = seq;
    chain.note(&turn);
    taking_turns.unlock();
  }
  record(enqueue);
  note_marks(*enqueue, seq);
  counters_.native_operations.fetch_add(enqueue->ones.size(), std::memory_order_relaxed);
  const Status divided = contain([&] { return divide_averages(enqueue); });
  // Where the group has failed by now the stream has too, and waits tell of it.
  [[maybe_unused]] const Status recorded = hold->record(stream);
  work->set_queue({&stream, seq});
  work->set_hold(std::move(hold));
  const Enqueue::One& last = enqueue->ones.back();
  task->work = work;
  task->operation = last.called().operation;
  task->is_last = last.is_last;
  task->sequence = last.sequence;
  if (collective_count > 0) task->native_sequence = last_native_sequence_;
  task->record_id = enqueue->ones.front().record_id;
  task->record_count = enqueue->ones.size();
  task->timeout = enqueue->timeout;
  {
    const std::lock_guard lock(state_mutex_);
    new_tasks_.splice(new_tasks_.end(), tasks);
    open_tasks_.fetch_add(1, std::memory_order_relaxed);
  }
  has_news_.store(true);
  messenger_->kick();
  const Status noted = contain([&] { note_faults(*enqueue); });
  if (!noted.ok()) lose_results(*work, noted);
  // A stream that has failed by then did so by the sum, or before: the task tells why.
  if (!divided.ok() && divided.code() != BP_POISONED) lose_results(*work, divided);
  return work;
}

// --- by messages ---

Result<Ref<Work>> ProcessGroup::enqueue_host(Enqueue* enqueue) {
  const bool is_staged = enqueue->path == OperationPath::kStaged;
  Ref<Work> work = make_work(*enqueue, enqueue->path);
  enqueue->batch = std::make_shared<Batch>(work, enqueue->timeout);
  if (!enqueue->is_inline) enqueue->hold = DeviceHold::make_waiting(device());
  BP_TRY(add_items(enqueue));
  enqueue->entries = Lanes::prepare(enqueue->batch);
  enqueue->work = work;
  if (enqueue->is_inline) {
    record(enqueue);
    enqueue->batch->let_begin(BP_OK);
    lanes_->submit(&enqueue->entries, true);
  } else {
    enqueue->copies.push_back(work);
    reserve_marks(*enqueue);
    BP_TRY(put_on_stream(enqueue));
  }
  auto& counter = is_staged ? counters_.staged_operations : counters_.host_operations;
  counter.fetch_add(enqueue->ones.size(), std::memory_order_relaxed);
  return work;
}

Status ProcessGroup::put_on_stream(Enqueue* enqueue) {
  const Status status = contain([&] { return hold_on_stream(enqueue); });
  if (!status.ok()) enqueue->hold->end_copies(*enqueue->stream);
  return status;
}

/// Copies in, the hold, copies out. An error before the hold has no effect on others; one behind it
/// fails the group.
Status ProcessGroup::hold_on_stream(Enqueue* enqueue) {
  Stream& stream = *enqueue->stream;
  uint64_t staged_bytes = 0;
  for (const Enqueue::One& one : enqueue->ones) {
    if (one.staged.send == nullptr) continue;
    auto* const into = const_cast<std::byte*>(one.staged.send);
    BP_TRY(stream.enqueue_copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_end(into),
                                         place_of(one.call.send), one.call.send_bytes)));
    staged_bytes += one.call.send_bytes;
  }
  uint64_t seq = 0;
  bp_status code = BP_OK;
  {
    TimedLock held;
    BP_TRY(stream.hold(held));
    BP_TRY(stream.check_healthy());
    seq = stream.next_seq();
    enqueue->work->set_queue({&stream, seq});
    std::shared_ptr<void> owned = enqueue->batch;
    code = call_host_once(device().table(), stream.handle(), &owned,
                          [](void* batch, bp_status stream_status) {
                            static_cast<Batch*>(batch)->hold_stream(stream_status);
                          });
  }
  if (code != BP_OK) return stream.failure(code, Slot::kStreamHostCall);
  record(enqueue);
  // From here on other ranks may see it; a full queue may even wait for it.
  lanes_->submit(&enqueue->entries, false);
  counters_.staged_bytes.fetch_add(staged_bytes, std::memory_order_relaxed);
  finish_on_stream(enqueue, seq);
  return {};
}

Status ProcessGroup::copy_out(Enqueue* enqueue, uint64_t* out_seq) {
  for (const Enqueue::One& one : enqueue->ones) {
    if (one.staged.recv == nullptr) continue;
    BP_TRY_ASSIGN(*out_seq, enqueue->stream->enqueue_copy(
                                copy_args(BP_COPY_HOST_TO_DEVICE, place_of(one.call.recv),
                                          host_end(one.staged.recv), one.call.recv_bytes)));
    counters_.staged_bytes.fetch_add(one.call.recv_bytes, std::memory_order_relaxed);
  }
  return {};
}

void ProcessGroup::finish_on_stream(Enqueue* enqueue, uint64_t seq) {
  Status status = contain([&] { return copy_out(enqueue, &seq); });
  note_marks(*enqueue, seq);
  enqueue->work->set_last_seq(seq);
  if (status.ok()) status = contain([&] { note_faults(*enqueue); });
  if (status.ok()) status = contain([&] { return enqueue->hold->record(*enqueue->stream); });
  if (!status.ok()) {
    lose_results(*enqueue->work, status);
    // The hold on the stream ends with the group, and only then do its copies.
    enqueue->hold->end_copies(*enqueue->stream);
    return;
  }
  enqueue->work->set_hold(std::move(enqueue->hold));
  {
    const std::lock_guard lock(state_mutex_);
    new_copies_.splice(new_copies_.end(), enqueue->copies);
    open_tasks_.fetch_add(1, std::memory_order_relaxed);
  }
  has_news_.store(true);
  messenger_->kick();
}

/// The operation is in progress, and may even end well on all ranks; what it gives does not come
/// where it is wanted.
void ProcessGroup::lose_results(Work& work, const Status& why) noexcept {
  const auto make = [&](auto tell) { return tell_or_few(why.code(), "lost results", tell); };
  if (is_failing()) {  // and its end fails the stream: that is why
    return work.end_queue_keeping(make([this](Failure& failure) { failure = this->failure(); }));
  }
  const auto tell_all = [&](Failure& failure) {
    failure = Failure{.code = why.code(),
                      .words = why.message(),
                      .culprits = {args_.place.rank},
                      .sequence = work.sequence(),
                      .operation = work.operation()};
  };
  const Failure failure = make(tell_all);
  const Mark last = work.last_mark();
  [[maybe_unused]] const Status failed =
      contain([&] { last.stream->fail(last.seq, failure.to_stream_status()); });
  request_failure(make(tell_all));
  work.end_queue(failure);
}

Status ProcessGroup::run_inline(Enqueue* enqueue) {
  const Status ended = enqueue->work->wait(enqueue->begun + patience(*runtime_, enqueue->timeout));
  if (!enqueue->work->test()) {
    for (Enqueue::One& one : enqueue->ones) keep_for_ever(&one.call);
  }
  BP_TRY(ended);
  note_marks(*enqueue, 0);
  note_faults(*enqueue);
  return {};
}

}  // namespace bp::ccl
