// SPDX-License-Identifier: Apache-2.0
//
// A lock that may be held while a plugin is called on the way of data. Such a call has no deadline
// of its own (it stays on the caller's thread), so that who waits for the lock needs one.
#ifndef BACKPLANE_CORE_BASE_TIMED_LOCK_HPP
#define BACKPLANE_CORE_BASE_TIMED_LOCK_HPP

#include <chrono>
#include <mutex>

namespace bp {

using TimedLock = std::unique_lock<std::timed_mutex>;

/// Takes the lock. False: another thread has held it for all of `longest`.
inline bool lock_within(TimedLock& lock, std::chrono::nanoseconds longest) {
  if (lock.try_lock()) [[likely]]
    return true;
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not see a lock that was taken by a deadline of the steady clock.
  return lock.try_lock_until(std::chrono::system_clock::now() + longest);
#else
  return lock.try_lock_for(longest);
#endif
}

}  // namespace bp

#endif
