// SPDX-License-Identifier: Apache-2.0
#include "deferred.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace bp::python {
namespace {

struct Waiting {
  std::mutex mutex;
  std::vector<std::function<void()>> actions;
  std::atomic<size_t> count{0};
  std::atomic<bool> stopped{false};
};

thread_local DeferringBriefly* t_briefly = nullptr;  // the innermost

/// Never destroyed: deleters may run while the process ends.
Waiting& waiting() {
  static auto* list = new Waiting();
  return *list;
}

int run_pending(void*) {
  run_deferred();
  return 0;
}

}  // namespace

void defer(std::function<void()> action) {
  Waiting& list = waiting();
  if (list.stopped.load()) return;
  if (t_briefly != nullptr && t_briefly->take(action)) return;
  {
    const std::lock_guard lock(list.mutex);
    list.actions.push_back(std::move(action));
    list.count.store(list.actions.size());
  }
  // Where the interpreter's list is full, the next call of the package does it.
  static_cast<void>(Py_AddPendingCall(run_pending, nullptr));
}

DeferringBriefly::DeferringBriefly() : outer_(t_briefly) { t_briefly = this; }

DeferringBriefly::~DeferringBriefly() {
  t_briefly = outer_;
  if (first_ && !waiting().stopped.load()) first_();
  run_deferred();
}

bool DeferringBriefly::take(std::function<void()>& action) {
  if (first_) return false;
  first_ = std::move(action);
  return true;
}

void run_deferred() noexcept {
  Waiting& list = waiting();
  while (list.count.load(std::memory_order_acquire) != 0 && !list.stopped.load()) {
    std::vector<std::function<void()>> actions;
    {
      const std::lock_guard lock(list.mutex);
      actions.swap(list.actions);
      list.count.store(0);
    }
    for (const auto& action : actions) action();
  }
}

void stop_deferred() { waiting().stopped.store(true); }

}  // namespace bp::python
