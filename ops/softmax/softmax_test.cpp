// SPDX-License-Identifier: Apache-2.0
//
// Softmax's relatives: inference, and values worked out by hand. That the decompositions give the
// same is seen with every operator's.
#include "backplane/ops/softmax.h"

#include <cmath>

#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

template <class Attributes>
Attributes along(Attributes attributes, int64_t axis) {
  attributes.axis = axis;
  return attributes;
}

TEST(InferSoftmaxFamily, SizesAreKept_AxisIsChecked) {
  const auto first = along(bp_attrs_log_softmax_defaults(), -2);
  EXPECT_EQ(inferred("log_softmax", {f32({kN, 3})}, &first), "f32[s0, 3]");
  EXPECT_EQ(inferred("log_softmax", {no_rank()}), "f32[...]");
  const auto none = along(bp_attrs_log_softmax_defaults(), 2);
  EXPECT_EQ(inferred("log_softmax", {f32({2, 3})}, &none),
            "log_softmax: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(inferred("hardmax", {f32({2, 3})}), "f32[2, 3]");
  EXPECT_EQ(inferred("hardmax", {f32({2, 0})}),
            "hardmax: attribute 'axis': expected a dimension with elements, found [2, 0]");
}

TEST(OracleLogSoftmax, Values) {
  const auto rows = evaluated("log_softmax", {floats({2, 2}, {0, std::log(3.0), 1000, 1000})});
  EXPECT_NEAR(rows.to_f64()[0], -std::log(4.0), 1e-6);
  EXPECT_NEAR(rows.to_f64()[1], std::log(0.75), 1e-6);
  EXPECT_NEAR(rows.to_f64()[2], -std::log(2.0), 1e-6);
  const auto columns = along(bp_attrs_log_softmax_defaults(), 0);
  const auto ones = evaluated("log_softmax", {floats({1, 2}, {5, -7})}, &columns);
  EXPECT_THAT(ones.to_f64(), ElementsAre(0, 0));
}

TEST(OracleHardmax, Values) {
  const auto rows = evaluated("hardmax", {floats({2, 3}, {1, 3, 3, -1, kNan, 9})});
  EXPECT_THAT(rows.to_f64(), ElementsAre(0, 1, 0, 0, 1, 0));
  const auto first = along(bp_attrs_hardmax_defaults(), 0);
  EXPECT_THAT(evaluated("hardmax", {floats({2, 2}, {1, 4, 2, 3})}, &first).to_f64(),
              ElementsAre(0, 1, 1, 0));
}

}  // namespace
}  // namespace bp::ops
