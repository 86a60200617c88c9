// SPDX-License-Identifier: Apache-2.0
//
// add, sub, mul, div, max, relu, exp, sqrt, reciprocal and identity: every dtype, broadcasting,
// strides of all kinds, special values, empty and 0-d tensors, against f64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

const std::vector<uint32_t> kFloats{BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64};
const std::vector<uint32_t> kInts{BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64,
                                  BP_DTYPE_U8, BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64};

using BinaryFunction = std::function<double(double, double)>;
const std::map<std::string, BinaryFunction> kBinary{
    {"add", [](double a, double b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }},
    {"div", [](double a, double b) { return a / b; }},
    {"max", [](double a, double b) { return std::max(a, b); }}};

// Rounds a reference to the dtype.
double rounded(uint32_t dtype, double value) {
  std::byte element[16];
  encode(dtype, value, element);
  return decode(dtype, element);
}

void expect_binary(Device& device, const std::string& op, const Tensor& a, const Tensor& b,
                   const Sizes& out) {
  const Call call{op, {a, b}, make_output(a.dtype, out)};
  const Outcome outcome = run(device, call);
  ASSERT_EQ(outcome.status, BP_OK) << op;
  for_each_index(out, [&](const Sizes& index) {
    const double expected = kBinary.at(op)(broadcast_at(a, index), broadcast_at(b, index));
    const bool is_float = a.dtype >= BP_DTYPE_F16;
    const double reference = is_float ? rounded(a.dtype, expected) : std::trunc(expected);
    ASSERT_EQ(call.output.at(index), reference) << op << " dtype " << a.dtype;
  });
}

Tensor number(uint32_t dtype, const Sizes& sizes, uint32_t seed) {
  const bool is_unsigned = dtype >= BP_DTYPE_U8 && dtype <= BP_DTYPE_U64;
  return make_random(dtype, sizes, seed, is_unsigned ? 5.0 : 1.0, 9.0);
}

TEST(CpuBinary, EveryNumberDtype_MatchesF64) {
  Device device;
  std::vector<uint32_t> dtypes = kFloats;
  dtypes.insert(dtypes.end(), kInts.begin(), kInts.end());
  for (const auto& [op, function] : kBinary) {
    for (const uint32_t dtype : dtypes) {
      // a >= b keeps unsigned differences above 0, products stay below 127.
      const Tensor a = make_random(dtype, {3, 37}, 1, 7.0, 11.0);
      const Tensor b = make_random(dtype, {3, 37}, 2, 1.0, 7.0);
      expect_binary(device, op, a, b, {3, 37});
    }
  }
}

TEST(CpuBinary, Broadcasting_FollowsNumpy) {
  Device device;
  const Tensor full = number(BP_DTYPE_F32, {2, 3, 4}, 3);
  for (const Sizes& sizes :
       std::vector<Sizes>{{}, {1}, {4}, {3, 1}, {1, 3, 4}, {2, 1, 1}, {1, 1}}) {
    const Tensor other = number(BP_DTYPE_F32, sizes, 4);
    expect_binary(device, "sub", full, other, {2, 3, 4});
    expect_binary(device, "sub", other, full, {2, 3, 4});
  }
  expect_binary(device, "add", number(BP_DTYPE_I64, {3, 1}, 5), number(BP_DTYPE_I64, {1, 4}, 6),
                {3, 4});
  expect_binary(device, "add", number(BP_DTYPE_F16, {}, 5), number(BP_DTYPE_F16, {}, 6), {});
}

TEST(CpuBinary, AnyStrides_AreRead) {
  Device device;
  const Tensor base = number(BP_DTYPE_F32, {4, 6, 5}, 7);
  const Tensor other = number(BP_DTYPE_F32, {5, 6, 4}, 8);
  const Tensor turned = base.permuted({2, 1, 0});
  expect_binary(device, "sub", turned, other, {5, 6, 4});
  expect_binary(device, "sub", other, turned.flipped(0), {5, 6, 4});
  expect_binary(device, "sub", other.flipped(2).flipped(0), turned.flipped(1), {5, 6, 4});
  expect_binary(device, "sub", base.stepped(1, 2), number(BP_DTYPE_F32, {4, 3, 5}, 9), {4, 3, 5});
  expect_binary(device, "sub", number(BP_DTYPE_F32, {4, 1, 5}, 9).expanded({4, 6, 5}), base,
                {4, 6, 5});
  expect_binary(device, "sub", base.flipped(2).stepped(2, 2), number(BP_DTYPE_F32, {1}, 2),
                {4, 6, 3});
}

