// SPDX-License-Identifier: Apache-2.0
//
// Ordering, waiting, the sticky failure of a stream and its end, and finding the operator that a
// failure belongs to.
#include "core/runtime/stream.hpp"

#include <algorithm>
#include <thread>

#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/plugin/foreign.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

constexpr std::string_view kInUse = "the stream was still in use";

}  // namespace

Stream::Stream(Device& device, bp_stream* handle, uint64_t index, StreamOrigin origin)
    : device_(device),
      handle_(handle),
      is_inline_(handle == nullptr),
      is_wrapped_(origin == StreamOrigin::kWrapped),
      index_(index),
      pool_(device.allocator().pool(this)) {}

Status Stream::check_healthy() const {
  if (first_failure_.ok()) [[likely]]
    return {};
  if (first_failure_.code() == BP_DEVICE_LOST) return first_failure_;
  return Status(BP_POISONED,
                "the stream failed before and was not reset: " + first_failure_.message())
      .with_op(first_failure_.op());
}

Status Stream::wait_to_hold(TimedLock& out_lock) {
  if (lock_within(out_lock, device_.wait_timeout())) return {};
  return timed_out("a call on the stream by another thread has not returned");
}

bool Stream::hold_briefly(TimedLock& out_lock) {
  out_lock = TimedLock(mutex_, std::defer_lock);
  return lock_within(out_lock, std::chrono::seconds(1));
}

bool Stream::is_healthy() {
  TimedLock lock;
  return hold(lock).ok() && first_failure_.ok();
}

Result<uint64_t> Stream::enqueue_copy(const bp_copy_args& args) {
  uint64_t seq = 0;
  bp_status code = BP_OK;
  {
    TimedLock lock;
    BP_TRY(hold(lock));
    BP_TRY(check_healthy());
    seq = next_seq();
    code = device_.table().mem_copy_async(handle(), args);
  }
  if (code != BP_OK) return failure(code, Slot::kMemCopyAsync);
  return seq;
}

bool Stream::is_over(uint64_t seq) {
  if (known_done(seq)) return true;
  // Who holds it may be in a launch that waits for room in the queue: then it is not over.
  const TimedLock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && failure_is_settled_;
}

Status Stream::wait_for(Stream& producer, uint64_t seq) {
  if (&producer == this || producer.is_inline() || producer.known_done(seq)) return {};
  if (is_inline() || &producer.device_ != &device_) {
    device_.counters().host_waits.fetch_add(1, std::memory_order_relaxed);
    return producer.sync();
  }
  BP_TRY_ASSIGN(const bool is_known, has_waited_for(producer, seq));
  return is_known ? Status() : device_.insert_wait(*this, producer);
}

void Stream::note_wait(Stream& producer, uint64_t seq) {
  // A piece of work: what comes behind it is not done as long as the producer is not.
  next_seq();
  for (Mark& wait : waits_) {
    if (wait.stream != &producer) continue;
    wait.seq = std::max(wait.seq, seq);
    return;
  }
  // Without memory a later wait is one more.
  [[maybe_unused]] const Status noted = contain([&] { waits_.push_back({&producer, seq}); });
}

// A wait covers all that was enqueued before it, so memory that goes back piece by piece after
// another stream's work needs one for all pieces.
Result<bool> Stream::has_waited_for(const Stream& producer, uint64_t seq) {
  TimedLock lock;
  BP_TRY(hold(lock));
  if (handle() == nullptr || !first_failure_.ok()) return false;
  return std::any_of(waits_.begin(), waits_.end(),
                     [&](const Mark& wait) { return wait.stream == &producer && wait.seq >= seq; });
}

Status Stream::sync() {
  BP_TRY(check_not_forked());
  BP_TRY(device_.check_open());
  uint64_t issued = 0;
  BP_TRY(wait_until_done(&issued));
  BP_TRY(collect_faults(issued));
  // Published last: who finds its work done must find its faults too.
  uint64_t done = done_seq_.load(std::memory_order_relaxed);
  while (done < issued && !done_seq_.compare_exchange_weak(done, issued)) {
  }
  return {};
}

Status Stream::sync_and_claim() {
  BP_TRY(sync());
  return claim_fault(0, UINT64_MAX);
}

Status Stream::sync_and_claim_own() {
  BP_TRY(sync());
  BP_TRY(claim_fault(lease_seq_.load() + 1, UINT64_MAX));
  const FaultMarks marks = unseen_faults();
  BP_TRY(marks.wait());
  return marks.take();
}

void Stream::begin_lease() {
  lease_seq_ = issued_seq();
  std::lock_guard lock(unseen_mutex_);
  unseen_faults_.clear();
}

