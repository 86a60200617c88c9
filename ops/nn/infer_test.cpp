// SPDX-License-Identifier: Apache-2.0
//
// Inference of convolution, pooling, batch normalisation and softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

/// Attributes of a convolution whose lists live with it.
struct Conv {
  std::vector<int64_t> strides{};
  std::vector<int64_t> pads{};
  std::vector<int64_t> dilations{};
  int64_t group = 1;

  std::string infer(const std::vector<TensorType>& inputs) const {
    bp_attrs_conv attributes = bp_attrs_conv_defaults();
    attributes.strides = list(strides);
    attributes.pads = list(pads);
    attributes.dilations = list(dilations);
    attributes.group = group;
    return inferred("conv", inputs, &attributes);
  }
};

struct Pool {
  std::vector<int64_t> kernel{};
  std::vector<int64_t> strides{};
  std::vector<int64_t> pads{};
  std::vector<int64_t> dilations{};
  bool ceil_mode = false;

  std::string infer(const TensorType& x) const {
    bp_attrs_max_pool attributes = bp_attrs_max_pool_defaults();
    attributes.kernel_shape = list(kernel);
    attributes.strides = list(strides);
    attributes.pads = list(pads);
    attributes.dilations = list(dilations);
    attributes.ceil_mode = ceil_mode ? 1 : 0;
    return inferred("max_pool", {x}, &attributes);
  }
};

TEST(InferConv, Sizes_FollowTheFormula) {
  EXPECT_EQ(Conv{}.infer({f32({2, 3, 8, 8}), f32({16, 3, 3, 3})}), "f32[2, 16, 6, 6]");
  EXPECT_EQ((Conv{.pads = {1, 1, 1, 1}}.infer({f32({2, 3, 8, 8}), f32({16, 3, 3, 3})})),
            "f32[2, 16, 8, 8]");
  EXPECT_EQ((Conv{.strides = {2, 3}}.infer({f32({1, 1, 8, 8}), f32({1, 1, 3, 3})})),
            "f32[1, 1, 3, 2]");
  EXPECT_EQ((Conv{.dilations = {2}}.infer({f32({1, 1, 9}), f32({4, 1, 3})})), "f32[1, 4, 5]");
  EXPECT_EQ((Conv{.pads = {0, 2}}.infer({f32({1, 1, 3}), f32({4, 1, 3})})), "f32[1, 4, 3]");
  EXPECT_EQ((Conv{.group = 3}.infer({f32({1, 6, 3, 3, 3}), f32({9, 2, 1, 1, 1})})),
            "f32[1, 9, 3, 3, 3]");
  EXPECT_EQ(Conv{}.infer({f32({0, 3, 8}), f32({16, 3, 3}), f32({16})}), "f32[0, 16, 6]");
}

TEST(InferConv, UnknownSizes_Propagate) {
  EXPECT_EQ(Conv{}.infer({f32({kN, 3, kU, 8}), f32({16, 3, 3, 3})}), "f32[s0, 16, ?, 6]");
  EXPECT_EQ((Conv{.pads = {1, 1}}.infer({f32({kN, 3, kM}), f32({16, 3, 3})})), "f32[s0, 16, s1]");
  EXPECT_EQ(Conv{}.infer({no_rank(), f32({16, 3, 3})}), "f32[?, 16, ?]");
  EXPECT_EQ(Conv{}.infer({f32({2, 3, 8}), no_rank(), f32({16})}), "f32[2, 16, ?]");
  EXPECT_EQ(Conv{}.infer({no_rank(), no_rank()}), "f32[...]");
}

