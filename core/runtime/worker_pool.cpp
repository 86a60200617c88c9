// SPDX-License-Identifier: Apache-2.0
//
// One queue, one lock. A pool may be destroyed by its own task (whoever drops the last owner of a
// Runtime destroys it), so threads keep the state they use, and no thread joins itself.
#include "core/runtime/worker_pool.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/fork.hpp"

namespace bp {

struct WorkerPool::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Task> tasks;  // moved from list to list: closing asks for no memory
  std::vector<std::thread> threads;
  uint32_t max_threads = 1;
  uint32_t idle = 0;
  uint32_t running = 0;
  bool closed = false;

  static void work(const std::shared_ptr<State>& state);
  void run_one(std::unique_lock<std::mutex>& lock);
};

namespace {

thread_local constinit const void* current_pool = nullptr;

}  // namespace

void WorkerPool::State::run_one(std::unique_lock<std::mutex>& lock) {
  std::list<Task> task;
  task.splice(task.begin(), tasks, tasks.begin());
  ++running;
  lock.unlock();
  task.front()(true);
  task.clear();          // may destroy the pool; the state is ours
  if (forked()) return;  // the task forked: in the child no thread adds or waits
  lock.lock();
  --running;
  changed.notify_all();
}

void WorkerPool::State::work(const std::shared_ptr<State>& state) {
  current_pool = state.get();
  std::unique_lock lock(state->mutex);
  while (true) {
    ++state->idle;
    state->changed.wait(lock, [&] { return state->closed || !state->tasks.empty(); });
    --state->idle;
    if (state->tasks.empty()) return;
    state->run_one(lock);
    if (!lock.owns_lock()) return;
  }
}

WorkerPool::WorkerPool() : state_(std::make_shared<State>()) {}

void WorkerPool::set_max_threads(uint32_t max_threads) {
  const std::lock_guard lock(state_->mutex);
  state_->max_threads = std::max(max_threads, 1u);
}

WorkerPool::~WorkerPool() {
  [[maybe_unused]] const Status status =
      on_worker() ? Status() : close(std::chrono::hours(24 * 365));
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    threads.swap(state_->threads);
  }
  state_->changed.notify_all();
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

bool WorkerPool::on_worker() const { return current_pool == state_.get(); }

Status WorkerPool::submit(Task task) {
  std::list<Task> added;
  added.push_back(std::move(task));
  const std::lock_guard lock(state_->mutex);
  if (state_->closed) return Status(BP_GONE, "the Runtime was closed");
  if (state_->tasks.size() >= state_->idle && state_->threads.size() < state_->max_threads) {
    state_->threads.reserve(state_->threads.size() + 1);
    try {
      state_->threads.emplace_back(State::work, state_);
    } catch (const std::system_error& error) {
      if (state_->threads.empty()) {
        return Status(BP_OUT_OF_MEMORY, std::string("no thread for this task: ") + error.what());
      }
    }
  }
  state_->tasks.splice(state_->tasks.end(), added);
  state_->changed.notify_one();
  return {};
}

Status WorkerPool::close(std::chrono::nanoseconds timeout) {
  std::list<Task> never_begun;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    never_begun.swap(state_->tasks);
  }
  state_->changed.notify_all();
  const void* const outer = std::exchange(current_pool, state_.get());
  for (Task& task : never_begun) task(false);
  never_begun.clear();
  current_pool = outer;
  std::unique_lock lock(state_->mutex);
  const auto step = std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24 * 365));
  if (state_->changed.wait_for(lock, step, [&] { return state_->running == 0; })) return {};
  return Status(BP_TIMEOUT,
                std::to_string(state_->running) + " asynchronous runs have not ended within " +
                    std::to_string(timeout.count() / 1'000'000'000) + " s (BACKPLANE_TIMEOUT)");
}

}  // namespace bp