Status Stream::query() {
  BP_TRY(device_.check_open());
  if (is_inline()) return {};
  bp_status code = BP_PENDING;
  if (const TimedLock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    BP_TRY(first_failure_);
    bp_stream* const queue = handle();
    if (queue == nullptr) return {};  // it has ended: what was launched is done
    code = device_.table().stream_query(queue);
  }
  if (code == BP_OK) return {};
  if (code == BP_PENDING) return Status(BP_PENDING, device_.name() + ": the stream is at work");
  return note_failure(code, Slot::kStreamQuery);
}

Status Stream::wait_until_done(uint64_t* out_issued) {
  // reset() replaces the handle only when no thread is inside a wait.
  struct InProgress {
    Stream& stream;
    ~InProgress() { --stream.waits_in_progress_; }
  };
  TimedLock lock;
  BP_TRY(hold(lock));
  // A failure that a call came upon says nothing about the work before that call.
  if (failure_is_settled_) return first_failure_;
  bp_stream* const queue = handle();
  const bp_status copied = queue != nullptr ? copy_fault_words() : BP_OK;
  *out_issued = issued_seq();
  if (queue == nullptr) return {};  // inline, or ended: what was launched is done
  ++waits_in_progress_;
  const InProgress in_progress{*this};
  lock.unlock();
  // The words are read by themselves then; but the failure may have been the stream's.
  if (copied != BP_OK) {
    device_.warn_of_detour(failure(copied, Slot::kMemCopyAsync), Slot::kMemCopyAsync);
  }
  device_.counters().waits.fetch_add(1, std::memory_order_relaxed);
  const auto timeout_ns = static_cast<uint64_t>(device_.wait_timeout().count());
  const bp_status code = device_.table().stream_sync(queue, timeout_ns);
  if (code == BP_TIMEOUT) return timed_out();
  if (code != BP_OK) return note_failure(code, Slot::kStreamSync);
  BP_TRY(check_reports(queue));
  BP_TRY(hold(lock));
  failure_is_settled_ = !first_failure_.ok();
  return first_failure_;
}

// The results of a failure that the plugin tells of, and then answers OK, would be taken for good.
Status Stream::check_reports(bp_stream* handle) {
  const auto report = take_report(handle);
  if (!report || !can_fail_work(report->status)) return {};
  const Culprit who = report->op_seq != 0 ? culprit(report->op_seq) : suspects();
  const std::string what = device_.table().gate->call_name(Slot::kStreamSync) +
                           " answered OK, but the plugin reports a failure of " + who.words;
  return keep_failure(HostContext::error_of(report->status, what, report).with_op(who.op));
}

std::optional<PluginReport> Stream::take_report(bp_stream* handle) {
  if (handle == nullptr) return std::nullopt;
  const std::lock_guard lock(report_mutex_);
  auto report = device_.plugin().host().take_stream_report(handle);
  if (!report || kept_report_ || !can_fail_work(report->status)) return report;
  kept_report_ = std::move(report);
  return kept_report_;
}

std::optional<PluginReport> Stream::kept_report(bp_status code) {
  const std::lock_guard lock(report_mutex_);
  const bool is_reason =
      kept_report_ && (code == BP_POISONED || kept_report_->status == known_status(code));
  return is_reason ? kept_report_ : std::nullopt;
}

Status Stream::note_failure(bp_status code, Slot slot) { return keep_failure(failure(code, slot)); }

Status Stream::keep_failure(const Status& status) {
  TimedLock lock;
  if (!hold(lock).ok()) return status;
  if (first_failure_.ok()) first_failure_ = status;
  failure_is_settled_ = true;
  return first_failure_;
}

void Stream::fail(uint64_t seq, const Status& status) {
  {
    TimedLock lock;
    if (!hold(lock).ok()) return;
    was_failed_.store(true, std::memory_order_release);
    if (!first_failure_.ok())
      return;  // which was spread already, or travels in the plugin's queues
    first_failure_ = status;
  }
  device_.spread_failure(*this, seq, status);
}

Status Stream::failure_told(bp_status code) {
  if (TimedLock lock; hold_briefly(lock) && !first_failure_.ok()) return first_failure_;
  const Status told = failure(code, Slot::kStreamSync);
  if (!can_fail_work(told.code())) return told;  // it tells of who asks
  TimedLock lock;
  if (!hold_briefly(lock)) return told;
  if (first_failure_.ok()) first_failure_ = told;
  return first_failure_;
}

