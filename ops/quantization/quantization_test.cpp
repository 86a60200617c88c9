// SPDX-License-Identifier: Apache-2.0
//
// Quantization: inference, and the oracle against values worked out by hand.
#include <cmath>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

TensorType bytes(Dims sizes) { return typed(BP_DTYPE_U8, sizes); }

TEST(InferQuantizeLinear, Parameters_MustFit) {
  bp_attrs_quantize_linear attributes = bp_attrs_quantize_linear_defaults();
  const auto infer = [&](const TensorType& x, const TensorType& scale, const TensorType& zero) {
    return inferred("quantize_linear", {x, scale, zero}, &attributes);
  };
  EXPECT_EQ(infer(f32({kN, 3}), f32({}), bytes({})), "u8[s0, 3]");
  EXPECT_EQ(infer(f32({kN, 3}), f32({3}), typed(BP_DTYPE_I16, {1})), "i16[s0, 3]");
  EXPECT_EQ(infer(no_rank(), f32({3}), bytes({3})), "u8[...]");
  EXPECT_EQ(
      infer(f32({2, 3}), f32({2}), bytes({2})),
      "quantize_linear: input 'scale': expected one element, or one for each of axis 1 of [2, "
      "3], found [2]");
  EXPECT_EQ(infer(f32({2, 3}), f32({3}), bytes({3, 1})),
            "quantize_linear: input 'zero_point': expected one element, or one for each of axis 1 "
            "of [2, 3], found [3, 1]");
  attributes.axis = 2;
  EXPECT_EQ(infer(f32({2, 3}), f32({3}), bytes({})),
            "quantize_linear: attribute 'axis': expected -2 to 1, found 2");
  attributes.axis = 1;
  attributes.block_size = 2;
  EXPECT_EQ(infer(f32({2, 5}), f32({2, 3}), bytes({2, 3})), "u8[2, 5]");
  EXPECT_EQ(infer(f32({2, 5}), f32({2, 2}), bytes({})),
            "quantize_linear: input 'scale': expected an element for every 2 along axis 1 of [2, "
            "5], found [2, 2]");
  attributes.block_size = -1;
  EXPECT_EQ(infer(f32({2, 5}), f32({}), bytes({})),
            "quantize_linear: attribute 'block_size': expected 0 or more, found -1");
}

TEST(OracleQuantizeLinear, TiesToEvenAndSaturation_ByHand) {
  const auto x = floats({8}, {1, 3, 5, -1000, 1000, kNan, kInf, -2});
  const auto zero = tensor(BP_DTYPE_U8, {}, {10});
  EXPECT_THAT(evaluated("quantize_linear", {x, floats({}, {2}), zero}).to_i64(),
              ElementsAre(10, 12, 12, 0, 255, 0, 255, 9));
  EXPECT_THAT(
      evaluated("quantize_linear", {x, floats({1}, {2}), tensor(BP_DTYPE_I8, {}, {-3})}).to_i64(),
      ElementsAre(-3, -1, -1, -128, 127, 0, 127, -4));
}

TEST(OracleQuantizeLinear, Quotient_IsRoundedToF32First) {
  // 0.35f / 0.1f is a little below 3.5, and rounds to it in f32.
  const auto y = evaluated("quantize_linear",
                           {floats({1}, {0.35}), floats({}, {0.1}), tensor(BP_DTYPE_U8, {}, {0})});
  EXPECT_THAT(y.to_i64(), ElementsAre(std::lrint(float{0.35F} / float{0.1F})));
}

TEST(OracleQuantizeLinear, AxesAndBlocks_TakeTheirParameters) {
  bp_attrs_quantize_linear attributes = bp_attrs_quantize_linear_defaults();
  const auto x = floats({2, 3}, {8, 8, 8, 16, 16, 16});
  EXPECT_THAT(
      evaluated("quantize_linear", {x, floats({3}, {1, 2, 4}), tensor(BP_DTYPE_U8, {3}, {0, 1, 2})},
                &attributes)
          .to_i64(),
      ElementsAre(8, 5, 4, 16, 9, 6));
  attributes.block_size = 2;
  EXPECT_THAT(
      evaluated("quantize_linear",
                {x, floats({2, 2}, {1, 2, 4, 8}), tensor(BP_DTYPE_U8, {2, 2}, {0, 0, 0, 1})},
                &attributes)
          .to_i64(),
      ElementsAre(8, 8, 4, 4, 4, 3));
}

TEST(OracleDequantizeLinear, Difference_IsExact) {
  const auto x = OracleTensor::from_i64(BP_DTYPE_I32, {2}, std::vector<int64_t>{INT32_MAX, 7});
  const auto zero = OracleTensor::from_i64(BP_DTYPE_I32, {}, std::vector<int64_t>{INT32_MIN});
  EXPECT_THAT(values_of(evaluated("dequantize_linear", {x, doubles({}, {0.5}), zero})),
              ElementsAre(2147483647.5, 1073741827.5));
  EXPECT_THAT(values_of(evaluated("dequantize_linear",
                                  {tensor(BP_DTYPE_I8, {2}, {-4, 3}), floats({}, {0.25})})),
              ElementsAre(-1, 0.75));
}

TEST(LpNorm, RowsOfZeros_StayZero) {
  bp_attrs_lp_norm attributes = bp_attrs_lp_norm_defaults();
  EXPECT_THAT(values_of(evaluated("lp_norm", {doubles({2, 2}, {3, -4, 0, 0})}, &attributes)),
              ElementsAre(0.6, -0.8, 0, 0));
  attributes.p = 1;
  EXPECT_THAT(values_of(evaluated("lp_norm", {doubles({1, 2}, {3, -1})}, &attributes)),
              ElementsAre(0.75, -0.25));
  attributes.p = 3;
  EXPECT_EQ(inferred("lp_norm", {f32({2})}, &attributes),
            "lp_norm: attribute 'p': expected 1 or 2, found 3");
}

TEST(MeanVarianceNorm, Axes_AreChecked) {
  bp_attrs_mean_variance_norm attributes = bp_attrs_mean_variance_norm_defaults();
  EXPECT_EQ(inferred("mean_variance_norm", {f32({kN, 3, 4, 4})}, &attributes), "f32[s0, 3, 4, 4]");
  EXPECT_EQ(inferred("mean_variance_norm", {f32({2, 3})}, &attributes),
            "mean_variance_norm: attribute 'axes': expected -2 to 1, found 2");
  const std::vector<int64_t> last = {1};
  attributes.axes = list(last);
  const auto y = evaluated("mean_variance_norm", {doubles({2, 2}, {1, 3, 5, 5})}, &attributes);
  EXPECT_NEAR(values_of(y)[0], -1, 1e-8);
  EXPECT_NEAR(values_of(y)[1], 1, 1e-8);
  EXPECT_EQ(values_of(y)[2], 0);
}

}  // namespace
}  // namespace bp::ops
