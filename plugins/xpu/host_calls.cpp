// SPDX-License-Identifier: Apache-2.0
//
// The thread that makes a stream's host calls.
#include "host_calls.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace bp::xpu {

HostCalls::HostCalls(const Driver& driver, std::shared_ptr<Tracker> tracker)
    : driver_(driver), tracker_(std::move(tracker)) {}

void HostCalls::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HostCalls::start() {
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw sdk::Failure{BP_OUT_OF_MEMORY,
                       std::string("no thread for stream_host_call: ") + error.what(),
                       error.code().value()};
  }
}

void HostCalls::push(std::list<HostCall>&& call) noexcept {
  {
    const std::lock_guard lock(mutex_);
    calls_.splice(calls_.end(), call);
  }
  changed_.notify_one();
}

void HostCalls::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::list<HostCall> call;
    call.splice(call.begin(), calls_, calls_.begin());
    lock.unlock();
    make(call.front());
    call.clear();
    lock.lock();
  }
}

void HostCalls::make(const HostCall& call) {
  if (call.before) driver_.wait(call.before.get());
  // Behind a failure a marker may end before the work in front of it.
  while (!tracker_->is_settled(call.before_seq)) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const auto failure = tracker_->failure_up_to(call.before_seq);
  call.fn(call.user, failure != nullptr ? failure->status : BP_OK);
  if (call.after) {
    // A negative status keeps the work behind from running where the driver has not dropped it.
    driver_.clSetUserEventStatus(
        call.after.get(),
        failure == nullptr ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  }
}

}  // namespace bp::xpu
