// SPDX-License-Identifier: Apache-2.0
//
// The "vendor's interface" of the fake with streams: a queue of functions, which a test makes and
// fills as an application would. Nothing runs by itself: the fake runs what it can whenever the
// core asks one of its streams or events, so that a wait that is missing shows in the values.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_QUEUE_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_QUEUE_HPP

#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace bp::fakes {

inline constexpr std::string_view kFakeQueueKind = "fake.queue";

class FakeQueue {
 public:
  using Task = std::function<bool()>;  // false: it cannot run yet

  void push(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  /// False: there is nothing to run now. One thread at a time.
  bool run_one() {
    std::unique_lock lock(mutex_);
    if (tasks_.empty()) return false;
    Task& task = tasks_.front();  // stays where it is when others are added behind it
    lock.unlock();
    if (!task()) return false;
    lock.lock();
    tasks_.pop_front();
    return true;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }

 private:
  std::mutex mutex_;
  std::deque<Task> tasks_;
};

}  // namespace bp::fakes

#endif
