// SPDX-License-Identifier: Apache-2.0
//
// Operators that the Python array API standard asks for and ONNX lacks: its tables of special
// cases, by hand, through the oracle. With them every kernel is compared by the conformance kit.
#include <cmath>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

constexpr double kPi = 3.14159265358979323846;

struct Case {
  double a;
  double b;
  double y;
};

/// NaN for NaN, and each zero with its sign.
void expect_cases(std::string_view op, const std::vector<Case>& cases) {
  for (const uint32_t dtype : {BP_DTYPE_F64, BP_DTYPE_F32}) {
    for (const Case& row : cases) {
      const double found =
          values_of(evaluated(op, {tensor(dtype, {}, {row.a}), tensor(dtype, {}, {row.b})}))[0];
      const double expected = dtype == BP_DTYPE_F64 ? row.y : static_cast<float>(row.y);
      const std::string what = std::string(op) + " of " + std::to_string(row.a) + " and " +
                               std::to_string(row.b) + " is " + std::to_string(found) +
                               ", expected " + std::to_string(expected);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected) << what;
      if (expected == 0) EXPECT_EQ(std::signbit(found), std::signbit(expected)) << what;
    }
  }
}

TEST(StandardFloorDivide, SpecialCases_AreNumPys) {
  expect_cases("floor_divide", {{kNan, 1, kNan},
                                {1, kNan, kNan},
                                {kInf, kInf, kNan},
                                {-kInf, kInf, kNan},
                                {0.0, 0.0, kNan},
                                {-0.0, 0.0, kNan},
                                {0.0, 3, 0.0},
                                {-0.0, 3, -0.0},
                                {0.0, -3, -0.0},
                                {-0.0, -3, 0.0},
                                {3, 0.0, kInf},
                                {3, -0.0, -kInf},
                                {-3, 0.0, -kInf},
                                {-3, -0.0, kInf},
                                {kInf, 3, kNan},
                                {3, kInf, 0.0},
                                {3, -kInf, -1},
                                {-3, kInf, -1},
                                {-3, -kInf, 0.0}});
}

TEST(StandardFloorDivide, Numbers_AreRoundedDown) {
  expect_cases("floor_divide", {{7, 2, 3},
                                {-7, 2, -4},
                                {7, -2, -4},
                                {-7, -2, 3},
                                {6, -3, -2},
                                {1, 3, 0.0},
                                {-1, 3, -1},
                                {1e20, 3, 33333333333333333333.0},
                                {0.75, 0.25, 3}});
  // 0.1 is a little more than a tenth: ten of them are more than 1.
  EXPECT_THAT(values_of(evaluated("floor_divide", {doubles({}, {1}), doubles({}, {0.1})})),
              ::testing::ElementsAre(9));
}

std::vector<int64_t> whole(std::string_view op, uint32_t dtype, const std::vector<int64_t>& a,
                           const std::vector<int64_t>& b) {
  const Dims sizes{static_cast<int64_t>(a.size())};
  return evaluated(
             op, {OracleTensor::from_i64(dtype, sizes, a), OracleTensor::from_i64(dtype, sizes, b)})
      .to_i64();
}

TEST(StandardFloorDivide, Integers_RoundDownAndNothingTraps) {
  EXPECT_THAT(
      whole("floor_divide", BP_DTYPE_I32, {7, -7, 7, -7, 6, -6, 5}, {2, 2, -2, -2, 3, 3, 0}),
      ::testing::ElementsAre(3, -4, -4, 3, 2, -2, 0));
  EXPECT_THAT(whole("floor_divide", BP_DTYPE_I8, {-128, -128, -1}, {-1, 127, 127}),
              ::testing::ElementsAre(-128, -2, -1));
  EXPECT_THAT(whole("floor_divide", BP_DTYPE_I64, {INT64_MIN, INT64_MIN}, {-1, 0}),
              ::testing::ElementsAre(INT64_MIN, 0));
  EXPECT_THAT(whole("floor_divide", BP_DTYPE_U8, {255, 7, 1}, {2, 0, 255}),
              ::testing::ElementsAre(127, 0, 0));
  EXPECT_THAT(whole("mod", BP_DTYPE_I32, {7, -7, 7, -7, 6, 5}, {2, 2, -2, -2, -3, 0}),
              ::testing::ElementsAre(1, 1, -1, -1, 0, 0));
}

