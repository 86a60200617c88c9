// SPDX-License-Identifier: Apache-2.0
#include "core/device/size_ranges.hpp"

#include <gtest/gtest.h>

namespace bp {
namespace {

const Dims kMatrix = {3, 5};
const Dims kScalar = {};
const Dims kEmpty = {4, 0};
/// Two inputs, of which the second is absent, and two outputs.
const Dims* const kSizes[] = {&kMatrix, nullptr, &kScalar, &kEmpty};

bp_support support_of(const bp_size_range* ranges, uint64_t count) {
  bp_support support{};
  support.struct_size = sizeof(support);
  support.answer = BP_SUPPORT_YES;
  support.ranges = ranges;
  support.range_count = count;
  return support;
}
std::string defect(const bp_size_range& range) {
  const auto ranges = read_size_ranges(support_of(&range, 1), kSizes);
  EXPECT_TRUE(ranges.ok() || ranges.status().code() == BP_INCOMPATIBLE);
  return ranges.ok() ? "" : ranges.status().message();
}
std::string outside(const bp_size_range& range) {
  EXPECT_EQ(defect(range), "");
  return outside_words({&range, 1}, kSizes, 2);
}

TEST(SizeRanges, Read_NoneGiven_HoldForAllSizes) {
  const bp_size_range range = {0, 0, 1, 1};
  for (const bp_support& support : {support_of(nullptr, 7), support_of(&range, 0)}) {
    const auto ranges = read_size_ranges(support, kSizes);
    ASSERT_TRUE(ranges.ok());
    EXPECT_TRUE(ranges->empty());
  }
}

TEST(SizeRanges, Read_WhatCannotBe_IsRefusedByItsPlace) {
  EXPECT_EQ(defect({0, 0, -1, 3}), "its range 0 is from -1 to 3; expected 0 or more, and no less");
  EXPECT_EQ(defect({0, 0, 4, 3}), "its range 0 is from 4 to 3; expected 0 or more, and no less");
  EXPECT_NE(defect({0, 0, INT64_MIN, INT64_MAX}), "");
  EXPECT_EQ(defect({4, 0, 0, 3}), "its range 0 is of argument 4; there are 4");
  EXPECT_NE(defect({UINT32_MAX, BP_RANGE_ELEMENTS, 0, 3}), "");
  EXPECT_EQ(defect({0, 2, 0, 3}), "its range 0 is of dimension 2 of argument 0, which has rank 2");
  EXPECT_EQ(defect({0, -3, 0, 3}),
            "its range 0 is of dimension -3 of argument 0, which has rank 2");
  EXPECT_NE(defect({2, 0, 0, 3}), "") << "a scalar has no dimension";
  EXPECT_NE(defect({2, -1, 0, 3}), "");
  EXPECT_NE(defect({0, INT32_MIN, 0, 3}), "");
  EXPECT_EQ(defect({1, 7, 0, 3}), "") << "of an absent input";
}

TEST(SizeRanges, Read_TooManyOrNotAligned_AreRefusedUnread) {
  const auto* const nowhere = reinterpret_cast<const bp_size_range*>(uintptr_t{8});
  EXPECT_FALSE(read_size_ranges(support_of(nowhere, 257), kSizes).ok());
  EXPECT_FALSE(read_size_ranges(support_of(nowhere, UINT64_MAX), kSizes).ok());
  const auto* const crooked = reinterpret_cast<const bp_size_range*>(uintptr_t{12});
  EXPECT_FALSE(read_size_ranges(support_of(crooked, 1), kSizes).ok());
  const std::vector<bp_size_range> most(256, {0, 0, 3, 3});
  EXPECT_TRUE(read_size_ranges(support_of(most.data(), most.size()), kSizes).ok());
}

TEST(SizeRanges, Read_SecondIsBad_IsTheOneNamed) {
  const bp_size_range ranges[] = {{0, 0, 3, 3}, {9, 0, 3, 3}};
  const auto read = read_size_ranges(support_of(ranges, 2), kSizes);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().message(), "its range 1 is of argument 9; there are 4");
}

TEST(SizeRanges, Outside_EachEnd_IsWithin) {
  EXPECT_EQ(outside({0, 0, 3, 3}), "");
  EXPECT_EQ(outside({0, -2, 3, 3}), "");
  EXPECT_EQ(outside({0, 1, 5, 6}), "");
  EXPECT_EQ(outside({0, -1, 4, 5}), "");
  EXPECT_EQ(outside({0, BP_RANGE_ELEMENTS, 15, 15}), "");
  EXPECT_EQ(outside({2, BP_RANGE_ELEMENTS, 1, 1}), "");
  EXPECT_EQ(outside({1, 7, 8, 9}), "") << "an absent input has no size";
}

TEST(SizeRanges, Outside_SizeBeyondAnEnd_IsNamed) {
  EXPECT_EQ(outside({0, 0, 1, 2}), "takes 1 to 2 in dimension 0 of input 0, found 3");
  EXPECT_EQ(outside({0, -1, 6, 9}), "takes 6 to 9 in dimension 1 of input 0, found 5");
  EXPECT_EQ(outside({0, BP_RANGE_ELEMENTS, 0, 14}), "takes 0 to 14 elements of input 0, found 15");
  EXPECT_EQ(outside({3, BP_RANGE_ELEMENTS, 1, INT64_MAX}),
            "takes 1 or more elements of output 1, found 0");
}

TEST(SizeRanges, Outside_OneOfTwo_IsOutside) {
  const bp_size_range ranges[] = {{0, 0, 3, 3}, {0, 1, 0, 4}};
  EXPECT_EQ(outside_words(ranges, kSizes, 2), "takes 0 to 4 in dimension 1 of input 0, found 5");
}

TEST(SizeRanges, Inside_WhereWhatSizesMayBeMeetsTheRange) {
  const Dims symbols = {-2, -3};
  const Dims* const sizes[] = {&symbols, nullptr, &kEmpty};
  const auto may_be = [&](const bp_size_range& range) {
    return may_be_inside({&range, 1}, sizes, [](int64_t size) -> DimRange {
      if (size >= 0) return {size, size};
      return size == -2 ? DimRange{5, 8} : DimRange();
    });
  };
  EXPECT_FALSE(may_be({0, 0, 0, 4}));
  EXPECT_TRUE(may_be({0, 0, 0, 5}));
  EXPECT_TRUE(may_be({0, -2, 8, 9}));
  EXPECT_FALSE(may_be({0, 0, 9, 9}));
  EXPECT_TRUE(may_be({0, 1, 0, 0})) << "of which nothing is known";
  EXPECT_TRUE(may_be({0, 1, INT64_MAX, INT64_MAX}));
  EXPECT_TRUE(may_be({1, 7, 8, 9})) << "an absent input has no size";
  EXPECT_TRUE(may_be({2, 0, 4, 4}));
  EXPECT_FALSE(may_be({2, 0, 1, 3}));
  EXPECT_TRUE(may_be({2, BP_RANGE_ELEMENTS, 0, 0}));
  EXPECT_FALSE(may_be({2, BP_RANGE_ELEMENTS, 1, 9}));
  EXPECT_TRUE(may_be({0, BP_RANGE_ELEMENTS, 0, 0})) << "0 at least";
  EXPECT_TRUE(may_be({0, BP_RANGE_ELEMENTS, INT64_MAX, INT64_MAX})) << "more than can be counted";
}

TEST(SizeRanges, Inside_OneOfTwo_IsNotEnough) {
  const bp_size_range ranges[] = {{0, 0, 3, 3}, {0, 1, 0, 4}};
  const auto known = [](int64_t size) { return DimRange{size, size}; };
  EXPECT_FALSE(may_be_inside(ranges, kSizes, known));
  EXPECT_TRUE(may_be_inside({ranges, 1}, kSizes, known));
}

}  // namespace
}  // namespace bp
