// SPDX-License-Identifier: Apache-2.0
//
// Workers: every task ends exactly once, whatever becomes of the pool.
#include "core/runtime/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace bp {
namespace {

constexpr std::chrono::seconds kDeadline{60};

TEST(WorkerPool, Submit_RunsEachTaskOnceOnAWorker) {
  WorkerPool pool;
  pool.set_max_threads(3);
  std::atomic<int> ran{0};
  std::promise<void> all;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool.submit([&](bool begin) {
                      EXPECT_TRUE(begin);
                      EXPECT_TRUE(pool.on_worker());
                      if (++ran == 100) all.set_value();
                    })
                    .ok());
  }
  ASSERT_EQ(all.get_future().wait_for(kDeadline), std::future_status::ready);
  EXPECT_FALSE(pool.on_worker());
  EXPECT_TRUE(pool.close(kDeadline).ok());
  EXPECT_EQ(ran, 100);
}

TEST(WorkerPool, Stopped_IsTakenOutOfTheQueue) {
  WorkerPool pool;
  std::promise<void> go;
  std::promise<void> ended;
  std::atomic<bool> is_stopped{false};
  std::atomic<int> waiting_ran{0};
  ASSERT_TRUE(pool.submit([&](bool) { go.get_future().wait(); }).ok());
  ASSERT_TRUE(pool.submit([&](bool) { ++waiting_ran; }).ok());
  const auto stop = [&](bool begin) {
    EXPECT_TRUE(begin);
    EXPECT_TRUE(pool.on_worker());
    ended.set_value();
  };
  ASSERT_TRUE(pool.submit(stop, [&] { return is_stopped.load(); }).ok());
  is_stopped = true;
  EXPECT_EQ(ended.get_future().wait_for(kDeadline), std::future_status::ready);
  EXPECT_EQ(waiting_ran, 0) << "what was before it still waits";
  go.set_value();
  EXPECT_TRUE(pool.close(kDeadline).ok());
}

TEST(WorkerPool, Close_EndsWhatHasNotBegunAndWaitsForTheRest) {
  WorkerPool pool;
  std::promise<void> begun;
  std::promise<void> go;
  std::atomic<bool> first_ended{false};
  int never_begun = 0;
  ASSERT_TRUE(pool.submit([&](bool) {
                    begun.set_value();
                    go.get_future().wait();
                    first_ended = true;
                  })
                  .ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.submit([&](bool begin) {
                      EXPECT_FALSE(begin);
                      if (++never_begun == 3) go.set_value();
                    })
                    .ok());
  }
  begun.get_future().wait();
  EXPECT_TRUE(pool.close(kDeadline).ok());
  EXPECT_TRUE(first_ended);
  EXPECT_EQ(never_begun, 3);
  EXPECT_EQ(pool.submit([](bool) { FAIL(); }).code(), BP_GONE);
}

TEST(WorkerPool, Close_TaskDoesNotEnd_TimesOutAndMayBeTriedAgain) {
  WorkerPool pool;
  std::promise<void> begun;
  std::promise<void> go;
  ASSERT_TRUE(pool.submit([&](bool) {
                    begun.set_value();
                    go.get_future().wait();
                  })
                  .ok());
  begun.get_future().wait();
  EXPECT_EQ(pool.close(std::chrono::milliseconds(20)).code(), BP_TIMEOUT);
  go.set_value();
  EXPECT_TRUE(pool.close(kDeadline).ok());
}

TEST(WorkerPool, Destroyed_ByItsOwnTask_Ends) {
  auto pool = std::make_shared<WorkerPool>();
  std::weak_ptr<WorkerPool> watched = pool;
  std::promise<void> go;
  auto released = go.get_future().share();
  ASSERT_TRUE(pool->submit([pool, released](bool) { released.wait(); }).ok());
  pool = nullptr;  // the task is the last owner now
  go.set_value();
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!watched.expired()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace bp
