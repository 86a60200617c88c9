// SPDX-License-Identifier: Apache-2.0
//
// conv and max_pool against f64 loops: one to three dimensions, groups, strides, dilations, uneven
// and negative pads, each kernel, refusals and bad attributes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

struct Geometry {
  Sizes kernel;
  Sizes strides = {};
  Sizes pads = {};
  Sizes dilations = {};
  bool ceil_mode = false;

  int64_t stride(size_t d) const { return strides.empty() ? 1 : strides[d]; }
  int64_t dilation(size_t d) const { return dilations.empty() ? 1 : dilations[d]; }
  int64_t begin(size_t d) const { return pads.empty() ? 0 : pads[d]; }
  int64_t end(size_t d) const { return pads.empty() ? 0 : pads[kernel.size() + d]; }

  Sizes out(const Sizes& x) const {
    Sizes result;
    for (size_t d = 0; d < kernel.size(); ++d) {
      const int64_t span = (kernel[d] - 1) * dilation(d) + 1;
      const int64_t room = x[d + 2] + begin(d) + end(d) - span;
      int64_t count = (room + (ceil_mode ? stride(d) - 1 : 0)) / stride(d) + 1;
      if (ceil_mode && (count - 1) * stride(d) >= x[d + 2] + begin(d)) --count;
      result.push_back(count);
    }
    return result;
  }
};

bp_i64_span span_of(const Sizes& values) { return {values.data(), values.size()}; }

// Calls body(input index, kernel index) for the window of an output position that is not padding.
template <class Body>
void for_each_in_window(const Geometry& g, const Sizes& x_sizes, const Sizes& out,
                        const Body& body) {
  Sizes in(g.kernel.size());
  for_each_index(g.kernel, [&](const Sizes& k) {
    for (size_t d = 0; d < k.size(); ++d) {
      in[d] = out[d + 2] * g.stride(d) - g.begin(d) + k[d] * g.dilation(d);
      if (in[d] < 0 || in[d] >= x_sizes[d + 2]) return;
    }
    body(in, k);
  });
}

Sizes joined(const Sizes& first, const Sizes& rest) {
  Sizes all = first;
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

struct Convolution {
  Tensor x;
  Tensor w;
  Tensor b;  // may be absent
  Geometry g;
  int64_t group = 1;
  bool any_order = false;  // y in the order that the kernel likes
};

Convolution make_convolution(uint32_t dtype, const Sizes& x, int64_t out_channels,
                             const Geometry& g, int64_t group = 1, bool has_bias = true) {
  Convolution c{make_random(dtype, x, 61),
                make_random(dtype, joined({out_channels, x[1] / group}, g.kernel), 62),
                {},
                g,
                group};
  if (has_bias) c.b = make_random(dtype, {out_channels}, 63);
  return c;
}

double reference(const Convolution& c, const Sizes& out, double* magnitude) {
  const int64_t group_in = c.w.sizes[1];
  const int64_t group_out = c.w.sizes[0] / c.group;
  double sum = c.b.dtype == BP_DTYPE_NONE ? 0.0 : c.b.at({out[1]});
  *magnitude = std::fabs(sum);
  Sizes x_at(out);
  Sizes w_at(out);
  w_at[0] = out[1];
  for (int64_t channel = 0; channel < group_in; ++channel) {
    x_at[1] = out[1] / group_out * group_in + channel;
    w_at[1] = channel;
    for_each_in_window(c.g, c.x.sizes, out, [&](const Sizes& in, const Sizes& k) {
      std::copy(in.begin(), in.end(), x_at.begin() + 2);
      std::copy(k.begin(), k.end(), w_at.begin() + 2);
      const double product = c.x.at(x_at) * c.w.at(w_at);
      sum += product;
      *magnitude += std::fabs(product);
    });
  }
  return sum;
}

bp_attrs_conv attributes_of(const Convolution& c) {
  bp_attrs_conv attrs = bp_attrs_conv_defaults();
  attrs.strides = span_of(c.g.strides);
  attrs.pads = span_of(c.g.pads);
  attrs.dilations = span_of(c.g.dilations);
  attrs.group = c.group;
  return attrs;
}

// constant_inputs: 2 for the weights.
Outcome expect_conv(Device& device, const Convolution& c, const std::string& kernel = "",
                    uint64_t constant_inputs = 0) {
  const bp_attrs_conv attrs = attributes_of(c);
  const Sizes y_sizes = joined({c.x.sizes[0], c.w.sizes[0]}, c.g.out(c.x.sizes));
  const Call call{"conv",          {c.x, c.w, c.b}, make_output(c.x.dtype, y_sizes), &attrs, kernel,
                  constant_inputs, c.any_order};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status != BP_OK) return outcome;
  const uint32_t dtype = c.x.dtype;
  const double unit = dtype == BP_DTYPE_F64 ? 0x1p-52 : 0x1p-22;
  const double out_unit = dtype == BP_DTYPE_F16 ? 0x1p-11 : dtype == BP_DTYPE_BF16 ? 0x1p-8 : unit;
  for_each_index(y_sizes, [&](const Sizes& index) {
    double magnitude = 0;
    const double expected = reference(c, index, &magnitude);
    EXPECT_NEAR(outcome.output.at(index), expected,
                out_unit * std::fabs(expected) + 4 * unit * magnitude);
  });
  return outcome;
}