TEST(InferConv, BadChannels_AreNamed) {
  EXPECT_EQ(Conv{}.infer({f32({1, 4, 8, 8}), f32({16, 3, 3, 3})}),
            "conv: input 'w': expected size 4 in dimension 1 (channels of x per group), found [16, "
            "3, 3, 3]");
  EXPECT_EQ((Conv{.group = 2}.infer({f32({1, 3, 8}), f32({4, 1, 3})})),
            "conv: input 'x': expected channels (dimension 1) that are a multiple of 2 groups, "
            "found [1, 3, 8]");
  EXPECT_EQ((Conv{.group = 2}.infer({f32({1, 2, 8}), f32({3, 1, 3})})),
            "conv: input 'w': expected output channels (dimension 0) that are a multiple of 2 "
            "groups, found [3, 1, 3]");
  EXPECT_EQ((Conv{.group = 0}.infer({f32({1, 2, 8}), f32({3, 2, 3})})),
            "conv: attribute 'group': expected 1 or more, found 0");
  EXPECT_EQ(Conv{}.infer({f32({1, 2, 8}), f32({3, 2, 3}), f32({2})}),
            "conv: input 'b': expected size 3, found [2]");
  EXPECT_EQ(Conv{}.infer({f32({1, 2, 8}), f32({3, 2, 3}), f32({3, 1})}),
            "conv: input 'b': expected rank 1, found [3, 1]");
}

TEST(InferConv, BadRanks_AreNamed) {
  EXPECT_EQ(Conv{}.infer({f32({1, 4}), f32({16, 4})}),
            "conv: input 'x': expected rank 3 or more, found [1, 4]");
  EXPECT_EQ(Conv{}.infer({f32({1, 4, 8, 8}), f32({16, 4, 3})}),
            "conv: input 'w': expected rank 4, found [16, 4, 3]");
}

TEST(InferConv, BadLists_AreNamed) {
  const std::vector<TensorType> inputs{f32({1, 1, 8, 8}), f32({1, 1, 3, 3})};
  EXPECT_EQ((Conv{.strides = {1}}.infer(inputs)),
            "conv: attribute 'strides': expected 2 values, found 1");
  EXPECT_EQ((Conv{.strides = {1, 0}}.infer(inputs)),
            "conv: attribute 'strides': expected values from 1 to 2147483647, found 0");
  EXPECT_EQ((Conv{.pads = {1, 1}}.infer(inputs)),
            "conv: attribute 'pads': expected 4 values, found 2");
  EXPECT_EQ((Conv{.pads = {1, 1, 1, -1}}.infer(inputs)),
            "conv: attribute 'pads': expected values from 0 to 2147483647, found -1");
  EXPECT_EQ((Conv{.dilations = {1, int64_t{1} << 31}}.infer(inputs)),
            "conv: attribute 'dilations': expected values from 1 to 2147483647, found 2147483648");
}

std::string infer_activated(std::string_view name, double alpha, double beta,
                            const std::vector<TensorType>& inputs = {f32({1, 1, 4, 4}),
                                                                     f32({2, 1, 3, 3})}) {
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  attributes.activation = {name.data(), name.size()};
  attributes.activation_alpha = alpha;
  attributes.activation_beta = beta;
  return inferred("conv", inputs, &attributes);
}

TEST(InferConv, Activations_AreChecked) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(infer_activated("relu", 0, 0), "f32[1, 2, 2, 2]");
  EXPECT_EQ(infer_activated("hard_sigmoid", 0.25, 0.5), "f32[1, 2, 2, 2]");
  EXPECT_EQ(infer_activated("clip", -kInf, kInf), "f32[1, 2, 2, 2]");
  EXPECT_EQ(infer_activated("rleu", 0, 0),
            "conv: attribute 'activation': expected relu, leaky_relu, elu, clip, sigmoid, "
            "hard_sigmoid, tanh, swish, hard_swish, mish, gelu, gelu_tanh, or nothing, found "
            "'rleu'");
  EXPECT_EQ(infer_activated("", 0.5, 0),
            "conv: attribute 'activation_alpha': expected 0 beside activation '', found 0.500000");
  EXPECT_EQ(infer_activated("leaky_relu", 0.5, 1),
            "conv: attribute 'activation_beta': expected 0 beside activation 'leaky_relu', found "
            "1.000000");
  EXPECT_EQ(infer_activated("elu", kInf, 0),
            "conv: attribute 'activation_alpha': expected a finite number, found inf");
  EXPECT_EQ(infer_activated("clip", 0, std::nan("")),
            "conv: attribute 'activation_beta': expected a number, found nan");
}

