// SPDX-License-Identifier: Apache-2.0
//
// The interpreter at the places where definitions differ from vendor to vendor. What functions are
// worth is compared with other software in ops/truth.
#include "ops/expr/interpret.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bp::expr {
namespace {

constexpr long double kInf = std::numeric_limits<long double>::infinity();
constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();

Program program(std::string_view text, Type type) {
  Expr expr;
  const std::vector<Name> names = {{"a", type}, {"b", type}, {"T", type, true}};
  std::string error = parse(text, &expr);
  if (error.empty()) error = check(&expr, names, {});
  EXPECT_EQ(error, "") << text;
  return {expr, names};
}

int64_t whole(std::string_view text, std::string_view type, int64_t a, int64_t b = 0) {
  const Value values[] = {{.bits = static_cast<uint64_t>(a)}, {.bits = static_cast<uint64_t>(b)}};
  return static_cast<int64_t>(program(text, *type_named(type)).run(values).bits);
}
long double real(std::string_view text, long double a, long double b = 0,
                 std::string_view type = "f32") {
  const Value values[] = {{.number = a}, {.number = b}};
  return program(text, *type_named(type)).run(values).number;
}
bool asked(std::string_view text, long double a, long double b = 0) {
  const Value values[] = {{.number = a}, {.number = b}};
  return program(text, *type_named("f32")).run(values).bits != 0;
}

TEST(InterpretIntegers, Arithmetic_WrapsInItsOwnWidth) {
  EXPECT_EQ(whole("a + b", "i8", 127, 1), -128);
  EXPECT_EQ(whole("a - b", "u8", 0, 1), 255);
  EXPECT_EQ(whole("a * b", "i16", 32767, 2), -2);
  EXPECT_EQ(whole("a * b + b", "u32", 0xffffffff, 3), 0);
  EXPECT_EQ(whole("a + b", "i64", INT64_MAX, 1), INT64_MIN);
  EXPECT_EQ(whole("-a", "i8", -128), -128);
  EXPECT_EQ(whole("abs(a)", "i32", INT32_MIN), INT32_MIN);
  EXPECT_EQ(whole("(a + b) / 2", "u8", 255, 3), 1) << "what is between wraps too";
}

TEST(InterpretIntegers, Division_ByZeroAndOfTheSmallest) {
  EXPECT_EQ(whole("a / b", "i32", 7, 0), 0);
  EXPECT_EQ(whole("a / b", "i32", -7, 2), -3);
  EXPECT_EQ(whole("a / b", "i8", -128, -1), -128);
  EXPECT_EQ(whole("a / b", "i64", INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(whole("a / b", "u64", -1, 2), INT64_MAX);
  EXPECT_EQ(whole("fmod(a, b)", "i32", -7, 3), -1);
  EXPECT_EQ(whole("fmod(a, b)", "i32", 7, -3), 1);
  EXPECT_EQ(whole("fmod(a, b)", "i64", INT64_MIN, -1), 0);
  EXPECT_EQ(whole("fmod(a, b)", "u8", 7, 0), 0);
}

TEST(InterpretIntegers, Power_WrapsAndTruncates) {
  EXPECT_EQ(whole("pow(a, b)", "i32", -3, 3), -27);
  EXPECT_EQ(whole("pow(a, b)", "u8", 2, 9), 0);
  EXPECT_EQ(whole("pow(a, b)", "i32", 0, 0), 1);
  EXPECT_EQ(whole("pow(a, b)", "i32", 2, -1), 0);
  EXPECT_EQ(whole("pow(a, b)", "i32", 1, -5), 1);
  EXPECT_EQ(whole("pow(a, b)", "i32", -1, -5), -1);
  EXPECT_EQ(whole("pow(a, b)", "i32", -1, -4), 1);
  EXPECT_EQ(whole("pow(a, b)", "i64", -1, INT64_MIN), 1);
  EXPECT_EQ(whole("pow(a, b)", "i32", 0, -2), 0);
}

TEST(InterpretIntegers, Shifts_FromTheWidthOnLeaveTheSign) {
  EXPECT_EQ(whole("a << b", "u8", 1, 7), 128);
  EXPECT_EQ(whole("a << b", "i8", 1, 7), -128);
  EXPECT_EQ(whole("a << b", "u8", 1, 8), 0);
  EXPECT_EQ(whole("a << b", "i64", 1, -1), 0);
  EXPECT_EQ(whole("a >> b", "u8", 255, 3), 31);
  EXPECT_EQ(whole("a >> b", "u8", 255, 8), 0);
  EXPECT_EQ(whole("a >> b", "i32", -8, 1), -4);
  EXPECT_EQ(whole("a >> b", "i32", -8, 32), -1);
  EXPECT_EQ(whole("a >> b", "i32", 8, 64), 0);
  EXPECT_EQ(whole("a >> b", "i32", -8, -1), -1);
  EXPECT_EQ(whole("~a & b | a ^ b", "u16", 0x00ff, 0x0f0f), 0x0ff0 | 0x0f00);
  EXPECT_EQ(whole("a * 0 + bits", "u16", 5), 16);
  EXPECT_EQ(whole("a * 0 + bits", "i64", 5), 64);
}

TEST(InterpretIntegers, Order_FollowsTheSign) {
  EXPECT_EQ(whole("min(a, b)", "i8", -1, 1), -1);
  EXPECT_EQ(whole("min(a, b)", "u64", -1, 1), 1);
  EXPECT_EQ(whole("select(a < b, a, b)", "i64", INT64_MIN, 0), INT64_MIN);
  EXPECT_EQ(whole("sign(a)", "i16", -300), -1);
  EXPECT_EQ(whole("max(a, lowest)", "i8", -128), -128);
  EXPECT_EQ(whole("min(a, highest)", "u8", 255), 255);
}

TEST(InterpretFloats, NanWinsInMinAndMax) {
  EXPECT_TRUE(std::isnan(real("max(a, b)", kNan, 1)));
  EXPECT_TRUE(std::isnan(real("max(a, b)", 1, kNan)));
  EXPECT_TRUE(std::isnan(real("min(a, b)", 1, kNan)));
  EXPECT_EQ(real("min(max(a, 0), 1)", kInf), 1);
  EXPECT_EQ(real("max(a, lowest)", -kInf), -kInf);
  EXPECT_TRUE(std::isnan(real("sign(a)", kNan)));
  EXPECT_FALSE(std::signbit(real("sign(a)", -0.0L)));
}

TEST(InterpretFloats, Questions) {
  EXPECT_FALSE(asked("a == b", kNan, kNan));
  EXPECT_TRUE(asked("a != b", kNan, kNan));
  EXPECT_FALSE(asked("a <= b || a > b", kNan, 1));
  EXPECT_TRUE(asked("a == b && a >= b", 0.0L, -0.0L));
  EXPECT_TRUE(asked("is_nan(a) && !is_inf(a) && !is_finite(a)", kNan));
  EXPECT_TRUE(asked("is_inf(a) && is_finite(b)", -kInf, 1));
}

TEST(InterpretFloats, Rounding_HalfToEven) {
  EXPECT_EQ(real("round_even(a)", 2.5L), 2);
  EXPECT_EQ(real("round_even(a)", -3.5L), -4);
  EXPECT_TRUE(std::signbit(real("round_even(a)", -0.25L)));
  EXPECT_EQ(real("trunc(a)", -1.5L), -1);
}

TEST(InterpretFloats, PowerCorners) {
  EXPECT_EQ(real("pow(a, b)", kNan, 0), 1);
  EXPECT_EQ(real("pow(a, b)", 1, kNan), 1);
  EXPECT_EQ(real("pow(a, b)", -0.0L, -1), -kInf);
  EXPECT_TRUE(std::isnan(real("pow(a, b)", -8, 1.0L / 3)));
  EXPECT_EQ(real("pow(a, b)", -1, kInf), 1);
}

TEST(InterpretFloats, NextafterStepsInItsOwnType) {
  EXPECT_EQ(real("nextafter(a, b)", 1, 2), 1 + std::ldexp(1.0L, -23));
  EXPECT_EQ(real("nextafter(a, b)", 1, 2, "f64"), 1 + std::ldexp(1.0L, -52));
  EXPECT_EQ(real("nextafter(a, b)", 0, -1), -std::ldexp(1.0L, -149));
  EXPECT_TRUE(std::signbit(real("nextafter(a, b)", 0.0L, -0.0L)));
}

/// By way of long double this sum would be rounded twice, to an even neighbour in between.
TEST(InterpretFloats, OneOperationInF64_IsRoundedOnce) {
  const double a = 1;
  const double b = std::ldexp(1.0, -53) + std::ldexp(1.0, -78);
  EXPECT_EQ(static_cast<double>(real("a + b", a, b, "f64")), a + b);
  EXPECT_GT(a + b, 1);
  EXPECT_EQ(static_cast<double>(static_cast<long double>(a) + static_cast<long double>(b)), 1);
}

TEST(InterpretCasts, Saturate_AndWrap) {
  EXPECT_EQ(whole("cast_u8(a)", "i32", 257), 1);
  EXPECT_EQ(whole("cast_i8(a)", "i32", 200), -56);
  EXPECT_EQ(whole("cast_T(cast_f64(a) * 2)", "i8", 100), 127);
  EXPECT_EQ(whole("cast_T(-cast_f64(a))", "u8", 100), 0);
  EXPECT_EQ(whole("cast_T(cast_f64(a) / 0)", "i64", 1), INT64_MAX);
  EXPECT_EQ(whole("cast_T(sqrt(cast_f64(a)))", "i8", -4), 0) << "of NaN";
  EXPECT_EQ(whole("cast_T(cast_bool(a))", "i8", -4), 1);
  EXPECT_EQ(whole("cast_T(cast_f64(a))", "u64", -2), -2) << "long double holds it";
}

}  // namespace
}  // namespace bp::expr