// Geometries with what can go wrong in each number of dimensions.
std::vector<Convolution> convolutions(uint32_t dtype) {
  return {
      make_convolution(dtype, {2, 3, 11}, 4, {.kernel = {3}}),
      make_convolution(dtype, {1, 4, 12}, 6, {.kernel = {4}, .strides = {3}, .pads = {2, 1}}, 2),
      make_convolution(dtype, {2, 3, 8, 8}, 5, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}),
      make_convolution(
          dtype, {1, 2, 9, 7}, 3,
          {.kernel = {3, 2}, .strides = {2, 1}, .pads = {0, 1, 2, 0}, .dilations = {2, 3}}),
      make_convolution(dtype, {2, 6, 5, 6}, 6, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}, 6),
      make_convolution(dtype, {1, 8, 6, 6}, 4, {.kernel = {1, 1}}, 1, false),
      make_convolution(dtype, {1, 2, 4, 4}, 2, {.kernel = {2, 2}, .pads = {3, 3, 3, 3}}),
      make_convolution(dtype, {1, 2, 5, 4, 6}, 3,
                       {.kernel = {2, 3, 2}, .strides = {1, 2, 1}, .pads = {1, 0, 0, 0, 1, 1}}),
      make_convolution(dtype, {1, 2, 3, 70}, 2, {.kernel = {2, 3}, .pads = {0, 1, 0, 1}}),
  };
}

TEST(CpuConv, OnednnKernel_MatchesF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const Convolution& c : convolutions(BP_DTYPE_F32)) {
      EXPECT_EQ(expect_conv(device, c, "conv_f32_onednn").kernel, "conv_f32_onednn");
      EXPECT_EQ(expect_conv(device, c, "conv_f32_onednn", 2).kernel, "conv_f32_onednn");
    }
  }
}

// oneDNN would look at each window of nothing but padding: for some millions it plans for minutes.
TEST(CpuConv, PaddingMuchWiderThanTheWindow_GoesToTheLoopAndMatchesF64) {
  Device device;
  const auto padded = [](int64_t by) {
    return make_convolution(BP_DTYPE_F32, {2, 2, 9}, 2, {.kernel = {3}, .pads = {by, 1}});
  };
  EXPECT_EQ(expect_conv(device, padded(2000)).kernel, "conv_f32_onednn");
  EXPECT_EQ(expect_conv(device, padded(4100)).kernel, "conv_loop");
  // Nor does it plan a column of the output after the other, for gigabytes.
  EXPECT_EQ(
      expect_conv(device, make_convolution(BP_DTYPE_F32, {2, 2, (1 << 18) + 2}, 1, {.kernel = {2}}))
          .kernel,
      "conv_loop");
}

// One image in one group, of up to 64 positions.
bool is_small(const Convolution& c) {
  const Sizes out = c.g.out(c.x.sizes);
  int64_t positions = 1;
  for (const int64_t size : out) positions *= size;
  return c.x.sizes[0] == 1 && c.group == 1 && positions <= 64;
}

TEST(CpuConv, OneSmallImage_GoesToTheSmallKernelAndMatchesF64) {
  Device device;
  int small_count = 0;
  for (const Convolution& c : convolutions(BP_DTYPE_F32)) {
    const Outcome outcome = expect_conv(device, c);
    EXPECT_EQ(outcome.kernel, is_small(c) ? "conv_f32_small" : "conv_f32_onednn");
    small_count += is_small(c) ? 1 : 0;
  }
  EXPECT_GE(small_count, 3);
}

