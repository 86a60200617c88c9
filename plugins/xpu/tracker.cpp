// SPDX-License-Identifier: Apache-2.0
//
// Retiring commands in order, and finding the words of a failure that came from another stream.
#include "tracker.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace bp::xpu {
namespace {

constexpr size_t kCompactAfter = 64;

std::shared_ptr<const StreamFailure> describe(const Command& command, cl_int status) {
  return std::make_shared<const StreamFailure>(StreamFailure{
      .status = status_of_command(status),
      .code = status,
      .op_seq = command.op_seq,
      .words = std::string(command.what) + " failed on the device: " + command_error_text(status)});
}

}  // namespace

void Tracker::reserve(size_t command_count) {
  const std::lock_guard lock(mutex_);
  if (pending_.size() + command_count > pending_.capacity()) {
    pending_.reserve(2 * (pending_.size() + command_count));
  }
}

uint64_t Tracker::add(Command command) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({std::move(command), ++last_seq_});
  return last_seq_;
}

void Tracker::adopt(std::shared_ptr<const StreamFailure> origin) {
  const std::lock_guard lock(mutex_);
  fail(++last_seq_, std::move(origin));
}

void Tracker::close() {
  for (size_t i = 0; i < kept_count(); ++i) {
    if (const Owned<cl_event> waited = waited_event(i)) driver_.wait(waited.get());
  }
  observe();
  const std::lock_guard lock(mutex_);
  pending_.clear();
  front_ = 0;
  finished_seq_ = last_seq_;
}

size_t Tracker::kept_count() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

Owned<cl_event> Tracker::waited_event(size_t index) const noexcept {
  const std::lock_guard lock(mutex_);
  if (index >= pending_.size()) return {};
  const cl_event event = pending_[index].command.waited.event.get();
  if (event == nullptr || driver_.clRetainEvent(event) != CL_SUCCESS) return {};
  return {driver_, event};
}

void Tracker::fail(uint64_t seq, std::shared_ptr<const StreamFailure> failure) {
  if (failure_ == nullptr) failure_ = std::move(failure);
  failed_seq_ = std::min(failed_seq_, seq);
}

// The events of a failed stream are kept until close: PoCL 3.1 frees an event that failed early and
// still touches it when what it waited for ends.
void Tracker::drop_front() {
  finished_seq_ = pending_[front_].seq;
  front_ += 1;
  if (failure_ != nullptr) return;
  pending_[front_ - 1] = {};
  if (front_ == pending_.size()) {
    pending_.clear();
    front_ = 0;
  } else if (front_ >= kCompactAfter && 2 * front_ >= pending_.size()) {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(front_));
    front_ = 0;
  }
}

// A wait has the outcome of the commands it waited for, in their words, whatever the driver made of
// the wait itself: PoCL 3.1 ends what is behind a failure before what is in front of it, others let
// it run. Their tracker's lock is taken for that, and two streams may look at each other at once,
// hence not under our own.
void Tracker::observe() {
  std::unique_lock lock(mutex_);
  while (front_ < pending_.size()) {
    const Command& command = pending_[front_].command;
    const uint64_t seq = pending_[front_].seq;
    const cl_int status = driver_.execution_status(command.event.get());
    if (status > CL_COMPLETE) return;
    if (command.waited.source == nullptr) {
      if (status < CL_COMPLETE) fail(seq, describe(command, status));
      drop_front();
      continue;
    }
    const std::shared_ptr<Tracker> waited = command.waited.source;
    const uint64_t waited_seq = command.waited.seq;
    std::shared_ptr<const StreamFailure> found;
    if (status < CL_COMPLETE) found = describe(command, status);
    lock.unlock();
    if (!waited->is_settled(waited_seq)) return;
    if (auto origin = waited->failure_up_to(waited_seq)) found = std::move(origin);
    lock.lock();
    // Another thread may have come here first.
    if (front_ == pending_.size() || pending_[front_].seq != seq) continue;
    if (found != nullptr) fail(seq, std::move(found));
    drop_front();
  }
}

std::shared_ptr<const StreamFailure> Tracker::failure() {
  observe();
  const std::lock_guard lock(mutex_);
  return failure_;
}

// What is known already is answered without looking further: streams that wait for each other in
// turn would look at each other for ever.
bool Tracker::is_settled(uint64_t seq) {
  if (is_known(seq)) return true;
  observe();
  return is_known(seq);
}

bool Tracker::is_known(uint64_t seq) const {
  const std::lock_guard lock(mutex_);
  return finished_seq_ >= seq || failed_seq_ <= seq;
}

std::shared_ptr<const StreamFailure> Tracker::failure_up_to(uint64_t seq) {
  if (!is_known(seq)) observe();
  const std::lock_guard lock(mutex_);
  return failed_seq_ <= seq ? failure_ : nullptr;
}

uint64_t Tracker::last_seq() const {
  const std::lock_guard lock(mutex_);
  return last_seq_;
}

Owned<cl_event> Tracker::last_event() const {
  const std::lock_guard lock(mutex_);
  if (front_ == pending_.size()) return {};
  return share(driver_, pending_.back().command.event);
}

}  // namespace bp::xpu
