// SPDX-License-Identifier: Apache-2.0
//
// Handles: what is live is found, and nothing else is; entries are used again, handles never are.
#include "core/base/handle_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace bp {
namespace {

constexpr HandleKind kTensor = HandleKind::kTensor;

void* object_of(const void* handle, HandleKind kind) {
  const HandleUses uses;
  return HandleUses::begin(handle, kind);
}

thread_local void* destroyed = nullptr;  // by the last release() here that destroyed one
void note_destroyed(void* object) { destroyed = object; }

struct ReleasedHandle {
  bool found = false;
  void* object = nullptr;  // set: destroyed
};
ReleasedHandle release(const void* handle, HandleKind kind) {
  destroyed = nullptr;
  const bool found = release_handle(handle, kind, note_destroyed);
  return {found, destroyed};
}

TEST(HandleTable, Live_IsFoundByItsKindOnly) {
  int object = 0;
  void* handle = make_handle(kTensor, &object);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(object_of(handle, kTensor), &object);
  EXPECT_EQ(object_of(handle, HandleKind::kSession), nullptr);
  EXPECT_EQ(explain_handle(handle, HandleKind::kSession, "session").message(),
            "argument session is a tensor, expected a session");
  EXPECT_EQ(release(handle, kTensor).object, &object);
}

TEST(HandleTable, LiveOfEachKind_IsFoundByThatAlone) {
  constexpr auto kLast = static_cast<uint32_t>(HandleKind::kDataParallel);
  int object = 0;
  for (uint32_t made = 1; made <= kLast; ++made) {
    void* const handle = make_handle(static_cast<HandleKind>(made), &object);
    EXPECT_NE(reinterpret_cast<uint64_t>(handle) >> 63, 0u) << "an address may be a handle";
    for (uint32_t asked = 1; asked <= kLast; ++asked) {
      const void* const found = object_of(handle, static_cast<HandleKind>(asked));
      EXPECT_EQ(found, made == asked ? &object : nullptr) << made << " asked as " << asked;
    }
    EXPECT_TRUE(release(handle, static_cast<HandleKind>(made)).found);
  }
}

TEST(HandleTable, Released_IsStaleThoughTheEntryIsUsedAgain) {
  int first = 0;
  int second = 0;
  void* handle = make_handle(kTensor, &first);
  ASSERT_TRUE(release(handle, kTensor).found);
  std::set<void*> handles;
  for (int i = 0; i < 10'000; ++i) {
    void* next = make_handle(kTensor, &second);
    EXPECT_NE(next, handle);
    EXPECT_TRUE(handles.insert(next).second) << "a handle came twice";
    EXPECT_EQ(object_of(handle, kTensor), nullptr);
    ASSERT_TRUE(release(next, kTensor).found);
  }
  EXPECT_FALSE(release(handle, kTensor).found);
  EXPECT_FALSE(retain_handle(handle, kTensor));
  EXPECT_EQ(explain_handle(handle, kTensor, "t").message(),
            "argument t is a tensor that was released, expected a tensor");
}

TEST(HandleTable, Foreign_IsFoundByNothing) {
  int object = 0;
  const uint64_t numbers[] = {1,          0xDEADBEEF,          reinterpret_cast<uint64_t>(&object),
                              UINT64_MAX, uint64_t{0xB} << 60, uint64_t{0xB} << 60 | 0xFFFFFF};
  for (const uint64_t number : numbers) {
    const auto* handle = reinterpret_cast<const void*>(number);
    EXPECT_EQ(object_of(handle, kTensor), nullptr) << number;
    EXPECT_FALSE(release(handle, kTensor).found) << number;
    const Status status = explain_handle(handle, kTensor, "t");
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find("argument t"), std::string::npos) << status.message();
  }
  EXPECT_EQ(explain_handle(nullptr, kTensor, "t").message(), "argument t is NULL");
}