TEST(CpuBinary, HighRank_Works) {
  Device device;
  const Sizes sizes(16, 2);
  const Tensor a = number(BP_DTYPE_I32, sizes, 10);
  std::vector<size_t> order(16);
  for (size_t d = 0; d < 16; ++d) order[d] = 15 - d;
  expect_binary(device, "add", a, a.permuted(order), sizes);
}

TEST(CpuBinary, EmptyTensors_DoNothing) {
  Device device;
  expect_binary(device, "add", make_output(BP_DTYPE_F32, {0, 3}), number(BP_DTYPE_F32, {3}, 1),
                {0, 3});
  expect_binary(device, "add", make_output(BP_DTYPE_F32, {0}), number(BP_DTYPE_F32, {1}, 1), {0});
}

TEST(CpuBinary, Integers_Wrap) {
  Device device;
  const auto check = [&](const char* op, uint32_t dtype, double a, double b, double expected) {
    const Call call{
        op, {make_tensor(dtype, {1}, {a}), make_tensor(dtype, {1}, {b})}, make_output(dtype, {1})};
    EXPECT_EQ(run(device, call).status, BP_OK);
    EXPECT_EQ(call.output.at_flat(0), expected) << op << " " << a << " " << b;
  };
  check("add", BP_DTYPE_I8, 127, 1, -128);
  check("sub", BP_DTYPE_U8, 0, 1, 255);
  check("mul", BP_DTYPE_I16, 300, 300, 24464);
  check("mul", BP_DTYPE_U16, 65535, 65535, 1);
  check("add", BP_DTYPE_I32, 2147483647, 1, -2147483648.0);
  check("mul", BP_DTYPE_I32, 65536, 65536, 0);
  check("mul", BP_DTYPE_I64, 4294967296.0, 4294967296.0, 0);
  check("div", BP_DTYPE_I32, -7, 2, -3);
  check("div", BP_DTYPE_I32, 7, 0, 0);
  check("div", BP_DTYPE_U64, 7, 0, 0);
  check("div", BP_DTYPE_I8, -128, -1, -128);
  check("div", BP_DTYPE_I32, -2147483648.0, -1, -2147483648.0);
  check("div", BP_DTYPE_I64, -9223372036854775808.0, -1, -9223372036854775808.0);
  check("max", BP_DTYPE_U64, 18446744073709549568.0, 1, 18446744073709549568.0);
}

TEST(CpuBinary, SpecialFloats_FollowIeee) {
  Device device;
  const Values a{kNan, 1, kInf, -kInf, 0, 3, kNan};
  const Values b{1, kNan, -kInf, -1, 0, 0, kNan};
  for (const uint32_t dtype : kFloats) {
    const Tensor left = make_tensor(dtype, {7}, a);
    const Tensor right = make_tensor(dtype, {7}, b);
    const Call largest{"max", {left, right}, make_output(dtype, {7})};
    EXPECT_EQ(run(device, largest).status, BP_OK);
    const Values most = largest.output.values();
    EXPECT_TRUE(std::isnan(most[0]) && std::isnan(most[1]) && std::isnan(most[6]));
    EXPECT_EQ((Values{most[2], most[3], most[4], most[5]}), (Values{kInf, -1, 0, 3}));
    const Call quotient{"div", {left, right}, make_output(dtype, {7})};
    EXPECT_EQ(run(device, quotient).status, BP_OK);
    const Values divided = quotient.output.values();
    EXPECT_TRUE(std::isnan(divided[2]) && std::isnan(divided[4]));
    EXPECT_EQ(divided[3], kInf);
    EXPECT_EQ(divided[5], kInf);
  }
}

TEST(CpuBinary, HalfTypes_RoundOnceToNearestEven) {
  Device device;
  // 2048 + 1 lies between two f16 values, as 256 + 1 does between two bf16 values.
  const Call half{"add",
                  {make_tensor(BP_DTYPE_F16, {4}, {2048, 2050, 65504, 6e-8}),
                   make_tensor(BP_DTYPE_F16, {4}, {1, 1, 16, 6e-8})},
                  make_output(BP_DTYPE_F16, {4})};
  EXPECT_EQ(run(device, half).status, BP_OK);
  EXPECT_EQ(half.output.values(), (Values{2048, 2052, kInf, 0x1p-23}));
  const Call brain{
      "add",
      {make_tensor(BP_DTYPE_BF16, {2}, {256, 258}), make_tensor(BP_DTYPE_BF16, {2}, {1, 1})},
      make_output(BP_DTYPE_BF16, {2})};
  EXPECT_EQ(run(device, brain).status, BP_OK);
  EXPECT_EQ(brain.output.values(), (Values{256, 260}));
}