TEST(InferConv, AnAddend_HasTheSizesOfY) {
  const TensorType x = f32({1, 1, 4, 4});
  const TensorType w = f32({2, 1, 3, 3});
  EXPECT_EQ(infer_activated("", 0, 0, {x, w, TensorType{}, f32({1, 2, 2, 2})}), "f32[1, 2, 2, 2]");
  EXPECT_EQ(infer_activated("", 0, 0, {f32({kN, 1, 4, 4}), w, TensorType{}, f32({3, 2, 2, 2})}),
            "f32[3, 2, 2, 2]");
  EXPECT_EQ(infer_activated("", 0, 0, {x, w, TensorType{}, f32({1, 2, 1, 1})}),
            "conv: input 'addend': expected sizes [1, 2, 2, 2], found [1, 2, 1, 1]");
  EXPECT_EQ(infer_activated("", 0, 0, {x, w, TensorType{}, f32({2, 2, 2})}),
            "conv: input 'addend': expected sizes [1, 2, 2, 2], found [2, 2, 2]");
}

TEST(InferMatmul, AnAddend_Broadcasts) {
  const auto infer = [](const TensorType& addend) {
    return inferred("matmul", {f32({2, 3, 4}), f32({4, 5}), addend}, nullptr);
  };
  EXPECT_EQ(infer(f32({5})), "f32[2, 3, 5]");
  EXPECT_EQ(infer(f32({2, 1, 1})), "f32[2, 3, 5]");
  EXPECT_EQ(infer(f32({1, 2, 3, 5})),
            "matmul: input 'addend': expected sizes that broadcast to [2, 3, 5], found [1, 2, 3, "
            "5]");
  EXPECT_EQ(infer(f32({3})),
            "matmul: input 'addend': expected sizes that broadcast to [2, 3, 5], found [3]");
}

TEST(InferConv, KernelThatDoesNotFit_IsShown) {
  EXPECT_EQ(
      (Conv{.pads = {0, 1}, .dilations = {3}}.infer({f32({1, 1, 5}), f32({1, 1, 3})})),
      "conv: input 'x': spatial dimension 0 of size 5 plus padding 1 has no room for a window "
      "of 7");
  EXPECT_EQ(Conv{}.infer({f32({1, 1, 5}), f32({1, 1, 0})}),
            "conv: input 'w': expected kernel sizes from 1 to 2147483647, found [0]");
}

/// Windows reach beyond the input, so a size near 2^63 would overflow; a zero beside it makes the
/// number of elements fit.
TEST(InferWindow, ZeroBesideHugeSize_IsRefused) {
  const TensorType x = f32({0, 1, INT64_MAX});
  const std::string words =
      "input 'x': sizes [0, 1, 9223372036854775807] have more elements than "
      "can be counted";
  EXPECT_EQ((Conv{.pads = {1, 1}}.infer({x, f32({1, 1, 1})})), "conv: " + words);
  for (const bool ceil_mode : {false, true}) {
    const Pool pool{.kernel = {1}, .strides = {2}, .pads = {0, 1}, .ceil_mode = ceil_mode};
    EXPECT_EQ(pool.infer(x), "max_pool: " + words);
    EXPECT_EQ(pool.infer(f32({0, 1, INT64_MAX / 16})), "f32[0, 1, 288230376151711744]");
  }
}

TEST(InferMaxPool, FloorAndCeil_FollowOnnx) {
  EXPECT_EQ((Pool{.kernel = {2, 2}, .strides = {2, 2}}.infer(f32({1, 4, 8, 7}))),
            "f32[1, 4, 4, 3]");
  EXPECT_EQ((Pool{.kernel = {2, 2}, .strides = {2, 2}, .ceil_mode = true}.infer(f32({1, 4, 8, 7}))),
            "f32[1, 4, 4, 4]");
  // The last window would start in the end padding, so it is left out.
  EXPECT_EQ((Pool{.kernel = {1}, .strides = {2}, .ceil_mode = true}.infer(f32({1, 1, 2}))),
            "f32[1, 1, 1]");
  EXPECT_EQ((Pool{.kernel = {2}, .strides = {3}, .pads = {0, 1}, .ceil_mode = true}.infer(
                f32({1, 1, 3}))),
            "f32[1, 1, 1]");
  // One window that hangs over the end.
  EXPECT_EQ((Pool{.kernel = {3}, .strides = {2}, .ceil_mode = true}.infer(f32({1, 1, 2}))),
            "f32[1, 1, 1]");
  EXPECT_EQ((Pool{.kernel = {3}, .pads = {1, 1}, .dilations = {2}}.infer(f32({1, 1, 8}))),
            "f32[1, 1, 6]");
}

