// SPDX-License-Identifier: Apache-2.0
//
// cast: tables of edge values for each direction, then all pairs on ordinary values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"
#include "plugins/cpu/half.hpp"

namespace bp::cpu_test {
namespace {

const std::vector<uint32_t> kAll{BP_DTYPE_BOOL, BP_DTYPE_I8,  BP_DTYPE_I16,  BP_DTYPE_I32,
                                 BP_DTYPE_I64,  BP_DTYPE_U8,  BP_DTYPE_U16,  BP_DTYPE_U32,
                                 BP_DTYPE_U64,  BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32,
                                 BP_DTYPE_F64};

Values cast(Device& device, const Tensor& x, uint32_t to, const Sizes& sizes) {
  bp_attrs_cast attrs = bp_attrs_cast_defaults();
  attrs.to = to;
  const Call call{"cast", {x}, make_output(to, sizes), &attrs};
  EXPECT_EQ(run(device, call).status, BP_OK);
  return call.output.values();
}

Values cast(Device& device, uint32_t from, const Values& values, uint32_t to) {
  const Sizes sizes{static_cast<int64_t>(values.size())};
  return cast(device, make_tensor(from, sizes, values), to, sizes);
}

TEST(CpuCast, FloatToInteger_TruncatesSaturatesAndTakesNanAsZero) {
  Device device;
  const Values x{1.9, -1.9, 300, -300, kNan, kInf, -kInf, 1e30};
  for (const uint32_t from : {BP_DTYPE_F32, BP_DTYPE_F64}) {
    EXPECT_EQ(cast(device, from, x, BP_DTYPE_I8), (Values{1, -1, 127, -128, 0, 127, -128, 127}));
    EXPECT_EQ(cast(device, from, x, BP_DTYPE_U8), (Values{1, 0, 255, 0, 0, 255, 0, 255}));
    EXPECT_EQ(cast(device, from, x, BP_DTYPE_I32),
              (Values{1, -1, 300, -300, 0, 2147483647, -2147483648.0, 2147483647}));
    EXPECT_EQ(cast(device, from, {kInf, 3e10, -5}, BP_DTYPE_U32),
              (Values{4294967295, 4294967295, 0}));
  }
  EXPECT_EQ(cast(device, BP_DTYPE_F64, {2147483647.5, -2147483648.5}, BP_DTYPE_I32),
            (Values{2147483647, -2147483648.0}));
  EXPECT_EQ(cast(device, BP_DTYPE_F16, {kInf, -2.5, 65504}, BP_DTYPE_I16),
            (Values{32767, -2, 32767}));
  EXPECT_EQ(cast(device, BP_DTYPE_BF16, {kNan, 258}, BP_DTYPE_U8), (Values{0, 255}));
}

TEST(CpuCast, FloatTo64Bit_SaturatesAtTheExactLimits) {
  Device device;
  const Tensor x = make_tensor(BP_DTYPE_F64, {4}, {0x1p63, -0x1p63, 0x1.fffffffffffffp62, -0x1p64});
  bp_attrs_cast attrs = bp_attrs_cast_defaults();
  attrs.to = BP_DTYPE_I64;
  const Call call{"cast", {x}, make_output(BP_DTYPE_I64, {4}), &attrs};
  EXPECT_EQ(run(device, call).status, BP_OK);
  const int64_t* y = call.output.data<int64_t>();
  EXPECT_EQ(y[0], INT64_MAX);
  EXPECT_EQ(y[1], INT64_MIN);
  EXPECT_EQ(y[2], 9223372036854774784);
  EXPECT_EQ(y[3], INT64_MIN);
  attrs.to = BP_DTYPE_U64;
  const Call whole{"cast",
                   {make_tensor(BP_DTYPE_F64, {2}, {0x1p64, 0x1p63})},
                   make_output(BP_DTYPE_U64, {2}),
                   &attrs};
  EXPECT_EQ(run(device, whole).status, BP_OK);
  EXPECT_EQ(whole.output.data<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(whole.output.data<uint64_t>()[1], uint64_t{1} << 63);
}

TEST(CpuCast, IntegerToInteger_Wraps) {
  Device device;
  EXPECT_EQ(cast(device, BP_DTYPE_I32, {300, -1, 128}, BP_DTYPE_U8), (Values{44, 255, 128}));
  EXPECT_EQ(cast(device, BP_DTYPE_I32, {300, -1, 128}, BP_DTYPE_I8), (Values{44, -1, -128}));
  EXPECT_EQ(cast(device, BP_DTYPE_I8, {-1}, BP_DTYPE_U32), (Values{4294967295}));
  EXPECT_EQ(cast(device, BP_DTYPE_U32, {4294967295}, BP_DTYPE_I64), (Values{4294967295}));
  EXPECT_EQ(cast(device, BP_DTYPE_I64, {-4294967297.0}, BP_DTYPE_I32), (Values{-1}));
  EXPECT_EQ(cast(device, BP_DTYPE_U64, {18446744073709549568.0}, BP_DTYPE_I64), (Values{-2048}));
}

TEST(CpuCast, FloatToFloat_RoundsToNearestEvenAndOverflows) {
  Device device;
  EXPECT_EQ(cast(device, BP_DTYPE_F32, {2049, 2051, 65519, 65520, -70000, 0x1p-25, 0x1.8p-25},
                 BP_DTYPE_F16),
            (Values{2048, 2052, 65504, kInf, -kInf, 0, 0x1p-24}));
  EXPECT_EQ(cast(device, BP_DTYPE_F32, {257, 259, 3.4e38}, BP_DTYPE_BF16),
            (Values{256, 260, kInf}));
  EXPECT_EQ(cast(device, BP_DTYPE_F64, {1e300, -1e-300, 1 + 0x1p-24}, BP_DTYPE_F32),
            (Values{kInf, -0.0, 1}));
  // Through f32 these would round twice: up to a tie, and from there to even.
  EXPECT_EQ(cast(device, BP_DTYPE_F64, {2049 - 0x1p-30, 2049 + 0x1p-30}, BP_DTYPE_F16),
            (Values{2048, 2050}));
  EXPECT_EQ(cast(device, BP_DTYPE_F64, {257 + 0x1p-30, 259 - 0x1p-30}, BP_DTYPE_BF16),
            (Values{258, 258}));
  for (const uint32_t to : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const uint32_t from : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
      const Values y = cast(device, from, {kNan, kInf, -kInf, -0.0, 1.5}, to);
      EXPECT_TRUE(std::isnan(y[0]) && std::signbit(y[3]));
      EXPECT_EQ((Values{y[1], y[2], y[3], y[4]}), (Values{kInf, -kInf, 0, 1.5}));
    }
  }
}

// Any bits; one in 37 is a NaN, so at each place of a vector, and most vectors have none.
Tensor any_floats(int64_t count) {
  Tensor x = make_output(BP_DTYPE_F32, {count});
  std::mt19937 random(12);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    const bool is_special = (bits & 0x7f800000u) == 0x7f800000u;
    if (i % 37 == 0) {
      bits |= 0x7f800001u;
    } else if (is_special) {
      bits &= 0xff800000u;
    }
    x.data<float>()[i] = std::bit_cast<float>(bits);
  }
  return x;
}

void expect_narrowed(const float* x, const uint16_t* y, int64_t count, uint32_t to) {
  const uint16_t infinity = to == BP_DTYPE_F16 ? 0x7c00 : 0x7f80;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t expected =
        to == BP_DTYPE_F16 ? cpu::narrow_to_f16(x[i]).bits : cpu::narrow_to_bf16(x[i]).bits;
    const bool both_nan = std::isnan(x[i]) && (y[i] & 0x7fff) > infinity;
    ASSERT_TRUE(both_nan || y[i] == expected) << "element " << i << " of " << count << " to " << to;
  }
}

