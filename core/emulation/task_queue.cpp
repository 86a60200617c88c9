// SPDX-License-Identifier: Apache-2.0
//
// One mutex guards the queue and is never held while a task runs. The worker owns a share of the
// queue, so the queue outlives a stream that one of its own tasks destroyed.
#include "core/emulation/task_queue.hpp"

#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "core/emulation/deadline.hpp"

namespace bp {

bp_status TaskQueue::add(std::unique_ptr<Task> task, bool even_if_failed) {
  const std::lock_guard lock(mutex_);
  if (failure_.failed() && !even_if_failed) return BP_POISONED;
  if (!worker_.joinable()) {
    worker_ = std::thread([self = shared_from_this()] { self->work(); });
  }
  tasks_.push_back(std::move(task));
  ++enqueued_count_;
  task_added_.notify_one();
  return BP_OK;
}

void TaskQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    task_added_.wait(lock, [this] { return finishing_ || !tasks_.empty(); });
    if (tasks_.empty()) {
      has_ended_ = true;
      task_done_.notify_all();
      return;
    }
    run_front(&lock);
    if (!lock.owns_lock()) return;
  }
}

void TaskQueue::run_front(std::unique_lock<std::mutex>* lock) {
  std::unique_ptr<Task> task = std::move(tasks_.front());
  tasks_.pop_front();
  Failure failure = failure_;
  lock->unlock();
  {
    // Plugins log under the device's lock. The lines come before the task counts as done: a caller
    // that waited for it has them, and holds no lock meanwhile.
    const LogScope lines;
    // Whatever a task runs out of, the process and the tasks behind it go on.
    const Status thrown = contain([&] { task->run(&failure); });
    if (!thrown.ok() && !failure.failed()) failure.status = thrown.code();
    task.reset();
  }
  if (forked()) return;  // a task forked: in the child no thread adds or waits
  lock->lock();
  failure_ = failure;
  ++done_count_;
  task_done_.notify_all();
}

bp_status TaskQueue::query() {
  const std::lock_guard lock(mutex_);
  return done_count_ < enqueued_count_ ? BP_PENDING : failure_.status;
}

bp_status TaskQueue::sync(uint64_t timeout_ns) {
  const Deadline deadline(timeout_ns);
  std::unique_lock lock(mutex_);
  if (worker_.get_id() == std::this_thread::get_id()) return BP_INVALID_ARGUMENT;
  const uint64_t target = enqueued_count_;
  const auto reached = [&] { return done_count_ >= target; };
  return deadline.wait(task_done_, lock, reached) ? failure_.status : BP_TIMEOUT;
}

Failure TaskQueue::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool TaskQueue::finish(uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  finishing_ = true;
  if (!worker_.joinable()) return true;
  if (worker_.get_id() == std::this_thread::get_id()) {
    while (lock.owns_lock() && !tasks_.empty()) run_front(&lock);
    worker_.detach();
    return true;
  }
  task_added_.notify_one();
  const auto has_ended = [this] { return has_ended_; };
  if (Deadline(timeout_ns).wait(task_done_, lock, has_ended)) {
    lock.unlock();
    worker_.join();
    return true;
  }
  worker_.detach();
  return false;
}

}  // namespace bp
