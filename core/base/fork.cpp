// SPDX-License-Identifier: Apache-2.0
//
// The fork handler: the only use of the system's fork hooks. The handler goes away with the shared
// object it was registered from, so a core that is closed again leaves nothing behind.
#include "core/base/fork.hpp"

#include <pthread.h>

#include <mutex>
#include <new>

namespace bp {

namespace detail {
constinit std::atomic<bool> g_forked{false};
}

void watch_forks() {
  static constinit std::mutex mutex;
  static constinit bool watching = false;
  const std::lock_guard lock(mutex);
  if (watching) return;
  const auto in_child = [] { detail::g_forked.store(true, std::memory_order_relaxed); };
  if (pthread_atfork(nullptr, nullptr, in_child) != 0) throw std::bad_alloc();
  watching = true;
}

}  // namespace bp
