// SPDX-License-Identifier: Apache-2.0
//
// An object ends with its last owner and not before, whichever way its owners are counted, and
// whatever other threads do meanwhile.
#include "core/base/spread_counted.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/base/ref.hpp"

namespace bp {
namespace {

class Object : public SpreadCounted<Object> {
 public:
  explicit Object(std::atomic<int>* ends) : ends_(ends) {}
  ~Object() { ends_->fetch_add(1); }

 private:
  std::atomic<int>* ends_;
};

class SpreadCountedTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    this_thread_cell();
    if (GetParam()) object_->spread();
  }
  void gather() {
    if (GetParam()) object_->gather();
  }

  std::atomic<int> ends_{0};
  Object* object_ = new Object(&ends_);
};

TEST_P(SpreadCountedTest, LastRelease_EndsTheObject) {
  object_->retain();
  object_->release();
  gather();
  EXPECT_EQ(ends_, 0);
  object_->release();
  EXPECT_EQ(ends_, 1);
}

TEST_P(SpreadCountedTest, OwnerWhoStaysLongest_EndsTheObject) {
  object_->retain();
  object_->retain();
  gather();
  object_->release();
  EXPECT_TRUE(object_->try_retain());
  object_->release();
  object_->release();
  EXPECT_EQ(ends_, 0);
  object_->release();
  EXPECT_EQ(ends_, 1);
}

TEST_P(SpreadCountedTest, ReleaseOnAnotherThread_Counts) {
  object_->retain();
  std::thread([this] {
    this_thread_cell();
    object_->release();
  }).join();
  gather();
  EXPECT_EQ(ends_, 0);
  object_->release();
  EXPECT_EQ(ends_, 1);
}

TEST_P(SpreadCountedTest, ThreadWithoutACell_CountsToo) {
  std::thread([this] { object_->retain(); }).join();
  gather();
  object_->release();
  EXPECT_EQ(ends_, 0);
  object_->release();
  EXPECT_EQ(ends_, 1);
}

TEST_P(SpreadCountedTest, ReleasesOnThreadsWithoutACell_EndNothingEarly) {
  for (int i = 0; i < 3; ++i) object_->retain();
  for (int i = 0; i < 2; ++i) std::thread([this] { object_->release(); }).join();
  EXPECT_EQ(ends_, 0);
  gather();
  object_->release();
  EXPECT_EQ(ends_, 0);
  object_->release();
  EXPECT_EQ(ends_, 1);
}

INSTANTIATE_TEST_SUITE_P(Counting, SpreadCountedTest, testing::Bool(),
                         [](const auto& way) { return way.param ? "InCells" : "InOnePlace"; });

constexpr int kThreads = 3;

/// Owners come and go on this thread, which keeps one of its own to the end.
void own_now_and_then(const Object* object, int turns, const std::atomic<int>& ends) {
  for (int turn = 0; turn < turns; ++turn) {
    if (turn % 2 == 0) {
      object->retain();
    } else {
      ASSERT_TRUE(object->try_retain());
    }
    object->release();
  }
  EXPECT_EQ(ends.load(), 0);
  object->release();
}

// The moment of gather() falls anywhere in what the others do; the last of all owners ends it.
void gather_amid_use() {
  std::atomic<int> ends{0};
  std::atomic<int> ready{0};
  auto* object = new Object(&ends);
  object->spread();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) object->retain();
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      this_thread_cell();
      ready.fetch_add(1);
      own_now_and_then(object, 200 + 50 * i, ends);
    });
  }
  while (ready.load() < kThreads) std::this_thread::yield();
  object->gather();
  object->release();
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(ends.load(), 1);
}

TEST(SpreadCounted, GatherAmidUse_LosesNoOwner) {
  for (int round = 0; round < 300 && !testing::Test::HasFatalFailure(); ++round) gather_amid_use();
}

}  // namespace
}  // namespace bp