// Whole vectors, the ends of rows, and what is stored past the caches, which begins at a line.
TEST(CpuCast, HalvesByVectors_AreThoseOfPlainCode) {
  Device device("2");
  constexpr int64_t kPastCache = (int64_t{16} << 20) / 2 + 4099;
  const Tensor x = any_floats(kPastCache + 16);
  for (const uint32_t to : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    bp_attrs_cast attrs = bp_attrs_cast_defaults();
    attrs.to = to;
    for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{31}, int64_t{1003}, kPastCache}) {
      for (int64_t begin = 0; begin < 16; begin += count == kPastCache ? 7 : 1) {
        Tensor part = x;
        part.sizes = {count};
        part.offset = begin;
        Tensor y = make_output(to, {begin + count});
        y.sizes = {count};
        y.offset = begin;
        ASSERT_EQ(run(device, {"cast", {part}, y, &attrs}).status, BP_OK);
        expect_narrowed(part.data<float>(), y.data<uint16_t>(), count, to);
        Tensor back = make_output(BP_DTYPE_F32, {begin + count});
        back.sizes = {count};
        back.offset = begin;
        attrs.to = BP_DTYPE_F32;
        ASSERT_EQ(run(device, {"cast", {y}, back, &attrs}).status, BP_OK);
        expect_narrowed(back.data<float>(), y.data<uint16_t>(), count, to);
        attrs.to = to;
      }
    }
  }
}

