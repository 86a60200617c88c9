// SPDX-License-Identifier: Apache-2.0
//
// The few threads that run what an application did not want to wait for. They are started when
// there is work for them, and end with the pool.
#ifndef BACKPLANE_CORE_RUNTIME_WORKER_POOL_HPP
#define BACKPLANE_CORE_RUNTIME_WORKER_POOL_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/status.hpp"

namespace bp {

class WorkerPool {
 public:
  /// Called once, on a worker; with `begin` false, on the thread that closes the pool, if it was
  /// closed before a worker took the task. Must not throw.
  using Task = std::function<void(bool begin)>;
  /// Whether a task has nothing to do but to end. Any thread; must not throw, nor call the pool.
  using IsStopped = std::function<bool()>;

  WorkerPool();
  /// close() without a deadline, unless called by a task: then its thread ends after the task.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Before the first submit(); 1 without it.
  void set_max_threads(uint32_t max_threads);
  /// Tasks begin in the order of submission. While one waits for a worker, is_stopped is asked now
  /// and then; once true the task is called without waiting any longer, on one more thread.
  /// Errors: GONE after close; OUT_OF_MEMORY if the system gives no thread; std::bad_alloc. Any
  /// thread.
  Status submit(Task task, IsStopped is_stopped = {});
  /// Takes no more tasks, ends those that have not begun, waits for the others. Errors: TIMEOUT;
  /// it may then be called again. Not from a task.
  Status close(std::chrono::nanoseconds timeout);
  /// True inside a task of this pool.
  bool on_worker() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads, which may outlive the pool
};

}  // namespace bp

#endif
