// SPDX-License-Identifier: Apache-2.0
//
// Inference of normalizations.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

TEST(InferLayerNorm, Sizes_AreThoseOfX) {
  EXPECT_EQ(inferred("layer_norm", {f32({kN, 3, 4}), f32({4}), f32({4})}), "f32[s0, 3, 4]");
  EXPECT_EQ(inferred("layer_norm", {f32({2, kU}), f32({3})}), "f32[2, ?]");
  EXPECT_EQ(inferred("layer_norm", {no_rank(), f32({4}), f32({4})}), "f32[...]");
  EXPECT_EQ(inferred("layer_norm", {f32({2, 3, 4}), f32({}), f32({3, 1})}), "f32[2, 3, 4]");
  EXPECT_EQ(inferred("layer_norm", {typed(BP_DTYPE_BF16, {0, 4}), typed(BP_DTYPE_BF16, {4})}),
            "bf16[0, 4]");
}

TEST(InferLayerNorm, BadArguments_AreNamed) {
  const auto x = f32({2, 3, 4});
  EXPECT_EQ(inferred("layer_norm", {x, f32({3})}),
            "layer_norm: input 'scale': expected sizes that broadcast to [2, 3, 4], found [3]");
  EXPECT_EQ(inferred("layer_norm", {x, f32({4}), f32({1, 2, 3, 4})}),
            "layer_norm: input 'bias': expected sizes that broadcast to [2, 3, 4], found [1, 2, 3, "
            "4]");
  bp_attrs_layer_norm attributes = bp_attrs_layer_norm_defaults();
  attributes.axis = 3;
  EXPECT_EQ(inferred("layer_norm", {x, f32({4})}, &attributes),
            "layer_norm: attribute 'axis': expected -3 to 2, found 3");
  EXPECT_EQ(inferred("layer_norm", {f32({}), f32({})}),
            "layer_norm: attribute 'axis': expected none, as the input has rank 0, found -1");
  attributes = bp_attrs_layer_norm_defaults();
  attributes.epsilon = -1;
  EXPECT_EQ(inferred("layer_norm", {x, f32({4})}, &attributes),
            "layer_norm: attribute 'epsilon': expected a finite number from 0, found -1.000000");
  EXPECT_NE(inferred("layer_norm", {x, typed(BP_DTYPE_F16, {4})}).find("'scale'"),
            std::string::npos);
}

TEST(InferRmsNorm, Arguments_AreChecked) {
  EXPECT_EQ(inferred("rms_norm", {f32({kN, kM, 64}), f32({64})}), "f32[s0, s1, 64]");
  EXPECT_EQ(inferred("rms_norm", {f32({2, 64}), f32({63})}),
            "rms_norm: input 'scale': expected sizes that broadcast to [2, 64], found [63]");
  bp_attrs_rms_norm attributes = bp_attrs_rms_norm_defaults();
  attributes.epsilon = std::nan("");
  EXPECT_NE(inferred("rms_norm", {f32({2, 64}), f32({64})}, &attributes).find("'epsilon'"),
            std::string::npos);
  attributes = bp_attrs_rms_norm_defaults();
  attributes.axis = -3;
  EXPECT_EQ(inferred("rms_norm", {f32({2, 64}), f32({64})}, &attributes),
            "rms_norm: attribute 'axis': expected -2 to 1, found -3");
}

TEST(InferInstanceNorm, Channels_MustAgree) {
  EXPECT_EQ(inferred("instance_norm", {f32({kN, 3, kU}), f32({3}), f32({3})}), "f32[s0, 3, ?]");
  EXPECT_EQ(inferred("instance_norm", {f32({2, kU, 5}), f32({3}), no_rank()}), "f32[2, 3, 5]");
  EXPECT_EQ(inferred("instance_norm", {f32({2, 3}), f32({3}), f32({3})}),
            "instance_norm: input 'x': expected rank 3 or more, found [2, 3]");
  EXPECT_EQ(inferred("instance_norm", {f32({2, 3, 4}), f32({3}), f32({4})}),
            "instance_norm: input 'bias': expected size 3, one per channel of x, found [4]");
  EXPECT_EQ(inferred("instance_norm", {f32({2, 3, 4}), f32({3, 1}), f32({3})}),
            "instance_norm: input 'scale': expected rank 1, found [3, 1]");
}

TEST(InferGroupNorm, Groups_MustFit) {
  bp_attrs_group_norm attributes = bp_attrs_group_norm_defaults();
  attributes.num_groups = 2;
  EXPECT_EQ(inferred("group_norm", {f32({kN, 4, 5}), f32({4}), f32({4})}, &attributes),
            "f32[s0, 4, 5]");
  EXPECT_EQ(inferred("group_norm", {no_rank(), f32({4}), f32({4})}, &attributes), "f32[...]");
  EXPECT_EQ(inferred("group_norm", {f32({1, 3, 5}), f32({3}), f32({3})}, &attributes),
            "group_norm: input 'x': expected channels (dimension 1) that are a multiple of 2 "
            "groups, found [1, 3, 5]");
  attributes.num_groups = 0;
  EXPECT_EQ(inferred("group_norm", {f32({1, 4, 5}), f32({4}), f32({4})}, &attributes),
            "group_norm: attribute 'num_groups': expected 1 or more, found 0");
}

}  // namespace
}  // namespace bp::ops