TEST(InferMaxPool, UnknownSizes_Propagate) {
  EXPECT_EQ((Pool{.kernel = {2, 2}, .strides = {2, 2}}.infer(f32({kN, kM, kU, 8}))),
            "f32[s0, s1, ?, 4]");
  EXPECT_EQ((Pool{.kernel = {2}}.infer(no_rank(BP_DTYPE_I8))), "i8[?, ?, ?]");
}

TEST(InferMaxPool, BadArguments_AreNamed) {
  EXPECT_EQ(Pool{}.infer(f32({1, 1, 8})),
            "max_pool: attribute 'kernel_shape': expected 1 to 14 values, found 0");
  EXPECT_EQ((Pool{.kernel = {2}}.infer(f32({1, 1, 8, 8}))),
            "max_pool: input 'x': expected rank 3, two more than kernel_shape has values, found "
            "[1, 1, 8, 8]");
  EXPECT_EQ((Pool{.kernel = {-1}}.infer(f32({1, 1, 8}))),
            "max_pool: attribute 'kernel_shape': expected 1 or more, found -1");
  EXPECT_EQ((Pool{.kernel = {9}}.infer(f32({1, 1, 8}))),
            "max_pool: input 'x': spatial dimension 0 of size 8 plus padding 0 has no room for a "
            "window of 9");
  EXPECT_NE(inferred("max_pool", {f32({1, 1, 8})}).find("'kernel_shape' of type i64s is required"),
            std::string::npos);
}

TEST(InferBatchNorm, Sizes_AreThoseOfX) {
  const TensorType c = f32({3});
  EXPECT_EQ(inferred("batch_norm", {f32({kN, 3, 4}), c, c, c, c}), "f32[s0, 3, 4]");
  EXPECT_EQ(inferred("batch_norm", {f32({2, kU}), c, c, c, c}), "f32[2, 3]");
  EXPECT_EQ(inferred("batch_norm", {no_rank(), c, c, c, c}), "f32[...]");
}

TEST(InferBatchNorm, BadArguments_AreNamed) {
  const TensorType c = f32({3});
  EXPECT_EQ(inferred("batch_norm", {f32({2, 4}), f32({4}), c, f32({4}), f32({4})}),
            "batch_norm: input 'bias': expected size 4, one per channel of x, found [3]");
  EXPECT_EQ(inferred("batch_norm", {f32({3}), c, c, c, c}),
            "batch_norm: input 'x': expected rank 2 or more, found [3]");
  EXPECT_EQ(inferred("batch_norm", {f32({2, 3}), c, c, f32({3, 1}), c}),
            "batch_norm: input 'mean': expected rank 1, found [3, 1]");
  bp_attrs_batch_norm attributes = bp_attrs_batch_norm_defaults();
  attributes.epsilon = -1;
  EXPECT_NE(inferred("batch_norm", {f32({2, 3}), c, c, c, c}, &attributes).find("'epsilon'"),
            std::string::npos);
  attributes.epsilon = std::nan("");
  EXPECT_NE(inferred("batch_norm", {f32({2, 3}), c, c, c, c}, &attributes).find("'epsilon'"),
            std::string::npos);
}

TEST(InferSoftmax, Axis_IsChecked) {
  bp_attrs_softmax attributes = bp_attrs_softmax_defaults();
  EXPECT_EQ(inferred("softmax", {f32({kN, 10})}, &attributes), "f32[s0, 10]");
  attributes.axis = -3;
  EXPECT_EQ(inferred("softmax", {f32({kN, 10})}, &attributes),
            "softmax: attribute 'axis': expected -2 to 1, found -3");
  EXPECT_EQ(inferred("softmax", {no_rank()}, &attributes), "f32[...]");
  EXPECT_NE(inferred("softmax", {f32({})}).find("rank 0"), std::string::npos);
}

}  // namespace
}  // namespace bp::ops
