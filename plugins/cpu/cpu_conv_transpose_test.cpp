// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose against f64 loops: one to three dimensions, groups, strides, dilations, uneven
// pads, output padding, both orders of images, each kernel, values that are no numbers, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backplane/ops/nn.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOnednnKernel = "conv_transpose_f32_onednn";
constexpr const char* kLoopKernel = "conv_transpose_loop";

struct Transposed {
  Sizes x;
  Sizes w;  // [C, M/group, kernel...]
  Sizes strides = {};
  Sizes pads = {};
  Sizes dilations = {};
  Sizes output_padding = {};
  int64_t group = 1;
  bool has_bias = true;

  size_t rank() const { return x.size() - 2; }
  int64_t stride(size_t d) const { return strides.empty() ? 1 : strides[d]; }
  int64_t dilation(size_t d) const { return dilations.empty() ? 1 : dilations[d]; }
  int64_t begin(size_t d) const { return pads.empty() ? 0 : pads[d]; }
  int64_t end(size_t d) const { return pads.empty() ? 0 : pads[rank() + d]; }
  int64_t extra(size_t d) const { return output_padding.empty() ? 0 : output_padding[d]; }

  Sizes y() const {
    Sizes sizes{x[0], w[1] * group};
    for (size_t d = 0; d < rank(); ++d) {
      sizes.push_back(stride(d) * (x[d + 2] - 1) + extra(d) + dilation(d) * (w[d + 2] - 1) + 1 -
                      begin(d) - end(d));
    }
    return sizes;
  }
  bp_attrs_conv_transpose attributes() const {
    bp_attrs_conv_transpose attrs = bp_attrs_conv_transpose_defaults();
    attrs.strides = {strides.data(), strides.size()};
    attrs.pads = {pads.data(), pads.size()};
    attrs.dilations = {dilations.data(), dilations.size()};
    attrs.output_padding = {output_padding.data(), output_padding.size()};
    attrs.group = group;
    return attrs;
  }
};

struct Operands {
  Tensor x;
  Tensor w;
  Tensor b;  // may be absent
};

Operands random_operands(const Transposed& t, uint32_t dtype = BP_DTYPE_F32) {
  Operands operands{make_random(dtype, t.x, 31), make_random(dtype, t.w, 32), {}};
  if (t.has_bias) operands.b = make_random(dtype, {t.y()[1]}, 33);
  return operands;
}

// Row-major values of y, and what their parts add up to without signs.
struct Expected {
  Values values;
  Values magnitudes;
};

// Offsets into a channel of y, by row-major element of a channel of x and weight; -1: cropped.
std::vector<int64_t> targets_of(const Transposed& t) {
  const Sizes y = t.y();
  const Sizes kernel(t.w.begin() + 2, t.w.end());
  std::vector<int64_t> targets;
  for_each_index(Sizes(t.x.begin() + 2, t.x.end()), [&](const Sizes& in) {
    for_each_index(kernel, [&](const Sizes& tap) {
      int64_t target = 0;
      for (size_t d = 0; d < t.rank(); ++d) {
        const int64_t at = in[d] * t.stride(d) + tap[d] * t.dilation(d) - t.begin(d);
        const bool is_inside = target >= 0 && at >= 0 && at < y[d + 2];
        target = is_inside ? target * y[d + 2] + at : -1;
      }
      targets.push_back(target);
    });
  });
  return targets;
}

