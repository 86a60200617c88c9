// SPDX-License-Identifier: Apache-2.0
//
// The bound of the cache, who is dropped first, and readers beside who drops.
#include "core/dispatch/route_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace bp {
namespace {

constexpr size_t kOps = 3;

// One input of rank 1; the size tells calls apart.
struct Shape {
  explicit Shape(int64_t size, OpId which = 0) : op(which) {
    input.dtype = BP_DTYPE_F32;
    input.sizes = {size};
    input.strides = {1};
  }
  CallKey<ArgType> key() const { return {kSchema, op, {}, {&input, 1}, nullptr}; }

  static inline const OpSchema kSchema{};
  OpId op;
  ArgType input;
};

std::string name_of(int64_t size) { return "size " + std::to_string(size); }

RoutePtr route(const std::string& reason) {
  auto made = std::make_shared<Route>();
  made->reason = reason;
  return made;
}

void insert(RouteCache& cache, int64_t size, OpId op = 0) {
  cache.insert(Shape(size, op).key(), {}, route(name_of(size)));
}

std::string find(const RouteCache& cache, int64_t size, OpId op = 0) {
  const Shape shape(size, op);
  Hazard hazard;
  const RoutePtr* found = cache.find(shape.key(), &hazard);
  return found == nullptr ? "" : (*found)->reason;
}

TEST(RouteCache, Find_OtherSizeOpOrDeterminism_IsNoAnswer) {
  RouteCache cache(kOps, 8);
  insert(cache, 4);
  EXPECT_EQ(find(cache, 4), "size 4");
  EXPECT_EQ(find(cache, 5), "");
  EXPECT_EQ(find(cache, 4, 1), "");
  const Shape shape(4);
  CallKey<ArgType> key = shape.key();
  key.mode.deterministic = true;
  EXPECT_EQ(cache.find_shared(key), nullptr);
}

TEST(RouteCache, Insert_SameCallTwice_KeepsTheFirst) {
  RouteCache cache(kOps, 8);
  const Shape shape(4);
  cache.insert(shape.key(), {}, route("first"));
  cache.insert(shape.key(), {}, route("second"));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.find_shared(shape.key())->reason, "first");
}

TEST(RouteCache, Insert_BeyondTheBound_DropsAndFrees) {
  RouteCache cache(kOps, 64);
  std::vector<std::weak_ptr<const Route>> all;
  for (int64_t size = 0; size < 1000; ++size) {
    const RoutePtr made = route(name_of(size));
    all.push_back(made);
    cache.insert(Shape(size).key(), {}, made);
  }
  EXPECT_EQ(cache.size(), 64u);
  EXPECT_EQ(cache.dropped_count(), 1000u - 64u);
  size_t alive = 0;
  for (const auto& made : all) alive += made.expired() ? 0 : 1;
  EXPECT_LE(alive, 128u) << "dropped answers wait for a look at their readers, 64 at most";
}

TEST(RouteCache, Insert_EndlessNewCalls_LeaveThoseThatAreAskedAgain) {
  RouteCache cache(kOps, 64);
  insert(cache, -1);
  insert(cache, -2, 1);
  for (int64_t size = 0; size < 100000; ++size) {
    insert(cache, size);
    ASSERT_EQ(find(cache, -1), "size -1") << "after " << size;
    ASSERT_EQ(find(cache, -2, 1), "size -2") << "after " << size;
  }
}

TEST(RouteCache, Insert_CallsAskedOnceLongAgo_GoInTheEnd) {
  RouteCache cache(kOps, 64);
  for (int64_t size = 0; size < 64; ++size) {
    insert(cache, size);
    ASSERT_EQ(find(cache, size), name_of(size));
  }
  // A program in its next phase asks for other calls, each several times.
  for (int64_t round = 0; round < 40; ++round) {
    for (int64_t size = 1000; size < 1032; ++size) {
      if (find(cache, size).empty()) insert(cache, size);
    }
    insert(cache, 10000 + round);
  }
  for (int64_t size = 1000; size < 1032; ++size) EXPECT_EQ(find(cache, size), name_of(size));
  EXPECT_EQ(cache.size(), 64u);
}

