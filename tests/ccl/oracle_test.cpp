// SPDX-License-Identifier: Apache-2.0
//
// The oracle refuses what is wrong, and a covering array that lacks a pair is seen.
#include "tests/ccl/oracle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ccl/covering_array.hpp"

namespace bp::ccl::cases {
namespace {

using testing::HasSubstr;

Case sum_of(const Format& format, Fill fill, uint32_t rank_count) {
  return {.number = 7, .format = &format, .count = 50, .rank_count = rank_count, .fill = fill};
}

/// Sums of f32 in the order of ranks, without `left_out`.
Bytes summed(const Case& c, uint32_t left_out = UINT32_MAX) {
  std::vector<float> sums(c.count);
  for (uint32_t rank = 0; rank < c.rank_count; ++rank) {
    std::vector<float> values(c.count);
    fill_input(c, rank, 0, c.count, reinterpret_cast<std::byte*>(values.data()));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += rank == left_out ? 0 : values[i];
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(sums.data());
  return {bytes, bytes + sums.size() * sizeof(float)};
}

TEST(CclOracle, SumOfF32_IsRightAndWithoutOneRankWrong) {
  for (const Fill fill : {Fill::kExact, Fill::kPrecise}) {
    const Case c = sum_of(formats()[0], fill, 5);
    EXPECT_EQ(judge(c, 0, summed(c).data()), "");
    for (uint32_t rank = 0; rank < 5; ++rank) {
      EXPECT_THAT(judge(c, 0, summed(c, rank).data()), HasSubstr("expected"));
    }
  }
}

TEST(CclOracle, OneBitOfASumOfF32_IsSeenWhereSumsAreExact) {
  const Case c = sum_of(formats()[0], Fill::kExact, 3);
  Bytes bytes = summed(c);
  bytes[49 * 4] ^= std::byte{1};
  EXPECT_THAT(judge(c, 0, bytes.data()), HasSubstr("element 49"));
}

TEST(CclOracle, TheContributionOfOneRank_IsNoSumOfAny) {
  for (const Format& format : formats()) {
    if (!is_reduced(format, Reduction::kSum)) continue;
    const Case c = sum_of(format, Fill::kExact, 3);
    EXPECT_NE(judge(c, 0, input_of(c, 0).data()), "") << format.name;
  }
}

TEST(CclOracle, NotANumber_IsNeverRight) {
  for (const Format& format : formats()) {
    if (format.of != Class::kFloat) continue;
    const Case c = sum_of(format, Fill::kPrecise, 2);
    Bytes bytes = input_of(c, 0);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    if (!format.has_negative_zero) std::fill(bytes.begin(), bytes.end(), std::byte{0x80});
    EXPECT_THAT(judge(c, 0, bytes.data()), HasSubstr("element 0")) << format.name;
  }
}

TEST(CclOracle, AnIntegerOffByOne_IsSeen) {
  const Format& format = formats()[10];
  ASSERT_EQ(format.name, "i8");
  const Case c = sum_of(format, Fill::kExact, 2);
  Bytes bytes = input_of(c, 0);
  const Bytes other = input_of(c, 1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] =
        static_cast<std::byte>(static_cast<unsigned>(bytes[i]) + static_cast<unsigned>(other[i]));
  }
  EXPECT_EQ(judge(c, 0, bytes.data()), "");
  bytes[3] = static_cast<std::byte>(static_cast<unsigned>(bytes[3]) + 1);
  EXPECT_THAT(judge(c, 0, bytes.data()), HasSubstr("element 3"));
}

TEST(CclOracle, BlocksOfOtherRanksInAnotherOrder_AreSeen) {
  Case c = sum_of(formats()[0], Fill::kPrecise, 3);
  c.kind = Kind::kAllGather;
  Bytes bytes;
  for (const uint32_t rank : {0u, 1u, 2u}) {
    const Bytes block = input_of(c, rank);
    bytes.insert(bytes.end(), block.begin(), block.end());
  }
  EXPECT_EQ(judge(c, 0, bytes.data()), "");
  std::rotate(bytes.begin(), bytes.begin() + 200, bytes.end());
  EXPECT_THAT(judge(c, 0, bytes.data()), HasSubstr("of rank 0"));
}

TEST(CclOracle, BlocksOfOtherSizes_AreKeptApart) {
  Case c = sum_of(formats()[0], Fill::kPrecise, 3);
  c.kind = Kind::kAllToAll;
  c.has_counts = true;
  const auto received = [&](uint32_t rank) {
    Bytes bytes;
    for (uint32_t from = 0; from < 3; ++from) {
      const std::vector<uint64_t> counts = c.send_counts(from);
      Bytes block(counts[rank] * 4);
      fill_input(c, from, Case::first_of(counts, rank), counts[rank], block.data());
      bytes.insert(bytes.end(), block.begin(), block.end());
    }
    return bytes;
  };
  for (uint32_t rank = 0; rank < 3; ++rank) {
    Bytes bytes = received(rank);
    ASSERT_EQ(bytes.size(), c.received_elements(rank) * 4);
    EXPECT_EQ(judge(c, rank, bytes.data()), "");
    std::rotate(bytes.begin(), bytes.begin() + 4, bytes.end());
    EXPECT_THAT(judge(c, rank, bytes.data()), HasSubstr("of rank"));
  }
}

TEST(CclOracle, OneBitOfOurs_IsSeenBesideWhatAnotherLibraryGives) {
  const Case moved{.kind = Kind::kBroadcast, .format = &formats()[0], .count = 50, .rank_count = 2};
  const Case summed = sum_of(formats()[10], Fill::kExact, 1);
  for (const Case& c : {moved, summed}) {
    const Bytes theirs = input_of(c, 0);
    Bytes ours = theirs;
    EXPECT_EQ(compare(c, 0, ours.data(), theirs.data()), "");
    ours.back() ^= std::byte{1};
    EXPECT_THAT(compare(c, 0, ours.data(), theirs.data()),
                HasSubstr("element 49: expected as ours"));
    EXPECT_THAT(compare(c, 0, theirs.data(), ours.data()), HasSubstr("element 49"));
  }
}

TEST(CclOracle, BothPartsOfOurComplexNumbers_AreCompared) {
  const Format& format = formats()[8];
  ASSERT_EQ(format.name, "c64");
  const Case c = sum_of(format, Fill::kPrecise, 1);
  const Bytes theirs = input_of(c, 0);
  for (const size_t sign : {size_t{3}, size_t{7}}) {
    Bytes ours = theirs;
    ours[40 * 8 + sign] ^= std::byte{0x80};
    EXPECT_THAT(compare(c, 0, ours.data(), theirs.data()),
                HasSubstr("element 40: expected as ours"));
  }
}

TEST(CclOracle, Formats_KnowOneAndTheirSmallestStep) {
  for (const Format& format : formats()) {
    if (format.of != Class::kFloat) continue;
    EXPECT_EQ(worth(format, float_bits(format, false, 0, 0)), 1.0L) << format.name;
    EXPECT_EQ(worth(format, float_bits(format, true, 1, 0)), -2.0L) << format.name;
    EXPECT_EQ(worth(format, 1), 2 * format.least_error()) << format.name;
  }
}

TEST(CoveringArray, EveryPairIsThere_AndOneThatIsMissingIsSeen) {
  Space space;
  space.sizes = {5, 4, 3, 2};
  space.allows = [](const Pair& pair) {
    return !(pair.first_factor == 0 && pair.first == 2 && pair.second_factor == 3 &&
             pair.second == 1);
  };
  std::vector<Row> rows = covering_array(space, 1);
  EXPECT_EQ(count_faults(space, rows), 0u);
  EXPECT_LT(rows.size(), 5u * 4 * 3);
  EXPECT_EQ(forbidden_pairs(space).size(), 1u);
  EXPECT_EQ(rows, covering_array(space, 1));
  Row bad = rows[0];
  bad[0] = 2;
  bad[3] = 1;
  rows.push_back(bad);
  EXPECT_EQ(count_faults(space, rows), 1u);
  rows.resize(3);
  EXPECT_GT(count_faults(space, rows), 0u);
}

TEST(CoveringArray, PairThatFitsIntoNoRow_IsAnError) {
  Space space;
  space.sizes = {2, 2, 2};
  space.allows = [](const Pair& pair) {  // 0 of the first goes with neither of the last
    return !(pair.first_factor == 0 && pair.first == 0 && pair.second_factor == 2);
  };
  EXPECT_THROW(covering_array(space, 1), std::logic_error);
}

}  // namespace
}  // namespace bp::ccl::cases