Expected reference(const Transposed& t, const Operands& operands) {
  const Sizes y = t.y();
  const Values x = operands.x.values();
  const Values w = operands.w.values();
  const std::vector<int64_t> targets = targets_of(t);
  const int64_t in_count = element_count(Sizes(t.x.begin() + 2, t.x.end()));
  const int64_t taps = element_count(Sizes(t.w.begin() + 2, t.w.end()));
  const int64_t group_in = t.x[1] / t.group;
  Expected result;
  for_each_index(y, [&](const Sizes& index) {
    result.values.push_back(t.has_bias ? operands.b.at({index[1]}) : 0.0);
    result.magnitudes.push_back(std::fabs(result.values.back()));
  });
  const int64_t out_count = element_count(Sizes(y.begin() + 2, y.end()));
  for_each_index({t.x[0], t.x[1], t.w[1]}, [&](const Sizes& at) {
    const int64_t channel = at[1] / group_in * t.w[1] + at[2];
    for (int64_t i = 0; i < in_count * taps; ++i) {
      const int64_t target = targets[static_cast<size_t>(i)];
      if (target < 0) continue;
      const double product =
          x[static_cast<size_t>((at[0] * t.x[1] + at[1]) * in_count + i / taps)] *
          w[static_cast<size_t>((at[1] * t.w[1] + at[2]) * taps + i % taps)];
      const auto place = static_cast<size_t>((at[0] * y[1] + channel) * out_count + target);
      result.values[place] += product;
      result.magnitudes[place] += std::fabs(product);
    }
  });
  return result;
}

void expect_values(const Tensor& found, const Expected& expected, uint32_t dtype) {
  const double unit = dtype == BP_DTYPE_F64 ? 0x1p-52 : 0x1p-22;
  const double out_unit = dtype == BP_DTYPE_F16 ? 0x1p-11 : dtype == BP_DTYPE_BF16 ? 0x1p-8 : unit;
  size_t i = 0;
  for_each_index(found.sizes, [&](const Sizes& index) {
    const double value = expected.values[i];
    const double y = found.at(index);
    if (std::isfinite(value)) {
      const double error = out_unit * std::fabs(value) + 4 * unit * expected.magnitudes[i];
      EXPECT_NEAR(y, value, error) << i;
    } else {
      EXPECT_TRUE(std::isnan(value) ? std::isnan(y) : y == value) << y << " for " << value;
    }
    ++i;
  });
}

struct How {
  uint64_t constant_inputs = 0;
  bool any_order = false;
  std::string only_kernel = {};
};

Outcome expect_transposed(Device& device, const Transposed& t, const Operands& operands,
                          const How& how = {}) {
  const bp_attrs_conv_transpose attrs = t.attributes();
  const Call call{.op = "conv_transpose",
                  .inputs = {operands.x, operands.w, operands.b},
                  .output = make_output(operands.x.dtype, t.y()),
                  .attributes = &attrs,
                  .only_kernel = how.only_kernel,
                  .constant_inputs = how.constant_inputs,
                  .any_order = how.any_order};
  Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_OK);
  if (outcome.status != BP_OK) return outcome;
  expect_values(outcome.output, reference(t, operands), operands.x.dtype);
  return outcome;
}

// Geometries with what can go wrong in each number of dimensions: channels round those of vectors,
// windows narrower than their stride, so that outputs are bias alone, and output padding.
std::vector<Transposed> cases() {
  return {
      {.x = {2, 3, 11}, .w = {3, 4, 3}},
      {.x = {1, 8, 9}, .w = {8, 8, 16}, .strides = {8}, .pads = {4, 4}},
      {.x = {2, 4, 7}, .w = {4, 3, 2}, .strides = {3}, .output_padding = {2}, .group = 2},
      {.x = {2, 5, 6, 7}, .w = {5, 9, 2, 2}, .strides = {2, 2}},
      {.x = {1, 16, 5, 6}, .w = {16, 8, 4, 4}, .strides = {2, 2}, .pads = {1, 1, 1, 1}},
      {.x = {1, 17, 8, 8}, .w = {17, 7, 3, 3}, .pads = {1, 1, 1, 1}, .has_bias = false},
      {.x = {3, 8, 4, 5},
       .w = {8, 16, 3, 3},
       .strides = {2, 2},
       .pads = {1, 1, 1, 1},
       .output_padding = {1, 1}},
      {.x = {1, 4, 5, 4},
       .w = {4, 2, 3, 2},
       .strides = {1, 3},
       .pads = {0, 1, 2, 0},
       .dilations = {2, 4},
       .output_padding = {1, 2}},
      {.x = {2, 6, 5, 3}, .w = {6, 4, 2, 3}, .strides = {3, 4}, .group = 3, .has_bias = false},
      {.x = {1, 8, 6, 6}, .w = {8, 1, 4, 4}, .strides = {2, 2}, .pads = {1, 1, 1, 1}, .group = 8},
      {.x = {1, 16, 4, 4}, .w = {16, 8, 1, 1}, .strides = {2, 2}, .output_padding = {1, 1}},
      {.x = {2, 4, 3, 4, 5},
       .w = {4, 6, 2, 3, 2},
       .strides = {2, 1, 2},
       .pads = {1, 0, 0, 0, 1, 1}},
      {.x = {1, 4, 3, 3, 3}, .w = {4, 4, 2, 2, 2}, .strides = {3, 2, 2}, .group = 2},
  };
}