struct UnaryCase {
  const char* op;
  std::function<double(double)> function;
  double tolerance;  // in units of the last place
};

TEST(CpuUnary, EveryFloatDtype_MatchesF64) {
  Device device;
  const std::vector<UnaryCase> cases{{"relu", [](double x) { return x > 0 ? x : 0; }, 0},
                                     {"exp", [](double x) { return std::exp(x); }, 1},
                                     {"sqrt", [](double x) { return std::sqrt(x); }, 0},
                                     {"reciprocal", [](double x) { return 1 / x; }, 0}};
  for (const UnaryCase& unary : cases) {
    for (const uint32_t dtype : kFloats) {
      const double low = std::string(unary.op) == "sqrt" ? 0.0 : -4.0;
      const Tensor x = make_random(dtype, {5, 6}, 11, low, 4.0).permuted({1, 0}).flipped(1);
      const Call call{unary.op, {x}, make_output(dtype, {6, 5})};
      ASSERT_EQ(run(device, call).status, BP_OK);
      for_each_index({6, 5}, [&](const Sizes& index) {
        const double expected = unary.function(x.at(index));
        const double step = dtype == BP_DTYPE_F64 ? 0x1p-52 : dtype == BP_DTYPE_F32 ? 0x1p-23 : 0;
        EXPECT_NEAR(call.output.at(index), rounded(dtype, expected),
                    unary.tolerance * step * std::fabs(expected))
            << unary.op << " dtype " << dtype;
      });
    }
  }
}

TEST(CpuUnary, ReluOfSpecialValues_KeepsNan) {
  Device device;
  for (const uint32_t dtype : kFloats) {
    const Call call{
        "relu", {make_tensor(dtype, {5}, {kNan, -kInf, kInf, -0.0, -2})}, make_output(dtype, {5})};
    EXPECT_EQ(run(device, call).status, BP_OK);
    const Values y = call.output.values();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ((Values{y[1], y[2], y[3], y[4]}), (Values{0, kInf, 0, 0}));
  }
}

TEST(CpuUnary, ReluOfIntegers_KeepsPositives) {
  Device device;
  for (const uint32_t dtype : {BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64}) {
    const Call call{"relu", {make_tensor(dtype, {3}, {-5, 0, 7})}, make_output(dtype, {3})};
    EXPECT_EQ(run(device, call).status, BP_OK);
    EXPECT_EQ(call.output.values(), (Values{0, 0, 7}));
  }
}

TEST(CpuUnary, SqrtAndReciprocalOfSpecialValues_FollowIeee) {
  Device device;
  const Tensor x = make_tensor(BP_DTYPE_F32, {4}, {-1, 0, kInf, kNan});
  const Call root{"sqrt", {x}, make_output(BP_DTYPE_F32, {4})};
  EXPECT_EQ(run(device, root).status, BP_OK);
  EXPECT_TRUE(std::isnan(root.output.at_flat(0)) && std::isnan(root.output.at_flat(3)));
  EXPECT_EQ(root.output.at_flat(2), kInf);
  const Call inverse{"reciprocal", {x}, make_output(BP_DTYPE_F32, {4})};
  EXPECT_EQ(run(device, inverse).status, BP_OK);
  EXPECT_EQ(inverse.output.at_flat(1), kInf);
  EXPECT_EQ(inverse.output.at_flat(2), 0);
}

TEST(CpuIdentity, EveryElementSize_CopiesAnyStrides) {
  Device device;
  for (const uint32_t dtype :
       {BP_DTYPE_BOOL, BP_DTYPE_I8, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_I64}) {
    const Tensor x = make_random(dtype, {3, 4, 5}, 12, 0, 2);
    for (const Tensor& view : {x, x.permuted({2, 0, 1}), x.flipped(0).flipped(2), x.stepped(2, 2),
                               make_random(dtype, {3, 1, 5}, 13, 0, 2).expanded({3, 4, 5})}) {
      const Call call{"identity", {view}, make_output(dtype, view.sizes)};
      EXPECT_EQ(run(device, call).status, BP_OK);
      EXPECT_EQ(call.output.values(), view.values());
    }
  }
}

