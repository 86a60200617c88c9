// SPDX-License-Identifier: Apache-2.0
//
// From a call to work in progress, by one of three ways: the plugin's own collectives; messages
// over memory that the host has; messages through copies in host memory, which the stream itself
// makes before and after it is held.
#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "ccl/group/group.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/dispatch/call.hpp"
#include "core/emulation/host_call.hpp"
#include "core/runtime/copy_args.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kMostCalls = 1024;
constexpr size_t kMostSchedules = 64;

bp_mem place_of(const Ref<Tensor>& tensor) {
  if (!tensor) return {};
  return {tensor->storage().handle(), tensor->storage().offset_bytes() + tensor->offset_bytes()};
}

std::byte* address_of(const Ref<Tensor>& tensor) {
  const bp_mem mem = place_of(tensor);
  return reinterpret_cast<std::byte*>(mem.handle) + mem.offset_bytes;
}

bool same(const Operation& a, const Operation& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.reduction == b.reduction && a.root == b.root &&
         a.count == b.count && a.is_deterministic == b.is_deterministic;
}

}  // namespace

struct ProcessGroup::Enqueue {
  struct One {
    CheckedCall call;
    uint64_t sequence = 0;
    uint64_t record_id = 0;
    HostBuffers staged = {};  // in host memory, where it is staged
  };
  boost::container::small_vector<One, 1> ones;
  Stream* stream = nullptr;
  std::chrono::nanoseconds timeout{0};
  bool is_inline = false;  // the caller runs it and waits
  Clock::time_point begun;
  OperationPath path = OperationPath::kHost;
  Ref<Work> work;
  std::shared_ptr<Batch> batch;
  std::shared_ptr<DeviceHold> hold;

  // What is kept from when it has begun, made before: then there is no way back.
  Lanes::Lane entries;
  std::list<Ref<Work>> copies;
};

Result<Ref<Work>> ProcessGroup::enqueue(std::span<const Call> calls, const EnqueueArgs& args) {
  BP_TRY(check_not_forked());
  if (calls.empty() || calls.size() > kMostCalls) {
    return Status(BP_INVALID_ARGUMENT, "group " + args_.name + ": expected 1 to " +
                                           std::to_string(kMostCalls) + " operations, found " +
                                           std::to_string(calls.size()));
  }
  BP_TRY(device().check_open());
  BP_TRY(runtime_->check_open());
  Enqueue enqueue;
  enqueue.timeout = args.timeout.count() > 0 ? args.timeout : args_.timeout;
  if (enqueue.timeout > runtime_->wait_timeout()) {
    return Status(BP_INVALID_ARGUMENT, "group " + args_.name +
                                           ": a timeout is longer than "
                                           "BACKPLANE_TIMEOUT");
  }
  size_t native_count = 0;
  for (const Call& call : calls) {
    BP_TRY_ASSIGN(CheckedCall checked, check_call(call, args_.place, device()));
    if (is_native(checked)) ++native_count;
    enqueue.ones.push_back({.call = std::move(checked)});
  }
  if (native_count != 0 && native_count != calls.size()) {
    return Status(BP_UNSUPPORTED, "group " + args_.name +
                                      ": of these operations the device's own collectives have "
                                      "some only: call them one by one");
  }
  BP_TRY_ASSIGN(enqueue.stream, choose_stream(args));
  enqueue.is_inline = enqueue.stream->is_inline();
  Result<Ref<Work>> work = Ref<Work>();
  {
    const std::lock_guard lock(enqueue_mutex_);
    BP_TRY(failure().to_status());
    BP_TRY(order_inputs(&enqueue));
    enqueue.path = native_count != 0            ? OperationPath::kNative
                   : device().has_host_memory() ? OperationPath::kHost
                                                : OperationPath::kStaged;
    for (Enqueue::One& one : enqueue.ones) one.sequence = next_sequence(one.call.operation);
    work = contain(
        [&] { return native_count != 0 ? enqueue_native(&enqueue) : enqueue_host(&enqueue); });
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
    BP_TRY((*work)->wait(Clock::now() + runtime_->wait_timeout()));
  }
  return work;
}