TEST(StandardRemainder, SpecialCases_HaveTheSignOfTheDivisor) {
  expect_cases("mod", {{kNan, 1, kNan},
                       {1, kNan, kNan},
                       {kInf, 3, kNan},
                       {-kInf, -kInf, kNan},
                       {0.0, 0.0, kNan},
                       {3, 0.0, kNan},
                       {-3, -0.0, kNan},
                       {0.0, 3, 0.0},
                       {-0.0, 3, 0.0},
                       {0.0, -3, -0.0},
                       {-0.0, -3, -0.0},
                       {3, kInf, 3},
                       {3, -kInf, -kInf},
                       {-3, kInf, kInf},
                       {-3, -kInf, -3},
                       {6, -3, -0.0},
                       {-6, 3, 0.0},
                       {7, -3, -2},
                       {-7, 3, 2}});
}

TEST(StandardAtan2, SpecialCases) {
  expect_cases("atan2", {{kNan, 1, kNan},         {1, kNan, kNan},
                         {1, 0.0, kPi / 2},       {1, -0.0, kPi / 2},
                         {0.0, 1, 0.0},           {0.0, 0.0, 0.0},
                         {0.0, -0.0, kPi},        {0.0, -1, kPi},
                         {-0.0, 1, -0.0},         {-0.0, 0.0, -0.0},
                         {-0.0, -0.0, -kPi},      {-0.0, -1, -kPi},
                         {-1, 0.0, -kPi / 2},     {-1, -0.0, -kPi / 2},
                         {1, kInf, 0.0},          {1, -kInf, kPi},
                         {-1, kInf, -0.0},        {-1, -kInf, -kPi},
                         {kInf, 1, kPi / 2},      {-kInf, 1, -kPi / 2},
                         {kInf, kInf, kPi / 4},   {kInf, -kInf, 3 * kPi / 4},
                         {-kInf, kInf, -kPi / 4}, {-kInf, -kInf, -3 * kPi / 4}});
}

TEST(StandardHypot, SpecialCases_AndNothingOverflows) {
  expect_cases("hypot", {{kInf, kNan, kInf},
                         {kNan, -kInf, kInf},
                         {kNan, 1, kNan},
                         {1, kNan, kNan},
                         {3, -4, 5},
                         {0.0, -0.0, 0.0},
                         {-2, 0.0, 2}});
  EXPECT_THAT(
      values_of(evaluated("hypot", {doubles({2}, {3e300, 3e-300}), doubles({2}, {4e300, 4e-300})})),
      ::testing::ElementsAre(::testing::DoubleEq(5e300), ::testing::DoubleEq(5e-300)));
}

TEST(StandardLogaddexp, SpecialCases_AndNothingOverflows) {
  expect_cases("logaddexp", {{kNan, 1, kNan},
                             {kInf, kNan, kNan},
                             {kInf, 1, kInf},
                             {-kInf, kInf, kInf},
                             {kInf, kInf, kInf},
                             {-kInf, -kInf, -kInf},
                             {-kInf, 2, 2},
                             {1000, 1000, 1000.6931471805599},
                             {0, 0, 0.69314718055994531},
                             {-1000, 1, 1}});
}

TEST(StandardLogarithms, SpecialCases_AndWholePowers) {
  for (const std::string_view op : {"log2", "log10"}) {
    const auto y = values_of(evaluated(op, {doubles({6}, {kNan, -1, 0.0, -0.0, 1, kInf})}));
    EXPECT_THAT(
        y, ::testing::ElementsAre(::testing::IsNan(), ::testing::IsNan(), -kInf, -kInf, 0.0, kInf))
        << op;
    EXPECT_FALSE(std::signbit(y[4])) << op;
  }
  EXPECT_THAT(values_of(evaluated("log2", {floats({3}, {8, 0.25, 0x1p-140})})),
              ::testing::ElementsAre(3, -2, -140));
  EXPECT_THAT(values_of(evaluated("log10", {doubles({3}, {1000, 1e22, 1e-5})})),
              ::testing::ElementsAre(3, 22, -5));
}

