// SPDX-License-Identifier: Apache-2.0
//
// Descriptors, and costs of sizes that a model claims.
#include "backplane/sdk/kernel.hpp"

#include <gtest/gtest.h>

namespace bp::sdk {
namespace {

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(SaturatingProduct, WhatFits_IsTheProduct) {
  EXPECT_EQ(saturating_product({}), 1);
  EXPECT_EQ(saturating_product({3, 5, 7}), 105);
  EXPECT_EQ(saturating_product({INT64_MAX, 1}), INT64_MAX);
  EXPECT_EQ(saturating_product({kHuge, 1, 1}), kHuge);
}

TEST(SaturatingProduct, WhatDoesNotFit_IsTheLargest) {
  EXPECT_EQ(saturating_product({kHuge, 2}), INT64_MAX);
  EXPECT_EQ(saturating_product({2, kHuge}), INT64_MAX);
  EXPECT_EQ(saturating_product({INT32_MAX, INT32_MAX, INT32_MAX, 3}), INT64_MAX);
}

TEST(SaturatingProduct, Zero_WinsOverAll) {
  EXPECT_EQ(saturating_product({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(saturating_product({0, kHuge, kHuge}), 0);
}

TEST(Describe, Versions_AreTheFirstUnlessTheTraitsSayOthers) {
  static constexpr uint64_t kMasks[] = {dtypes({BP_DTYPE_F32})};
  constexpr bp_kernel first = describe({.name = "a", .op = "relu", .dtypes = kMasks});
  EXPECT_EQ(first.version_min, 1u);
  EXPECT_EQ(first.version_max, 1u);
  EXPECT_EQ(first.op_since, 1u);
  constexpr bp_kernel newer = describe({.name = "a",
                                        .op = "relu",
                                        .dtypes = kMasks,
                                        .version_min = 2,
                                        .version_max = 4,
                                        .op_since = 3});
  EXPECT_EQ(newer.version_min, 2u);
  EXPECT_EQ(newer.version_max, 4u);
  EXPECT_EQ(newer.op_since, 3u);
}

}  // namespace
}  // namespace bp::sdk