Result<Stream*> ProcessGroup::choose_stream(const EnqueueArgs& args) {
  if (args.stream != nullptr && &args.stream->device() != &device()) {
    return Status(BP_INVALID_ARGUMENT, "group " + args_.name + " is on " + device().name() +
                                           ", and the stream is of " +
                                           args.stream->device().name());
  }
  // A caller who waits anyway need not wake another thread, where the host may touch the memory.
  if (args.waits && device().is_host_like()) return &device().default_stream();
  if (args.stream != nullptr && !args.stream->is_inline()) return args.stream;
  const std::lock_guard lock(enqueue_mutex_);
  if (own_stream_ == nullptr) {
    BP_TRY_ASSIGN(own_stream_, device().acquire_stream());
  }
  return own_stream_;
}

Status ProcessGroup::order_inputs(Enqueue* enqueue) {
  Stream& stream = *enqueue->stream;
  for (Enqueue::One& one : enqueue->ones) {
    if (one.call.send) {
      const bool is_strided = !one.call.send->contiguous();
      if (is_strided) {
        BP_TRY_ASSIGN(one.call.send, make_contiguous(one.call.send, stream));
      }
      if (is_strided) counters_.contiguous_copies.fetch_add(1, std::memory_order_relaxed);
      BP_TRY(one.call.send->storage().order_before(stream, Access::kRead));
    }
    if (one.call.recv) BP_TRY(one.call.recv->order_before_write(stream));
  }
  return {};
}

bool ProcessGroup::is_native(const CheckedCall& call) const {
  const Operation& operation = call.operation;
  if (communicator_ == nullptr || operation.kind == Kind::kBarrier) return false;
  const auto has = [&](Kind kind) {
    return native_rows_.has(static_cast<uint32_t>(kind), operation.dtype,
                            static_cast<uint32_t>(operation.reduction), operation.is_deterministic);
  };
  // Both ends must come to the same answer.
  if (kind_info(operation.kind).is_of_two) return has(Kind::kSend) && has(Kind::kRecv);
  return has(operation.kind);
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
  const auto now = Clock::now();
  enqueue->begun = now;
  for (size_t i = 0; i < enqueue->ones.size(); ++i) {
    Enqueue::One& one = enqueue->ones[i];
    one.record_id = recorder_.begin({.operation = one.call.operation,
                                     .sequence = one.sequence,
                                     .send_bytes = one.call.send_bytes,
                                     .recv_bytes = one.call.recv_bytes,
                                     .timeout_ns = static_cast<uint64_t>(enqueue->timeout.count()),
                                     .path = enqueue->path},
                                    now);
    if (enqueue->batch != nullptr) enqueue->batch->items()[i].record_id = one.record_id;
  }
}

Ref<Work> ProcessGroup::make_work(const Enqueue& enqueue, OperationPath path) {
  auto work = Ref<Work>::make(Work::Args{.sequence = enqueue.ones[0].sequence,
                                         .operation = enqueue.ones[0].call.operation,
                                         .more_count = enqueue.ones.size() - 1,
                                         .path = path,
                                         .messenger = messenger_,
                                         .runtime = runtime_});
  for (const Enqueue::One& one : enqueue.ones) {
    if (enqueue.is_inline) break;  // the call has them until it is over
    if (one.call.send) work->keep(one.call.send);
    if (one.call.recv) work->keep(one.call.recv);
  }
  return work;
}

/// Memory for what note_marks() notes.
void ProcessGroup::reserve_marks(const Enqueue& enqueue) {
  Stream& stream = *enqueue.stream;
  for (const Enqueue::One& one : enqueue.ones) {
    if (one.call.send) one.call.send->storage().note_use(stream, stream.issued_seq(), false);
  }
}

void ProcessGroup::note_marks(const Enqueue& enqueue, uint64_t seq) {
  for (const Enqueue::One& one : enqueue.ones) {
    if (one.call.send && seq != 0) {
      one.call.send->storage().note_use(*enqueue.stream, seq, false);
    }
    if (one.call.recv) one.call.recv->note_written(*enqueue.stream, seq, {});
    if (one.call.recv && seq == 0) one.call.recv->storage().note_host_write();
  }
}

