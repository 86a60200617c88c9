// SPDX-License-Identifier: Apache-2.0
//
// sort, argsort and searchsorted of every dtype against the standard library's algorithms, at
// lengths on both sides of where lanes are sorted by their digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

constexpr uint32_t kFloats[] = {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64};
constexpr uint32_t kIntegers[] = {BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64,
                                  BP_DTYPE_U8, BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64};

bool is_below(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

/// Whole numbers, so that many are equal; of floats with zeros of both signs, infinities and NaN.
Tensor make_values(uint32_t dtype, const Sizes& sizes, uint32_t seed) {
  const bool is_float =
      std::find(std::begin(kFloats), std::end(kFloats), dtype) != std::end(kFloats);
  const bool has_signs = is_float || dtype <= BP_DTYPE_I64;
  const Tensor raw = make_random(BP_DTYPE_F64, sizes, seed, has_signs ? -100 : 0, 100);
  Values values = raw.values();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = is_float ? std::trunc(values[i]) : std::floor(values[i]);
    if (!is_float) continue;
    if (i % 37 == 5) values[i] = i % 2 == 0 ? kNan : -kNan;
    if (i % 41 == 6) values[i] = i % 2 == 0 ? kInf : -kInf;
    if (i % 11 == 7) values[i] = i % 2 == 0 ? 0.0 : -0.0;
  }
  return make_tensor(dtype, sizes, values);
}

Outcome ordered(Device& device, const Tensor& x, int64_t axis, bool descending, const Tensor& y,
                bool positions) {
  bp_attrs_sort sort = bp_attrs_sort_defaults();
  bp_attrs_argsort argsort = bp_attrs_argsort_defaults();
  sort.axis = argsort.axis = axis;
  sort.descending = argsort.descending = descending ? 1 : 0;
  if (positions) return run(device, {"argsort", {x}, y, &argsort});
  return run(device, {"sort", {x}, y, &sort});
}

/// The lane through `first` along `axis`, in order by std::stable_sort.
void expect_lane(const Tensor& x, size_t axis, Sizes first, bool descending, const Tensor& y,
                 const Tensor& positions) {
  const int64_t length = x.sizes[axis];
  const auto value = [&](int64_t k) {
    first[axis] = k;
    return x.at(first);
  };
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending ? is_below(value(b), value(a)) : is_below(value(a), value(b));
  });
  for (int64_t k = 0; k < length; ++k) {
    const int64_t from = order[static_cast<size_t>(k)];
    const double expected = value(from);
    first[axis] = k;
    ASSERT_EQ(positions.at(first), static_cast<double>(from)) << "at " << k << " of " << length;
    const double found = y.at(first);
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected)
        << found << " for " << expected << " at " << k << " of " << length;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << "at " << k << " of " << length;
  }
}

void expect_sorted(Device& device, const Tensor& x, int64_t axis, bool descending) {
  const Tensor y = make_output(x.dtype, x.sizes);
  const Tensor positions = make_output(BP_DTYPE_I64, x.sizes);
  ASSERT_EQ(ordered(device, x, axis, descending, y, false).status, BP_OK);
  ASSERT_EQ(ordered(device, x, axis, descending, positions, true).status, BP_OK);
  const auto rank = static_cast<int64_t>(x.sizes.size());
  const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  Sizes lanes = x.sizes;
  lanes[at] = std::min<int64_t>(lanes[at], 1);
  for_each_index(lanes,
                 [&](const Sizes& first) { expect_lane(x, at, first, descending, y, positions); });
}

TEST(CpuSort, EveryDtypeAndLength_IsInOrder) {
  Device device("2");
  uint32_t seed = 200;
  for (const auto dtypes :
       {std::span<const uint32_t>(kFloats), std::span<const uint32_t>(kIntegers)}) {
    for (const uint32_t dtype : dtypes) {
      for (const int64_t length : {0, 1, 2, 17, 256, 257, 1000}) {
        expect_sorted(device, make_values(dtype, {2, length}, ++seed), -1, length % 2 == 1);
      }
      expect_sorted(device, make_values(dtype, {3, 300, 2}, ++seed), 1, true);
      expect_sorted(device, make_values(dtype, {40, 5}, ++seed), 0, false);
    }
  }
}

