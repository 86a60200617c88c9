// SPDX-License-Identifier: Apache-2.0
//
// reduce_max, reduce_sum, softmax, batch_norm and cumsum against f64 loops, with special values,
// strides, empty axes and shorter attribute structs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

double tolerance_of(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return 0x1p-10;
    case BP_DTYPE_BF16:
      return 0x1p-7;
    case BP_DTYPE_F32:
      return 0x1p-22;
    default:
      return 0x1p-50;
  }
}

// Reduces to the kept sizes (axes dropped), row-major.
Values reference(const Tensor& x, const std::set<size_t>& axes, bool is_sum, Sizes* out_sizes) {
  out_sizes->clear();
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    if (!axes.contains(d)) out_sizes->push_back(x.sizes[d]);
  }
  const double start = is_sum ? 0.0 : -kInf;
  Values result(static_cast<size_t>(element_count(*out_sizes)), start);
  for_each_index(x.sizes, [&](const Sizes& index) {
    size_t flat = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!axes.contains(d))
        flat = flat * static_cast<size_t>(x.sizes[d]) + static_cast<size_t>(index[d]);
    }
    const double value = x.at(index);
    result[flat] = is_sum ? result[flat] + value : std::max(result[flat], value);
  });
  return result;
}

void expect_reduction(Device& device, const Tensor& x, const std::vector<int64_t>& axes) {
  const int64_t rank = static_cast<int64_t>(x.sizes.size());
  std::set<size_t> reduced;
  for (const int64_t axis : axes)
    reduced.insert(static_cast<size_t>(axis < 0 ? axis + rank : axis));
  if (axes.empty()) {
    for (int64_t d = 0; d < rank; ++d) reduced.insert(static_cast<size_t>(d));
  }
  bp_attrs_reduce_sum attrs = bp_attrs_reduce_sum_defaults();
  attrs.axes = {axes.data(), axes.size()};
  attrs.keepdims = 0;
  for (const bool is_sum : {true, false}) {
    Sizes sizes;
    const Values expected = reference(x, reduced, is_sum, &sizes);
    const Call call{is_sum ? "reduce_sum" : "reduce_max", {x}, make_output(x.dtype, sizes), &attrs};
    ASSERT_EQ(run(device, call).status, BP_OK);
    const Values found = call.output.values();
    for (size_t i = 0; i < expected.size(); ++i) {
      const double tolerance = is_sum ? tolerance_of(x.dtype) * (1 + std::fabs(expected[i])) : 0.0;
      ASSERT_NEAR(found[i], expected[i], tolerance) << call.op << " dtype " << x.dtype;
    }
  }
}

TEST(CpuReduce, EveryDtypeAndAxes_MatchF64) {
  Device device;
  for (const uint32_t dtype :
       {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_I16, BP_DTYPE_I32,
        BP_DTYPE_I64, BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64}) {
    const bool is_unsigned = dtype >= BP_DTYPE_U8 && dtype <= BP_DTYPE_U64;
    const Tensor x = make_random(dtype, {3, 5, 7}, 31, is_unsigned ? 0 : -6, 6);
    for (const std::vector<int64_t>& axes :
         std::vector<std::vector<int64_t>>{{}, {0}, {1}, {-1}, {0, 2}, {2, 0}, {1, 2}, {0, 1, 2}}) {
      expect_reduction(device, x, axes);
    }
  }
}

TEST(CpuReduce, AnyStrides_AreRead) {
  Device device;
  const Tensor x = make_random(BP_DTYPE_F32, {6, 5, 4}, 32);
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{}, {0}, {1}, {2}, {0, 1}}) {
    expect_reduction(device, x.permuted({2, 0, 1}), axes);
    expect_reduction(device, x.flipped(0).flipped(2).stepped(0, 2), axes);
    expect_reduction(device, make_random(BP_DTYPE_F32, {6, 1, 4}, 33).expanded({6, 5, 4}), axes);
  }
}

TEST(CpuReduce, LargeTensors_MatchOnAllThreads) {
  Device device("3");
  const Tensor x = make_random(BP_DTYPE_F32, {211, 307}, 34);
  expect_reduction(device, x, {0});
  expect_reduction(device, x, {1});
  expect_reduction(device, x, {});
}

TEST(CpuReduce, LongSumOfF32_KeepsItsDigits) {
  Device device;
  const Tensor x = make_tensor(BP_DTYPE_F32, {1}, {0.1}).expanded({1000000});
  const Call call{"reduce_sum", {x}, make_output(BP_DTYPE_F32, {})};
  EXPECT_EQ(run(device, call).status, BP_OK);
  EXPECT_NEAR(call.output.at_flat(0), 100000.0, 0.01);
}