// Widths round those of vectors, output channels round the blocks of four and eight.
TEST(CpuConv, SmallKernel_EveryWidthAndChannelCountMatchesF64) {
  Device device;
  for (const int64_t width : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 61, 64}) {
    for (const int64_t channels : {1, 4, 7, 8, 9}) {
      for (const int64_t stride : {1, 2}) {
        const Convolution c = make_convolution(
            BP_DTYPE_F32, {1, 2, std::min<int64_t>(4, 64 / width), width}, channels,
            {.kernel = {3, 3}, .strides = {1, stride}, .pads = {1, 1, 1, 1}}, 1, width % 2 == 0);
        EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_small");
      }
    }
  }
}

// Batches round the blocks of four images and the chunks of 32, output channels round vectors and
// their pairs; images in both orders.
TEST(CpuConv, BatchKernel_EveryBatchAndChannelCountMatchesF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const int64_t batch : {4, 5, 7, 33, 67}) {
      for (const int64_t channels : {1, 7, 8, 9, 16, 17, 32, 40}) {
        Convolution c = make_convolution(
            BP_DTYPE_F32, {batch, 3, 4, 3}, channels,
            {.kernel = {3, 3}, .strides = {1, 2}, .pads = {1, 1, 1, 1}, .dilations = {1, 1}}, 1,
            channels % 2 == 0);
        c.any_order = true;
        EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_batch");
        c.x = channels_last(c.x);
        EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_batch");
      }
    }
  }
}

TEST(CpuConv, BatchKernel_OtherWindowsMatchF64) {
  Device device;
  const std::vector<Geometry> geometries = {
      {.kernel = {3}, .pads = {0, 2}},
      {.kernel = {2, 3}, .strides = {2, 1}, .pads = {3, 0, 4, 5}, .dilations = {2, 2}},
      {.kernel = {2, 1, 3}, .strides = {1, 2, 1}, .pads = {1, 0, 0, 0, 0, 1}},
  };
  const Sizes images[] = {{5, 2, 17}, {5, 2, 6, 7}, {5, 2, 3, 4, 5}};
  for (size_t i = 0; i < geometries.size(); ++i) {
    Convolution c = make_convolution(BP_DTYPE_F32, images[i], 6, geometries[i]);
    c.any_order = true;
    EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_batch") << i;
    c.x = channels_last(c.x);
    EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_batch") << i;
  }
}

// What is kept of a window on padding is nothing, not zero times the weight.
TEST(CpuConv, BatchKernel_WeightThatMeetsPaddingAddsNothing) {
  Device device;
  Convolution c = make_convolution(BP_DTYPE_F32, {4, 1, 1, 2}, 1,
                                   {.kernel = {1, 3}, .pads = {0, 1, 0, 1}}, 1, false);
  c.x = make_tensor(BP_DTYPE_F32, {4, 1, 1, 2}, Values(8, 1.0));
  const double inf = std::numeric_limits<double>::infinity();
  c.w = make_tensor(BP_DTYPE_F32, {1, 1, 1, 3}, {inf, 1.0, 2.0});
  const bp_attrs_conv attrs = attributes_of(c);
  const Call call{"conv", {c.x, c.w, {}},   make_output(BP_DTYPE_F32, {4, 1, 1, 2}),
                  &attrs, "conv_f32_batch", 0,
                  true};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.kernel, "conv_f32_batch");
  EXPECT_EQ(outcome.output.values(), (Values{3, inf, 3, inf, 3, inf, 3, inf}));
}

TEST(CpuConv, BatchKernel_AppliesTheActivationToEachImageOnce) {
  Device device("2");
  Convolution c =
      make_convolution(BP_DTYPE_F32, {70, 2, 4, 4}, 5, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  c.any_order = true;
  const Outcome plain = expect_conv(device, c);
  bp_attrs_conv attrs = attributes_of(c);
  attrs.activation = {"leaky_relu", 10};
  attrs.activation_alpha = 0.5;
  const Call call{"conv", {c.x, c.w, c.b},  make_output(BP_DTYPE_F32, plain.output.sizes),
                  &attrs, "conv_f32_batch", 0,
                  true};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.kernel, "conv_f32_batch");
  for_each_index(plain.output.sizes, [&](const Sizes& index) {
    const double value = plain.output.at(index);
    EXPECT_EQ(outcome.output.at(index), value < 0 ? 0.5 * value : value);
  });
}

