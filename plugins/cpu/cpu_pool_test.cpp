// SPDX-License-Identifier: Apache-2.0
//
// max_pool and average_pool of row-major images in f32 against f64 loops: widths round those of
// vectors and tiles, steps, dilations, pads, ceil mode, values that are no numbers, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backplane/ops/pooling.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

struct Pool {
  Sizes x;  // [N, C, rows, columns], or without rows
  Sizes kernel;
  Sizes strides = {};
  Sizes pads = {};
  Sizes dilations = {};
  bool ceil_mode = false;
  bool counts_padding = false;

  size_t rank() const { return kernel.size(); }
  int64_t stride(size_t d) const { return strides.empty() ? 1 : strides[d]; }
  int64_t dilation(size_t d) const { return dilations.empty() ? 1 : dilations[d]; }
  int64_t begin(size_t d) const { return pads.empty() ? 0 : pads[d]; }
  int64_t end(size_t d) const { return pads.empty() ? 0 : pads[rank() + d]; }

  Sizes y() const {
    Sizes sizes{x[0], x[1]};
    for (size_t d = 0; d < rank(); ++d) {
      const int64_t room = x[d + 2] + begin(d) + end(d) - (kernel[d] - 1) * dilation(d) - 1;
      int64_t count = (room + (ceil_mode ? stride(d) - 1 : 0)) / stride(d) + 1;
      if (ceil_mode && (count - 1) * stride(d) >= x[d + 2] + begin(d)) --count;
      sizes.push_back(count);
    }
    return sizes;
  }
};

// Sees the elements of an output's window, and how many an average counts.
struct WindowOf {
  double largest = -kInf;
  double sum = 0;
  int64_t counted = 0;

  WindowOf(const Pool& pool, const Tensor& x, const Sizes& out) {
    for_each_index(pool.kernel, [&](const Sizes& tap) {
      Sizes at{out[0], out[1]};
      bool is_inside = true;
      bool is_padded = true;
      for (size_t d = 0; d < pool.rank(); ++d) {
        const int64_t in = out[d + 2] * pool.stride(d) - pool.begin(d) + tap[d] * pool.dilation(d);
        is_inside = is_inside && in >= 0 && in < pool.x[d + 2];
        is_padded = is_padded && in < pool.x[d + 2] + pool.end(d);
        at.push_back(in);
      }
      if (is_inside || (is_padded && pool.counts_padding)) ++counted;
      if (!is_inside) return;
      const double value = x.at(at);
      sum += value;
      largest = std::isnan(value) || std::isnan(largest) ? kNan : std::max(largest, value);
    });
  }
};

bool is_near(double found, double expected, double error) {
  if (std::isnan(expected)) return std::isnan(found);
  return found == expected || std::fabs(found - expected) <= error;
}

template <class Attrs>
void set_window(const Pool& pool, Attrs* attrs) {
  attrs->kernel_shape = {pool.kernel.data(), pool.kernel.size()};
  attrs->strides = {pool.strides.data(), pool.strides.size()};
  attrs->pads = {pool.pads.data(), pool.pads.size()};
  attrs->dilations = {pool.dilations.data(), pool.dilations.size()};
  attrs->ceil_mode = pool.ceil_mode ? 1 : 0;
}

Outcome expect_max(Device& device, const Pool& pool, const Tensor& x) {
  bp_attrs_max_pool attrs = bp_attrs_max_pool_defaults();
  set_window(pool, &attrs);
  const Call call{"max_pool", {x}, make_output(x.dtype, pool.y()), &attrs};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  for_each_index(pool.y(), [&](const Sizes& at) {
    const double expected = WindowOf(pool, x, at).largest;
    EXPECT_TRUE(is_near(call.output.at(at), expected, 0))
        << call.output.at(at) << " for " << expected << " at " << ::testing::PrintToString(at);
  });
  return outcome;
}

Outcome expect_average(Device& device, const Pool& pool, const Tensor& x) {
  bp_attrs_average_pool attrs = bp_attrs_average_pool_defaults();
  set_window(pool, &attrs);
  attrs.count_include_pad = pool.counts_padding ? 1 : 0;
  const Call call{"average_pool", {x}, make_output(x.dtype, pool.y()), &attrs};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  for_each_index(pool.y(), [&](const Sizes& at) {
    const WindowOf window(pool, x, at);
    const double expected = window.sum / static_cast<double>(window.counted);
    EXPECT_TRUE(is_near(call.output.at(at), expected, 2e-6))
        << call.output.at(at) << " for " << expected << " at " << ::testing::PrintToString(at);
  });
  return outcome;
}

void expect_rows(Device& device, const Pool& pool) {
  SCOPED_TRACE(::testing::PrintToString(pool.x) + ::testing::PrintToString(pool.kernel));
  const Tensor x = make_random(BP_DTYPE_F32, pool.x, 41);
  EXPECT_EQ(expect_max(device, pool, x).kernel, "max_pool_f32_rows");
  EXPECT_EQ(expect_average(device, pool, x).kernel, "average_pool_f32_rows");
}

TEST(CpuPoolRows, EveryWidthAndStep_MatchesF64) {
  Device device;
  for (const int64_t width : {4, 5, 7, 8, 9, 15, 17, 33, 63, 64, 65, 131}) {
    for (const int64_t step : {1, 2}) {
      const Pool pool{.x = {1, 2, 5, width * step},
                      .kernel = {3, 3},
                      .strides = {1, step},
                      .pads = {1, 1, 1, 1}};
      expect_rows(device, pool);
    }
  }
}

