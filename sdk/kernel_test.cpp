// SPDX-License-Identifier: Apache-2.0
//
// Costs of sizes that a model claims.
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

}  // namespace
}  // namespace bp::sdk