TEST(CpuIdentity, WideElements_AreMovedWhole) {
  Device device;
  Tensor x = make_output(BP_DTYPE_C128, {2, 3});
  for (size_t i = 0; i < 12; ++i) x.data<double>()[i] = static_cast<double>(i);
  const Tensor turned = x.permuted({1, 0});
  const Call call{"identity", {turned}, make_output(BP_DTYPE_C128, {3, 2})};
  EXPECT_EQ(run(device, call).status, BP_OK);
  const double* y = call.output.data<double>();
  EXPECT_EQ(Values(y, y + 12), (Values{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
}

TEST(CpuIdentity, FourBitElements_AreCopiedInPairs) {
  Device device;
  Tensor x = make_output(BP_DTYPE_I4, {5});
  for (int i = 0; i < 3; ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(0x21 + 0x22 * i);
  const Tensor y = make_output(BP_DTYPE_I4, {5});
  EXPECT_EQ(run(device, {"identity", {x}, y}).status, BP_OK);
  EXPECT_EQ(y.data<uint8_t>()[0], 0x21);
  EXPECT_EQ(y.data<uint8_t>()[2], 0x65);
  EXPECT_EQ(y.data<uint8_t>()[3], 0xff);
}

TEST(CpuElementwise, LargeTensors_MatchOnAllThreads) {
  for (const char* threads : {"1", "2", "4"}) {
    Device device(threads);
    const Tensor a = number(BP_DTYPE_F32, {301, 307}, 14);
    const Tensor b = number(BP_DTYPE_F32, {307, 301}, 15);
    expect_binary(device, "mul", a, b.permuted({1, 0}), {301, 307});
    expect_binary(device, "mul", a, a, {301, 307});
    const Call copy{"identity", {b.permuted({1, 0})}, make_output(BP_DTYPE_F32, {301, 307})};
    EXPECT_EQ(run(device, copy).status, BP_OK);
    EXPECT_EQ(copy.output.values(), b.permuted({1, 0}).values());
  }
}

Tensor random_bools(const Sizes& sizes, uint32_t seed) {
  return make_random(BP_DTYPE_BOOL, sizes, seed, 0, 2);
}

// Words of eight bools and what is left, rows shared by threads, one element, gaps, and the result
// in the memory of an input.
TEST(CpuLogical, EveryWayOfReading_MatchesItsTruthTable) {
  const std::map<std::string, std::function<bool(bool, bool)>> ops{
      {"logical_and", [](bool a, bool b) { return a && b; }},
      {"logical_or", [](bool a, bool b) { return a || b; }},
      {"logical_xor", [](bool a, bool b) { return a != b; }},
      {"equal", [](bool a, bool b) { return a == b; }},
      {"logical_not", [](bool a, bool) { return !a; }}};
  Device device("2");
  const auto expect = [&](const std::string& op, const Tensor& a, const Tensor& b, Tensor y) {
    const bool is_unary = op == "logical_not";
    const Values a_values = a.values();
    const Values b_values = b.values();
    const Call call{op, is_unary ? std::vector<Tensor>{a} : std::vector<Tensor>{a, b}, y};
    ASSERT_EQ(run(device, call).status, BP_OK) << op;
    for (size_t i = 0; i < a_values.size(); ++i) {
      const bool right = b_values[b_values.size() == 1 ? 0 : i] != 0;
      ASSERT_EQ(y.data<uint8_t>()[i], ops.at(op)(a_values[i] != 0, right) ? 1 : 0) << op << i;
    }
  };
  for (const auto& [op, function] : ops) {
    for (const int64_t count : {1, 7, 8, 9, 63, 64, 65, 200'003}) {
      const Tensor a = random_bools({count}, 1);
      const Tensor b = random_bools({count}, 2);
      expect(op, a, b, make_output(BP_DTYPE_BOOL, {count}));
      expect(op, a, random_bools({1}, 3), make_output(BP_DTYPE_BOOL, {count}));
      expect(op, a, random_bools({2 * count}, 4).stepped(0, 2),
             make_output(BP_DTYPE_BOOL, {count}));
      if (op != "equal") expect(op, a, b, a);
    }
  }
}

}  // namespace
}  // namespace bp::cpu_test
