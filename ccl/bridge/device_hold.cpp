// SPDX-License-Identifier: Apache-2.0
//
// See device_hold.hpp.
#include "ccl/bridge/device_hold.hpp"

#include <utility>

namespace bp::ccl {

std::shared_ptr<DeviceHold> DeviceHold::make(Device& device) {
  std::shared_ptr<DeviceHold> hold(new DeviceHold(device));
  device.track(hold.get());
  return hold;
}

std::shared_ptr<DeviceHold> DeviceHold::make_waiting(Device& device) {
  std::shared_ptr<DeviceHold> hold = make(device);
  device.begin_rank_wait();
  hold->waits_for_ranks_ = true;
  return hold;
}

DeviceHold::~DeviceHold() {
  if (waits_for_ranks_) device_.end_rank_wait();
  release_plugin_objects();
  // Only now: a close of the device waits for those that it knows of.
  if (!device_.closed()) device_.untrack(this);
}

/// What changes the event waits for who waits for it, at most as long as a call of the plugin may
/// take.
std::unique_lock<std::mutex> DeviceHold::lock_alone() {
  std::unique_lock lock(mutex_);
  nobody_waits_.wait(lock, [this] { return waiting_count_ == 0; });
  return lock;
}

void DeviceHold::release_plugin_objects() {
  const std::unique_lock lock = lock_alone();
  if (std::exchange(is_released_, true)) return;
  for (void* const memory : memory_) device_.free_host_memory(memory);
  if (event_ != nullptr) device_.give_event(event_);
}

Result<std::byte*> DeviceHold::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  memory_.reserve(memory_.size() + 1);
  void* memory = nullptr;
  BP_TRY(device_.allocate_host_memory(bytes, &memory));
  memory_.push_back(memory);
  return static_cast<std::byte*>(memory);
}

Status DeviceHold::record(Stream& stream) {
  const std::unique_lock lock = lock_alone();
  stream_ = &stream;
  recorded_ = contain([&] { return record_now(stream); });
  return recorded_;
}

Status DeviceHold::record_now(Stream& stream) {
  if (event_ == nullptr) {
    BP_TRY_ASSIGN(event_, device_.take_event());
  }
  bp_status code = BP_OK;
  {
    TimedLock held;
    BP_TRY(stream.hold(held));
    BP_TRY(stream.check_healthy());
    code = device_.table().event_record(event_, stream.handle());
  }
  return code == BP_OK ? Status() : stream.failure(code, Slot::kEventRecord);
}

Status DeviceHold::copy(Stream& stream, std::span<const bp_copy_args> copies) {
  const Status queued = contain([&]() -> Status {
    for (const bp_copy_args& args : copies) BP_TRY(stream.enqueue_copy(args));
    return record(stream);
  });
  if (!queued.ok()) end_copies(stream);
  return queued;
}

void DeviceHold::end_copies(Stream& stream) noexcept {
  const uint64_t seq = stream.issued_seq();
  // Where memory is short that may not even have begun to wait.
  const Status ended = contain([&] { return stream.sync(); });
  if (ended.ok() || ended.code() == BP_DEVICE_LOST || stream.is_over(seq)) return;
  const std::lock_guard lock(mutex_);
  memory_.clear();
}

bp_status DeviceHold::query() {
  const std::lock_guard lock(mutex_);
  if (is_released_) return BP_GONE;
  if (!recorded_.ok() || event_ == nullptr) return recorded_.code();
  return device_.table().event_query(event_);
}

bp_status DeviceHold::wait(uint64_t timeout_ns) {
  bp_event* event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (is_released_) return BP_GONE;
    if (!recorded_.ok() || event_ == nullptr) return recorded_.code();
    event = event_;
    ++waiting_count_;
  }
  // Without the lock: who drives the group asks query() meanwhile, and drives other groups, too.
  const bp_status answer = device_.table().event_sync(event, timeout_ns);
  const std::lock_guard lock(mutex_);
  if (--waiting_count_ == 0) nobody_waits_.notify_all();
  return answer;
}

Status DeviceHold::explain(bp_status code) {
  if (code == BP_GONE) return Status(BP_GONE, device_.name() + " was closed with its Runtime");
  Stream* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // POISONED tells of an earlier failure, which the stream knows.
    if (!recorded_.ok() && recorded_.code() != BP_POISONED) return recorded_;
    stream = stream_;
  }
  return stream != nullptr ? stream->failure_told(code) : device_.failure(code, Slot::kEventQuery);
}

}  // namespace bp::ccl
