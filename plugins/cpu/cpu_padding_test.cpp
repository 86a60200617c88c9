// SPDX-License-Identifier: Apache-2.0
//
// A weight that meets padding adds nothing, whatever it is and whichever code of oneDNN convolves.
#include <gtest/gtest.h>

#include <cmath>

#include "backplane/ops/nn.h"
#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

// Two groups with two channels each, for which oneDNN unrolls the image; 3 x 3 windows, padded by
// one. The first weight of the first channel is the one that is tried.
struct Grouped {
  explicit Grouped(double weight) {
    const int64_t channels = 4;
    Values weights(static_cast<size_t>(channels * 2 * 9), -1.0);
    weights[0] = weight;
    x = make_tensor(BP_DTYPE_F32, {2, channels, 5, 5}, Values(200, 1.0));
    w = make_tensor(BP_DTYPE_F32, {channels, 2, 3, 3}, weights);
    attrs.group = 2;
    attrs.pads = {pads, 4};
  }
  Grouped(const Grouped&) = delete;
  Grouped& operator=(const Grouped&) = delete;

  Call call() const {
    return {.op = "conv",
            .inputs = {x, w},
            .output = make_output(BP_DTYPE_F32, {2, 4, 5, 5}),
            .attributes = &attrs,
            .only_kernel = "conv_f32_onednn"};
  }
  // Of y: the sum of the weights that meet the image, which is 1, and leaky relu of that.
  double expected(const Sizes& at) const {
    double sum = 0;
    for (int64_t k = 0; k < 18; ++k) {
      const int64_t row = at[2] + k / 3 % 3 - 1;
      const int64_t column = at[3] + k % 3 - 1;
      const bool is_inside = row >= 0 && row < 5 && column >= 0 && column < 5;
      if (is_inside) sum += w.at({at[1], k / 9, k / 3 % 3, k % 3});
    }
    return sum < 0 ? sum / 2 : sum;
  }

  int64_t pads[4] = {1, 1, 1, 1};
  Tensor x;
  Tensor w;
  bp_attrs_conv attrs = bp_attrs_conv_defaults();
};

void expect_y(const Grouped& conv, const Outcome& outcome) {
  ASSERT_EQ(outcome.kernel, "conv_f32_onednn") << testing::PrintToString(outcome.refusals);
  for_each_index(outcome.output.sizes, [&](const Sizes& at) {
    const double wanted = conv.expected(at);
    const double found = outcome.output.at(at);
    if (std::isnan(wanted) || std::isinf(wanted)) {
      EXPECT_TRUE(std::isnan(wanted) ? std::isnan(found) : found == wanted) << found;
    } else {
      EXPECT_NEAR(found, wanted, 1e-4);
    }
  });
}

TEST(CpuPadding, GroupedConvolution_WeightThatMeetsPaddingAddsNothing) {
  Device device;
  for (const double weight : {1.0, kInf, -kInf, kNan}) {
    SCOPED_TRACE(weight);
    Grouped conv(weight);
    conv.attrs.activation = {"leaky_relu", 10};
    conv.attrs.activation_alpha = 0.5;
    expect_y(conv, run(device, conv.call()));
    Call constant = conv.call();
    constant.constant_inputs = 2;
    expect_y(conv, run(device, constant));
    Call permuted = conv.call();  // with channels last
    permuted.inputs[0] =
        make_tensor(BP_DTYPE_F32, {2, 5, 5, 4}, Values(200, 1.0)).permuted({0, 3, 1, 2});
    expect_y(conv, run(device, permuted));
    permuted.any_order = true;
    expect_y(conv, run(device, permuted));
  }
}

// oneDNN's own sigmoid is 0 there.
TEST(CpuPadding, GroupedConvolution_SigmoidOfNanIsNan) {
  Device device;
  Grouped conv(kNan);
  conv.attrs.activation = {"sigmoid", 7};
  const Outcome outcome = run(device, conv.call());
  ASSERT_EQ(outcome.kernel, "conv_f32_onednn") << testing::PrintToString(outcome.refusals);
  EXPECT_TRUE(std::isnan(outcome.output.at({0, 0, 1, 1})));
  Call on_x = conv.call();
  on_x.inputs[0] = make_tensor(BP_DTYPE_F32, {2, 4, 5, 5}, Values(200, kNan));
  on_x.inputs[1] = make_tensor(BP_DTYPE_F32, {4, 2, 3, 3}, Values(72, 1.0));
  for (const double value : run(device, on_x).output.values()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace bp::cpu_test