TEST(CpuReduce, OverNothing_GivesTheNeutralElement) {
  Device device;
  const std::vector<int64_t> axes{1};
  bp_attrs_reduce_sum attrs = bp_attrs_reduce_sum_defaults();
  attrs.axes = {axes.data(), axes.size()};
  const auto reduce = [&](const char* op, uint32_t dtype) {
    const Call call{op, {make_output(dtype, {2, 0})}, make_output(dtype, {2, 1}), &attrs};
    EXPECT_EQ(run(device, call).status, BP_OK);
    return call.output.values();
  };
  EXPECT_EQ(reduce("reduce_sum", BP_DTYPE_F32), (Values{0, 0}));
  EXPECT_EQ(reduce("reduce_max", BP_DTYPE_F32), (Values{-kInf, -kInf}));
  EXPECT_EQ(reduce("reduce_max", BP_DTYPE_F16), (Values{-kInf, -kInf}));
  EXPECT_EQ(reduce("reduce_max", BP_DTYPE_I8), (Values{-128, -128}));
  EXPECT_EQ(reduce("reduce_max", BP_DTYPE_U32), (Values{0, 0}));
  const Call empty{
      "reduce_sum", {make_output(BP_DTYPE_F32, {0, 3})}, make_output(BP_DTYPE_F32, {0, 1}), &attrs};
  EXPECT_EQ(run(device, empty).status, BP_OK);
}

TEST(CpuReduce, NanWinsAndIntegersWrap) {
  Device device;
  for (const int64_t place : {0, 3, 8}) {
    Values values(9, 1.0);
    values[static_cast<size_t>(place)] = kNan;
    const Call call{
        "reduce_max", {make_tensor(BP_DTYPE_F32, {9}, values)}, make_output(BP_DTYPE_F32, {})};
    EXPECT_EQ(run(device, call).status, BP_OK);
    EXPECT_TRUE(std::isnan(call.output.at_flat(0))) << place;
  }
  const Call sum{
      "reduce_sum", {make_tensor(BP_DTYPE_I8, {3}, {100, 100, 100})}, make_output(BP_DTYPE_I8, {})};
  EXPECT_EQ(run(device, sum).status, BP_OK);
  EXPECT_EQ(sum.output.at_flat(0), 44);
  const Call scalar{
      "reduce_sum", {make_tensor(BP_DTYPE_F64, {}, {2.5})}, make_output(BP_DTYPE_F64, {})};
  EXPECT_EQ(run(device, scalar).status, BP_OK);
  EXPECT_EQ(scalar.output.at_flat(0), 2.5);
}

TEST(CpuReduce, AxisOutOfRange_IsAnError) {
  Device device;
  const std::vector<int64_t> axes{2};
  bp_attrs_reduce_sum attrs = bp_attrs_reduce_sum_defaults();
  attrs.axes = {axes.data(), axes.size()};
  const Call call{
      "reduce_sum", {make_random(BP_DTYPE_F32, {2, 2}, 1)}, make_output(BP_DTYPE_F32, {2}), &attrs};
  EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), ::testing::HasSubstr("axis 2"));
}

void expect_softmax(Device& device, const Tensor& x, int64_t axis) {
  const double smallest = x.dtype == BP_DTYPE_F16 ? 0x1p-24 : 0x1p-148;  // subnormal results
  bp_attrs_softmax attrs = bp_attrs_softmax_defaults();
  attrs.axis = axis;
  const Call call{"softmax", {x}, make_output(x.dtype, x.sizes), &attrs};
  ASSERT_EQ(run(device, call).status, BP_OK);
  const size_t d =
      static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x.sizes.size()) : axis);
  for_each_index(x.sizes, [&](const Sizes& index) {
    double largest = -kInf;
    double sum = 0;
    Sizes other = index;
    for (other[d] = 0; other[d] < x.sizes[d]; ++other[d]) largest = std::max(largest, x.at(other));
    for (other[d] = 0; other[d] < x.sizes[d]; ++other[d]) sum += std::exp(x.at(other) - largest);
    const double expected = std::exp(x.at(index) - largest) / sum;
    ASSERT_NEAR(call.output.at(index), expected, 4 * tolerance_of(x.dtype) * expected + smallest);
  });
}

TEST(CpuSoftmax, EveryDtypeAndAxis_MatchesF64) {
  Device device("2");
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    const Tensor x = make_random(dtype, {3, 5, 37}, 41, -6, 6);
    for (const int64_t axis : {0, 1, 2, -1, -3}) expect_softmax(device, x, axis);
  }
  expect_softmax(device, make_random(BP_DTYPE_F32, {90, 70}, 42, 80, 95), 0);
  expect_softmax(device, make_random(BP_DTYPE_F32, {90, 70}, 43, -1000, 1000), 1);
}

