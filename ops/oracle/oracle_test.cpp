// SPDX-License-Identifier: Apache-2.0
//
// The oracle against values worked out by hand, and against NumPy's where that is long.
#include "ops/oracle/oracle.hpp"

#include <array>
#include <cmath>

#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsNan;

testing::Matcher<std::vector<double>> near_all(const std::vector<double>& expected, double error) {
  std::vector<testing::Matcher<double>> matchers;
  for (double value : expected) matchers.push_back(DoubleNear(value, error));
  return ElementsAreArray(matchers);
}

TEST(OracleBinary, Add_Broadcasts) {
  const auto y = evaluated("add", {floats({2, 1}, {10, 20}), floats({3}, {1, 2, 3})});
  EXPECT_EQ(to_string(y.sizes), "[2, 3]");
  EXPECT_THAT(values_of(y), ElementsAre(11, 12, 13, 21, 22, 23));
}

TEST(OracleBinary, Float_IsRoundedOnce) {
  const auto y = evaluated("add", {floats({1}, {16777216}), floats({1}, {1})});
  EXPECT_THAT(values_of(y), ElementsAre(16777216));
  const auto half = evaluated("mul", {tensor(BP_DTYPE_F16, {2}, {300, 3}),
                                      tensor(BP_DTYPE_F16, {2}, {300, 0.333251953125})});
  EXPECT_THAT(values_of(half), ElementsAre(kInf, 1.0));
}

TEST(OracleBinary, Integers_Wrap) {
  const auto bytes = [](double a, double b) {
    return std::vector{tensor(BP_DTYPE_I8, {1}, {a}), tensor(BP_DTYPE_I8, {1}, {b})};
  };
  EXPECT_THAT(values_of(evaluated("add", bytes(100, 100))), ElementsAre(-56));
  EXPECT_THAT(values_of(evaluated("sub", bytes(-100, 100))), ElementsAre(56));
  EXPECT_THAT(values_of(evaluated("mul", bytes(16, 17))), ElementsAre(16));
  EXPECT_THAT(values_of(evaluated("div", bytes(-128, -1))), ElementsAre(-128));
  const auto unsigned_y =
      evaluated("sub", {tensor(BP_DTYPE_U32, {1}, {1}), tensor(BP_DTYPE_U32, {1}, {2})});
  EXPECT_THAT(values_of(unsigned_y), ElementsAre(4294967295.0));
  EXPECT_EQ(evaluated("mul", {longs({1}, {INT64_MIN}), longs({1}, {-1})}).to_i64()[0], INT64_MIN);
  EXPECT_EQ(evaluated("div", {longs({1}, {INT64_MIN}), longs({1}, {-1})}).to_i64()[0], INT64_MIN);
  EXPECT_EQ(evaluated("add", {longs({1}, {INT64_MAX}), longs({1}, {1})}).to_i64()[0], INT64_MIN);
}

TEST(OracleBinary, IntegerDivision_TruncatesAndHasNoTrap) {
  const auto y = evaluated("div", {longs({5}, {7, -7, 7, -7, 5}), longs({5}, {2, 2, -2, -2, 0})});
  EXPECT_THAT(y.to_i64(), ElementsAre(3, -3, -3, 3, 0));
  const auto u64 =
      evaluated("div", {OracleTensor::from_i64(BP_DTYPE_U64, {1}, std::vector<int64_t>{-2}),
                        OracleTensor::from_i64(BP_DTYPE_U64, {1}, std::vector<int64_t>{2})});
  EXPECT_EQ(u64.to_i64()[0], INT64_MAX);
}

TEST(OracleBinary, FloatDivisionByZero_IsIeee) {
  const auto y = evaluated("div", {floats({3}, {1, -1, 0}), floats({}, {0})});
  EXPECT_THAT(values_of(y), ElementsAre(kInf, -kInf, IsNan()));
}