TEST(CpuConv, WhatTheBatchKernelLeaves_IsRefusedWithAReason) {
  Device device;
  const auto expect_refusal = [&](Convolution c, const char* words) {
    c.any_order = true;
    const Outcome outcome = expect_conv(device, c);
    EXPECT_EQ(outcome.kernel, "conv_f32_onednn");
    EXPECT_THAT(outcome.refusals.at("conv_f32_batch"), HasSubstr(words));
  };
  const Geometry padded{.kernel = {3, 3}, .pads = {1, 1, 1, 1}};
  expect_refusal(make_convolution(BP_DTYPE_F32, {3, 2, 4, 4}, 3, padded), "four images");
  expect_refusal(make_convolution(BP_DTYPE_F32, {4, 2, 4, 4}, 4, padded, 2), "one group");
  expect_refusal(make_convolution(BP_DTYPE_F32, {4, 2, 9, 8}, 4, padded), "64 positions");
  expect_refusal(make_convolution(BP_DTYPE_F32, {4, 2, 4, 4}, 3, {.kernel = {3, 3}}), "padding");
  expect_refusal(make_convolution(BP_DTYPE_F32, {4, 40, 4, 4}, 40, padded), "few weights");
  Convolution wide = make_convolution(BP_DTYPE_F32, {4, 2, 4, 4}, 3, padded);
  wide.g.pads[0] = int64_t{1} << 40;
  wide.g.strides = {int64_t{1} << 40, 1};
  wide.any_order = true;
  EXPECT_THAT(expect_conv(device, wide).refusals.at("conv_f32_batch"), HasSubstr("a million"));
  const Convolution c = make_convolution(BP_DTYPE_F32, {4, 2, 4, 4}, 3, padded);
  EXPECT_THAT(expect_conv(device, c).refusals.at("conv_f32_batch"), HasSubstr("channels lie last"));
}

TEST(CpuConv, WeightThatMeetsPadding_AddsNothingEvenIfInfinite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  Device device;
  for (const char* kernel : {"conv_f32_small", "conv_f32_onednn", "conv_loop"}) {
    for (const double weight : {kInf, -kInf, kNaN}) {
      SCOPED_TRACE(kernel);
      Convolution c = make_convolution(BP_DTYPE_F32, {1, 1, 3, 3}, 1,
                                       {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}, 1, false);
      c.x = make_tensor(BP_DTYPE_F32, {1, 1, 3, 3}, Values(9, 1.0));
      Values weights(9, 1.0);
      weights[0] = weight;  // of the upper left neighbour
      c.w = make_tensor(BP_DTYPE_F32, {1, 1, 3, 3}, weights);
      const bp_attrs_conv attrs = attributes_of(c);
      const Call call{
          "conv", {c.x, c.w, c.b}, make_output(BP_DTYPE_F32, {1, 1, 3, 3}), &attrs, kernel};
      EXPECT_EQ(run(device, call).kernel, kernel);
      const Values y = call.output.values();
      EXPECT_EQ(Values(y.begin(), y.begin() + 4), (Values{4, 6, 4, 6}));
      EXPECT_EQ(y[6], 4);
      for (const size_t inner : {size_t{4}, size_t{5}, size_t{7}, size_t{8}}) {
        EXPECT_TRUE(std::isnan(weight) ? std::isnan(y[inner]) : y[inner] == weight) << y[inner];
      }
    }
  }
}

TEST(CpuConv, WhatTheSmallKernelLeaves_IsRefusedWithAReason) {
  Device device;
  const auto expect_refusal = [&](const Convolution& c, const char* words) {
    const Outcome outcome = expect_conv(device, c);
    EXPECT_EQ(outcome.kernel, "conv_f32_onednn");
    EXPECT_THAT(outcome.refusals.at("conv_f32_small"), HasSubstr(words));
  };
  expect_refusal(make_convolution(BP_DTYPE_F32, {2, 2, 4, 4}, 3, {.kernel = {3, 3}}), "one image");
  expect_refusal(make_convolution(BP_DTYPE_F32, {1, 2, 4, 4}, 4, {.kernel = {3, 3}}, 2),
                 "one group");
  expect_refusal(make_convolution(BP_DTYPE_F32, {1, 2, 1, 67}, 4, {.kernel = {1, 3}}),
                 "64 positions");
  expect_refusal(make_convolution(BP_DTYPE_F32, {1, 70, 10, 10}, 30, {.kernel = {3, 3}}),
                 "too large for one thread");
  expect_refusal(
      make_convolution(BP_DTYPE_F32, {1, 2, 200, 200}, 1, {.kernel = {1, 1}, .strides = {30, 30}}),
      "unrolled image is too large");
}