TEST(StandardCopysign, ZerosAndNan_HaveSigns) {
  expect_cases("copysign", {{1, -0.0, -1},
                            {-1, 0.0, 1},
                            {0.0, -3, -0.0},
                            {-0.0, 3, 0.0},
                            {kInf, -1, -kInf},
                            {-kInf, kNan, kInf},
                            {5, -kNan, -5},
                            {kNan, -1, kNan}});
}

TEST(StandardNextafter, SpecialCases_AndSteps) {
  expect_cases("nextafter", {{kNan, 1, kNan},
                             {1, kNan, kNan},
                             {0.0, -0.0, -0.0},
                             {-0.0, 0.0, 0.0},
                             {5, 5, 5},
                             {kInf, kInf, kInf}});
  EXPECT_THAT(values_of(evaluated("nextafter", {doubles({4}, {1, 1, 0, 0x1.fffffffffffffp1023}),
                                                doubles({4}, {2, 0, -1, kInf})})),
              ::testing::ElementsAre(1 + 0x1p-52, 1 - 0x1p-53, -0x1p-1074, kInf));
  EXPECT_THAT(
      values_of(evaluated("nextafter", {floats({3}, {1, kInf, 0x1p-126}), floats({3}, {2, 0, 0})})),
      ::testing::ElementsAre(1 + 0x1p-23, 0x1.fffffep127, 0x1.fffffcp-127));
  EXPECT_NE(refused("nextafter", {tensor(BP_DTYPE_F16, {1}, {1}), tensor(BP_DTYPE_F16, {1}, {2})})
                .find("found f16"),
            std::string::npos);
}

TEST(StandardQuestions, SignsAndFiniteNumbers) {
  const auto x = floats({7}, {-1, -0.0, 0.0, 2, kInf, -kInf, -kNan});
  EXPECT_THAT(evaluated("signbit", {x}).to_i64(), ::testing::ElementsAre(1, 1, 0, 0, 0, 1, 1));
  EXPECT_THAT(evaluated("is_finite", {x}).to_i64(), ::testing::ElementsAre(1, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(
      evaluated("not_equal", {x, floats({7}, {-1, 0.0, -0.0, 3, kInf, kInf, -kNan})}).to_i64(),
      ::testing::ElementsAre(0, 0, 0, 1, 0, 1, 1));
  const auto flags = OracleTensor::from_i64(BP_DTYPE_BOOL, {2}, std::vector<int64_t>{1, 0});
  const auto others = OracleTensor::from_i64(BP_DTYPE_BOOL, {2}, std::vector<int64_t>{0, 0});
  EXPECT_THAT(evaluated("not_equal", {flags, others}).to_i64(), ::testing::ElementsAre(1, 0));
}

TEST(StandardLogic, ReductionsOfBools_AndOfNothing) {
  const auto x =
      OracleTensor::from_i64(BP_DTYPE_BOOL, {2, 3}, std::vector<int64_t>{0, 1, 0, 1, 1, 1});
  bp_attrs_reduce_any any = bp_attrs_reduce_any_defaults();
  bp_attrs_reduce_all all = bp_attrs_reduce_all_defaults();
  const std::vector<int64_t> last{1};
  any.axes = list(last);
  all.axes = list(last);
  any.keepdims = 0;
  EXPECT_THAT(evaluated("reduce_any", {x}, &any).to_i64(), ::testing::ElementsAre(1, 1));
  EXPECT_THAT(evaluated("reduce_all", {x}, &all).to_i64(), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(to_string(evaluated("reduce_all", {x}, &all).sizes), "[2, 1]");
  const auto nothing = OracleTensor::from_i64(BP_DTYPE_BOOL, {2, 0}, std::vector<int64_t>{});
  EXPECT_THAT(evaluated("reduce_any", {nothing}, &any).to_i64(), ::testing::ElementsAre(0, 0));
  EXPECT_THAT(evaluated("reduce_all", {nothing}, &all).to_i64(), ::testing::ElementsAre(1, 1));
  EXPECT_NE(refused("reduce_any", {floats({1}, {1})}).find("found f32"), std::string::npos);
}

}  // namespace
}  // namespace bp::ops
