// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs jobs in order: what a stream is made of.
#ifndef BACKPLANE_PLUGINS_NPU_WORKER_HPP
#define BACKPLANE_PLUGINS_NPU_WORKER_HPP

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace bp::npu {

/// The destructor asks for a stop, which jobs see in their token, and returns when all are through.
class Worker {
 public:
  using Job = std::function<void(const std::stop_token&)>;  // must not throw

  void post(Job job) {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    // After a stop this waits no more, and is true as long as there are jobs left.
    while (changed_.wait(lock, stop, [this] { return !jobs_.empty(); })) {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job(stop);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  std::jthread thread_{[this](const std::stop_token& stop) { run(stop); }};  // Last: ends first.
};

}  // namespace bp::npu

#endif
