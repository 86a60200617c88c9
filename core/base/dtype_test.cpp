// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtype.hpp"

#include <gtest/gtest.h>

namespace bp {
namespace {

TEST(Dtype, EveryCode_HasANameBitsAndAWayBack) {
  for (uint32_t code = 1; code <= BP_DTYPE_F8E8M0; ++code) {
    EXPECT_TRUE(is_dtype(code)) << code;
    EXPECT_GT(dtype_bits(code), 0u) << code;
    EXPECT_EQ(dtype_from_name(dtype_name(code)), code);
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

}  // namespace
}  // namespace bp
