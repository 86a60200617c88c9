// SPDX-License-Identifier: Apache-2.0
//
// Inference of elementwise operators, matrix products and reductions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

TEST(InferBinary, KnownSizes_Broadcast) {
  EXPECT_EQ(inferred("add", {f32({2, 3}), f32({2, 3})}), "f32[2, 3]");
  EXPECT_EQ(inferred("sub", {f32({4, 1, 3}), f32({2, 1})}), "f32[4, 2, 3]");
  EXPECT_EQ(inferred("mul", {f32({}), f32({5})}), "f32[5]");
  EXPECT_EQ(inferred("div", {f32({}), f32({})}), "f32[]");
  EXPECT_EQ(inferred("max", {f32({0, 3}), f32({1, 3})}), "f32[0, 3]");
  EXPECT_EQ(inferred("add", {f32({0}), f32({1})}), "f32[0]");
}

TEST(InferBinary, UnknownSizes_FollowTheRules) {
  EXPECT_EQ(inferred("add", {f32({kN}), f32({kN})}), "f32[s0]");
  EXPECT_EQ(inferred("add", {f32({kN}), f32({1})}), "f32[s0]");
  EXPECT_EQ(inferred("add", {f32({7}), f32({kN})}), "f32[7]");
  EXPECT_EQ(inferred("add", {f32({kN}), f32({kM})}), "f32[?]");
  EXPECT_EQ(inferred("add", {f32({kU}), f32({kN})}), "f32[?]");
  EXPECT_EQ(inferred("add", {f32({kU, 2}), f32({1, 2})}), "f32[?, 2]");
  EXPECT_EQ(inferred("add", {f32({kU}), f32({0})}), "f32[0]");
  EXPECT_EQ(inferred("add", {f32({2}), no_rank()}), "f32[...]");
}

TEST(InferBinary, SizesThatDoNotFit_AreShown) {
  EXPECT_EQ(inferred("add", {f32({2, 3}), f32({2, 4})}),
            "add: inputs 'a' and 'b': expected sizes that broadcast (each pair, counted from the "
            "end, equal or with a 1), found [2, 3] and [2, 4]");
  EXPECT_NE(inferred("add", {f32({0}), f32({2})}).find("sizes that broadcast"), std::string::npos);
}

TEST(InferBinary, Overflow_IsRefused) {
  constexpr int64_t kBig = int64_t{1} << 40;
  EXPECT_EQ(inferred("add", {f32({kBig, 1}), f32({1, kBig})}),
            "add: output 'y': sizes [1099511627776, 1099511627776] have more elements than can be "
            "counted");
}

TEST(InferBinary, BoolAndMixedDtypes_AreRefused) {
  EXPECT_EQ(inferred("add", {f32({2}), typed(BP_DTYPE_F64, {2})}),
            "add: input 'b': expected dtype f32 like input 'a', found f64");
  EXPECT_NE(
      inferred("max", {typed(BP_DTYPE_BOOL, {}), typed(BP_DTYPE_BOOL, {})}).find("found bool"),
      std::string::npos);
}

TEST(InferUnary, Sizes_Stay) {
  EXPECT_EQ(inferred("relu", {typed(BP_DTYPE_I8, {kN, 3})}), "i8[s0, 3]");
  EXPECT_EQ(inferred("exp", {f32({})}), "f32[]");
  EXPECT_EQ(inferred("sqrt", {f32({0, kU})}), "f32[0, ?]");
  EXPECT_EQ(inferred("reciprocal", {no_rank(BP_DTYPE_F16)}), "f16[...]");
  EXPECT_EQ(inferred("relu", {typed(BP_DTYPE_U8, {1})}),
            "relu: input 'x': expected a dtype of {i8, i16, i32, i64, f16, bf16, f32, f64}, found "
            "u8");
}

TEST(InferCast, OutputDtype_IsTheAttribute) {
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = BP_DTYPE_BOOL;
  EXPECT_EQ(inferred("cast", {f32({2, kN})}, &attributes), "bool[2, s0]");
  EXPECT_EQ(inferred("cast", {no_rank()}, &attributes), "bool[...]");
}

