// SPDX-License-Identifier: Apache-2.0
//
// The interposer itself: a sweep over a tool that refuses nothing would pass.
#include "tests/fault_injection/interposer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <thread>

namespace bp::faults {
namespace {

/// Direct calls: a compiler may leave out the request of a new expression.
struct Piece {
  explicit Piece(size_t bytes) : memory(::operator new(bytes, std::nothrow)) {}
  ~Piece() { ::operator delete(memory); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  void* const memory;
};

TEST(Interposer, Alloc_RefusesTheNthRequestAlone) {
  arm_host(HostFault::kAlloc, 2);
  const Piece first(8);
  const Piece second(8);
  const Piece third(8);
  const HostCounts counts = disarm_host();
  EXPECT_NE(first.memory, nullptr);
  EXPECT_EQ(second.memory, nullptr);
  EXPECT_NE(third.memory, nullptr);
  EXPECT_EQ(counts.requests, 3u);
  EXPECT_EQ(counts.refused, 1u);
}

TEST(Interposer, Alloc_ThrowingNew_Throws) {
  arm_host(HostFault::kAlloc, 1);
  EXPECT_THROW(::operator delete(::operator new(8)), std::bad_alloc);
  EXPECT_EQ(disarm_host().refused, 1u);
}

TEST(Interposer, AllocFrom_RefusesAllLaterRequests) {
  arm_host(HostFault::kAllocFrom, 1);
  void* const first = ::operator new(8, std::nothrow);
  void* const second = ::operator new (64, std::align_val_t{64}, std::nothrow);
  const HostCounts counts = disarm_host();
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(counts.refused, 2u);
  EXPECT_NE(Piece(8).memory, nullptr);
}

TEST(Interposer, Alloc_RequestOfTheCxxLibraryForUs_IsRefused) {
  const std::string text(100, 'x');
  bool threw = false;
  std::string copy;
  arm_host(HostFault::kAlloc, 1);
  try {
    copy = text;  // the allocation is made inside libstdc++
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  disarm_host();
  EXPECT_TRUE(threw);
}

TEST(Interposer, Alloc_RequestOfTheCLibrary_IsNot) {
  arm_host(HostFault::kAllocFrom, 1);
  char* const copy = strdup("text");
  const HostCounts counts = disarm_host();
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(counts.requests, 0u);
  std::free(copy);
}

TEST(Interposer, LiveBlocks_CountsWhatIsNotGivenBack) {
  const int64_t before = live_blocks();
  {
    const Piece one(8);
    const Piece two(800);
    EXPECT_EQ(live_blocks(), before + 2);
  }
  EXPECT_EQ(live_blocks(), before);
}

TEST(Interposer, Malloc_IsRefusedInPlainBuilds) {
  if (!kCanRefuseThreads) GTEST_SKIP() << "the sanitizer's runtime owns malloc";
  const int64_t before = live_blocks();
  arm_host(HostFault::kAllocFrom, 1);
  // Volatile, since compilers know malloc and leave out what they see through.
  void* volatile refused[] = {std::malloc(8), std::calloc(1, 8), std::aligned_alloc(64, 64)};
  void* place = nullptr;
  const int code = posix_memalign(&place, 64, 64);
  disarm_host();
  for (void* memory : refused) EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(code, ENOMEM);
  void* volatile small = std::malloc(8);
  void* volatile grown = std::realloc(small, 800);
  EXPECT_EQ(live_blocks(), before + 1);
  std::free(grown);
  EXPECT_EQ(live_blocks(), before);
}

TEST(Interposer, Thread_RefusesTheNthInPlainBuilds) {
  if (!kCanRefuseThreads) GTEST_SKIP() << "the sanitizer's runtime owns pthread_create";
  arm_host(HostFault::kThread, 2);
  std::thread([] {}).join();
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  std::thread([] {}).join();
  EXPECT_EQ(disarm_host().refused, 1u);
}

}  // namespace
}  // namespace bp::faults