TEST(CpuConv, SmallKernel_StepsThatNobodyTakesMayBeOfAnySize) {
  Device device;
  const int64_t huge = int64_t{1} << 62;
  const Convolution c = make_convolution(
      BP_DTYPE_F32, {1, 2, 3, 5}, 3,
      {.kernel = {3, 1}, .strides = {huge, 2}, .pads = {}, .dilations = {1, huge}});
  EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_small");
}

TEST(CpuConv, DilationWhoseReachOverflows_IsNotTakenForASmallOne) {
  Device device;
  Convolution c = make_convolution(BP_DTYPE_F32, {1, 1, 5, 5}, 1, {.kernel = {3, 3}});
  c.g.dilations = {int64_t{1} << 62, 1};
  const bp_attrs_conv attrs = attributes_of(c);
  const Call call{
      "conv", {c.x, c.w, {}}, make_output(BP_DTYPE_F32, {1, 1, 3, 3}), &attrs, "conv_f32_small"};
  const Outcome outcome = run(device, call);
  EXPECT_NE(outcome.status, BP_OK);
}

TEST(CpuConv, LoopKernel_MatchesF64ForEveryDtype) {
  Device device("2");
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const Convolution& c : convolutions(dtype)) {
      EXPECT_EQ(expect_conv(device, c, "conv_loop").kernel, "conv_loop");
    }
  }
}

