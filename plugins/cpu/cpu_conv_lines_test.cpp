// SPDX-License-Identifier: Apache-2.0
//
// conv_f32_lines against f64 loops: lengths round those of vectors, windows wider than the line,
// and weights that are no numbers where they meet padding.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backplane/ops/nn.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

struct Lines {
  int64_t length;
  int64_t kernel;
  int64_t pads[2] = {0, 0};
  int64_t dilation = 1;
  int64_t batch = 2;
  int64_t channels = 3;
  int64_t of_each = 1;  // output channels
  bool has_bias = true;

  int64_t out() const { return length + pads[0] + pads[1] - (kernel - 1) * dilation; }
};

/// What the kernel made of it, and that it is right.
Outcome expect_lines(Device& device, const Lines& lines, double first_weight = 0.5,
                     const std::string& activation = "") {
  const int64_t out_channels = lines.channels * lines.of_each;
  bp_attrs_conv attrs = bp_attrs_conv_defaults();
  attrs.group = lines.channels;
  attrs.pads = {lines.pads, 2};
  attrs.dilations = {&lines.dilation, 1};
  attrs.activation = {activation.data(), activation.size()};
  const Tensor x = make_random(BP_DTYPE_F32, {lines.batch, lines.channels, lines.length}, 1);
  const Tensor w = make_random(BP_DTYPE_F32, {out_channels, 1, lines.kernel}, 2);
  w.data<float>()[0] = static_cast<float>(first_weight);
  const Tensor bias = lines.has_bias ? make_random(BP_DTYPE_F32, {out_channels}, 3) : Tensor{};
  const Call call{"conv",
                  {x, w, bias},
                  make_output(BP_DTYPE_F32, {lines.batch, out_channels, lines.out()}),
                  &attrs};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  for_each_index(call.output.sizes, [&](const Sizes& at) {
    double sum = lines.has_bias ? bias.at({at[1]}) : 0;
    for (int64_t k = 0; k < lines.kernel; ++k) {
      const int64_t place = at[2] + k * lines.dilation - lines.pads[0];
      if (place < 0 || place >= lines.length) continue;
      sum += x.at({at[0], at[1] / lines.of_each, place}) * w.at({at[1], 0, k});
    }
    if (activation == "relu" && sum < 0) sum = 0;
    const double found = outcome.output.at(at);
    if (std::isfinite(sum)) {
      EXPECT_NEAR(found, sum, 1e-5) << "length " << lines.length << ", output " << at[2];
    } else {
      EXPECT_TRUE(std::isnan(sum) ? std::isnan(found) : found == sum) << found << " at " << at[2];
    }
  });
  return outcome;
}

TEST(CpuConvLines, LengthsAndWindows_MatchF64) {
  Device device;
  for (const int64_t length : {1, 2, 7, 8, 9, 16, 31, 33, 40, 67, 130}) {
    for (const int64_t kernel : {1, 2, 3, 9, 31}) {
      const int64_t half = kernel / 2;
      EXPECT_EQ(expect_lines(device, {length, kernel, {half, half}}).kernel, "conv_f32_lines");
      EXPECT_EQ(expect_lines(device, {length, kernel, {kernel - 1, 0}}).kernel, "conv_f32_lines");
      if (length >= kernel) expect_lines(device, {length, kernel, {0, 0}});
    }
  }
}

TEST(CpuConvLines, DilationsPadsAndManyOutputsOfAChannel_MatchF64) {
  Device device;
  for (const int64_t dilation : {1, 2, 5}) {
    expect_lines(device, {.length = 50, .kernel = 4, .pads = {3, 9}, .dilation = dilation});
    expect_lines(device, {.length = 5, .kernel = 7, .pads = {40, 40}, .dilation = dilation});
    expect_lines(device, {.length = 45,
                          .kernel = 5,
                          .pads = {0, 20},
                          .dilation = dilation,
                          .channels = 4,
                          .of_each = 3,
                          .has_bias = false});
  }
  expect_lines(device, {70, 5, {2, 2}}, 0.5, "relu");
}

TEST(CpuConvLines, WeightThatMeetsPadding_AddsNothingEvenIfInfinite) {
  Device device;
  for (const double weight : {kInf, -kInf, kNan}) {
    expect_lines(device, {60, 3, {1, 1}}, weight);
    expect_lines(device, {4, 3, {1, 1}}, weight);
  }
}

TEST(CpuConvLines, WhatItLeaves_IsRefusedWithAReason) {
  Device device;
  const int64_t two = 2;
  bp_attrs_conv attrs = bp_attrs_conv_defaults();
  attrs.group = 4;
  const Tensor x = make_random(BP_DTYPE_F32, {1, 4, 20}, 1);
  const auto refusal = [&](const Tensor& image, const Tensor& w, const Sizes& y) {
    return run(device, {"conv", {image, w, {}}, make_output(BP_DTYPE_F32, y), &attrs})
        .refusals["conv_f32_lines"];
  };
  const Tensor w = make_random(BP_DTYPE_F32, {4, 1, 2}, 2);
  EXPECT_EQ(refusal(x, w, {1, 4, 19}), "");
  EXPECT_EQ(refusal(make_random(BP_DTYPE_F32, {1, 4, 20, 2}, 1),
                    make_random(BP_DTYPE_F32, {4, 1, 2, 1}, 2), {1, 4, 19, 2}),
            "takes lines");
  attrs.strides = {&two, 1};
  EXPECT_EQ(refusal(x, w, {1, 4, 10}), "takes windows that move by one element");
  attrs.strides = {};
  attrs.group = 2;
  EXPECT_EQ(refusal(x, make_random(BP_DTYPE_F32, {4, 2, 2}, 2), {1, 4, 19}),
            "takes channels with weights of their own");
}

}  // namespace
}  // namespace bp::cpu_test
