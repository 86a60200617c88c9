// SPDX-License-Identifier: Apache-2.0
//
// What the launcher tells of ranks that ended well, and when; and how it lists ranks.
#include "ccl/launch/well_ends.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "ccl/launch/number_list.hpp"

namespace bp::ccl {
namespace {

using std::chrono::seconds;
using Ranks = std::vector<uint32_t>;

const WellEnds::TimePoint kStart = WellEnds::TimePoint() + seconds(1000);

TEST(WellEnds, None_IsNothingToTell) {
  WellEnds ends;
  EXPECT_EQ(ends.next(), WellEnds::TimePoint::max());
  EXPECT_EQ(ends.take(kStart, Ranks{0, 1}, true), std::nullopt);
}

TEST(WellEnds, OthersThatGoOn_AreToldOfOnceTheyHaveForAWhile) {
  WellEnds ends;
  ends.note(2, kStart);
  ends.note(0, kStart + seconds(3));
  EXPECT_EQ(ends.next(), kStart + WellEnds::kToldAfter);
  EXPECT_EQ(ends.take(kStart + seconds(4), Ranks{1, 3}, false), std::nullopt);
  EXPECT_EQ(ends.take(ends.next(), Ranks{1, 3}, false),
            "ranks 0, 2 ended with exit code 0; ranks 1, 3 still run");
  EXPECT_EQ(ends.next(), WellEnds::TimePoint::max());
  EXPECT_EQ(ends.take(kStart + seconds(60), Ranks{1, 3}, false), std::nullopt) << "once";
  ends.note(3, kStart + seconds(70));
  EXPECT_EQ(ends.take(kStart + seconds(75), Ranks{1}, false),
            "rank 3 ended with exit code 0; rank 1 still runs");
}

TEST(WellEnds, AllHaveEndedByThen_NothingIsTold) {
  WellEnds ends;
  ends.note(0, kStart);
  ends.note(1, kStart + seconds(2));
  EXPECT_EQ(ends.take(kStart + seconds(5), Ranks{}, false), std::nullopt);
  EXPECT_EQ(ends.next(), WellEnds::TimePoint::max()) << "or the launcher would not rest";
}

TEST(WellEnds, OtherNodes_AreToldOfWhereNoneIsLeftHere) {
  WellEnds ends;
  ends.note(4, kStart);
  EXPECT_EQ(ends.take(kStart + seconds(5), Ranks{}, true),
            "rank 4 ended with exit code 0; those of other nodes still run");
  ends.note(4, kStart);
  EXPECT_EQ(ends.take(kStart + seconds(5), Ranks{5}, true),
            "rank 4 ended with exit code 0; rank 5 still runs");
}

TEST(NumberList, OneSomeAndMany) {
  EXPECT_EQ(number_list("rank", {}), "");
  EXPECT_EQ(number_list("node", Ranks{7}), "node 7");
  EXPECT_EQ(number_list("node", Ranks{7, 9}), "nodes 7, 9");
  Ranks many(16);
  std::iota(many.begin(), many.end(), 0u);
  const std::string sixteen = "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15";
  EXPECT_EQ(number_list("rank", many), sixteen);
  many.push_back(16);
  EXPECT_EQ(number_list("rank", many), sixteen + " and 1 more");
}

}  // namespace
}  // namespace bp::ccl
