// SPDX-License-Identifier: Apache-2.0
//
// Inference of `reduce`: axes that may not be known yet.
#include <gtest/gtest.h>

#include <array>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

TensorType axes_type(int64_t count) { return typed(BP_DTYPE_I64, {count}); }

std::string reduced(const TensorType& x, const std::vector<int64_t>& axes,
                    const bp_attrs_reduce& attributes) {
  return inferred("reduce", {x, axes_type(static_cast<int64_t>(axes.size()))}, &attributes,
                  {nullptr, axes.data()});
}

TEST(InferReduce, KnownAxes_GiveTheSizes) {
  bp_attrs_reduce attributes = bp_attrs_reduce_defaults();
  EXPECT_EQ(reduced(f32({2, kN, 4}), {1, -1}, attributes), "f32[2, 1, 1]");
  EXPECT_EQ(reduced(f32({2, 3}), {}, attributes), "f32[1, 1]");
  EXPECT_EQ(inferred("reduce", {f32({2, 3})}, &attributes), "f32[1, 1]");
  attributes.keepdims = 0;
  EXPECT_EQ(reduced(f32({2, kN, 4}), {0}, attributes), "f32[s0, 4]");
  EXPECT_EQ(reduced(f32({2, 3}), {}, attributes), "f32[]");
  attributes.noop_with_empty_axes = 1;
  EXPECT_EQ(reduced(f32({2, kN}), {}, attributes), "f32[2, s0]");
}

TEST(InferReduce, UnknownAxes_GiveTheRankWhereTheyCan) {
  bp_attrs_reduce attributes = bp_attrs_reduce_defaults();
  EXPECT_EQ(inferred("reduce", {f32({2, 3}), axes_type(kU)}, &attributes), "f32[?, ?]");
  EXPECT_EQ(inferred("reduce", {no_rank(), axes_type(1)}, &attributes), "f32[...]");
  attributes.keepdims = 0;
  EXPECT_EQ(inferred("reduce", {f32({2, 3}), axes_type(1)}, &attributes), "f32[?]");
  EXPECT_EQ(inferred("reduce", {f32({2, 3}), axes_type(kU)}, &attributes), "f32[...]");
}

TEST(InferReduce, BadInput_IsNamed) {
  bp_attrs_reduce attributes = bp_attrs_reduce_defaults();
  EXPECT_EQ(reduced(f32({2, 3}), {2}, attributes),
            "reduce: input 'axes': expected -2 to 1, found 2");
  EXPECT_EQ(reduced(f32({2, 3}), {0, -2}, attributes),
            "reduce: input 'axes': expected each axis once, found -2 again");
  EXPECT_EQ(inferred("reduce", {f32({2}), axes_type(3)}, &attributes),
            "reduce: input 'axes': expected up to 1 values, found 3");
  EXPECT_EQ(inferred("reduce", {f32({2}), typed(BP_DTYPE_I64, {})}, &attributes),
            "reduce: input 'axes': expected rank 1, found []");
  EXPECT_EQ(inferred("reduce", {f32({2}), axes_type(17)}, &attributes),
            "reduce: input 'axes': expected up to 16 values, found 17");
  attributes.kind = {"gemm", 4};
  EXPECT_EQ(inferred("reduce", {f32({2})}, &attributes),
            "reduce: attribute 'kind': expected the name of a reduction, found 'gemm'");
}

}  // namespace
}  // namespace bp::ops
