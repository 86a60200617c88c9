// SPDX-License-Identifier: Apache-2.0
//
// The arena layout against its definition: no two items that live at once share a byte, and the
// arena is not larger than it needs to be on shapes where the best is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/plan/planner.hpp"

namespace bp {
namespace {

ArenaItem item(uint64_t bytes, uint32_t first_step, uint32_t last_step) {
  return {.bytes = bytes, .first_step = first_step, .last_step = last_step, .offset = 0};
}

uint64_t arena_of(std::vector<ArenaItem>* items) {
  const auto bytes = assign_arena(items);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  return bytes.ok() ? *bytes : UINT64_MAX;
}

uint64_t live_peak(const std::vector<ArenaItem>& items) {
  uint64_t peak = 0;
  for (uint32_t step = 0; step < 200; ++step) {
    uint64_t live = 0;
    for (const ArenaItem& i : items) {
      if (i.first_step <= step && step <= i.last_step)
        live += (std::max<uint64_t>(i.bytes, 1) + 255) / 256 * 256;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(Arena, Chain_TwoAliveAtATime_TakesTwo) {
  std::vector<ArenaItem> items;
  for (uint32_t i = 0; i < 50; ++i) items.push_back(item(1024, i, i + 1));
  EXPECT_EQ(arena_of(&items), 2048u);
}

TEST(Arena, ManyAliveAtOnce_ShareNothingAndLeaveNoGaps) {
  std::vector<ArenaItem> items;
  for (uint32_t i = 0; i < 20'000; ++i) items.push_back(item(1024, i, 20'000 + i));
  EXPECT_EQ(arena_of(&items), 20'000u * 1024);
  std::vector<uint64_t> offsets;
  for (const ArenaItem& each : items) offsets.push_back(each.offset);
  std::sort(offsets.begin(), offsets.end());
  for (size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(offsets[i], i * 1024);
}

TEST(Arena, Empty_NoItems_TakesNothing) {
  std::vector<ArenaItem> items;
  EXPECT_EQ(arena_of(&items), 0u);
}

TEST(Arena, ZeroBytes_Items_TakeAPlaceEach) {
  std::vector<ArenaItem> items{item(0, 0, 9), item(256, 0, 9), item(0, 0, 9)};
  EXPECT_EQ(arena_of(&items), 768u);
  EXPECT_NE(items[0].offset, items[2].offset);
  std::vector<ArenaItem> only{item(0, 0, 0)};
  EXPECT_EQ(arena_of(&only), 256u) << "without memory there is no handle to launch with";
}

TEST(Arena, MoreThanAnyDeviceHas_IsRefused) {
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 199, UINT64_MAX - 255, uint64_t{1} << 62}) {
    std::vector<ArenaItem> one{item(bytes, 0, 1)};
    EXPECT_EQ(assign_arena(&one).status().code(), BP_OUT_OF_MEMORY) << bytes;
    std::vector<ArenaItem> many(5, item(bytes / 2, 0, 1));
    many.push_back(item(100, 0, 1));
    EXPECT_EQ(assign_arena(&many).status().code(), BP_OUT_OF_MEMORY) << bytes;
  }
  std::vector<ArenaItem> together(300, item(uint64_t{1} << 45, 0, 1));
  EXPECT_EQ(assign_arena(&together).status().code(), BP_OUT_OF_MEMORY);
}

TEST(Arena, Random_LiveItems_NeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaItem> items;
    for (int i = 0; i < 80; ++i) {
      const auto first = static_cast<uint32_t>(random() % 90);
      items.push_back(item(random() % 4 == 0 ? 0 : 1 + random() % 10000, first,
                           first + static_cast<uint32_t>(random() % (round % 2 == 0 ? 10 : 100))));
    }
    const uint64_t total = arena_of(&items);
    for (const ArenaItem& a : items) {
      EXPECT_EQ(a.offset % 256, 0u);
      EXPECT_LE(a.offset + a.bytes, total);
      for (const ArenaItem& b : items) {
        if (&a == &b || a.first_step > b.last_step || b.first_step > a.last_step) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
    }
    EXPECT_EQ(live_bytes_peak(items), live_peak(items));
    EXPECT_LE(total, live_peak(items) * 3 / 2) << "far above the lower bound";
  }
}

}  // namespace
}  // namespace bp