bool Stream::has_waited_from(const Stream& producer, uint64_t seq) {
  TimedLock lock;
  if (!hold(lock).ok()) return false;
  return std::any_of(waits_.begin(), waits_.end(),
                     [&](const Mark& wait) { return wait.stream == &producer && wait.seq >= seq; });
}

Status Stream::reset() {
  BP_TRY(device_.check_open());
  if (is_inline()) return {};
  if (is_wrapped()) {
    return Status(BP_UNSUPPORTED, device_.name() +
                                      ": a wrapped stream is not reset here: the queue is the "
                                      "application's, which makes another one and wraps that");
  }
  TimedLock collecting;
  TimedLock lock;
  BP_TRY(drain(collecting, lock));
  return begin_anew();
}

Status Stream::drain(TimedLock& out_collecting, TimedLock& out_lock) {
  constexpr auto kPause = std::chrono::microseconds(200);
  const auto deadline = std::chrono::steady_clock::now() + device_.wait_timeout();
  out_collecting = TimedLock(collect_mutex_, std::defer_lock);
  for (uint64_t drained_seq = 0;;) {
    if (const Status status = sync(); status.code() == BP_TIMEOUT) return status;
    if (!lock_within(out_collecting, device_.wait_timeout())) return timed_out(kInUse);
    BP_TRY(hold(out_lock));
    const bool is_late = std::chrono::steady_clock::now() >= deadline;
    if (is_late) return timed_out(kInUse);
    // Work that came since the wait must not be lost with the handle, unless it is lost already.
    const bool is_done =
        !first_failure_.ok() || drained_seq == issued_seq() || known_done(issued_seq());
    if (waits_in_progress_ == 0 && is_done) return {};
    drained_seq = issued_seq();
    out_lock.unlock();
    out_collecting.unlock();
    std::this_thread::sleep_for(kPause);
  }
}

Status Stream::begin_anew() {
  const DeviceTable& table = device_.table();
  bp_stream_args args{};
  args.struct_size = sizeof(args);
  bp_stream* fresh = nullptr;
  bp_status code = table.stream_create(args, &fresh);
  if (code != BP_OK) return device_.failure(code, Slot::kStreamCreate);
  code = device_.end_queue(handle_.exchange(fresh));
  waits_.clear();
  BP_TRY(zero_fault_words());
  leave_failure();
  return code == BP_OK ? Status() : device_.failure(code, Slot::kStreamDestroy);
}

Status Stream::end() {
  TimedLock collecting;
  TimedLock lock;
  BP_TRY(drain(collecting, lock));
  const bp_status code = device_.end_queue(handle_.exchange(nullptr));
  leave_failure();
  return code == BP_OK ? Status() : device_.failure(code, Slot::kStreamDestroy);
}

Status Stream::begin(bp_stream* handle) {
  TimedLock lock;
  BP_TRY(hold(lock));
  handle_ = handle;
  const Status status = zero_fault_words();
  if (!status.ok()) handle_ = nullptr;
  return status;
}

Status Stream::zero_fault_words() {
  if (fault_words_.handle == 0) return {};
  fault_count_ = 0;
  fault_copy_count_ = 0;
  return device_.fill_zero(*this, fault_words_, kFaultWords * sizeof(bp_fault_word));
}

void Stream::leave_failure() {
  if (!first_failure_.ok()) {
    add_trouble({done_seq_.load() + 1, issued_seq(), TroubleKind::kLostWork, first_failure_});
    first_failure_ = {};
    failure_is_settled_ = false;
    was_failed_.store(false, std::memory_order_release);
  }
  {
    const std::lock_guard lock(report_mutex_);
    kept_report_.reset();
  }
  done_seq_.store(issued_seq(), std::memory_order_release);
}

Result<NativeQueue> Stream::native_handle() {
  BP_TRY(device_.check_open());
  const DeviceTable& table = device_.table();
  if (is_inline() || !table.has_native(BP_FEATURE_NATIVE_BIT)) return device_.no_native_streams();
  bp_native_stream native{};
  native.struct_size = sizeof(native);
  bp_status code = BP_OK;
  {
    TimedLock lock;
    BP_TRY(hold(lock));
    code = table.stream_native_handle(handle(), &native);
  }
  if (code != BP_OK) return device_.failure(code, Slot::kStreamNativeHandle);
  if (native.kind.len == 0 || !is_readable(native.kind)) {
    return Status(BP_INTERNAL, device_.name() + ": stream_native_handle gave no kind");
  }
  return NativeQueue{std::string(native.kind.ptr, native.kind.len), native.handle};
}

