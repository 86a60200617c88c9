// SPDX-License-Identifier: Apache-2.0
//
// The heart of an emulated stream: tasks in order on one worker thread, and a failure that sticks.
#ifndef BACKPLANE_CORE_EMULATION_TASK_QUEUE_HPP
#define BACKPLANE_CORE_EMULATION_TASK_QUEUE_HPP

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "backplane/device_api.h"
#include "core/plugin/slots.hpp"

namespace bp {

/// Why a stream does no more work. It travels through events to the streams that wait for them.
struct Failure {
  bp_status status = BP_OK;
  uint64_t op_seq = 0;                // of the launch that failed; 0: it was no launch
  Slot slot = Slot::kStreamSync;      // what the worker called; a failure of its own has the wait
  const bp_kernel* kernel = nullptr;  // of a launch

  bool failed() const { return status != BP_OK; }
};

/// The status as a failure may carry it: a waiter that is answered PENDING or TIMEOUT asks again,
/// so a failure that looked like these would be waited for without end.
constexpr bp_status sticky_status(bp_status status) {
  const bool unknown = status < BP_OK || status > BP_INTERNAL;
  return unknown || status == BP_PENDING || status == BP_TIMEOUT ? BP_INTERNAL : status;
}

/// One entry of a queue. Run exactly once, and destroyed before it counts as done, so that a waiter
/// finds everything that the task held let go.
class Task {
 public:
  virtual ~Task() = default;
  /// `failure`: the stream's so far. A task that finds it set does no work for the device; a task
  /// that fails sets it.
  virtual void run(Failure* failure) = 0;
};

template <class Body>
class ClosureTask final : public Task {
 public:
  explicit ClosureTask(Body body) : body_(std::move(body)) {}
  void run(Failure* failure) override { body_(failure); }

 private:
  Body body_;
};

/// A task from a closure `void(Failure*)`, which may be move-only.
template <class Body>
std::unique_ptr<Task> make_task(Body body) {
  return std::make_unique<ClosureTask<Body>>(std::move(body));
}

/// A task that a failed stream skips, from a closure `bp_status()` that calls `slot`.
template <class Body>
std::unique_ptr<Task> make_work(Slot slot, Body body) {
  return make_task([slot, body = std::move(body)](Failure* failure) mutable {
    if (failure->failed()) return;
    const bp_status status = body();
    if (status != BP_OK) *failure = {sticky_status(status), 0, slot};
  });
}

class TaskQueue : public std::enable_shared_from_this<TaskQueue> {
 public:
  TaskQueue() = default;
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Adds work. BP_POISONED if the queue has failed. The first call starts the worker; throws what
  /// std::thread and std::deque throw, and then nothing was added.
  bp_status enqueue(std::unique_ptr<Task> task) { return add(std::move(task), false); }
  /// Adds a task that must be run on a failed queue as well.
  void enqueue_always(std::unique_ptr<Task> task) { add(std::move(task), true); }

  /// BP_OK, BP_PENDING, or the first failure once nothing is left to do.
  bp_status query();
  /// Waits for what is enqueued now. BP_TIMEOUT; the first failure. BP_INVALID_ARGUMENT on the
  /// worker itself, which would wait for its own task.
  bp_status sync(uint64_t timeout_ns);
  Failure failure();

  /// Runs what is left and ends the worker; nothing may be added any more. On the worker itself
  /// (the last owner of a stream was held by one of its tasks) the rest runs right here. False: it
  /// is not done in time, and what its tasks use must stay.
  bool finish(uint64_t timeout_ns);

 private:
  bp_status add(std::unique_ptr<Task> task, bool even_if_failed);
  void work();
  void run_front(std::unique_lock<std::mutex>* lock);

  std::mutex mutex_;
  std::condition_variable task_added_;
  std::condition_variable task_done_;
  std::deque<std::unique_ptr<Task>> tasks_;
  std::thread worker_;
  bool finishing_ = false;
  bool has_ended_ = false;  // the worker
  uint64_t enqueued_count_ = 0;
  uint64_t done_count_ = 0;
  Failure failure_;
};

}  // namespace bp

#endif
