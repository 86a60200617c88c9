// SPDX-License-Identifier: Apache-2.0
//
// Host functions in a stream's order. A thread of the stream waits for the marker before the call,
// calls, and then sets the user event that holds back the work behind it. Event callbacks would
// save the thread, but drivers run them on their own worker, where a function that blocks stops
// every queue, and not all run them for failed events.
#ifndef BACKPLANE_PLUGINS_XPU_HOST_CALLS_HPP
#define BACKPLANE_PLUGINS_XPU_HOST_CALLS_HPP

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "tracker.hpp"

namespace bp::xpu {

/// One call: due when `before`, if there is one, has ended, which is command `before_seq`; `after`,
/// if there is one, is completed behind it.
struct HostCall {
  bp_host_fn fn = nullptr;
  void* user = nullptr;
  Owned<cl_event> before;
  uint64_t before_seq = 0;
  Owned<cl_event> after;
};

class HostCalls {
 public:
  HostCalls(const Driver& driver, std::shared_ptr<Tracker> tracker);
  ~HostCalls() { close(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// Starts the thread, which the first call needs. Throws sdk::Failure.
  void start();
  /// `call` has one element, which moves; cannot fail, since a call that is enqueued must be made.
  void push(std::list<HostCall>&& call) noexcept;
  /// Makes the calls that are left, in their order, and joins the thread. No push comes later.
  void close();

 private:
  void run();
  void make(const HostCall& call);

  const Driver& driver_;
  std::shared_ptr<Tracker> tracker_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<HostCall> calls_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace bp::xpu

#endif