TEST(CpuPoolRows, EveryGeometry_MatchesF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    const std::vector<Pool> pools = {
        {.x = {2, 3, 17}, .kernel = {5}, .pads = {2, 2}},
        {.x = {1, 2, 9, 12}, .kernel = {5, 5}, .pads = {2, 2, 2, 2}, .counts_padding = true},
        {.x = {1, 2, 9, 9}, .kernel = {3, 2}, .strides = {3, 2}, .pads = {1, 0, 0, 1}},
        {.x = {1, 1, 11, 14}, .kernel = {3, 3}, .dilations = {2, 3}, .counts_padding = true},
        {.x = {1, 2, 10, 12},
         .kernel = {3, 3},
         .strides = {2, 2},
         .pads = {0, 1, 1, 0},
         .ceil_mode = true},
        {.x = {1, 1, 10, 13},
         .kernel = {4, 4},
         .strides = {3, 2},
         .pads = {1, 2, 3, 3},
         .ceil_mode = true,
         .counts_padding = true},
        // More rows than one block keeps, with windows of the most rows.
        {.x = {1, 1, 150, 6}, .kernel = {33, 1}, .strides = {16, 1}},
        {.x = {2, 1, 100, 70}, .kernel = {3, 5}, .strides = {2, 1}, .pads = {1, 2, 1, 2}},
        {.x = {2, 2, 3, 5, 6}, .kernel = {1, 2, 2}, .pads = {0, 1, 0, 0, 0, 1}},
        {.x = {0, 2, 6, 6}, .kernel = {2, 2}},
        // A dilation of one element is no step.
        {.x = {1, 2, 6, 8}, .kernel = {1, 2}, .dilations = {int64_t{1} << 62, 1}},
    };
    for (const Pool& pool : pools) expect_rows(device, pool);
  }
}

TEST(CpuPoolRows, ElementsThatAreNoNumbers_ReachTheirWindowsAndNoOther) {
  Device device;
  Tensor x = make_random(BP_DTYPE_F32, {1, 1, 9, 21}, 42);
  const std::pair<int64_t, double> places[] = {{0, kNan},   {30, kInf},  {75, -kInf},
                                               {76, -kInf}, {104, kNan}, {188, kInf}};
  for (const auto& [at, value] : places) x.data<float>()[at] = static_cast<float>(value);
  const Pool pool{.x = x.sizes, .kernel = {3, 3}, .pads = {1, 1, 1, 1}};
  EXPECT_EQ(expect_max(device, pool, x).kernel, "max_pool_f32_rows");
  EXPECT_EQ(expect_average(device, pool, x).kernel, "average_pool_f32_rows");
  // Padding is lower than every number.
  const Tensor low = make_tensor(BP_DTYPE_F32, {1, 1, 1, 5}, Values(5, -kInf));
  expect_max(device, {.x = low.sizes, .kernel = {1, 3}, .pads = {0, 1, 0, 1}}, low);
}

// Of equal zeros the first in the window is kept, by rows.
TEST(CpuPoolRows, ZerosKeepTheSignOfTheFirst) {
  Device device;
  Tensor x = make_tensor(BP_DTYPE_F32, {1, 1, 2, 5}, Values(10, 0.0));
  for (const int64_t at : {0, 1, 6, 7}) x.data<float>()[at] = -0.0F;
  const Outcome outcome = expect_max(device, {.x = x.sizes, .kernel = {2, 2}}, x);
  ASSERT_EQ(outcome.kernel, "max_pool_f32_rows");
  const auto* const y = outcome.output.data<float>();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(std::signbit(y[i]), i < 2) << i;
}

TEST(CpuPoolRows, WhatTheyDoNotTake_GoesToTheLoopWithAReason) {
  Device device;
  const auto expect_refusal = [&](const Pool& pool, const char* words) {
    const Tensor x = make_random(BP_DTYPE_F32, pool.x, 43);
    const Outcome max = expect_max(device, pool, x);
    EXPECT_EQ(max.kernel, "max_pool_loop");
    EXPECT_THAT(max.refusals.at("max_pool_f32_rows"), HasSubstr(words));
    const Outcome average = expect_average(device, pool, x);
    EXPECT_EQ(average.kernel, "average_pool_loop");
    EXPECT_THAT(average.refusals.at("average_pool_f32_rows"), HasSubstr(words));
  };
  expect_refusal({.x = {1, 1, 9, 3}, .kernel = {2, 1}}, "at least four outputs");
  expect_refusal({.x = {1, 1, 9, 20}, .kernel = {3, 3}, .strides = {1, 3}}, "small steps");
  expect_refusal({.x = {1, 1, 40, 8}, .kernel = {34, 3}}, "up to 33 rows");
  expect_refusal({.x = {1, 1, 4, 40}, .kernel = {3, 3}, .dilations = {1, 17}}, "up to 33 rows");
  expect_refusal({.x = {1, 1, 6, 8}, .kernel = {2, 2}, .pads = {-1, 0, 0, 0}}, "pads from 0");
  expect_refusal({.x = {1, 1, 4, 4, 6}, .kernel = {2, 2, 2}}, "one or two dimensions");
}

TEST(CpuAveragePool, WindowOfTheWholeImage_MatchesF64) {
  Device device;
  for (const int64_t side : {1, 3, 7, 19}) {
    const Tensor x = make_random(BP_DTYPE_F32, {2, 5, side, side + 1}, 44);
    const Pool pool{.x = x.sizes, .kernel = {side, side + 1}};
    EXPECT_EQ(expect_average(device, pool, x).kernel, "average_pool_loop");
  }
}

}  // namespace
}  // namespace bp::cpu_test
