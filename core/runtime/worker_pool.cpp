// SPDX-License-Identifier: Apache-2.0
//
// One queue, one lock. Workers take tasks in order; the watcher takes those that are to stop out of
// the queue, so that they need not wait for long tasks before them. A pool may be destroyed by its
// own task (whoever drops the last owner of a Runtime destroys it), so threads keep the state they
// use, and no thread joins itself.
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
namespace {

constexpr std::chrono::milliseconds kWatchStep{20};

}  // namespace

struct WorkerPool::State {
  struct Entry {
    Task task;
    IsStopped is_stopped;  // may be empty
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::list<Entry> tasks;  // moved from list to list: closing asks for no memory
  std::vector<std::thread> threads;
  std::thread watcher;
  uint32_t max_threads = 1;
  uint32_t idle = 0;
  uint32_t running = 0;
  bool closed = false;

  static void work(const std::shared_ptr<State>& state);
  static void watch(const std::shared_ptr<State>& state);
  void run_one(std::list<Entry>::iterator entry, std::unique_lock<std::mutex>& lock);
  void start_watcher(const std::shared_ptr<State>& state);
  bool has_watched() const {
    return std::ranges::any_of(tasks, [](const Entry& entry) { return bool(entry.is_stopped); });
  }
};

namespace {

thread_local constinit const void* current_pool = nullptr;

}  // namespace

void WorkerPool::State::run_one(std::list<Entry>::iterator entry,
                                std::unique_lock<std::mutex>& lock) {
  std::list<Entry> task;
  task.splice(task.begin(), tasks, entry);
  ++running;
  lock.unlock();
  task.front().task(true);
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
    state->run_one(state->tasks.begin(), lock);
    if (!lock.owns_lock()) return;
  }
}

void WorkerPool::State::watch(const std::shared_ptr<State>& state) {
  current_pool = state.get();
  std::unique_lock lock(state->mutex);
  while (!state->closed) {
    if (!state->has_watched()) {
      state->changed.wait(lock, [&] { return state->closed || state->has_watched(); });
      continue;
    }
    const auto found = std::ranges::find_if(
        state->tasks, [](const Entry& entry) { return entry.is_stopped && entry.is_stopped(); });
    if (found == state->tasks.end()) {
      state->changed.wait_for(lock, kWatchStep);
      continue;
    }
    state->run_one(found, lock);
    if (!lock.owns_lock()) return;
  }
}

/// Without a thread for it such tasks wait for a worker, like others.
void WorkerPool::State::start_watcher(const std::shared_ptr<State>& state) {
  if (watcher.joinable()) return;
  try {
    watcher = std::thread(watch, state);
  } catch (const std::system_error&) {
    return;
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
    if (state_->watcher.joinable()) threads.push_back(std::move(state_->watcher));
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

Status WorkerPool::submit(Task task, IsStopped is_stopped) {
  std::list<State::Entry> added;
  added.push_back({std::move(task), std::move(is_stopped)});
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
  const bool waits = state_->tasks.size() >= state_->idle;
  if (waits && added.front().is_stopped) state_->start_watcher(state_);
  state_->tasks.splice(state_->tasks.end(), added);
  if (state_->watcher.joinable()) {
    state_->changed.notify_all();  // it waits for the same as workers
  } else {
    state_->changed.notify_one();
  }
  return {};
}

Status WorkerPool::close(std::chrono::nanoseconds timeout) {
  std::list<State::Entry> never_begun;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    never_begun.swap(state_->tasks);
  }
  state_->changed.notify_all();
  const void* const outer = std::exchange(current_pool, state_.get());
  for (State::Entry& entry : never_begun) entry.task(false);
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