/// Data faults of what is sent are faults of what is received.
void ProcessGroup::note_faults(const Enqueue& enqueue) {
  for (const Enqueue::One& one : enqueue.ones) {
    if (!one.call.recv || !one.call.send || !one.call.send->storage().may_fault()) continue;
    FaultOrigin origin;
    origin.contents = &one.call.send->storage();
    one.call.recv->storage().note_fault(origin);
  }
}

// --- by the plugin ---

Result<Ref<Work>> ProcessGroup::enqueue_native(Enqueue* enqueue) {
  Stream& stream = *enqueue->stream;
  std::vector<NativeOperation> operations;
  uint64_t collective_count = 0;
  for (const Enqueue::One& one : enqueue->ones) {
    operations.push_back({one.call.operation, place_of(one.call.send), place_of(one.call.recv)});
    if (!kind_info(one.call.operation.kind).is_of_two) ++collective_count;
  }
  auto task = std::make_shared<NativeTask>();
  task->before = DeviceHold::make(device());
  auto hold = DeviceHold::make(device());
  Ref<Work> work = make_work(*enqueue, OperationPath::kNative);
  CommunicatorChain& chain = CommunicatorChain::of(device());
  std::unique_lock taking_turns(chain.mutex(), std::defer_lock);
  std::list<CommunicatorChain::Turn> turn;
  if (!is_concurrent_) {
    taking_turns.lock();
    turn.push_back({communicator_->number(), &stream, 0, name(), work->operation()});
    BP_TRY_ASSIGN(task->turn_before, chain.order_before(*communicator_, stream));
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
  // Where the group has failed by now the stream has too, and waits tell of it.
  [[maybe_unused]] const Status recorded = hold->record(stream);
  work->set_queue({&stream, seq});
  work->set_hold(std::move(hold));
  const Enqueue::One& last = enqueue->ones.back();
  task->work = work;
  task->operation = last.call.operation;
  task->sequence = last.sequence;
  if (collective_count > 0) task->native_sequence = last_native_sequence_;
  task->record_id = last.record_id;
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
  return work;
}

// --- by messages ---

Result<HostRunPool*> ProcessGroup::runs_of(const Operation& operation, bool is_in_place) {
  const auto known = std::find_if(schedules_.begin(), schedules_.end(), [&](const auto& entry) {
    return entry.is_in_place == is_in_place && same(entry.operation, operation);
  });
  if (known != schedules_.end()) {
    schedules_.splice(schedules_.begin(), schedules_, known);
    return known->runs.get();
  }
  const Choice choice =
      choose({.operation = operation, .rank_count = args_.place.rank_count, .hosts = hosts_},
             hosts_.empty() ? kWithinHost : kBetweenHosts, rules_);
  if (choice.unfit_wish != nullptr && !has_told_unfit_) {
    has_told_unfit_ = true;
    log(BP_LOG_WARNING, "group " + args_.name + ": BACKPLANE_CCL_ALGORITHM wants " +
                            std::string(choice.unfit_wish->name) + " for " + describe(operation) +
                            ", which it cannot run among " +
                            std::to_string(args_.place.rank_count) +
                            " ranks: " + std::string(choice.algorithm->name) + " serves");
  }
  BP_TRY_ASSIGN(Schedule built,
                build(choice.algorithm->name,
                      {.operation = operation,
                       .place = args_.place,
                       .is_in_place = is_in_place,
                       .hosts = hosts_}));
  auto runs = std::make_shared<HostRunPool>(
      HostRunArgs{.operation = operation,
                  .group = agreement_.group,
                  .place = args_.place,
                  .schedule = std::make_shared<const Schedule>(std::move(built)),
                  .buffers = {}});
  schedules_.push_front({operation, is_in_place, std::move(runs)});
  if (schedules_.size() > kMostSchedules) schedules_.pop_back();
  return schedules_.front().runs.get();
}

/// Its kernels are found before any rank waits for this one. Used while the messenger is driven.
Result<Combiner*> ProcessGroup::combiner_of(const Operation& operation) {
  for (const KnownCombiner& known : combiners_) {
    if (known.dtype == operation.dtype && known.reduction == operation.reduction) {
      return known.combiner.get();
    }
  }
  Device* const computes = device().is_host_like() ? &device() : runtime_->host_device();
  if (computes == nullptr) {
    return Status(BP_UNSUPPORTED, describe(operation) +
                                      ": no device that computes on host memory is loaded to "
                                      "reduce with");
  }
  BP_TRY_ASSIGN(auto made, Combiner::make(*computes, operation.dtype, operation.reduction));
  combiners_.push_back({operation.dtype, operation.reduction, std::move(made)});
  return combiners_.back().combiner.get();
}

Status ProcessGroup::make_item(const CheckedCall& call, HostBuffers buffers, bool is_in_place,
                               uint64_t sequence, HostItem* out) {
  const Operation& operation = call.operation;
  Combiner* combiner = nullptr;
  if (kind_info(operation.kind).reduces) {
    BP_TRY_ASSIGN(combiner, combiner_of(operation));
  }
  BP_TRY_ASSIGN(HostRunPool* const runs, runs_of(operation, is_in_place));
  BP_TRY_ASSIGN(out->run, runs->take(sequence, buffers, combiner));
  return {};
}

Status ProcessGroup::add_items(Enqueue* enqueue) {
  const bool is_staged = enqueue->path == OperationPath::kStaged;
  for (Enqueue::One& one : enqueue->ones) {
    const CheckedCall& call = one.call;
    HostBuffers buffers;
    if (!is_staged) {
      if (call.send) buffers.send = address_of(call.send);
      if (call.recv) buffers.recv = address_of(call.recv);
    } else {
      if (call.send_bytes > 0) {
        BP_TRY_ASSIGN(buffers.send, enqueue->hold->allocate(call.send_bytes));
      }
      if (call.recv_bytes > 0) {
        BP_TRY_ASSIGN(buffers.recv, enqueue->hold->allocate(call.recv_bytes));
      }
      one.staged = buffers;
    }
    BP_TRY(make_item(call, buffers, call.is_in_place && !is_staged, one.sequence,
                     &enqueue->batch->items().emplace_back()));
  }
  return {};
}

Result<Ref<Work>> ProcessGroup::enqueue_host(Enqueue* enqueue) {
  const bool is_staged = enqueue->path == OperationPath::kStaged;
  Ref<Work> work = make_work(*enqueue, enqueue->path);
  enqueue->batch = std::make_shared<Batch>(work, enqueue->timeout);
  if (!enqueue->is_inline) enqueue->hold = DeviceHold::make(device());
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
  Failure failure{.code = why.code(), .words = "lost results"};  // takes no memory
  Failure requested = failure;
  [[maybe_unused]] const Status told = contain([&] {
    const Failure full{.code = why.code(),
                       .words = why.message(),
                       .culprits = {args_.place.rank},
                       .sequence = work.sequence(),
                       .operation = work.operation()};
    requested = full;
    failure = full;
  });
  const Mark last = work.last_mark();
  [[maybe_unused]] const Status failed =
      contain([&] { last.stream->fail(last.seq, failure.to_stream_status()); });
  request_failure(std::move(requested));
  work.end_queue(failure);
}

Status ProcessGroup::run_inline(Enqueue* enqueue) {
  // The group's deadline ends it; this one is for a driver that is stuck.
  const Status ended =
      enqueue->work->wait(enqueue->begun + enqueue->timeout + runtime_->wait_timeout());
  if (!enqueue->work->test()) {
    // Whoever drives may still use the memory, for all that is known.
    for (Enqueue::One& one : enqueue->ones) {
      one.call.send.detach();
      one.call.recv.detach();
    }
  }
  BP_TRY(ended);
  note_marks(*enqueue, 0);
  note_faults(*enqueue);
  enqueue->work->end_queue({});
  return {};
}

}  // namespace bp::ccl