std::optional<Stream::RecentOp> Stream::find_recent(uint64_t op_seq) {
  // The launch may have been another stream's: failures travel along waits.
  Stream* owner = device_.stream_at(op_seq >> kSeqBits);
  const uint64_t seq = op_seq & kSeqMask;
  if (owner == nullptr || seq == 0) return std::nullopt;
  TimedLock lock;
  if (!owner->hold_briefly(lock)) return std::nullopt;
  const RecentOp& recent = owner->recent_ops_[seq % kRecentOps];
  return recent.seq == seq ? std::optional(recent) : std::nullopt;
}

Stream::Culprit Stream::culprit(uint64_t op_seq) {
  const auto recent = find_recent(op_seq);
  if (!recent) return {"an earlier operator", ""};
  const std::string op(device_.runtime().registry().schema(recent->op).name);
  return {"operator " + op, op};
}

Stream::Culprit Stream::suspects() {
  constexpr size_t kMostNames = 4;
  TimedLock lock;
  if (!hold_briefly(lock)) return {"an earlier operator", ""};
  const uint64_t issued = issued_seq();
  const uint64_t oldest = issued > kRecentOps ? issued - kRecentOps : 0;
  std::string names;
  size_t count = 0;
  for (uint64_t seq = std::max(done_seq_.load(), oldest) + 1; seq <= issued; ++seq) {
    const RecentOp& recent = recent_ops_[seq % kRecentOps];
    if (recent.seq != seq) continue;  // a copy
    if (++count > kMostNames) continue;
    if (count > 1) names += ", ";
    names += device_.runtime().registry().schema(recent.op).name;
  }
  if (count == 0) return {"a copy", ""};
  if (count == 1) return {"operator " + names, names};
  if (count > kMostNames) names += " and " + std::to_string(count - kMostNames) + " more";
  return {"one of: " + names, ""};
}

Status Stream::timed_out(std::string_view what) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(device_.wait_timeout());
  return Status(BP_TIMEOUT, device_.name() + ": " + std::string(what) + " after " +
                                std::to_string(seconds.count()) + " s (BACKPLANE_TIMEOUT)");
}

Status Stream::failure(bp_status code, CallTitle title, const bp_kernel* kernel,
                       std::string_view op) {
  if (code == BP_DEVICE_LOST) device_.mark_lost();
  bp_stream* const handle = this->handle();
  HostContext& host = device_.plugin().host();
  auto report = take_report(handle);
  if (!report) {
    report = host.take_report();
    if (report && report->status != known_status(code)) report.reset();  // of another failure
  }
  if (!report) report = kept_report(code);
  const bool is_emulated = handle != nullptr && device_.table().stream_emulated();
  const Failure work = is_emulated ? emulated_failure(handle) : Failure();
  const uint64_t op_seq = report && report->op_seq != 0 ? report->op_seq : work.op_seq;
  // A call that fails has a caller to name it; work that fails later has not.
  const std::string_view call = title.text;
  const bool is_wait =
      call == CallTitle(Slot::kStreamSync).text || call == CallTitle(Slot::kStreamQuery).text;
  const bool is_late = is_wait || code == BP_POISONED;
  Culprit who;
  if (op_seq != 0 && !is_inline()) {
    const auto recent = find_recent(op_seq);
    if (is_late) title = Slot::kLaunch;
    if (is_late) kernel = recent ? recent->kernel : work.kernel;
    who = culprit(op_seq);
    if (!recent && work.kernel != nullptr) {
      who.op = foreign_text(work.kernel->op);
      who.words = "operator " + who.op;
    }
  } else if (is_late && work.slot != Slot::kStreamSync) {
    title = work.slot;
  } else if (is_wait) {
    who = suspects();
  } else if (!op.empty()) {
    who = {"operator " + std::string(op), std::string(op)};
  }
  std::string what = device_.table().gate->call_name(title, kernel);
  // The gate's words begin with the call, which stands in front of them here.
  if (report && report->message.starts_with(what + " ")) report->message.erase(0, what.size() + 1);
  if (!who.words.empty()) what += " (" + who.words + ")";
  what += " failed";
  // A call that answers POISONED takes the words of the cause; they are kept for those who wait.
  // Words that say no more than POISONED are not the cause's.
  const bool tells_cause = report && report->stream != nullptr && report->status != BP_POISONED;
  if (TimedLock lock; code == BP_POISONED && tells_cause && hold_briefly(lock)) {
    const bp_status cause = can_fail_work(report->status) ? report->status : BP_INTERNAL;
    if (first_failure_.ok()) {
      first_failure_ = HostContext::error_of(cause, what, report).with_op(who.op);
    }
  }
  return HostContext::error_of(code, what, report).with_op(who.op);
}

}  // namespace bp
