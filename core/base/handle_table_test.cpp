// SPDX-License-Identifier: Apache-2.0
//
// Handles: what is live is found, and nothing else is; slots are used again, handles never are.
#include "core/base/handle_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace bp {
namespace {

constexpr HandleKind kTensor = HandleKind::kTensor;

TEST(HandleTable, Live_IsFoundByItsKindOnly) {
  int object = 0;
  void* handle = make_handle(kTensor, &object);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(handle_object(handle, kTensor), &object);
  EXPECT_EQ(handle_object(handle, HandleKind::kSession), nullptr);
  EXPECT_EQ(explain_handle(handle, HandleKind::kSession, "session").message(),
            "argument session is a tensor, expected a session");
  EXPECT_EQ(release_handle(handle, kTensor).object, &object);
}

TEST(HandleTable, Released_IsStaleThoughTheSlotIsUsedAgain) {
  int first = 0;
  int second = 0;
  void* handle = make_handle(kTensor, &first);
  ASSERT_TRUE(release_handle(handle, kTensor).found);
  std::set<void*> handles;
  for (int i = 0; i < 10'000; ++i) {
    void* next = make_handle(kTensor, &second);
    EXPECT_NE(next, handle);
    EXPECT_TRUE(handles.insert(next).second) << "a handle came twice";
    EXPECT_EQ(handle_object(handle, kTensor), nullptr);
    ASSERT_TRUE(release_handle(next, kTensor).found);
  }
  EXPECT_FALSE(release_handle(handle, kTensor).found);
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
    EXPECT_EQ(handle_object(handle, kTensor), nullptr) << number;
    EXPECT_FALSE(release_handle(handle, kTensor).found) << number;
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
  const ReleasedHandle first = release_handle(handle, kTensor);
  EXPECT_TRUE(first.found);
  EXPECT_EQ(first.object, nullptr);
  EXPECT_EQ(handle_object(handle, kTensor), &object);
  EXPECT_EQ(release_handle(handle, kTensor).object, &object);
}

TEST(HandleTable, ManyThreadsReleaseOneHandle_OneGetsTheObject) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 200; ++round) {
    int object = 0;
    void* handle = make_handle(kTensor, &object);
    std::atomic<int> got{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] { got += release_handle(handle, kTensor).object == &object; });
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
      EXPECT_EQ(handle_object(handle, kTensor), &made[i]);
      EXPECT_TRUE(all.insert(handle).second);
      EXPECT_TRUE(release_handle(handle, kTensor).found);
    }
  }
  EXPECT_EQ(all.size(), kThreads * kEach);
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
  release_handle(handle, kTensor);
}

}  // namespace
}  // namespace bp