TEST(CpuSoftmax, SpecialCases_FollowTheFormula) {
  Device device;
  const Call scalar{"softmax", {make_tensor(BP_DTYPE_F32, {}, {5})}, make_output(BP_DTYPE_F32, {})};
  EXPECT_EQ(run(device, scalar).status, BP_OK);
  EXPECT_EQ(scalar.output.at_flat(0), 1);
  const Call masked{"softmax",
                    {make_tensor(BP_DTYPE_F32, {3}, {-kInf, 0, -kInf})},
                    make_output(BP_DTYPE_F32, {3})};
  EXPECT_EQ(run(device, masked).status, BP_OK);
  EXPECT_EQ(masked.output.values(), (Values{0, 1, 0}));
  const Call bad{
      "softmax", {make_tensor(BP_DTYPE_F32, {2}, {kNan, 0})}, make_output(BP_DTYPE_F32, {2})};
  EXPECT_EQ(run(device, bad).status, BP_OK);
  EXPECT_TRUE(std::isnan(bad.output.at_flat(0)) && std::isnan(bad.output.at_flat(1)));
  const Call empty{
      "softmax", {make_output(BP_DTYPE_F32, {3, 0})}, make_output(BP_DTYPE_F32, {3, 0})};
  EXPECT_EQ(run(device, empty).status, BP_OK);
}

struct Normalization {
  Tensor x, scale, bias, mean, var;
  double epsilon = 1e-5;
};

Normalization make_normalization(uint32_t dtype, const Sizes& sizes) {
  const int64_t channels = sizes.size() > 1 ? sizes[1] : 1;
  return {make_random(dtype, sizes, 51), make_random(dtype, {channels}, 52),
          make_random(dtype, {channels}, 53), make_random(dtype, {channels}, 54),
          make_random(dtype, {channels}, 55, 0.5, 2.0)};
}

void expect_normalized(Device& device, const Normalization& n, const void* attrs) {
  const Call call{"batch_norm",
                  {n.x, n.scale, n.bias, n.mean, n.var},
                  make_output(n.x.dtype, n.x.sizes),
                  attrs};
  ASSERT_EQ(run(device, call).status, BP_OK);
  for_each_index(n.x.sizes, [&](const Sizes& index) {
    const int64_t c = index.size() > 1 ? index[1] : 0;
    const double expected =
        (n.x.at(index) - n.mean.at({c})) / std::sqrt(n.var.at({c}) + n.epsilon) * n.scale.at({c}) +
        n.bias.at({c});
    ASSERT_NEAR(call.output.at(index), expected, 8 * tolerance_of(n.x.dtype));
  });
}

TEST(CpuBatchNorm, EveryDtypeAndRank_MatchesF64) {
  Device device("2");
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const Sizes& sizes :
         std::vector<Sizes>{{4, 3}, {7, 513}, {6}, {2, 3, 5}, {2, 16, 9, 7}, {0, 3, 2}, {0, 3}}) {
      Normalization n = make_normalization(dtype, sizes);
      expect_normalized(device, n, nullptr);
      bp_attrs_batch_norm attrs = bp_attrs_batch_norm_defaults();
      attrs.epsilon = n.epsilon = 0.25;
      expect_normalized(device, n, &attrs);
    }
  }
  expect_normalized(device, make_normalization(BP_DTYPE_F32, {3, 32, 40, 40}), nullptr);
  expect_normalized(device, make_normalization(BP_DTYPE_F32, {300, 130}), nullptr);
}

TEST(CpuBatchNorm, ShorterAttributes_KeepDefaults) {
  Device device;
  bp_attrs_batch_norm attrs{
      .struct_size = offsetof(bp_attrs_batch_norm, epsilon), .flags = 0, .epsilon = 9.0};
  expect_normalized(device, make_normalization(BP_DTYPE_F32, {2, 3, 4}), &attrs);
}

// Whole numbers whose sums f32 holds, at lengths round the blocks that are summed apart and in an
// output that is stored past the caches.
TEST(CpuScan, RunningSumsOfWholeNumbers_AreExact) {
  Device device("2");
  const Tensor axis = make_tensor(BP_DTYPE_I64, {}, {1});
  constexpr int64_t kPastCache = (int64_t{4} << 20) + 333;
  for (const int64_t length : {int64_t{1}, int64_t{4}, int64_t{7}, int64_t{8}, int64_t{9},
                               int64_t{23}, int64_t{1025}, kPastCache}) {
    const int64_t rows = length == kPastCache ? 1 : 3;
    const Tensor x = make_random(BP_DTYPE_F32, {rows, length}, 5, 0, 3);
    std::transform(x.data<float>(), x.data<float>() + rows * length, x.data<float>(),
                   [](float value) { return std::floor(value); });
    for (int options = 0; options < 4; ++options) {
      bp_attrs_cumsum attrs = bp_attrs_cumsum_defaults();
      attrs.exclusive = options % 2;
      attrs.reverse = options / 2;
      const Call call{"cumsum", {x, axis}, make_output(BP_DTYPE_F32, {rows, length}), &attrs};
      ASSERT_EQ(run(device, call).status, BP_OK);
      for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t i = 0; i < length; ++i) {
          const int64_t at = row * length + (attrs.reverse != 0 ? length - 1 - i : i);
          const double next = sum + double{x.data<float>()[at]};
          ASSERT_EQ(call.output.data<float>()[at], attrs.exclusive != 0 ? sum : next)
              << "element " << at << " of rows of " << length << ", options " << options;
          sum = next;
        }
      }
    }
  }
}

