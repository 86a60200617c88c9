// SPDX-License-Identifier: Apache-2.0
//
// conv of f16 and bf16 by way of the kernels of f32, against f64 loops: windows, groups and orders,
// constants, special values, and what is left to the loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kThroughF32 = "conv_through_f32";

// Of two spatial dimensions.
struct Conv {
  Tensor x;
  Tensor w;
  Tensor b;  // may be absent
  int64_t group = 1;
  Sizes pads = {0, 0, 0, 0};
  Sizes strides = {1, 1};
  Sizes dilations = {1, 1};
  uint64_t constant_inputs = 0;
  bool any_order = false;

  Sizes y_sizes() const {
    Sizes y{x.sizes[0], w.sizes[0]};
    for (size_t d = 0; d < 2; ++d) {
      const int64_t span = (w.sizes[d + 2] - 1) * dilations[d] + 1;
      y.push_back((x.sizes[d + 2] + pads[d] + pads[d + 2] - span) / strides[d] + 1);
    }
    return y;
  }
  bp_attrs_conv attributes() const {
    bp_attrs_conv attrs = bp_attrs_conv_defaults();
    attrs.group = group;
    attrs.pads = {pads.data(), pads.size()};
    attrs.strides = {strides.data(), strides.size()};
    attrs.dilations = {dilations.data(), dilations.size()};
    return attrs;
  }
};

Conv make_conv(uint32_t dtype, const Sizes& x, const Sizes& w, int64_t group = 1) {
  return {.x = make_random(dtype, x, 51),
          .w = make_random(dtype, w, 52),
          .b = make_random(dtype, {w[0]}, 53),
          .group = group};
}

double reference(const Conv& c, const Sizes& at, double* magnitude) {
  double sum = c.b.dtype == BP_DTYPE_NONE ? 0.0 : c.b.at({at[1]});
  *magnitude = std::fabs(sum);
  const int64_t first = at[1] / (c.w.sizes[0] / c.group) * c.w.sizes[1];
  for_each_index({c.w.sizes[1], c.w.sizes[2], c.w.sizes[3]}, [&](const Sizes& k) {
    const int64_t h = at[2] * c.strides[0] - c.pads[0] + k[1] * c.dilations[0];
    const int64_t w = at[3] * c.strides[1] - c.pads[1] + k[2] * c.dilations[1];
    if (h < 0 || w < 0 || h >= c.x.sizes[2] || w >= c.x.sizes[3]) return;
    const double product = c.x.at({at[0], first + k[0], h, w}) * c.w.at({at[1], k[0], k[1], k[2]});
    sum += product;
    *magnitude += std::fabs(product);
  });
  return sum;
}

// What a convolution gives, row-major, and how far halves may be from it.
struct Expected {
  explicit Expected(const Conv& c) {
    const double unit = c.x.dtype == BP_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
    for_each_index(c.y_sizes(), [&](const Sizes& index) {
      double magnitude = 0;
      values.push_back(reference(c, index, &magnitude));
      bounds.push_back(unit * std::fabs(values.back()) + 0x1p-20 * magnitude);
    });
  }
  Values values;
  Values bounds;
};

Outcome expect_conv(Device& device, const Conv& c, const Expected& expected) {
  const bp_attrs_conv attrs = c.attributes();
  const Call call{.op = "conv",
                  .inputs = {c.x, c.w, c.b},
                  .output = make_output(c.x.dtype, c.y_sizes()),
                  .attributes = &attrs,
                  .constant_inputs = c.constant_inputs,
                  .any_order = c.any_order};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status != BP_OK) return outcome;
  const Values found = outcome.output.values();
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected.values[i], expected.bounds[i]);
  }
  return outcome;
}

Outcome expect_conv(Device& device, const Conv& c) { return expect_conv(device, c, Expected(c)); }