TEST(CpuConvTranspose, OnednnKernel_MatchesF64) {
  for (const char* threads : {"1", "2"}) {
    Device device(threads);
    for (const Transposed& t : cases()) {
      SCOPED_TRACE(::testing::PrintToString(t.x) + ::testing::PrintToString(t.w));
      const Operands operands = random_operands(t);
      Operands last = operands;
      last.x = channels_last(operands.x);
      for (const uint64_t constant_inputs : {0, 2}) {
        for (const bool any_order : {false, true}) {
          const How how{.constant_inputs = constant_inputs, .any_order = any_order};
          EXPECT_EQ(expect_transposed(device, t, operands, how).kernel, kOnednnKernel);
          EXPECT_EQ(expect_transposed(device, t, last, how).kernel, kOnednnKernel);
        }
      }
    }
  }
}

TEST(CpuConvTranspose, LargeEnoughForThreads_MatchesF64) {
  Device device("2");
  const Transposed t{.x = {2, 24, 20, 20}, .w = {24, 16, 2, 2}, .strides = {2, 2}};
  for (const uint64_t constant_inputs : {0, 2}) {
    const How how{.constant_inputs = constant_inputs, .any_order = true};
    EXPECT_EQ(expect_transposed(device, t, random_operands(t), how).kernel, kOnednnKernel);
  }
}

TEST(CpuConvTranspose, LoopKernel_MatchesF64ForEveryDtype) {
  Device device("2");
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
    for (const Transposed& t : cases()) {
      const Operands operands = random_operands(t, dtype);
      EXPECT_EQ(expect_transposed(device, t, operands, {.only_kernel = kLoopKernel}).kernel,
                kLoopKernel);
    }
  }
}

// Only an output that takes the element may see it: padding is no zero that it is multiplied by.
TEST(CpuConvTranspose, ElementsThatAreNoNumbers_ReachOnlyTheirOutputs) {
  Device device;
  for (const Transposed& t : cases()) {
    SCOPED_TRACE(::testing::PrintToString(t.x) + ::testing::PrintToString(t.w));
    const int64_t last_weight = element_count(t.w) - 1;
    const std::pair<int64_t, double> weights[] = {
        {0, kInf}, {last_weight / 2, kNan}, {last_weight, -kInf}};
    for (const auto& [place, value] : weights) {
      Operands operands = random_operands(t);
      operands.w.data<float>()[place] = static_cast<float>(value);
      expect_transposed(device, t, operands, {.only_kernel = kOnednnKernel});
      expect_transposed(device, t, operands, {.any_order = true, .only_kernel = kOnednnKernel});
    }
    Operands operands = random_operands(t);
    operands.x.data<float>()[0] = static_cast<float>(kInf);
    operands.x.data<float>()[element_count(t.x) - 1] = static_cast<float>(kNan);
    expect_transposed(device, t, operands, {.only_kernel = kOnednnKernel});
    expect_transposed(device, t, operands, {.any_order = true, .only_kernel = kOnednnKernel});
  }
}