// The largest of a row and where it is, at lengths round those of vectors, with NaN, infinities and
// equal values at each place of a row.
Tensor make_rows(int64_t length) {
  const Tensor x = make_random(BP_DTYPE_F32, {4 * length + 2, length}, 61, -9, 9);
  auto* const values = x.data<float>();
  for (int64_t i = 0; i < length; ++i) {
    const auto row = [&](int64_t kind) { return values + (kind * length + i) * length; };
    row(0)[i] = std::numeric_limits<float>::quiet_NaN();
    row(1)[i] = std::numeric_limits<float>::infinity();
    row(1)[length - 1] = std::numeric_limits<float>::infinity();
    std::fill_n(row(2), length, -std::numeric_limits<float>::infinity());
    row(2)[i] = -3e38F;
    row(3)[i] = row(3)[length / 2] = 10;
  }
  std::fill_n(values + 4 * length * length, length, -std::numeric_limits<float>::infinity());
  std::fill_n(values + (4 * length + 1) * length, length, std::numeric_limits<float>::quiet_NaN());
  return x;
}

int64_t place_of_largest(const Tensor& x, int64_t row) {
  int64_t place = 0;
  for (int64_t i = 1; i < x.sizes[1]; ++i) {
    const double best = x.at({row, place});
    const double value = x.at({row, i});
    if (value > best || (std::isnan(value) && !std::isnan(best))) place = i;
  }
  return place;
}

TEST(CpuRows, LargestAndItsPlace_AreFoundAtEveryLength) {
  Device device("2");
  const int64_t axes[] = {1};
  for (const int64_t length : {1, 2, 7, 8, 9, 31, 32, 33, 40, 79, 80}) {
    const Tensor x = make_rows(length);
    const int64_t rows = x.sizes[0];
    bp_attrs_reduce_max reduce = bp_attrs_reduce_max_defaults();
    reduce.axes = {axes, 1};
    const Call max{"reduce_max", {x}, make_output(BP_DTYPE_F32, {rows, 1}), &reduce};
    bp_attrs_hardmax hard = bp_attrs_hardmax_defaults();
    hard.axis = 1;
    const Call one{"hardmax", {x}, make_output(BP_DTYPE_F32, {rows, length}), &hard};
    ASSERT_EQ(run(device, max).kernel, "reduce_max_loop");
    ASSERT_EQ(run(device, one).kernel, "hardmax_loop");
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = place_of_largest(x, row);
      const double largest = x.at({row, place});
      const double found = max.output.at_flat(row);
      EXPECT_TRUE(std::isnan(largest) ? std::isnan(found) : found == largest)
          << found << " for " << largest << " in row " << row << " of " << length;
      for (int64_t i = 0; i < length; ++i) {
        ASSERT_EQ(one.output.at({row, i}), i == place ? 1 : 0) << row << " of " << length;
      }
    }
  }
}

TEST(CpuScan, MiddleAxis_AddsUpEachColumn) {
  Device device("2");
  const Tensor axis = make_tensor(BP_DTYPE_I64, {}, {1});
  for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_I32, BP_DTYPE_BF16}) {
    for (const int64_t inner : {2, 5, 64, 257}) {
      const Tensor x = make_random(dtype, {3, 6, inner}, 62, 0, 4);
      for (int options = 0; options < 4; ++options) {
        bp_attrs_cumsum attrs = bp_attrs_cumsum_defaults();
        attrs.exclusive = options % 2;
        attrs.reverse = options / 2;
        const Call call{"cumsum", {x, axis}, make_output(dtype, x.sizes), &attrs};
        ASSERT_EQ(run(device, call).kernel, "cumsum_loop");
        for_each_index({3, inner}, [&](const Sizes& at) {
          double sum = 0;
          for (int64_t i = 0; i < 6; ++i) {
            const Sizes place{at[0], attrs.reverse != 0 ? 5 - i : i, at[1]};
            const double next = sum + x.at(place);
            const double expected = attrs.exclusive != 0 ? sum : next;
            ASSERT_NEAR(call.output.at(place), expected, tolerance_of(dtype) * 8 * 6);
            sum = next;
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu_test
