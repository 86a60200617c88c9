// SPDX-License-Identifier: Apache-2.0
#include "core/base/ref.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace bp {
namespace {

struct Piece : Recycled<Piece> {
  std::vector<int> numbers = {1, 2, 3};
};

TEST(Recycled, WhatAThreadGaveBack_ItGetsAgain_LastFirst) {
  auto* first = new Piece;
  auto* second = new Piece;
  const auto first_place = reinterpret_cast<uintptr_t>(first);
  const auto second_place = reinterpret_cast<uintptr_t>(second);
  delete first;
  delete second;
  const std::unique_ptr<Piece> third(new Piece);
  const std::unique_ptr<Piece> fourth(new Piece);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(third.get()), second_place);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(fourth.get()), first_place);
}

TEST(Recycled, ManyMoreThanAreKept_AllComeAndGo) {
  std::vector<std::unique_ptr<Piece>> pieces;
  for (int i = 0; i < 1000; ++i) pieces.emplace_back(new Piece);
  pieces.clear();
  for (int i = 0; i < 1000; ++i) pieces.emplace_back(new Piece);
  for (const auto& piece : pieces) EXPECT_EQ(piece->numbers.size(), 3u);
}

// Ends after what keeps the thread's pieces, since it began before: leaks are what ASan looks for.
struct EndsLast {
  ~EndsLast() {
    delete last;
    for (int i = 0; i < 3; ++i) delete new Piece;
    *ended = true;
  }
  Piece* last = nullptr;
  bool* ended = nullptr;
};

TEST(Recycled, AtTheEndOfAThread_WhatIsGivenBackLateGoesToTheHeap) {
  bool ended = false;
  std::thread([&] {
    static thread_local EndsLast ends_last;
    ends_last.ended = &ended;
    ends_last.last = new Piece;
    delete new Piece;
  }).join();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace bp
