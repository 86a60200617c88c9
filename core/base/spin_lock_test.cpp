// SPDX-License-Identifier: Apache-2.0
//
// SpinLock: one holder at a time, and a holder that sleeps keeps nobody out for ever.
#include "core/base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

namespace bp {
namespace {

TEST(SpinLock, Threads_HoldItOneAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50'000;
  SpinLock lock;
  int64_t count = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRounds; ++i) {
          const std::lock_guard held(lock);
          count += 1;
        }
      });
    }
  }
  EXPECT_EQ(count, int64_t{kThreads} * kRounds);
}

TEST(SpinLock, HolderThatSleeps_IsWaitedFor) {
  SpinLock lock;
  std::atomic<bool> is_let_go{false};
  lock.lock();
  std::jthread waiter([&] {
    const std::lock_guard held(lock);
    EXPECT_TRUE(is_let_go);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // beyond the yields
  is_let_go = true;
  lock.unlock();
  waiter.join();
}

}  // namespace
}  // namespace bp