TEST(CpuConvTranspose, WithOutputShape_PadsAreWhatTheSizeAsksFor) {
  Device device;
  const Transposed t{.x = {1, 8, 5, 6},
                     .w = {8, 4, 3, 3},
                     .strides = {2, 2},
                     .pads = {1, 0, 0, 0},
                     .output_padding = {0, 1}};
  const Operands operands = random_operands(t);
  bp_attrs_conv_transpose attrs = t.attributes();
  const int64_t sizes[] = {10, 14};
  attrs.pads = {};
  attrs.output_shape = {sizes, 2};
  const Call call{.op = "conv_transpose",
                  .inputs = {operands.x, operands.w, operands.b},
                  .output = make_output(BP_DTYPE_F32, t.y()),
                  .attributes = &attrs};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.kernel, kOnednnKernel);
  expect_values(outcome.output, reference(t, operands), BP_DTYPE_F32);
}

TEST(CpuConvTranspose, WhatOnednnDoesNotTake_GoesToTheLoopWithAReason) {
  Device device;
  const auto expect_refusal = [&](const Transposed& t, const char* words) {
    const Outcome outcome = expect_transposed(device, t, random_operands(t));
    EXPECT_EQ(outcome.kernel, kLoopKernel);
    EXPECT_THAT(outcome.refusals.at(kOnednnKernel), HasSubstr(words));
  };
  expect_refusal({.x = {1, 2, 4, 4}, .w = {2, 2, 3, 3}, .pads = {-1, 0, 0, 0}}, "negative pads");
  expect_refusal({.x = {1, 2, 4}, .w = {2, 2, 3}, .dilations = {3}, .output_padding = {2}},
                 "goes on as far");
  expect_refusal({.x = {0, 2, 4, 4}, .w = {2, 2, 3, 3}}, "empty");
  expect_refusal({.x = {2, 0, 4, 4}, .w = {0, 2, 3, 3}}, "empty");
  expect_refusal({.x = {1, 1, 2}, .w = {1, 1, 2}, .strides = {1 << 18}}, "as wide an output");
  expect_refusal({.x = {1, 2, 9000}, .w = {2, 2, 3}, .pads = {8000, 8}}, "much wider pads");
}

TEST(CpuConvTranspose, NumbersThatOverflow_AreErrors) {
  Device device;
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Transposed small{.x = {1, 2, 4, 4}, .w = {2, 2, 3, 3}};
  const auto expect_error = [&](const Transposed& t) {
    const Operands operands = random_operands(small);
    const bp_attrs_conv_transpose attrs = t.attributes();
    const Call call{.op = "conv_transpose",
                    .inputs = {operands.x, operands.w, operands.b},
                    .output = make_output(BP_DTYPE_F32, {1, 2, 6, 6}),
                    .attributes = &attrs};
    EXPECT_EQ(run(device, call).status, BP_INVALID_ARGUMENT);
  };
  Transposed t = small;
  t.dilations = {1, kHuge};
  expect_error(t);
  t.dilations = {};
  t.strides = {kHuge, 1};
  expect_error(t);
  t.strides = {};
  t.pads = {0, INT64_MIN, 0, 0};
  expect_error(t);
  t.pads = {kHuge, 0, 0, 0};
  expect_error(t);
}

TEST(CpuConvTranspose, FourSpatialDimensions_AreRefusedWithAReason) {
  Device device;
  const Tensor x = make_random(BP_DTYPE_F32, {1, 1, 2, 2, 2, 2}, 1);
  const Call call{"conv_transpose", {x, x, {}}, make_output(BP_DTYPE_F32, {1, 1, 3, 3, 3, 3})};
  const Outcome outcome = run(device, call);
  EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
  EXPECT_THAT(outcome.refusals.at(kOnednnKernel), HasSubstr("three spatial"));
  EXPECT_THAT(outcome.refusals.at(kLoopKernel), HasSubstr("three spatial"));
}

}  // namespace
}  // namespace bp::cpu_test