// Beyond what f64 tells apart, and the ends of the types.
TEST(CpuSort, LargeIntegers_AreToldApart) {
  Device device("1");
  const Tensor x = make_output(BP_DTYPE_I64, {300});
  const Tensor y = make_output(BP_DTYPE_I64, {300});
  auto* const values = x.data<int64_t>();
  for (int64_t i = 0; i < 300; ++i) {
    values[i] = std::numeric_limits<int64_t>::max() - i * 7 % 300;
    if (i % 3 == 0) values[i] = std::numeric_limits<int64_t>::min() + i * 11 % 300;
  }
  ASSERT_EQ(ordered(device, x, 0, false, y, false).status, BP_OK);
  std::vector<int64_t> expected(values, values + 300);
  std::sort(expected.begin(), expected.end());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), y.data<int64_t>()));
  const Tensor u = {BP_DTYPE_U64, x.sizes, x.strides, 0, x.storage};
  const Tensor z = make_output(BP_DTYPE_U64, {300});
  ASSERT_EQ(ordered(device, u, 0, true, z, false).status, BP_OK);
  std::vector<uint64_t> fall(u.data<uint64_t>(), u.data<uint64_t>() + 300);
  std::sort(fall.rbegin(), fall.rend());
  EXPECT_TRUE(std::equal(fall.begin(), fall.end(), z.data<uint64_t>()));
}

void expect_places(Device& device, const Tensor& sorted, const Tensor& values, bool right) {
  bp_attrs_searchsorted attrs = bp_attrs_searchsorted_defaults();
  attrs.right = right ? 1 : 0;
  const Tensor y = make_output(BP_DTYPE_I64, values.sizes);
  ASSERT_EQ(run(device, {"searchsorted", {sorted, values}, y, &attrs}).status, BP_OK);
  const Values list = sorted.values();
  for_each_index(values.sizes, [&](const Sizes& at) {
    const double value = values.at(at);
    const auto place = right ? std::upper_bound(list.begin(), list.end(), value, is_below)
                             : std::lower_bound(list.begin(), list.end(), value, is_below);
    ASSERT_EQ(y.at(at), static_cast<double>(place - list.begin())) << value;
  });
}

TEST(CpuSearchsorted, EveryDtypeAndSide_IsTheBound) {
  Device device("2");
  uint32_t seed = 300;
  for (const auto dtypes :
       {std::span<const uint32_t>(kFloats), std::span<const uint32_t>(kIntegers)}) {
    for (const uint32_t dtype : dtypes) {
      for (const int64_t length : {0, 1, 2, 31, 500}) {
        const Tensor x = make_values(dtype, {length}, ++seed);
        const Tensor sorted = make_output(dtype, {length});
        ASSERT_EQ(ordered(device, x, 0, false, sorted, false).status, BP_OK);
        for (const bool right : {false, true}) {
          expect_places(device, sorted, make_values(dtype, {7, 11}, ++seed), right);
        }
      }
    }
  }
  const Tensor list = make_tensor(BP_DTYPE_F32, {4}, {-kInf, 0, kInf, kNan});
  expect_places(device, list, make_tensor(BP_DTYPE_F32, {}, {kNan}), true);
  expect_places(device, list, make_values(BP_DTYPE_F32, {20000}, 99), false);
}

// A list that does not rise has no right answer, and every answer is a place in it.
TEST(CpuSearchsorted, ListThatDoesNotRise_GivesSomePlace) {
  Device device("1");
  const Tensor list = make_values(BP_DTYPE_F32, {1000}, 400);
  const Tensor y = make_output(BP_DTYPE_I64, {500});
  ASSERT_EQ(run(device, {"searchsorted", {list, make_values(BP_DTYPE_F32, {500}, 401)}, y}).status,
            BP_OK);
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_GE(y.data<int64_t>()[i], 0);
    EXPECT_LE(y.data<int64_t>()[i], 1000);
  }
}

}  // namespace
}  // namespace bp::cpu_test