TEST(InferCast, BadDtype_IsNamed) {
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  EXPECT_EQ(inferred("cast", {f32({2})}, &attributes),
            "cast: attribute 'to': expected a dtype, found code 0");
  attributes.to = -3;
  EXPECT_EQ(inferred("cast", {f32({2})}, &attributes),
            "cast: attribute 'to': expected a dtype, found code -3");
  attributes.to = BP_DTYPE_C64;
  EXPECT_NE(inferred("cast", {f32({2})}, &attributes).find("found c64"), std::string::npos);
  EXPECT_NE(inferred("cast", {f32({2})}).find("'to' of type dtype is required"), std::string::npos);
}

TEST(InferMatmul, Ranks_FollowNumPy) {
  EXPECT_EQ(inferred("matmul", {f32({2, 3}), f32({3, 4})}), "f32[2, 4]");
  EXPECT_EQ(inferred("matmul", {f32({3}), f32({3})}), "f32[]");
  EXPECT_EQ(inferred("matmul", {f32({3}), f32({5, 3, 4})}), "f32[5, 4]");
  EXPECT_EQ(inferred("matmul", {f32({5, 2, 3}), f32({3})}), "f32[5, 2]");
  EXPECT_EQ(inferred("matmul", {f32({6, 1, 2, 3}), f32({5, 3, 4})}), "f32[6, 5, 2, 4]");
  EXPECT_EQ(inferred("matmul", {f32({2, 0}), f32({0, 4})}), "f32[2, 4]");
}

TEST(InferMatmul, UnknownSizes_Propagate) {
  EXPECT_EQ(inferred("matmul", {f32({kN, 3}), f32({3, kM})}), "f32[s0, s1]");
  EXPECT_EQ(inferred("matmul", {f32({2, kU}), f32({3, 4})}), "f32[2, 4]");
  EXPECT_EQ(inferred("matmul", {f32({2, kN}), f32({kM, 4})}), "f32[2, 4]");
  EXPECT_EQ(inferred("matmul", {no_rank(), f32({3, 4})}), "f32[...]");
}

TEST(InferMatmul, BadSizes_AreNamed) {
  EXPECT_EQ(inferred("matmul", {f32({2, 3}), f32({4, 5})}),
            "matmul: inputs 'a' and 'b': expected equal inner sizes, found 3 of [2, 3] and 4 of "
            "[4, 5]");
  EXPECT_EQ(inferred("matmul", {f32({}), f32({4, 5})}),
            "matmul: input 'a': expected rank 1 or more, found 0");
  EXPECT_EQ(inferred("matmul", {no_rank(), f32({})}),
            "matmul: input 'b': expected rank 1 or more, found 0");
  EXPECT_NE(inferred("matmul", {f32({2, 2, 3}), f32({3, 3, 4})}).find("sizes that broadcast"),
            std::string::npos);
}

TEST(InferGemm, Transposes_TurnSizes) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  EXPECT_EQ(inferred("gemm", {f32({2, 3}), f32({3, 4})}, &attributes), "f32[2, 4]");
  attributes.trans_a = 1;
  EXPECT_EQ(inferred("gemm", {f32({3, 2}), f32({3, 4})}, &attributes), "f32[2, 4]");
  attributes.trans_b = 1;
  EXPECT_EQ(inferred("gemm", {f32({3, kN}), f32({4, 3})}, &attributes), "f32[s0, 4]");
  EXPECT_EQ(inferred("gemm", {no_rank(), f32({4, 3})}, &attributes), "f32[?, 4]");
}