// One for each kernel of f32: one small image, many, large ones; and windows of all kinds.
std::vector<Conv> convolutions(uint32_t dtype) {
  std::vector<Conv> all;
  all.push_back(make_conv(dtype, {1, 3, 6, 7}, {5, 3, 3, 3}));
  all.back().pads = {1, 1, 1, 1};
  all.push_back(make_conv(dtype, {5, 3, 4, 3}, {9, 3, 3, 3}));
  all.back().pads = {1, 1, 1, 1};
  all.push_back(make_conv(dtype, {2, 5, 19, 17}, {7, 5, 3, 2}));
  all.back().pads = {2, 1, 0, 1};
  all.back().strides = {2, 1};
  all.back().dilations = {1, 2};
  all.push_back(make_conv(dtype, {2, 8, 12, 13}, {12, 2, 3, 3}, 4));
  all.back().pads = {1, 0, 1, 0};
  all.push_back(make_conv(dtype, {2, 8, 11, 11}, {8, 1, 3, 3}, 8));
  all.push_back(make_conv(dtype, {1, 16, 13, 13}, {33, 16, 1, 1}));
  all.back().b = {};
  return all;
}

TEST(CpuHalves, Convolutions_GoThroughF32) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
      const std::vector<Conv> all = convolutions(dtype);
      for (size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(i);
        Conv c = all[i];
        const Expected expected(c);
        const uint64_t constants = c.b.dtype == BP_DTYPE_NONE ? 2 : 6;
        for (const bool any_order : {false, true}) {
          c.any_order = any_order;
          for (c.constant_inputs = 0; c.constant_inputs <= constants; c.constant_inputs += 2) {
            c.x = all[i].x;
            EXPECT_EQ(expect_conv(device, c, expected).kernel, kThroughF32);
            c.x = channels_last(all[i].x);
            EXPECT_EQ(expect_conv(device, c, expected).kernel, kThroughF32);
          }
        }
      }
    }
  }
}

TEST(CpuHalves, ChannelsLast_GoFromOneConvolutionToTheNext) {
  Device device;
  Conv c = make_conv(BP_DTYPE_F16, {2, 16, 20, 20}, {24, 16, 3, 3});
  c.any_order = true;
  EXPECT_EQ(expect_conv(device, c).output.strides[1], 1);
}

TEST(CpuHalves, WeightThatMeetsPadding_AddsNothing) {
  Device device;
  Conv c = make_conv(BP_DTYPE_F16, {2, 4, 5, 5}, {4, 2, 3, 3}, 2);
  c.pads = {1, 1, 1, 1};
  Values weights(72, 1.0);
  weights[0] = kInf;  // meets padding at the top and at the left
  c.x = make_tensor(BP_DTYPE_F16, c.x.sizes, Values(200, 1.0));
  c.w = make_tensor(BP_DTYPE_F16, c.w.sizes, weights);
  c.b = {};
  const bp_attrs_conv attrs = c.attributes();
  const Call call{"conv", {c.x, c.w, c.b}, make_output(BP_DTYPE_F16, c.y_sizes()), &attrs};
  const Outcome outcome = run(device, call);
  ASSERT_EQ(outcome.kernel, kThroughF32);
  EXPECT_EQ(outcome.output.at({0, 0, 0, 0}), 8);
  EXPECT_EQ(outcome.output.at({0, 0, 2, 0}), 12);
  EXPECT_EQ(outcome.output.at({0, 0, 1, 1}), kInf);
  EXPECT_EQ(outcome.output.at({0, 1, 1, 1}), 18);
}

TEST(CpuHalves, WhatF32Leaves_TakesTheLoop) {
  Device device;
  Conv cropped = make_conv(BP_DTYPE_BF16, {1, 2, 8, 8}, {2, 2, 3, 3});
  cropped.pads = {-1, 0, 1, -2};
  const Outcome outcome = expect_conv(device, cropped);
  EXPECT_EQ(outcome.kernel, "conv_loop");
  EXPECT_THAT(outcome.refusals.at(kThroughF32), HasSubstr("no fast kernel"));
  const Outcome empty = expect_conv(device, make_conv(BP_DTYPE_F16, {0, 2, 8, 8}, {2, 2, 3, 3}));
  EXPECT_EQ(empty.kernel, "conv_loop");
  EXPECT_THAT(empty.refusals.at(kThroughF32), HasSubstr("empty"));
}

}  // namespace
}  // namespace bp::cpu_test
