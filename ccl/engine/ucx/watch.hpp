// SPDX-License-Identifier: Apache-2.0
//
// What an end sleeps on: messages, a wake, and the deaths of peers on this host.
#ifndef BACKPLANE_CCL_ENGINE_UCX_WATCH_HPP
#define BACKPLANE_CCL_ENGINE_UCX_WATCH_HPP

#include <cstdint>
#include <map>
#include <vector>

namespace bp_ucx {

/// One thread at a time, but for wake().
class Watch {
 public:
  /// Throws Refusal.
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Wakes when it can be read. Throws Refusal.
  void add_messages(int descriptor);
  /// Wakes when the process ends, which look() then tells as `peer`; not where the system does not
  /// tell that. False: it has ended, or has another start time. Throws Refusal.
  bool add_process(uint32_t peer, int32_t process, uint64_t start_time);
  void remove_process(uint32_t peer);

  /// Until something is to be looked at, or the time has come (of CLOCK_MONOTONIC).
  void sleep(int64_t until_ns);
  /// Peers whose processes have ended, each until remove_process(), so that none is forgotten where
  /// there was no memory to note it. `ends_wake`: a wake has done its work.
  std::vector<uint32_t> look(bool ends_wake);
  void wake() noexcept;

 private:
  void add(int descriptor, uint64_t tag);
  int epoll_ = -1;
  int wake_ = -1;
  std::map<uint32_t, int> processes_;  // pidfds by peer
};

}  // namespace bp_ucx

#endif
