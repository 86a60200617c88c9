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

// The moment of gather() falls anywhere in what the others do; each of them keeps one owner to its
// own end, and the last of all ends the object.
TEST(SpreadCounted, GatherAmidUse_LosesNoOwner) {
  constexpr int kRounds = 300;
  constexpr int kThreads = 3;
  for (int round = 0; round < kRounds; ++round) {
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
        for (int turn = 0; turn < 200 + 50 * i; ++turn) {
          if (turn % 2 == 0) {
            object->retain();
          } else {
            ASSERT_TRUE(object->try_retain());
          }
          object->release();
        }
        EXPECT_EQ(ends.load(), 0);
        object->release();
      });
    }
    while (ready.load() < kThreads) std::this_thread::yield();
    object->gather();
    object->release();
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(ends.load(), 1) << "round " << round;
  }
}

}  // namespace
}  // namespace bp
