// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of the oracle against values worked out by hand.
#include <cmath>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

/// Mean 5, variance 5: deviations of -3, -1, 1, 3 over sqrt(5 + 4) = 3.
const std::vector<double> kFour = {2, 4, 6, 8};

TEST(OracleLayerNorm, LastAxis_ByHand) {
  bp_attrs_layer_norm attributes = bp_attrs_layer_norm_defaults();
  attributes.epsilon = 4;
  const auto y = evaluated("layer_norm",
                           {doubles({1, 4}, kFour), doubles({4}, {3, 6, 9, 12}), doubles({1}, {1})},
                           &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(-2, -1, 4, 13));
}

TEST(OracleLayerNorm, SeveralAxes_AreOneSet) {
  bp_attrs_layer_norm attributes = bp_attrs_layer_norm_defaults();
  attributes.epsilon = 4;
  attributes.axis = 1;
  const auto y = evaluated("layer_norm",
                           {doubles({2, 2, 2}, {2, 4, 6, 8, 8, 6, 4, 2}), doubles({2, 1}, {3, 6})},
                           &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(-3, -1, 2, 6, 3, 1, -2, -6));
}

TEST(OracleLayerNorm, OneElementAndNone_AreDefined) {
  EXPECT_THAT(values_of(evaluated("layer_norm",
                                  {floats({2, 1}, {7, -7}), floats({1}, {5}), floats({1}, {3})})),
              ElementsAre(3, 3));
  EXPECT_THAT(values_of(evaluated("layer_norm", {floats({0, 4}, {}), floats({}, {1})})),
              ElementsAre());
  EXPECT_THAT(values_of(evaluated("layer_norm", {floats({4, 0}, {}), floats({}, {1})})),
              ElementsAre());
}

TEST(OracleLayerNorm, NanAndInfinity_SpoilTheirRowOnly) {
  const auto y = values_of(
      evaluated("layer_norm", {floats({3, 2}, {kNan, 1, kInf, 1, 1, 1}), floats({}, {1})}));
  EXPECT_THAT((std::vector(y.begin(), y.begin() + 4)), Each(IsNan()));
  EXPECT_THAT((std::vector(y.begin() + 4, y.end())), ElementsAre(0, 0));
}

TEST(OracleRmsNorm, LastAxis_ByHand) {
  bp_attrs_rms_norm attributes = bp_attrs_rms_norm_defaults();
  attributes.epsilon = 3.5;
  // The mean of 9 and 16 is 12.5, and its root with epsilon 4.
  const auto y =
      evaluated("rms_norm", {doubles({1, 2}, {3, -4}), doubles({2}, {8, 2})}, &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(6, -2));
}

TEST(OracleInstanceNorm, EachChannelOfEachImage_ByHand) {
  bp_attrs_instance_norm attributes = bp_attrs_instance_norm_defaults();
  attributes.epsilon = 4;
  const auto y = evaluated("instance_norm",
                           {doubles({1, 2, 4}, {2, 4, 6, 8, 20, 40, 60, 80}), doubles({2}, {3, 0}),
                            doubles({2}, {1, 7})},
                           &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(-2, 0, 2, 4, 7, 7, 7, 7));
}

TEST(OracleGroupNorm, ChannelsOfAGroup_AreOneSet) {
  bp_attrs_group_norm attributes = bp_attrs_group_norm_defaults();
  attributes.num_groups = 2;
  attributes.epsilon = 4;
  const auto y = evaluated("group_norm",
                           {doubles({1, 4, 2}, {2, 4, 6, 8, 8, 6, 4, 2}),
                            doubles({4}, {3, 6, 3, 6}), doubles({4}, {0, 0, 1, 0})},
                           &attributes);
  EXPECT_THAT(values_of(y), ElementsAre(-3, -1, 2, 6, 4, 2, -2, -6));
}

TEST(InferLrn, BadArguments_AreNamed) {
  bp_attrs_lrn attributes = bp_attrs_lrn_defaults();
  attributes.size = 3;
  EXPECT_EQ(inferred("lrn", {f32({kN, 4, 5})}, &attributes), "f32[s0, 4, 5]");
  EXPECT_EQ(inferred("lrn", {f32({4})}, &attributes),
            "lrn: input 'x': expected rank 2 or more, found [4]");
  attributes.beta = kInf;
  EXPECT_EQ(inferred("lrn", {f32({2, 4})}, &attributes),
            "lrn: attribute 'beta': expected a finite number, found inf");
  attributes.size = 0;
  EXPECT_EQ(inferred("lrn", {f32({2, 4})}, &attributes),
            "lrn: attribute 'size': expected 1 or more, found 0");
}

/// Of an even size the window reaches further behind than before.
TEST(OracleLrn, NeighbouringChannels_AreSummed) {
  bp_attrs_lrn attributes = bp_attrs_lrn_defaults();
  attributes.size = 2;
  attributes.alpha = 2;
  attributes.beta = 1;
  attributes.bias = 1;
  // Sums of squares: 1 + 4, 4 + 9, 9.
  EXPECT_THAT(values_of(evaluated("lrn", {doubles({1, 3}, {1, 2, 3})}, &attributes)),
              ElementsAre(1.0 / 6, 2.0 / 14, 3.0 / 10));
  attributes.size = 3;
  attributes.alpha = 3;
  EXPECT_THAT(values_of(evaluated("lrn", {doubles({1, 3, 2}, {1, 0, 2, 1, 3, 0})}, &attributes)),
              ElementsAre(1.0 / 6, 0, 2.0 / 15, 1.0 / 2, 3.0 / 14, 0));
}

}  // namespace
}  // namespace bp::ops