TEST(HandleTable, Owners_TheLastOneGetsTheObject) {
  int object = 0;
  void* handle = make_handle(kTensor, &object);
  ASSERT_TRUE(retain_handle(handle, kTensor));
  const ReleasedHandle first = release(handle, kTensor);
  EXPECT_TRUE(first.found);
  EXPECT_EQ(first.object, nullptr);
  EXPECT_EQ(object_of(handle, kTensor), &object);
  EXPECT_EQ(release(handle, kTensor).object, &object);
}

TEST(HandleTable, ManyThreadsReleaseOneHandle_OneGetsTheObject) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 200; ++round) {
    int object = 0;
    void* handle = make_handle(kTensor, &object);
    std::atomic<int> got{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] { got += release(handle, kTensor).object == &object; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got, 1);
  }
}

TEST(HandleTable, ManyThreadsMakeHandles_AllDifferAndMoveBetweenThreads) {
  constexpr size_t kThreads = 8;
  constexpr size_t kEach = 2000;  // more than a thread keeps for itself
  std::vector<std::vector<void*>> made(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (size_t n = 0; n < kEach; ++n) made[i].push_back(make_handle(kTensor, &made[i]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<void*> all;
  for (size_t i = 0; i < kThreads; ++i) {
    for (void* handle : made[i]) {
      EXPECT_EQ(object_of(handle, kTensor), &made[i]);
      EXPECT_TRUE(all.insert(handle).second);
      EXPECT_TRUE(release(handle, kTensor).found);
    }
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
}

// An object that says whether it was destroyed.
struct Object {
  std::atomic<bool> alive{true};
  static void destroy(void* object) { static_cast<Object*>(object)->alive = false; }
};

TEST(HandleTable, ReleasedInUse_IsDestroyedWhenTheUseEnds) {
  Object object;
  void* handle = make_handle(kTensor, &object);
  {
    const HandleUses outer;
    ASSERT_EQ(HandleUses::begin(handle, kTensor), &object);
    {
      const HandleUses inner;
      ASSERT_EQ(HandleUses::begin(handle, kTensor), &object);
      ASSERT_TRUE(release_handle(handle, kTensor, Object::destroy));
      EXPECT_EQ(HandleUses::begin(handle, kTensor), nullptr) << "released, though not destroyed";
      EXPECT_FALSE(release_handle(handle, kTensor, Object::destroy));
    }
    EXPECT_TRUE(object.alive) << "the outer use goes on";
  }
  EXPECT_FALSE(object.alive);
}

TEST(HandleTable, MoreUsesThanAThreadHasPlaces_AllKeepTheirObjects) {
  constexpr size_t kCount = 3 * detail::ThreadUses::kMostHeld;
  std::vector<Object> objects(kCount);
  std::vector<void*> handles;
  for (Object& object : objects) handles.push_back(make_handle(kTensor, &object));
  {
    const HandleUses uses;
    for (void* handle : handles) ASSERT_NE(HandleUses::begin(handle, kTensor), nullptr);
    std::thread([&] {
      for (void* handle : handles) EXPECT_TRUE(release_handle(handle, kTensor, Object::destroy));
    }).join();
    for (const Object& object : objects) EXPECT_TRUE(object.alive);
  }
  for (const Object& object : objects) EXPECT_FALSE(object.alive);
}

// One thread makes and releases handles, others use whatever they see; then the other way round:
// the maker uses, another thread releases.
class HandleRaceTest : public testing::TestWithParam<bool> {};

TEST_P(HandleRaceTest, UsedAndReleasedAtOnce_IsNeverDestroyedInUse) {
  const bool maker_uses = GetParam();
  constexpr int kRounds = 2000;
  std::vector<Object> objects(kRounds);
  std::atomic<void*> shared{nullptr};
  std::atomic<int> used_dead{0};
  std::atomic<bool> go{true};
  const auto use = [&](void* handle) {
    const HandleUses uses;
    const auto* found = static_cast<const Object*>(HandleUses::begin(handle, kTensor));
    for (int i = 0; found != nullptr && i < 20; ++i) used_dead += !found->alive;
  };
  const auto release_taken = [&] {
    void* taken = shared.exchange(nullptr);
    return taken == nullptr || release_handle(taken, kTensor, Object::destroy);
  };
  std::thread other([&] {
    while (go) {
      if (maker_uses) {
        EXPECT_TRUE(release_taken());
      } else {
        use(shared);
      }
    }
  });
  for (Object& object : objects) {
    void* handle = make_handle(kTensor, &object);
    shared = handle;
    if (maker_uses) {
      use(handle);
      while (shared != nullptr) use(handle);
    } else {
      std::this_thread::yield();
      EXPECT_TRUE(release_taken());
    }
  }
  go = false;
  other.join();
  EXPECT_EQ(used_dead, 0);
  for (const Object& object : objects) ASSERT_FALSE(object.alive) << "never destroyed";
}

INSTANTIATE_TEST_SUITE_P(WhoReleases, HandleRaceTest, testing::Bool(),
                         [](const auto& who) { return who.param ? "AnotherThread" : "TheMaker"; });

TEST(OwnedHandleTest, PeekedAt_EndsAfterThePeek) {
  for (int round = 0; round < 100; ++round) {
    auto object = std::make_unique<std::atomic<int>>(1);
    auto owned = std::make_unique<OwnedHandle>(HandleKind::kDevice, object.get());
    const void* handle = owned->get();
    std::atomic<bool> started{false};
    std::thread reader([&] {
      started = true;
      for (bool found = true; found;) {
        const OwnedHandle::Peek peek(handle, HandleKind::kDevice);
        found = peek.object() != nullptr;
        if (found) EXPECT_EQ(*static_cast<std::atomic<int>*>(peek.object()), 1);
      }
    });
    while (!started) std::this_thread::yield();
    owned.reset();
    object.reset();
    reader.join();
  }
}

/// Uses a handle as its thread ends, when the thread's list of uses has been given back already;
/// another thread releases the handle meanwhile, so that the object's end, a call itself, falls
/// into the end of that use.
struct UserAtThreadExit {
  ~UserAtThreadExit() {
    if (handle == nullptr) return;
    const HandleUses round;
    EXPECT_EQ(HandleUses::begin(handle, kTensor), handle_object);
    std::thread([this] {
      const auto destroy = [](void* object) {
        const HandleUses nested;
        static_cast<std::atomic<int>*>(object)->fetch_add(1);
      };
      EXPECT_TRUE(release_handle(handle, kTensor, destroy));
    }).join();
  }
  void* handle = nullptr;
  void* handle_object = nullptr;
};

TEST(HandleTable, ObjectEndsWithinTheEndOfAUse_AsTheThreadEnds_TheListOfUsesHasOneOwner) {
  std::atomic<int> ends{0};
  void* handle = make_handle(kTensor, &ends);
  std::thread([&] {
    static thread_local UserAtThreadExit user;  // made first, so it ends last
    user.handle = handle;
    user.handle_object = &ends;
    object_of(handle, kTensor);
  }).join();
  EXPECT_EQ(ends, 1);
  // Were it unused twice, two of these threads would get the same one.
  std::set<const void*> lists;
  std::atomic<int> waiting{0};
  std::mutex mutex;
  std::vector<std::thread> threads;
  constexpr int kThreads = 4;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      int object = 0;
      void* own = make_handle(kTensor, &object);
      EXPECT_EQ(object_of(own, kTensor), &object);
      {
        const std::lock_guard lock(mutex);
        lists.insert(detail::this_thread_uses);
      }
      for (++waiting; waiting < kThreads;) std::this_thread::yield();
      release(own, kTensor);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lists.size(), size_t{kThreads});
}

TEST(HandleTable, ExclusiveUse_IsOneCallsAtATime) {
  int object = 0;
  void* handle = make_handle(kTensor, &object);
  {
    ExclusiveUse first;
    ASSERT_TRUE(first.take(handle, kTensor));
    ExclusiveUse second;
    EXPECT_FALSE(second.take(handle, kTensor));
  }
  ExclusiveUse third;
  EXPECT_TRUE(third.take(handle, kTensor));
  third.end();
  release(handle, kTensor);
}

}  // namespace
}  // namespace bp