TEST(CpuConv, LargeEnoughForThreads_MatchesF64) {
  Device device("2");
  const Convolution c =
      make_convolution(BP_DTYPE_F32, {1, 24, 12, 12}, 40, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  EXPECT_EQ(expect_conv(device, c).kernel, "conv_f32_onednn");
}

TEST(CpuConv, NegativePads_GoToTheLoop) {
  Device device;
  const Convolution c =
      make_convolution(BP_DTYPE_F32, {1, 2, 8, 8}, 2, {.kernel = {3, 3}, .pads = {-1, 0, 1, -2}});
  const Outcome outcome = expect_conv(device, c);
  EXPECT_EQ(outcome.kernel, "conv_loop");
  EXPECT_THAT(outcome.refusals.at("conv_f32_small"), HasSubstr("negative pads"));
  EXPECT_THAT(outcome.refusals.at("conv_f32_onednn"), HasSubstr("negative pads"));
}

TEST(CpuConv, EmptyTensors_GiveTheBias) {
  Device device;
  Convolution c = make_convolution(BP_DTYPE_F32, {2, 0, 4, 4}, 3, {.kernel = {3, 3}});
  const Outcome outcome = expect_conv(device, c);
  EXPECT_EQ(outcome.kernel, "conv_loop");
  EXPECT_THAT(outcome.refusals.at("conv_f32_small"), HasSubstr("empty"));
  EXPECT_THAT(outcome.refusals.at("conv_f32_onednn"), HasSubstr("empty"));
  expect_conv(device, make_convolution(BP_DTYPE_F32, {0, 2, 4, 4}, 3, {.kernel = {3, 3}}));
}

TEST(CpuConv, FourSpatialDimensions_AreRefusedWithAReason) {
  Device device;
  const Tensor x = make_random(BP_DTYPE_F32, {1, 1, 2, 2, 2, 2}, 1);
  const Call call{"conv", {x, x, {}}, make_output(BP_DTYPE_F32, {1, 1, 1, 1, 1, 1})};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
  EXPECT_THAT(outcome.refusals.at("conv_f32_onednn"), HasSubstr("three spatial"));
  EXPECT_THAT(outcome.refusals.at("conv_loop"), HasSubstr("three spatial"));
}

TEST(CpuConv, ContradictingSizes_AreErrors) {
  Device device;
  const auto expect_error = [&](const Convolution& c, const char* words) {
    const bp_attrs_conv attrs = attributes_of(c);
    const Call call{"conv", {c.x, c.w, c.b}, make_output(BP_DTYPE_F32, {1, 4, 3, 3}), &attrs};
    EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
    EXPECT_THAT(device.host().last_message(), HasSubstr(words));
  };
  const Convolution good = make_convolution(BP_DTYPE_F32, {1, 2, 5, 5}, 4, {.kernel = {3, 3}});
  Convolution c = good;
  c.group = 3;
  expect_error(c, "group 3");
  c = good;
  c.b = make_random(BP_DTYPE_F32, {3}, 1);
  expect_error(c, "size of b: expected 4, found 3");
  c = good;
  c.g.strides = {1};
  expect_error(c, "strides: expected 2 values, found 1");
  c = good;
  c.g.pads = {1, 1};
  expect_error(c, "pads: expected 4 values, found 2");
  c = good;
  c.g.dilations = {0, 1};
  expect_error(c, "dilations: expected at least 1, found 0");
}

TEST(CpuConv, ShorterAttributes_KeepDefaults) {
  Device device;
  const Convolution c =
      make_convolution(BP_DTYPE_F32, {1, 2, 6, 6}, 2, {.kernel = {3, 3}, .strides = {2, 2}});
  bp_attrs_conv attrs = attributes_of(c);
  attrs.struct_size = offsetof(bp_attrs_conv, pads);
  attrs.group = 7;  // beyond the struct: not there
  const Call call{"conv", {c.x, c.w}, make_output(BP_DTYPE_F32, {1, 2, 2, 2}), &attrs};
  EXPECT_EQ(run(device, call).status, BP_OK);
  Convolution without_bias = c;
  without_bias.b = {};
  double magnitude = 0;
  EXPECT_NEAR(call.output.at({0, 1, 1, 1}), reference(without_bias, {0, 1, 1, 1}, &magnitude),
              1e-5);
}

Outcome expect_pool(Device& device, const Tensor& x, const Geometry& g) {
  bp_attrs_max_pool attrs = bp_attrs_max_pool_defaults();
  attrs.kernel_shape = span_of(g.kernel);
  attrs.strides = span_of(g.strides);
  attrs.pads = span_of(g.pads);
  attrs.dilations = span_of(g.dilations);
  attrs.ceil_mode = g.ceil_mode ? 1 : 0;
  const Sizes y_sizes = joined({x.sizes[0], x.sizes[1]}, g.out(x.sizes));
  const Call call{"max_pool", {x}, make_output(x.dtype, y_sizes), &attrs};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status != BP_OK) return outcome;
  for_each_index(y_sizes, [&](const Sizes& index) {
    double largest = -kInf;
    for_each_in_window(g, x.sizes, index, [&](const Sizes& in, const Sizes&) {
      const double value = x.at(joined({index[0], index[1]}, in));
      largest = std::isnan(value) || std::isnan(largest) ? kNan : std::max(largest, value);
    });
    const double found = call.output.at(index);
    ASSERT_TRUE(found == largest || (std::isnan(found) && std::isnan(largest)));
  });
  return outcome;
}

TEST(CpuMaxPool, EveryDtype_MatchesTheWindow) {
  Device device;
  for (uint32_t dtype = BP_DTYPE_I8; dtype <= BP_DTYPE_F64; ++dtype) {
    const bool is_unsigned = dtype >= BP_DTYPE_U8 && dtype <= BP_DTYPE_U64;
    expect_pool(device, make_random(dtype, {2, 3, 8, 9}, 71, is_unsigned ? 0 : -99, 99),
                {.kernel = {2, 3}, .strides = {2, 2}, .pads = {0, 1, 1, 1}});
  }
}

TEST(CpuMaxPool, EveryGeometry_MatchesTheWindow) {
  Device device("2");
  expect_pool(device, make_random(BP_DTYPE_F32, {2, 3, 17}, 72), {.kernel = {3}, .strides = {2}});
  expect_pool(device, make_random(BP_DTYPE_F32, {1, 2, 9, 9}, 73),
              {.kernel = {3, 3}, .strides = {2, 2}, .dilations = {2, 1}, .ceil_mode = true});
  expect_pool(device, make_random(BP_DTYPE_F32, {1, 2, 10, 10}, 74),
              {.kernel = {3, 3}, .strides = {3, 3}, .pads = {1, 1, 1, 1}, .ceil_mode = true});
  expect_pool(device, make_random(BP_DTYPE_F32, {1, 2, 5, 6, 7}, 75),
              {.kernel = {2, 3, 2}, .strides = {2, 1, 3}, .pads = {1, 0, 0, 0, 1, 1}});
  expect_pool(device, make_random(BP_DTYPE_F32, {4, 64, 40, 80}, 76),
              {.kernel = {2, 2}, .strides = {2, 2}});
  expect_pool(device, make_random(BP_DTYPE_F32, {0, 3, 4, 4}, 77), {.kernel = {2, 2}});
}

