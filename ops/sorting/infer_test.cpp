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

std::string best(const TensorType& x, const int64_t* k, int64_t axis = -1) {
  bp_attrs_top_k attributes = bp_attrs_top_k_defaults();
  attributes.axis = axis;
  return inferred("top_k", {x, typed(BP_DTYPE_I64, {1})}, &attributes, {nullptr, k});
}

TEST(InferTopK, Axis_HasKElements) {
  const int64_t k = 2;
  EXPECT_EQ(best(f32({3, 4}), &k), "f32[3, 2]");
  EXPECT_EQ(best(f32({kN, 4}), &k, 0), "f32[2, 4]");
  EXPECT_EQ(best(f32({3, 4}), nullptr, 0), "f32[?, 4]");
  EXPECT_EQ(best(no_rank(), &k), "f32[...]");
  std::vector<TensorType> outputs;
  const std::vector<TensorType> inputs = {f32({3, 4}), typed(BP_DTYPE_I64, {})};
  const std::vector<const void*> host_data = {nullptr, &k};
  const bp_attrs_top_k attributes = bp_attrs_top_k_defaults();
  ASSERT_TRUE(infer_types(schema_of("top_k"),
                          {.inputs = inputs, .host_data = host_data, .attributes = &attributes},
                          &outputs)
                  .ok());
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[1].dtype, uint32_t{BP_DTYPE_I64});
  EXPECT_EQ(to_string(outputs[1].sizes), "[3, 2]");
}

TEST(InferTopK, BadArguments_AreNamed) {
  const int64_t five = 5;
  const int64_t negative = -1;
  EXPECT_EQ(best(f32({3, 4}), &five),
            "top_k: input 'k': expected at most 4, as dimension 1 of x has, found 5");
  EXPECT_EQ(best(f32({3, 4}), &negative), "top_k: input 'k': expected 0 or more, found -1");
  EXPECT_EQ(best(f32({3, 4}), &five, 2), "top_k: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(inferred("top_k", {f32({3, 4}), typed(BP_DTYPE_I64, {2})}),
            "top_k: input 'k': expected one value, found [2]");
}

std::string sorted(std::string_view op, const TensorType& x, int64_t axis) {
  bp_attrs_sort attributes = bp_attrs_sort_defaults();
  bp_attrs_argsort positions = bp_attrs_argsort_defaults();
  attributes.axis = positions.axis = axis;
  const bool is_sort = op == "sort";
  return inferred(op, {x}, is_sort ? static_cast<const void*>(&attributes) : &positions);
}

TEST(InferSort, Sizes_StayAndPositionsAreI64) {
  EXPECT_EQ(sorted("sort", f32({kN, 4}), 0), "f32[s0, 4]");
  EXPECT_EQ(sorted("sort", typed(BP_DTYPE_U8, {3, 0}), -1), "u8[3, 0]");
  EXPECT_EQ(sorted("argsort", typed(BP_DTYPE_F16, {kN, 4}), -2), "i64[s0, 4]");
  EXPECT_EQ(sorted("argsort", no_rank(), 7), "i64[...]");
}

TEST(InferSort, BadArguments_AreNamed) {
  EXPECT_EQ(sorted("sort", f32({2, 3}), 2), "sort: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(sorted("argsort", f32({2}), -2),
            "argsort: attribute 'axis': expected -1 to 0, found -2");
  EXPECT_NE(sorted("sort", f32({}), 0).find("rank 0"), std::string::npos);
  EXPECT_NE(sorted("sort", typed(BP_DTYPE_BOOL, {2}), 0).find("found bool"), std::string::npos);
}

TEST(InferSearchsorted, Values_GiveTheSizes) {
  EXPECT_EQ(inferred("searchsorted", {f32({9}), f32({2, kN})}), "i64[2, s0]");
  EXPECT_EQ(inferred("searchsorted", {f32({0}), f32({})}), "i64[]");
  EXPECT_EQ(inferred("searchsorted", {f32({2, 3}), f32({2})}),
            "searchsorted: input 'sorted': expected rank 1, found [2, 3]");
  EXPECT_EQ(inferred("searchsorted", {f32({2}), typed(BP_DTYPE_I32, {2})}),
            "searchsorted: input 'values': expected dtype f32 like input 'sorted', found i32");
}

std::string summed(const TensorType& x, const int64_t* axis) {
  return inferred("cumsum", {x, typed(BP_DTYPE_I64, {})}, nullptr, {nullptr, axis});
}

TEST(InferCumsum, Sizes_Stay) {
  const int64_t axis = -2;
  EXPECT_EQ(summed(f32({kN, 4}), &axis), "f32[s0, 4]");
  EXPECT_EQ(summed(f32({3, 4}), nullptr), "f32[3, 4]");
  EXPECT_EQ(summed(no_rank(), &axis), "f32[...]");
  EXPECT_EQ(inferred("cumprod", {f32({3}), typed(BP_DTYPE_I64, {1})}), "f32[3]");
}

TEST(InferCumsum, BadArguments_AreNamed) {
  const int64_t axis = 2;
  EXPECT_EQ(summed(f32({3, 4}), &axis), "cumsum: input 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(summed(f32({}), &axis), "cumsum: input 'x': expected rank 1 or more, found rank 0");
  EXPECT_EQ(inferred("cumprod", {f32({3}), typed(BP_DTYPE_I64, {2})}),
            "cumprod: input 'axis': expected one value, found [2]");
}

}  // namespace
}  // namespace bp::ops