TEST(CpuCast, IntegerToFloat_RoundsOnce) {
  Device device;
  EXPECT_EQ(cast(device, BP_DTYPE_I32, {16777217, -16777219, 2147483647}, BP_DTYPE_F32),
            (Values{16777216, -16777220, 2147483648.0}));
  EXPECT_EQ(cast(device, BP_DTYPE_I32, {100000, -65519, 65520}, BP_DTYPE_F16),
            (Values{kInf, -65504, kInf}));
  Tensor x = make_output(BP_DTYPE_I64, {2});
  x.data<int64_t>()[0] = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;  // just above a bf16 tie
  x.data<int64_t>()[1] = INT64_MIN;
  EXPECT_EQ(cast(device, x, BP_DTYPE_BF16, {2}), (Values{0x1.02p62, -0x1p63}));
  Tensor u = make_output(BP_DTYPE_U64, {1});
  u.data<uint64_t>()[0] = UINT64_MAX;
  EXPECT_EQ(cast(device, u, BP_DTYPE_F64, {1}), (Values{0x1p64}));
  EXPECT_EQ(cast(device, u, BP_DTYPE_F32, {1}), (Values{0x1p64}));
}

TEST(CpuCast, ToBool_IsTrueForAllButZero) {
  Device device;
  EXPECT_EQ(cast(device, BP_DTYPE_F32, {0, -0.0, 0.25, kNan, kInf}, BP_DTYPE_BOOL),
            (Values{0, 0, 1, 1, 1}));
  EXPECT_EQ(cast(device, BP_DTYPE_F16, {0, 6e-8}, BP_DTYPE_BOOL), (Values{0, 1}));
  EXPECT_EQ(cast(device, BP_DTYPE_I64, {0, 256, -1}, BP_DTYPE_BOOL), (Values{0, 1, 1}));
  EXPECT_EQ(cast(device, BP_DTYPE_BOOL, {0, 1}, BP_DTYPE_F16), (Values{0, 1}));
}

TEST(CpuCast, AllPairs_KeepSmallWholeNumbers) {
  Device device;
  for (const uint32_t from : kAll) {
    for (const uint32_t to : kAll) {
      EXPECT_EQ(cast(device, from, {0, 1, 1, 0}, to), (Values{0, 1, 1, 0})) << from << " to " << to;
    }
  }
}

// Every other element of twice as many: any bits, and for floats numbers round the limits of the
// integers.
Tensor any_elements(uint32_t dtype, int64_t count) {
  Tensor x = make_output(dtype, {2 * count});
  std::mt19937 random(13);
  for (std::byte& byte : *x.storage) {
    byte = static_cast<std::byte>(dtype == BP_DTYPE_BOOL ? random() % 2 : random() % 256);
  }
  const double limits[] = {0x1p7, 0x1p8, 0x1p15, 0x1p16, 0x1p31, 0x1p32, 0x1p63, 0x1p64,
                           0,     0.5,   1.5,    -0.0,   kInf,   kNan,   3e38};
  if (dtype < BP_DTYPE_F16) return x;
  size_t at = 0;
  for (const double limit : limits) {
    for (const double factor : {1 - 0x1p-24, 1 - 0x1p-8, 1.0, 1 + 0x1p-7}) {
      for (const double sign : {-1.0, 1.0}) {
        encode(dtype, sign * limit * factor, x.data<std::byte>() + 14 * at++ * bytes_of(dtype));
      }
    }
  }
  return x;
}

