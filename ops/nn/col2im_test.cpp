// SPDX-License-Identifier: Apache-2.0
//
// col2im: inference, and the oracle against values worked out by hand.
#include "backplane/ops/nn.h"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OracleTensor zeros(Dims sizes) { return OracleTensor::zeros(BP_DTYPE_F32, sizes); }

TEST(InferCol2Im, WithoutValues_TheRankIsThatOfTheLists) {
  const auto image = typed(BP_DTYPE_I64, {2});
  EXPECT_EQ(inferred("col2im", {f32({2, 12, 6}), image, typed(BP_DTYPE_I64, {kU})}),
            "f32[2, ?, ?, ?]");
  EXPECT_EQ(inferred("col2im", {f32({2, 12, 6}), typed(BP_DTYPE_I64, {kU}), no_rank(BP_DTYPE_I64)}),
            "f32[...]");
  EXPECT_EQ(
      inferred("col2im", {f32({2, 12, 6}), image, typed(BP_DTYPE_I64, {3})}),
      "col2im: input 'block_shape': expected 1 or more sizes, as many as the 2 of image_shape, "
      "found 3");
  bp_attrs_col2im attributes = bp_attrs_col2im_defaults();
  const std::vector<int64_t> bad{0, 1};
  attributes.dilations = list(bad);
  EXPECT_THAT(inferred("col2im", {f32({2, 12, 6}), image, image}, &attributes),
              HasSubstr("attribute 'dilations'"));
}

TEST(InferCol2Im, BadArguments_AreNamed) {
  const auto image = longs({2}, {3, 4});
  const auto block = longs({2}, {2, 2});
  EXPECT_EQ(evaluated("col2im", {zeros({2, 12, 6}), image, block}).sizes, (Dims{2, 3, 3, 4}));
  EXPECT_EQ(refused("col2im", {zeros({2, 10, 6}), image, block}),
            "col2im: input 'x': expected [N, C * 4, 6], found [2, 10, 6]");
  EXPECT_EQ(refused("col2im", {zeros({2, 12, 7}), image, block}),
            "col2im: input 'x': expected [N, C * 4, 6], found [2, 12, 7]");
  EXPECT_EQ(
      refused("col2im", {zeros({2, 12, 6}), image, longs({1}, {4})}),
      "col2im: input 'block_shape': expected 1 or more sizes, as many as the 2 of image_shape, "
      "found 1");
  EXPECT_THAT(refused("col2im", {zeros({2, 12, 6}), longs({2}, {3, 0}), block}),
              HasSubstr("input 'image_shape': expected sizes from 1"));
  EXPECT_THAT(refused("col2im", {zeros({2, 12, 6}), image, longs({2}, {2, -1})}),
              HasSubstr("input 'block_shape': expected sizes from 1"));
  bp_attrs_col2im attributes = bp_attrs_col2im_defaults();
  const std::vector<int64_t> one{1};
  attributes.strides = list(one);
  EXPECT_THAT(refused("col2im", {zeros({2, 12, 6}), image, block}, &attributes),
              HasSubstr("attribute 'strides'"));
}

TEST(OracleCol2Im, BlocksThatOverlap_AreAdded) {
  // Blocks of 2 at positions 0, 1 and 2 of a line of 4: (1, 4), (2, 5), (3, 6).
  EXPECT_THAT(values_of(evaluated("col2im", {floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), longs({1}, {4}),
                                             longs({1}, {2})})),
              ElementsAre(1, 6, 8, 6));
  bp_attrs_col2im attributes = bp_attrs_col2im_defaults();
  const std::vector<int64_t> two{2};
  const std::vector<int64_t> pads{1, 1};
  attributes.strides = list(two);
  attributes.pads = list(pads);
  // With padding the first element and the last fall out.
  EXPECT_THAT(values_of(evaluated(
                  "col2im", {floats({1, 2, 2}, {1, 2, 3, 4}), longs({1}, {2}), longs({1}, {2})},
                  &attributes)),
              ElementsAre(3, 2));
}

TEST(OracleCol2Im, Integers_Wrap) {
  const auto x =
      OracleTensor::from_i64(BP_DTYPE_I8, {1, 2, 2}, std::vector<int64_t>{0, 100, 100, 0});
  EXPECT_THAT(values_of(evaluated("col2im", {x, longs({1}, {3}), longs({1}, {2})})),
              ElementsAre(0, -56, 0));
}

}  // namespace
}  // namespace bp::ops
