// SPDX-License-Identifier: Apache-2.0
//
// See work.hpp.
#include "ccl/group/work.hpp"

#include <algorithm>

namespace bp::ccl {
namespace {

/// How long a failed queue waits for the group's words.
constexpr auto kVerdict = std::chrono::seconds(2);

}  // namespace

std::shared_ptr<DeviceHold> Work::hold() const {
  const std::lock_guard lock(mutex_);
  return hold_;
}

std::string Work::operation() const {
  std::string words = describe(args_.operation);
  if (args_.more_count > 0) words += " and " + std::to_string(args_.more_count) + " more";
  return words;
}

bp_status Work::ask_queue() {
  if (queue_is_over_.load(std::memory_order_acquire)) return BP_OK;
  const auto held = hold();
  return held != nullptr ? held->query() : BP_OK;
}

Failure Work::explain(bp_status answer) const noexcept {
  return tell_or_few(answer, "queue failed", [&](Failure& failure) {
    const auto held = hold();
    const Status why = held != nullptr ? held->explain(answer) : Status(answer, failure.words);
    failure = Failure{.code = why.code(),
                      .words = why.message(),
                      .sequence = args_.sequence,
                      .operation = operation()};
  });
}

/// The first one stays. Where memory is short its code has to tell. A group that was aborted waited
/// for nothing; this did.
void Work::keep_failure(const Failure& failure) noexcept {
  if (!failure_.ok() || failure.ok()) return;
  const auto keep = [&] {
    failure_ = failure;
    if (!failure.operation.empty()) return;
    failure_.operation = operation();
    failure_.sequence = args_.sequence;
  };
  if (!contain(keep).ok()) failure_ = {.code = failure.code};
  has_failed_.store(true, std::memory_order_release);
}

KeptTensors Work::end_queue(const Failure& failure) noexcept {
  end_queue_keeping(failure);
  KeptTensors kept;
  const std::lock_guard lock(mutex_);
  kept.swap(kept_);
  return kept;
}

void Work::end_queue_keeping(const Failure& failure) noexcept {
  std::shared_ptr<DeviceHold> held;  // ends after the lock
  const std::lock_guard lock(mutex_);
  if (!queue_is_over_.load()) keep_failure(failure);
  held.swap(hold_);
  queue_is_over_.store(true, std::memory_order_release);
}

void Work::keep_for_ever() {
  // A gate that has not been reached keeps its batch, and the batch this.
  retain();
}

bool Work::test() {
  if (!ranks_are_over()) return false;
  if (queue_is_over_.load(std::memory_order_acquire)) return true;
  if (has_failed_.load(std::memory_order_acquire)) return true;
  // A failure is the group's to explain, which knows more than the queue.
  if (ask_queue() != BP_OK) return false;
  note_over();
  return true;
}

void Work::note_over() {
  // Else who uses its tensors in another stream would come after this one's later work too, which
  // may wait for a rank that waits for that use.
  if (const Mark last = last_mark(); last.stream != nullptr) last.stream->try_note_done(last.seq);
  queue_is_over_.store(true, std::memory_order_release);  // for good, whatever the group does later
}

Status Work::wait(Clock::time_point deadline) {
  const auto is_over = [this] { return ranks_are_over(); };
  bool is_late = !args_.messenger->drive_until(is_over, deadline);
  while (!is_late && !test()) {
    // In slices, so that a close of the Runtime finds nobody inside for long.
    constexpr auto kSlice = std::chrono::milliseconds(50);
    const auto left =
        std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration(0), kSlice);
    const auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const auto held = hold();
    const bp_status answer = held != nullptr ? held->wait(static_cast<uint64_t>(left_ns)) : BP_OK;
    if (answer == BP_OK) {
      note_over();
      break;
    }
    is_late = Clock::now() >= deadline;
    if (answer == BP_PENDING || answer == BP_TIMEOUT) continue;
    args_.messenger->kick();  // the group looks, and says why
    const auto told = [this] { return !failure().ok(); };
    if (!args_.messenger->drive_until(told, std::min(deadline, Clock::now() + kVerdict))) {
      end_queue(explain(answer));
    }
  }
  if (is_late && !test()) {
    return Status(BP_TIMEOUT, operation() + " is still in progress");
  }
  return has_failed_.load(std::memory_order_acquire) ? failure().to_status() : Status();
}

Failure Work::failure() const {
  if (!has_failed_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status Work::order_before(Stream& stream) {
  const Mark last = last_mark();
  if (last.stream == nullptr) return wait(Clock::now() + stream.device().wait_timeout());
  return stream.wait_for(*last.stream, last.seq);
}

void Work::end(const Failure& failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    // The plugin's own collectives are over when the queue says so.
    const bool is_over =
        args_.path == OperationPath::kNative ? queue_is_over_.load() : ranks_are_over();
    if (is_over) return;
    keep_failure(failure);
  }
  ranks_are_over_.store(true, std::memory_order_release);
}

}  // namespace bp::ccl