Tensor cast_all(Device& device, const Tensor& x, uint32_t to) {
  bp_attrs_cast attrs = bp_attrs_cast_defaults();
  attrs.to = to;
  const Call call{"cast", {x}, make_output(to, x.sizes), &attrs};
  EXPECT_EQ(run(device, call).status, BP_OK);
  return call.output;
}

// Rows with gaps go by way of the widest types, one element after another.
TEST(CpuCast, RowsWithoutGaps_GiveWhatStridedOnesGive) {
  Device device("2");
  constexpr int64_t kCount = 1003;
  for (const uint32_t from : kAll) {
    const Tensor strided = any_elements(from, kCount).stepped(0, 2);
    const uint64_t from_bytes = bytes_of(from);
    Tensor dense = make_output(from, {kCount});
    for (uint64_t i = 0; i < kCount; ++i) {
      std::memcpy(dense.data<std::byte>() + i * from_bytes,
                  strided.data<std::byte>() + 2 * i * from_bytes, from_bytes);
    }
    for (const uint32_t to : kAll) {
      const Tensor expected = cast_all(device, strided, to);
      const Tensor found = cast_all(device, dense, to);
      for (int64_t i = 0; i < kCount; ++i) {
        const auto at = static_cast<uint64_t>(i) * bytes_of(to);
        const bool is_same = std::memcmp(found.data<std::byte>() + at,
                                         expected.data<std::byte>() + at, bytes_of(to)) == 0;
        const bool are_nan = std::isnan(found.at_flat(i)) && std::isnan(expected.at_flat(i));
        ASSERT_TRUE(is_same || are_nan) << from << " to " << to << ": " << dense.at_flat(i);
      }
    }
  }
}

// A tail of each length, and rows that are shared by threads.
TEST(CpuCast, RowsOfAnyLength_AreWhole) {
  Device device("2");
  for (const int64_t count : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 100'003}) {
    const Tensor x = make_random(BP_DTYPE_I32, {count}, 5, -100, 100);
    for (const uint32_t to : {BP_DTYPE_F32, BP_DTYPE_I8, BP_DTYPE_I64, BP_DTYPE_BOOL}) {
      const Values found = cast_all(device, x, to).values();
      const Values given = x.values();
      for (size_t i = 0; i < given.size(); ++i) {
        ASSERT_EQ(found[i], to == BP_DTYPE_BOOL ? given[i] != 0 : given[i]) << i;
      }
    }
  }
}

TEST(CpuCast, StridedAndLargeInputs_AreRead) {
  Device device("2");
  const Tensor x = make_random(BP_DTYPE_F32, {211, 203}, 21, -100, 100);
  const Tensor view = x.permuted({1, 0}).flipped(0);
  const Values y = cast(device, view, BP_DTYPE_I32, {203, 211});
  const Values expected = view.values();
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], std::trunc(expected[i]));
  EXPECT_TRUE(cast(device, make_output(BP_DTYPE_F32, {0}), BP_DTYPE_I8, {0}).empty());
  EXPECT_EQ(cast(device, make_tensor(BP_DTYPE_F32, {}, {3.7}), BP_DTYPE_I8, {}), (Values{3}));
}

TEST(CpuCast, ToAnUnknownDtype_IsRefusedWithAReason) {
  Device device;
  bp_attrs_cast attrs = bp_attrs_cast_defaults();
  attrs.to = BP_DTYPE_C64;
  const Call call{
      "cast", {make_tensor(BP_DTYPE_F32, {1}, {1})}, make_output(BP_DTYPE_C64, {1}), &attrs};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
  EXPECT_FALSE(outcome.refusals.at("cast_loop").empty());
}

}  // namespace
}  // namespace bp::cpu_test