TEST(CpuMaxPool, HalvingInF32_HasAKernelOfItsOwn) {
  Device device;
  const Geometry halving{.kernel = {2, 2}, .strides = {2, 2}};
  for (const int64_t width : {2, 3, 7, 8, 9, 10, 31, 34, 40}) {
    const Tensor x = make_random(BP_DTYPE_F32, {2, 3, 5, width}, 78);
    EXPECT_EQ(expect_pool(device, x, halving).kernel, "max_pool_f32_halving");
  }
  const Tensor x = make_random(BP_DTYPE_F32, {2, 3, 6, 8}, 79);
  const Outcome padded =
      expect_pool(device, x, {.kernel = {2, 2}, .strides = {2, 2}, .pads = {0, 1, 0, 1}});
  EXPECT_EQ(padded.kernel, "max_pool_f32_rows");
  EXPECT_THAT(padded.refusals.at("max_pool_f32_halving"), HasSubstr("no padding"));
  const Outcome beyond = expect_pool(device, make_random(BP_DTYPE_F32, {1, 2, 5, 8}, 80),
                                     {.kernel = {2, 2}, .strides = {2, 2}, .ceil_mode = true});
  EXPECT_EQ(beyond.kernel, "max_pool_f32_rows");
  EXPECT_THAT(beyond.refusals.at("max_pool_f32_halving"), HasSubstr("no padding"));
  const Outcome overlapping = expect_pool(device, x, {.kernel = {2, 2}, .strides = {1, 2}});
  EXPECT_EQ(overlapping.kernel, "max_pool_f32_rows");
  EXPECT_THAT(overlapping.refusals.at("max_pool_f32_halving"), HasSubstr("2 x 2 side by side"));
}

TEST(CpuMaxPool, SpecialValues_AreKept) {
  Device device;
  // Eight outputs, so that vectors see them: NaN at each of the four places of a window, then in
  // none, then nothing else.
  expect_pool(
      device,
      make_tensor(BP_DTYPE_F32, {1, 1, 2, 16},
                  {kNan, 1, 2, kNan, 3,    4, 5, 6,    7, 8, -kInf, -kInf, kNan, kNan, kInf, 9,
                   1,    2, 3, 4,    kNan, 5, 6, kNan, 7, 8, -kInf, -kInf, kNan, kNan, 1,    kInf}),
      {.kernel = {2, 2}, .strides = {2, 2}});
  expect_pool(device,
              make_tensor(BP_DTYPE_F32, {1, 1, 2, 4}, {-kInf, -kInf, kNan, 1, -kInf, -kInf, 2, 3}),
              {.kernel = {2, 2}, .strides = {2, 2}});
  expect_pool(device, make_tensor(BP_DTYPE_F32, {1, 1, 3}, {1, kNan, kInf}), {.kernel = {2}});
  // Positions -1 and 1 of a tensor with one element: nothing but padding.
  expect_pool(device, make_tensor(BP_DTYPE_F32, {1, 1, 1}, {5}),
              {.kernel = {2}, .pads = {1, 1}, .dilations = {2}});
}

TEST(CpuMaxPool, FourSpatialDimensions_AreRefusedWithAReason) {
  Device device;
  const Tensor x = make_random(BP_DTYPE_F32, {1, 1, 2, 2, 2, 2}, 1);
  const Outcome outcome = run(device, {"max_pool", {x}, x});
  EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
  EXPECT_THAT(outcome.refusals.at("max_pool_loop"), HasSubstr("three spatial"));
}

TEST(CpuMaxPool, MissingKernelShape_IsAnError) {
  Device device;
  const Call call{
      "max_pool", {make_random(BP_DTYPE_F32, {1, 1, 4}, 1)}, make_output(BP_DTYPE_F32, {1, 1, 4})};
  EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("kernel_shape"));
}

}  // namespace
}  // namespace bp::cpu_test