TEST(OracleBinary, Max_PassesNanOn) {
  const auto y =
      evaluated("max", {floats({4}, {1, kNan, 3, -kInf}), floats({4}, {2, 0, kNan, -5})});
  EXPECT_THAT(values_of(y), ElementsAre(2, IsNan(), IsNan(), -5));
  const auto u8 =
      evaluated("max", {tensor(BP_DTYPE_U8, {1}, {200}), tensor(BP_DTYPE_U8, {1}, {3})});
  EXPECT_THAT(values_of(u8), ElementsAre(200));
}

TEST(OracleUnary, SpecialValues_AreKept) {
  EXPECT_THAT(values_of(evaluated("relu", {floats({5}, {-1, 2, kNan, -kInf, 0})})),
              ElementsAre(0, 2, IsNan(), 0, 0));
  EXPECT_THAT(values_of(evaluated("relu", {tensor(BP_DTYPE_I16, {2}, {-5, 5})})),
              ElementsAre(0, 5));
  EXPECT_THAT(values_of(evaluated("sqrt", {doubles({4}, {9, 0, -1, kInf})})),
              ElementsAre(3, 0, IsNan(), kInf));
  EXPECT_THAT(values_of(evaluated("reciprocal", {doubles({4}, {4, 0, -0.0, kInf})})),
              ElementsAre(0.25, kInf, -kInf, 0));
  EXPECT_THAT(values_of(evaluated("exp", {doubles({3}, {0.5, -2, 10})})),
              near_all({1.6487212707001282, 0.1353352832366127, 22026.465794806718}, 1e-11));
  EXPECT_THAT(values_of(evaluated("exp", {tensor(BP_DTYPE_F16, {2}, {10, 12})})),
              ElementsAre(22032, kInf));
  EXPECT_THAT(values_of(evaluated("exp", {floats({0, 3}, {})})), ElementsAre());
}

OracleTensor cast_to(uint32_t dtype, const OracleTensor& x) {
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = dtype;
  return evaluated("cast", {x}, &attributes);
}

TEST(OracleCast, FloatToInteger_SaturatesAndNanIsZero) {
  const auto x = floats({6}, {3.7, -3.7, 300, -300, kNan, -kInf});
  EXPECT_THAT(cast_to(BP_DTYPE_I8, x).to_i64(), ElementsAre(3, -3, 127, -128, 0, -128));
  EXPECT_THAT(cast_to(BP_DTYPE_U8, x).to_i64(), ElementsAre(3, 0, 255, 0, 0, 0));
  EXPECT_THAT(cast_to(BP_DTYPE_BOOL, floats({4}, {0, -0.0, kNan, 0.1})).to_i64(),
              ElementsAre(0, 0, 1, 1));
}

TEST(OracleCast, Integers_WrapAndRoundOnce) {
  EXPECT_THAT(cast_to(BP_DTYPE_U8, longs({3}, {256, -1, 511})).to_i64(), ElementsAre(0, 255, 255));
  EXPECT_THAT(cast_to(BP_DTYPE_I64, tensor(BP_DTYPE_U32, {1}, {4294967295.0})).to_i64(),
              ElementsAre(4294967295));
  EXPECT_THAT(values_of(cast_to(BP_DTYPE_F32, OracleTensor::from_i64(BP_DTYPE_U64, {1},
                                                                     std::vector<int64_t>{-1}))),
              ElementsAre(18446744073709551616.0));
  // Rounding to double first would make a tie of it, and then the wrong neighbour.
  const int64_t above_tie = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_THAT(values_of(cast_to(BP_DTYPE_BF16, longs({1}, {above_tie}))),
              ElementsAre(std::ldexp(1.0, 62) + std::ldexp(1.0, 55)));
  EXPECT_THAT(values_of(cast_to(BP_DTYPE_F16, longs({2}, {70000, -2049}))),
              ElementsAre(kInf, -2048));
  EXPECT_THAT(values_of(cast_to(BP_DTYPE_F32, tensor(BP_DTYPE_BOOL, {2}, {1, 0}))),
              ElementsAre(1, 0));
}