TEST(RouteCache, Find_WhileHeld_SurvivesItsDrop) {
  RouteCache cache(kOps, 8);
  insert(cache, 1);
  Hazard hazard;
  const Shape shape(1);
  const RoutePtr* held = cache.find(shape.key(), &hazard);
  ASSERT_NE(held, nullptr);
  const std::weak_ptr<const Route> watched = *held;
  for (int64_t size = 100; size < 1000; ++size) insert(cache, size);
  EXPECT_EQ(find(cache, 1), "") << "nobody else finds it";
  EXPECT_EQ((*held)->reason, "size 1");
  EXPECT_EQ(watched.use_count(), 1);
}

TEST(RouteCache, Find_NestedBeyondItsPlaces_TakesTheLock) {
  RouteCache cache(kOps, 8);
  insert(cache, 1);
  Hazard outer[4];
  ASSERT_TRUE(outer[3].has_place());
  Hazard inner;
  ASSERT_FALSE(inner.has_place());
  const Shape shape(1);
  EXPECT_EQ(cache.find(shape.key(), &inner), nullptr);
  ASSERT_NE(cache.find_shared(shape.key()), nullptr);
  EXPECT_EQ(cache.find_shared(shape.key())->reason, "size 1");
}

/// An answer that counts how many of its kind there are.
RoutePtr counted_route(const std::string& reason, std::atomic<int>* alive) {
  auto made = std::make_unique<Route>();
  made->reason = reason;
  ++*alive;
  return {made.release(), [alive](const Route* route) {
            delete route;
            --*alive;
          }};
}

// A thread without a processor asks for nothing, and its answers would be dropped rightly: so each
// step begins together, and drops fewer than may be dropped between two questions.
TEST(RouteCache, TwoThreadsOverTwoShapes_WhileAThirdStreamsOthers_NeverMiss) {
  constexpr size_t kCapacity = RouteCache::kCapacity;
  constexpr int64_t kSteps = 100;
  constexpr int64_t kStreamed = 1000;  // in a step
  constexpr int kQuestions = 1000;
  RouteCache cache(kOps, kCapacity);
  insert(cache, -1);
  insert(cache, -2);
  std::barrier step(3);
  std::atomic<uint64_t> missed{0};
  const auto ask = [&] {
    for (int64_t i = 0; i < kSteps; ++i) {
      step.arrive_and_wait();
      for (int question = 0; question < kQuestions; ++question) {
        missed += find(cache, -1) != "size -1";
        missed += find(cache, -2) != "size -2";
      }
    }
  };
  std::thread first(ask);
  std::thread second(ask);
  std::atomic<int> alive{0};
  int most_alive = 0;
  for (int64_t i = 0; i < kSteps; ++i) {
    step.arrive_and_wait();
    for (int64_t size = i * kStreamed; size < (i + 1) * kStreamed; ++size) {
      cache.insert(Shape(size).key(), {}, counted_route(name_of(size), &alive));
      most_alive = std::max(most_alive, alive.load());
    }
  }
  first.join();
  second.join();
  EXPECT_EQ(missed, 0u);
  EXPECT_EQ(cache.dropped_count(), kSteps * kStreamed + 2 - kCapacity);
  EXPECT_LE(most_alive, static_cast<int>(kCapacity) + 64 + 4) << "those kept, and 64 unfreed";
}

// Each answer says which call it is for, so that a freed or a foreign one shows.
TEST(RouteCache, EightThreads_OnASmallCache_FindTheirOwnAnswersOnly) {
  constexpr int64_t kRounds = 20000;
  RouteCache cache(kOps, 64);
  std::atomic<uint64_t> found{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      uint64_t random = thread + 1;
      for (int64_t round = 0; round < kRounds; ++round) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const auto size = static_cast<int64_t>(random >> 33) % 200;
        const auto op = static_cast<OpId>(static_cast<size_t>(size) % kOps);
        const std::string answer = find(cache, size, op);
        if (answer.empty()) {
          insert(cache, size, op);
        } else {
          ASSERT_EQ(answer, name_of(size));
          found.fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(found.load(), 0u);
  EXPECT_GT(cache.dropped_count(), 0u);
  EXPECT_EQ(cache.size(), 64u);
}

}  // namespace
}  // namespace bp
