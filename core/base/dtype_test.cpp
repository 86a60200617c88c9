// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtype.hpp"

#include <gtest/gtest.h>

#include <set>

#include "core/base/dims.hpp"

namespace bp {
namespace {

TEST(Dtype, EveryCode_HasBitsAndANameOfItsOwn) {
  std::set<std::string_view> names;
  for (uint32_t code = 1; code <= BP_DTYPE_F8E8M0; ++code) {
    EXPECT_TRUE(is_dtype(code)) << code;
    EXPECT_GT(dtype_bits(code), 0u) << code;
    EXPECT_TRUE(names.insert(dtype_name(code)).second) << dtype_name(code);
  }
  EXPECT_FALSE(is_dtype(BP_DTYPE_NONE));
  EXPECT_FALSE(is_dtype(BP_DTYPE_F8E8M0 + 1));
  EXPECT_EQ(dtype_name(BP_DTYPE_F8E8M0 + 1), "unknown");
}

TEST(Dtype, SubByteCodes_AreRoundedUpToWholeBytes) {
  EXPECT_EQ(dtype_storage_bytes(BP_DTYPE_I2, 5), 2u);
  EXPECT_EQ(dtype_storage_bytes(BP_DTYPE_U2, 4), 1u);
  EXPECT_EQ(dtype_storage_bytes(BP_DTYPE_F4E2M1, 3), 2u);
  EXPECT_EQ(dtype_storage_bytes(BP_DTYPE_I4, 3), 2u);
  EXPECT_EQ(dtype_storage_bytes(BP_DTYPE_F8E8M0, 3), 3u);
}

TEST(Dense, StridesOfAnyOrder_WithoutGapsOrOverlaps) {
  const Dims sizes{2, 3, 1, 4};
  const auto dense = [&](const Dims& strides) {
    return is_dense(sizes, {strides.data(), strides.size()});
  };
  EXPECT_TRUE(dense({12, 4, 4, 1}));
  EXPECT_TRUE(dense({12, 1, 99, 3})) << "one of size 1 says nothing";
  EXPECT_TRUE(dense({1, 8, -7, 2}));
  EXPECT_FALSE(dense({12, 4, 4, 2})) << "gaps";
  EXPECT_FALSE(dense({12, 1, 1, 1})) << "overlaps";
  EXPECT_FALSE(dense({0, 4, 4, 1})) << "repeats";
  EXPECT_FALSE(dense({-12, 4, 4, 1})) << "backwards";
  EXPECT_FALSE(dense({24, 8, 8, 2})) << "every second one";
  EXPECT_FALSE(dense({INT64_MAX, INT64_MIN, 0, 1}));
  EXPECT_TRUE(is_dense({}, {}));
}

TEST(ElementRange, Strides_OfAnySign_EndsAreIncluded) {
  const auto range = [](const Dims& sizes, const Dims& strides) {
    const ElementRange found = element_range(sizes, strides);
    return std::pair(found.lowest, found.count);
  };
  EXPECT_EQ(range({2, 3}, {3, 1}), std::pair(0l, 6l));
  EXPECT_EQ(range({2, 3}, {10, 2}), std::pair(0l, 15l));
  EXPECT_EQ(range({2, 3}, {-10, 2}), std::pair(-10l, 15l));
  EXPECT_EQ(range({4, 3}, {0, -1}), std::pair(-2l, 3l));
  EXPECT_EQ(range({}, {}), std::pair(0l, 1l));
  EXPECT_EQ(range({2, 0, 5}, {9, 9, 9}), std::pair(0l, 0l));
}

}  // namespace
}  // namespace bp