TEST(OracleMatmul, Ranks_FollowNumPy) {
  const auto a = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(values_of(evaluated("matmul", {a, floats({3, 2}, {1, 0, 0, 1, 2, -1})})),
              ElementsAre(7, -1, 16, -1));
  EXPECT_THAT(values_of(evaluated("matmul", {a, floats({3}, {1, 1, 1})})), ElementsAre(6, 15));
  EXPECT_THAT(values_of(evaluated("matmul", {floats({2}, {1, 2}), a})), ElementsAre(9, 12, 15));
  const auto dot = evaluated("matmul", {floats({2}, {3, 4}), floats({2}, {3, 4})});
  EXPECT_EQ(to_string(dot.sizes), "[]");
  EXPECT_THAT(values_of(dot), ElementsAre(25));
}

TEST(OracleMatmul, Batches_Broadcast) {
  const auto y = evaluated(
      "matmul", {floats({2, 1, 1, 2}, {1, 2, 3, 4}), floats({3, 2, 1}, {1, 0, 0, 1, 1, 1})});
  EXPECT_EQ(to_string(y.sizes), "[2, 3, 1, 1]");
  EXPECT_THAT(values_of(y), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(OracleMatmul, EmptyInner_GivesZeros) {
  EXPECT_THAT(values_of(evaluated("matmul", {floats({1, 0}, {}), floats({0, 2}, {})})),
              ElementsAre(0, 0));
}

TEST(OracleMatmul, SmallIntegers_WrapAtTheEnd) {
  const auto y = evaluated(
      "matmul", {tensor(BP_DTYPE_I8, {1, 2}, {100, 100}), tensor(BP_DTYPE_I8, {2, 1}, {2, -2})});
  EXPECT_THAT(values_of(y), ElementsAre(0));
}

TEST(OracleGemm, FactorsAndTransposes_Apply) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  attributes.alpha = 2;
  attributes.beta = -1;
  attributes.trans_a = 1;
  attributes.trans_b = 1;
  // A' = [[1, 3], [2, 4]], B' = [[1, 0], [2, 1]]; A'B' = [[7, 3], [10, 4]]
  const auto y = evaluated(
      "gemm", {floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 0, 1}), floats({2}, {1, 2})},
      &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(13, 4, 19, 6));
}

TEST(OracleGemm, C_IsNotReadWithBetaZero) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  const std::vector<OracleTensor> inputs{floats({1, 1}, {2}), floats({1, 1}, {3}),
                                         floats({1, 1}, {kNan})};
  EXPECT_THAT(values_of(evaluated("gemm", inputs, &attributes)), ElementsAre(IsNan()));
  attributes.beta = 0;
  EXPECT_THAT(values_of(evaluated("gemm", inputs, &attributes)), ElementsAre(6));
  EXPECT_THAT(values_of(evaluated("gemm", {inputs[0], inputs[1], OracleTensor()})), ElementsAre(6));
}

TEST(OracleConv, GroupsStridesPadsDilations_MatchNumPy) {
  std::vector<double> x;
  for (int i = 0; i < 80; ++i) x.push_back(i % 7 - 3);
  std::vector<double> w;
  for (int i = 0; i < 24; ++i) w.push_back(i % 5 - 2);
  const std::vector<int64_t> strides{2, 1};
  const std::vector<int64_t> pads{1, 0, 1, 2};
  const std::vector<int64_t> dilations{2, 1};
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  attributes.strides = list(strides);
  attributes.pads = list(pads);
  attributes.dilations = list(dilations);
  attributes.group = 2;
  const auto y =
      evaluated("conv", {floats({1, 4, 5, 4}, x), floats({2, 2, 2, 3}, w), floats({2}, {10, -20})},
                &attributes);
  EXPECT_EQ(to_string(y.sizes), "[1, 2, 3, 4]");
  EXPECT_THAT(values_of(y), ElementsAre(5, 19, 5, 13, 17, 7, 10, 5, 5, 2, 15, 17, -16, -19, -24,
                                        -25, -21, -20, -24, -27, -18, -14, -12, -18));
}