TEST(InferGemm, C_BroadcastsOneWay) {
  const TensorType a = f32({2, 3});
  const TensorType b = f32({3, 4});
  for (const Dims& c :
       {Dims{}, Dims{4}, Dims{1}, Dims{2, 1}, Dims{1, 4}, Dims{2, 4}, Dims{kN, kU}}) {
    EXPECT_EQ(inferred("gemm", {a, b, f32(c)}), "f32[2, 4]") << to_string(c);
  }
  EXPECT_EQ(inferred("gemm", {a, b, no_rank()}), "f32[2, 4]");
  EXPECT_EQ(inferred("gemm", {a, b, TensorType{}}), "f32[2, 4]");
  EXPECT_EQ(inferred("gemm", {a, b, f32({2})}),
            "gemm: input 'c': expected sizes that broadcast to [2, 4], found [2]");
  EXPECT_EQ(inferred("gemm", {f32({1, 3}), b, f32({5, 4})}),
            "gemm: input 'c': expected sizes that broadcast to [1, 4], found [5, 4]");
  EXPECT_NE(inferred("gemm", {a, b, f32({1, 2, 4})}).find("[1, 2, 4]"), std::string::npos);
}

TEST(InferGemm, BadArguments_AreNamed) {
  EXPECT_EQ(inferred("gemm", {f32({2, 3, 4}), f32({3, 4})}),
            "gemm: input 'a': expected rank 2, found [2, 3, 4]");
  EXPECT_NE(inferred("gemm", {f32({2, 3}), f32({2, 3})}).find("inner sizes"), std::string::npos);
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  attributes.alpha = 0.5;
  const TensorType i32 = typed(BP_DTYPE_I32, {2, 2});
  EXPECT_EQ(inferred("gemm", {i32, i32}, &attributes),
            "gemm: attribute 'alpha': expected a whole number up to 2^53, as the dtype is i32, "
            "found 0.500000");
  attributes.alpha = -2;
  EXPECT_EQ(inferred("gemm", {i32, i32}, &attributes), "i32[2, 2]");
  attributes.beta = std::numeric_limits<double>::infinity();
  EXPECT_NE(inferred("gemm", {i32, i32}, &attributes).find("'beta'"), std::string::npos);
}

TEST(InferReduce, Axes_AreRemovedOrKept) {
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  EXPECT_EQ(inferred("reduce_sum", {f32({2, 3, kN})}, &attributes), "f32[1, 1, 1]");
  attributes.keepdims = 0;
  EXPECT_EQ(inferred("reduce_sum", {f32({2, 3, kN})}, &attributes), "f32[]");
  const std::vector<int64_t> axes{-1, 0};
  attributes.axes = list(axes);
  EXPECT_EQ(inferred("reduce_sum", {f32({2, 3, kN})}, &attributes), "f32[3]");
  attributes.keepdims = 1;
  EXPECT_EQ(inferred("reduce_sum", {f32({2, kN, 0})}, &attributes), "f32[1, s0, 1]");
  EXPECT_EQ(inferred("reduce_sum", {no_rank()}, &attributes), "f32[...]");
}

TEST(InferReduce, NoAxesAndNoRank_IsAScalarIfNotKept) {
  bp_attrs_reduce_max attributes = bp_attrs_reduce_max_defaults();
  EXPECT_EQ(inferred("reduce_max", {no_rank()}, &attributes), "f32[...]");
  attributes.keepdims = 0;
  EXPECT_EQ(inferred("reduce_max", {no_rank()}, &attributes), "f32[]");
  EXPECT_EQ(inferred("reduce_max", {f32({})}, &attributes), "f32[]");
}

TEST(InferReduce, BadAxes_AreNamed) {
  bp_attrs_reduce_max attributes = bp_attrs_reduce_max_defaults();
  const std::vector<int64_t> beyond{0, 2};
  const std::vector<int64_t> twice{1, -1};
  const std::vector<int64_t> zero{0};
  attributes.axes = list(beyond);
  EXPECT_EQ(inferred("reduce_max", {f32({2, 3})}, &attributes),
            "reduce_max: attribute 'axes': expected -2 to 1, found 2");
  attributes.axes = list(twice);
  EXPECT_EQ(inferred("reduce_max", {f32({2, 3})}, &attributes),
            "reduce_max: attribute 'axes': expected each axis once, found -1 again");
  attributes.axes = list(zero);
  EXPECT_EQ(inferred("reduce_max", {f32({})}, &attributes),
            "reduce_max: attribute 'axes': expected none, as the input has rank 0, found 0");
}

}  // namespace
}  // namespace bp::ops
