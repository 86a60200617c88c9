// SPDX-License-Identifier: Apache-2.0
//
// What inference says of operators that look for extreme values, and of what is wrong.
#include <gtest/gtest.h>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

std::string largest(const TensorType& x, int64_t axis, bool keepdims) {
  bp_attrs_argmax attributes = bp_attrs_argmax_defaults();
  attributes.axis = axis;
  attributes.keepdims = keepdims ? 1 : 0;
  return inferred("argmax", {x}, &attributes);
}

TEST(InferArgmax, Axis_BecomesOneOrGoes) {
  EXPECT_EQ(largest(f32({2, 3, 4}), 1, true), "i64[2, 1, 4]");
  EXPECT_EQ(largest(f32({2, kN, 4}), -1, false), "i64[2, s0]");
  EXPECT_EQ(largest(typed(BP_DTYPE_U8, {kN}), 0, false), "i64[]");
  EXPECT_EQ(largest(f32({0, 3}), 1, true), "i64[0, 1]");
  EXPECT_EQ(largest(no_rank(), 9, true), "i64[...]");
}

TEST(InferArgmax, BadArguments_AreNamed) {
  EXPECT_EQ(largest(f32({2, 3}), 2, true), "argmax: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_NE(largest(f32({}), 0, true).find("rank 0"), std::string::npos);
  EXPECT_EQ(largest(f32({2, 0}), 1, true),
            "argmax: input 'x': dimension 1 of [2, 0] has no elements to choose from");
  EXPECT_NE(largest(typed(BP_DTYPE_BOOL, {2}), 0, true).find("found bool"), std::string::npos);
}

TEST(InferArgmin, BadAxis_IsNamed) {
  bp_attrs_argmin attributes = bp_attrs_argmin_defaults();
  EXPECT_EQ(inferred("argmin", {f32({2, 3})}, &attributes), "i64[1, 3]");
  attributes.axis = -3;
  EXPECT_EQ(inferred("argmin", {f32({2, 3})}, &attributes),
            "argmin: attribute 'axis': expected -2 to 1, found -3");
}

}  // namespace
}  // namespace bp::ops
