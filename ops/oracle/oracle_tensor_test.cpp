// SPDX-License-Identifier: Apache-2.0
//
// The oracle's number formats against values worked out by hand from IEEE 754.
#include "ops/oracle/oracle_tensor.hpp"

#include <cmath>
#include <cstring>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

uint16_t half_bits(uint32_t dtype, long double value) {
  std::byte bytes[2];
  store_float(dtype, bytes, 0, value);
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

TEST(OracleFormats, F16_RoundsToNearestEven) {
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 1.0), 0x3c00);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, -2.0), 0xc000);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 65504.0), 0x7bff);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 65519.996), 0x7bff);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 65520.0), 0x7c00);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, -1e30), 0xfc00);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 1.0 + std::ldexp(1, -11)), 0x3c00);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 1.0 + 3 * std::ldexp(1, -11)), 0x3c02);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 1.0 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, std::ldexp(1, -14)), 0x0400);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, std::ldexp(1, -24)), 0x0001);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, std::ldexp(1, -25)), 0x0000);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, std::ldexp(1.5, -25)), 0x0001);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, std::ldexp(1, -14) - std::ldexp(1, -26)), 0x0400);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, -0.0), 0x8000);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, 1e-300), 0x0000);
  EXPECT_EQ(half_bits(BP_DTYPE_F16, kNan) & 0x7e00, 0x7e00);
}

TEST(OracleFormats, Bf16_RoundsToNearestEven) {
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, 1.0), 0x3f80);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, 1.0 + std::ldexp(1, -8)), 0x3f80);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, 1.0 + 3 * std::ldexp(1, -8)), 0x3f82);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, 3.3895313892515355e38), 0x7f7f);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, 3.4e38), 0x7f80);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, std::ldexp(1, -133)), 0x0001);
  EXPECT_EQ(half_bits(BP_DTYPE_BF16, -kInf), 0xff80);
}

TEST(OracleFormats, EveryHalf_SurvivesTheRoundTrip) {
  for (uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<uint16_t>(bits);
      std::byte bytes[2];
      std::memcpy(bytes, &stored, sizeof(stored));
      const double value = load_float(dtype, bytes, 0);
      if (std::isnan(value)) continue;
      ASSERT_EQ(half_bits(dtype, value), stored) << dtype;
    }
  }
}

TEST(OracleFormats, FloatToInteger_TruncatesAndSaturates) {
  const std::vector<double> values{2.9, -2.9, 1e30, -1e30, kNan, kInf};
  const Dims six{6};
  EXPECT_THAT(tensor(BP_DTYPE_I8, six, values).to_i64(), ElementsAre(2, -2, 127, -128, 0, 127));
  EXPECT_THAT(tensor(BP_DTYPE_U16, six, values).to_i64(), ElementsAre(2, 0, 65535, 0, 0, 65535));
  EXPECT_THAT(tensor(BP_DTYPE_I64, six, values).to_i64(),
              ElementsAre(2, -2, INT64_MAX, INT64_MIN, 0, INT64_MAX));
  EXPECT_THAT(tensor(BP_DTYPE_U64, six, values).to_f64(),
              ElementsAre(2, 0, 18446744073709551616.0, 0, 0, 18446744073709551616.0));
  EXPECT_THAT(tensor(BP_DTYPE_BOOL, six, values).to_i64(), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(tensor(BP_DTYPE_I32, {2}, {2147483647.0, 2147483648.0}).to_i64(),
              ElementsAre(2147483647, 2147483647));
}

TEST(OracleFormats, Integers_WrapAndExtend) {
  EXPECT_THAT(OracleTensor::from_i64(BP_DTYPE_I8, {3}, std::vector<int64_t>{200, -129, 5}).to_i64(),
              ElementsAre(-56, 127, 5));
  EXPECT_THAT(OracleTensor::from_i64(BP_DTYPE_U8, {2}, std::vector<int64_t>{-1, 256}).to_i64(),
              ElementsAre(255, 0));
  EXPECT_THAT(OracleTensor::from_i64(BP_DTYPE_BOOL, {2}, std::vector<int64_t>{256, 0}).to_i64(),
              ElementsAre(1, 0));
  EXPECT_THAT(OracleTensor::from_i64(BP_DTYPE_F32, {1}, std::vector<int64_t>{16777217}).to_f64(),
              ElementsAre(16777216.0));
}

}  // namespace
}  // namespace bp::ops