TEST(OracleConv, OneDimension_IsACrossCorrelation) {
  EXPECT_THAT(
      values_of(evaluated("conv", {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 2}, {10, 1})})),
      ElementsAre(12, 23, 34));
  EXPECT_THAT(values_of(evaluated(
                  "conv", {floats({2, 0, 3}, {}), floats({1, 0, 3}, {}), floats({1}, {5})})),
              ElementsAre(5, 5));
}

OracleTensor pooled(const OracleTensor& x, const std::vector<int64_t>& kernel,
                    const std::vector<int64_t>& strides, const std::vector<int64_t>& pads,
                    bool ceil_mode) {
  bp_attrs_max_pool attributes = bp_attrs_max_pool_defaults();
  attributes.kernel_shape = list(kernel);
  attributes.strides = list(strides);
  attributes.pads = list(pads);
  attributes.ceil_mode = ceil_mode ? 1 : 0;
  return evaluated("max_pool", {x}, &attributes);
}

TEST(OracleMaxPool, Padding_NeverWins) {
  const auto x = floats({1, 1, 2, 2}, {-1, -2, -3, -4});
  EXPECT_THAT(values_of(pooled(x, {2, 2}, {2, 2}, {1, 1, 1, 1}, false)),
              ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(values_of(pooled(x, {1, 1}, {1, 1}, {0, 0, 0, 1}, false)),
              ElementsAre(-1, -2, -kInf, -3, -4, -kInf));
  EXPECT_THAT(values_of(pooled(tensor(BP_DTYPE_I8, {1, 1, 1}, {5}), {1}, {1}, {1, 0}, false)),
              ElementsAre(-128, 5));
}

TEST(OracleMaxPool, CeilMode_TakesPartialWindows) {
  const auto x = floats({1, 1, 5}, {1, 5, 2, 4, 3});
  EXPECT_THAT(values_of(pooled(x, {2}, {2}, {}, false)), ElementsAre(5, 4));
  EXPECT_THAT(values_of(pooled(x, {2}, {2}, {}, true)), ElementsAre(5, 4, 3));
  EXPECT_THAT(values_of(pooled(x, {2}, {2}, {0, 1}, true)), ElementsAre(5, 4, 3));
  EXPECT_THAT(values_of(pooled(floats({1, 1, 2}, {1, kNan}), {2}, {1}, {1, 0}, false)),
              ElementsAre(1, IsNan()));
}

TEST(OracleBatchNorm, Values_MatchNumPy) {
  std::vector<double> x;
  for (int i = 0; i < 12; ++i) x.push_back(i);
  bp_attrs_batch_norm attributes = bp_attrs_batch_norm_defaults();
  attributes.epsilon = 0.01;
  const auto y =
      evaluated("batch_norm",
                {doubles({2, 3, 2}, x), doubles({3}, {1, 2, -0.5}), doubles({3}, {0, 1, 2}),
                 doubles({3}, {3, 4, 5}), doubles({3}, {4, 0.25, 9})},
                &attributes);
  EXPECT_THAT(values_of(y), near_all({-1.498128508316767, -0.9987523388778446, -6.844645405527361,
                                      -2.9223227027636804, 2.1665741511631924, 2.0,
                                      1.498128508316767, 1.9975046777556893, 16.689290811054722,
                                      20.6116135138184, 1.167129244184038, 1.0005550930208456},
                                     1e-13));
}

TEST(OracleSoftmax, Axis_IsNormalised) {
  const auto x = doubles({2, 3}, {0.25, -1.5, 2.0, 3.0, 0.0, -0.75});
  bp_attrs_softmax attributes = bp_attrs_softmax_defaults();
  EXPECT_THAT(values_of(evaluated("softmax", {x}, &attributes)),
              near_all({0.14433395511320982, 0.02508148055382201, 0.8305845643329681,
                        0.9317017745076629, 0.04638669994587317, 0.02191152554646392},
                       1e-15));
  attributes.axis = 0;
  EXPECT_THAT(values_of(evaluated("softmax", {x}, &attributes)),
              near_all({0.06008665017400762, 0.18242552380635632, 0.9399133498259924,
                        0.9399133498259924, 0.8175744761936437, 0.06008665017400762},
                       1e-15));
}

TEST(OracleSoftmax, LargeValues_DoNotOverflow) {
  EXPECT_THAT(values_of(evaluated("softmax", {floats({3}, {1000, 1000, -1000})})),
              ElementsAre(0.5, 0.5, 0));
  EXPECT_THAT(values_of(evaluated("softmax", {floats({2, 0}, {})})), ElementsAre());
}

TEST(OracleReduce, Axes_AreReduced) {
  const std::vector<int64_t> axes{1};
  bp_attrs_reduce_sum sum = bp_attrs_reduce_sum_defaults();
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(values_of(evaluated("reduce_sum", {x}, &sum)), ElementsAre(21));
  sum.axes = list(axes);
  sum.keepdims = 0;
  const auto y = evaluated("reduce_sum", {x}, &sum);
  EXPECT_EQ(to_string(y.sizes), "[2]");
  EXPECT_THAT(values_of(y), ElementsAre(6, 15));
  const auto wrapped = evaluated("reduce_sum", {tensor(BP_DTYPE_U8, {1, 2}, {200, 100})}, &sum);
  EXPECT_THAT(values_of(wrapped), ElementsAre(44));
}

TEST(OracleReduce, Nan_IsTheMaximum) {
  const auto y = evaluated("reduce_max", {floats({3}, {1, kNan, 7})});
  EXPECT_THAT(values_of(y), ElementsAre(IsNan()));
}

TEST(OracleReduce, OverNothing_IsTheNeutralElement) {
  const std::vector<int64_t> axes{0};
  bp_attrs_reduce_max max = bp_attrs_reduce_max_defaults();
  max.axes = list(axes);
  bp_attrs_reduce_sum sum = bp_attrs_reduce_sum_defaults();
  EXPECT_THAT(values_of(evaluated("reduce_max", {floats({0, 2}, {})}, &max)),
              ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values_of(evaluated("reduce_max", {tensor(BP_DTYPE_I16, {0}, {})}, &max)),
              ElementsAre(-32768));
  EXPECT_THAT(values_of(evaluated("reduce_max", {tensor(BP_DTYPE_U16, {0}, {})}, &max)),
              ElementsAre(0));
  EXPECT_THAT(values_of(evaluated("reduce_sum", {floats({0, 2}, {})}, &sum)), ElementsAre(0));
}

TEST(OracleMovement, Elements_Arrive) {
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, kNan});
  const auto reshaped = evaluated("reshape", {x, longs({2}, {3, -1})});
  EXPECT_EQ(to_string(reshaped.sizes), "[3, 2]");
  EXPECT_EQ(reshaped.bytes, x.bytes);
  EXPECT_EQ(to_string(evaluated("flatten", {x}).sizes), "[2, 3]");
  EXPECT_EQ(evaluated("identity", {x}).bytes, x.bytes);
  EXPECT_THAT(values_of(evaluated("transpose", {x})), ElementsAre(1, 4, 2, 5, 3, IsNan()));
  const std::vector<int64_t> perm{1, 2, 0};
  bp_attrs_transpose attributes = bp_attrs_transpose_defaults();
  attributes.perm = list(perm);
  const auto cube =
      evaluated("transpose", {tensor(BP_DTYPE_I8, {2, 1, 3}, {1, 2, 3, 4, 5, 6})}, &attributes);
  EXPECT_EQ(to_string(cube.sizes), "[1, 3, 2]");
  EXPECT_THAT(values_of(cube), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(OracleConstant, Value_IsTheAttribute) {
  Attributes attributes(schema_of("constant"));
  const std::array<int64_t, 1> sizes{2};
  const std::array<int16_t, 2> values{-7, 9};
  ASSERT_TRUE(
      attributes.set_tensor("value", BP_DTYPE_I16, sizes, std::as_bytes(std::span(values))).ok());
  EXPECT_THAT(values_of(evaluated("constant", {}, attributes.data())), ElementsAre(-7, 9));
}

TEST(OracleGather, NegativeIndices_CountFromTheEnd) {
  const auto x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto rows = evaluated("gather", {x, longs({2}, {-1, 0})});
  EXPECT_EQ(to_string(rows.sizes), "[2, 2]");
  EXPECT_THAT(values_of(rows), ElementsAre(5, 6, 1, 2));
  bp_attrs_gather attributes = bp_attrs_gather_defaults();
  attributes.axis = -1;
  const auto columns = evaluated("gather", {x, tensor(BP_DTYPE_I32, {1, 2}, {1, -2})}, &attributes);
  EXPECT_EQ(to_string(columns.sizes), "[3, 1, 2]");
  EXPECT_THAT(values_of(columns), ElementsAre(2, 1, 4, 3, 6, 5));
}

TEST(OracleGather, IndicesOutOfRange_AreClamped) {
  const auto y =
      evaluated("gather", {floats({3}, {1, 2, 3}), longs({4}, {3, -4, INT64_MAX, INT64_MIN})});
  EXPECT_THAT(values_of(y), ElementsAre(3, 1, 3, 1));
}

TEST(OracleNonZero, Indices_AreInOrder) {
  const auto y = evaluated("non_zero", {floats({2, 3}, {0, 1, kNan, -0.0, 0, 2})});
  EXPECT_EQ(to_string(y.sizes), "[2, 3]");
  EXPECT_THAT(y.to_i64(), ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_EQ(to_string(evaluated("non_zero", {floats({2}, {0, 0})}).sizes), "[1, 0]");
  EXPECT_EQ(to_string(evaluated("non_zero", {floats({}, {4})}).sizes), "[0, 1]");
  EXPECT_EQ(to_string(evaluated("non_zero", {floats({}, {0})}).sizes), "[0, 0]");
}

TEST(OracleEvaluate, EveryOperator_IsKnown) {
  for (const OpSchema& schema : all_schemas()) {
    std::vector<OracleTensor> outputs;
    const Status status = evaluate(schema, {}, nullptr, &outputs);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << schema.name << ": " << status.to_string();
  }
  OpSchema foreign = schema_of("add");
  foreign.id = 9999;
  std::vector<OracleTensor> outputs;
  EXPECT_EQ(evaluate(foreign, {}, nullptr, &outputs).code(), BP_UNSUPPORTED);
}

TEST(OracleEvaluate, BadInputs_AreNamed) {
  OracleTensor cut = floats({2}, {1, 2});
  cut.bytes.pop_back();
  EXPECT_THAT(refused("exp", {cut}), HasSubstr("oracle input 0 of sizes [2] has 7 bytes"));
  EXPECT_THAT(refused("add", {floats({2}, {1, 2}), floats({3}, {1, 2, 3})}),
              HasSubstr("sizes that broadcast"));
  EXPECT_THAT(refused("cast", {floats({1}, {1})}), HasSubstr("'to'"));
  bp_attrs_softmax attributes = bp_attrs_softmax_defaults();
  attributes.struct_size = 3;
  EXPECT_THAT(refused("softmax", {floats({1}, {1})}, &attributes), HasSubstr("struct_size"));
}

}  // namespace
}  // namespace bp::ops
