// SPDX-License-Identifier: Apache-2.0
//
// Inference and views of operators that move elements, and inference of indexing.
#include <gtest/gtest.h>

#include <array>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

std::string reshaped(const TensorType& x, const std::vector<int64_t>& shape,
                     bool allow_zero = false) {
  bp_attrs_reshape attributes = bp_attrs_reshape_defaults();
  attributes.allow_zero = allow_zero ? 1 : 0;
  const TensorType type = typed(BP_DTYPE_I64, {static_cast<int64_t>(shape.size())});
  return inferred("reshape", {x, type}, &attributes, {nullptr, shape.data()});
}

TEST(InferReshape, KnownSizes_AreWorkedOut) {
  EXPECT_EQ(reshaped(f32({2, 3, 4}), {6, 4}), "f32[6, 4]");
  EXPECT_EQ(reshaped(f32({2, 3, 4}), {4, -1}), "f32[4, 6]");
  EXPECT_EQ(reshaped(f32({2, 3, 4}), {0, -1}), "f32[2, 12]");
  EXPECT_EQ(reshaped(f32({2, 3, 4}), {0, 0, 2, 2}), "f32[2, 3, 2, 2]");
  EXPECT_EQ(reshaped(f32({1}), {}), "f32[]");
  EXPECT_EQ(reshaped(f32({}), {1, -1, 1}), "f32[1, 1, 1]");
  EXPECT_EQ(reshaped(typed(BP_DTYPE_BOOL, {2}), {-1}), "bool[2]");
}

TEST(InferReshape, ZeroSizes_AreWorkedOut) {
  EXPECT_EQ(reshaped(f32({0, 3}), {3, 0}, true), "f32[3, 0]");
  EXPECT_EQ(reshaped(f32({0, 3}), {-1, 3}), "f32[0, 3]");
  EXPECT_EQ(reshaped(f32({0, 3, 2}), {0, -1}), "f32[0, 6]");
}

TEST(InferReshape, UnknownSizes_GoThrough) {
  EXPECT_EQ(reshaped(f32({kN, 64, 1, 1}), {0, -1}), "f32[s0, 64]");
  EXPECT_EQ(reshaped(f32({kN, 64, 1, 1}), {-1, 64}), "f32[s0, 64]");
  EXPECT_EQ(reshaped(f32({kN, 4, 4}), {-1, 8}), "f32[?, 8]");
  EXPECT_EQ(reshaped(f32({kN, kM}), {-1}), "f32[?]");
  EXPECT_EQ(reshaped(f32({kN, kM, 6}), {0, 0, 2, -1}), "f32[s0, s1, 2, 3]");
  EXPECT_EQ(reshaped(f32({kN, 4}), {2, 8}), "f32[2, 8]");
  EXPECT_EQ(reshaped(no_rank(), {0, -1, 8}), "f32[?, ?, 8]");
}

TEST(InferReshape, UnknownShape_GivesTheRankAtMost) {
  EXPECT_EQ(inferred("reshape", {f32({2, 3}), typed(BP_DTYPE_I64, {3})}), "f32[?, ?, ?]");
  EXPECT_EQ(inferred("reshape", {f32({2, 3}), typed(BP_DTYPE_I64, {kN})}), "f32[...]");
  EXPECT_EQ(inferred("reshape", {f32({2, 3}), no_rank(BP_DTYPE_I64)}), "f32[...]");
  EXPECT_EQ(inferred("reshape", {f32({1}), typed(BP_DTYPE_I64, {0})}), "f32[]");
}

TEST(InferReshape, BadShapes_AreNamed) {
  EXPECT_EQ(
      reshaped(f32({2, 3}), {4, 2}),
      "reshape: input 'shape': expected as many elements as x of sizes [2, 3] has, found [4, 2]");
  EXPECT_NE(reshaped(f32({2, 3}), {4, -1}).find("of sizes [2, 3] has, found [4, ?]"),
            std::string::npos);
  EXPECT_NE(reshaped(f32({2, 3}), {0, 0, -1, 0}).find("0 in dimension 3"), std::string::npos);
  EXPECT_EQ(reshaped(f32({2, 3}), {-1, -1}),
            "reshape: input 'shape': expected -1 at most once, found it twice");
  EXPECT_EQ(reshaped(f32({2, 3}), {-2, 3}),
            "reshape: input 'shape': expected sizes from -1, found -2");
  EXPECT_NE(reshaped(f32({0, 3}), {0, -1}, true).find("exclude each other"), std::string::npos);
  EXPECT_NE(reshaped(f32({2, 3}), {INT64_MAX, INT64_MAX}).find("expected as many elements as x"),
            std::string::npos);
  EXPECT_EQ(inferred("reshape", {f32({1}), typed(BP_DTYPE_I64, {17})}),
            "reshape: input 'shape': expected up to 16 sizes, found 17");
  EXPECT_EQ(inferred("reshape", {f32({1}), typed(BP_DTYPE_I64, {2, 2})}),
            "reshape: input 'shape': expected rank 1, found [2, 2]");
  EXPECT_NE(inferred("reshape", {f32({1}), typed(BP_DTYPE_I32, {1})}).find("expected dtype i64"),
            std::string::npos);
}

std::string flattened(const TensorType& x, int64_t axis) {
  bp_attrs_flatten attributes = bp_attrs_flatten_defaults();
  attributes.axis = axis;
  return inferred("flatten", {x}, &attributes);
}

TEST(InferFlatten, Sizes_AreTwoProducts) {
  EXPECT_EQ(flattened(f32({2, 3, 4}), 1), "f32[2, 12]");
  EXPECT_EQ(flattened(f32({2, 3, 4}), 0), "f32[1, 24]");
  EXPECT_EQ(flattened(f32({2, 3, 4}), 3), "f32[24, 1]");
  EXPECT_EQ(flattened(f32({2, 3, 4}), -1), "f32[6, 4]");
  EXPECT_EQ(flattened(f32({}), 0), "f32[1, 1]");
  EXPECT_EQ(flattened(f32({kN, 3, 0}), 1), "f32[s0, 0]");
  EXPECT_EQ(flattened(f32({kN, kM, 4}), 2), "f32[?, 4]");
  EXPECT_EQ(flattened(no_rank(), 1), "f32[?, ?]");
  EXPECT_EQ(flattened(f32({2, 3}), 3), "flatten: attribute 'axis': expected -2 to 2, found 3");
}

std::string transposed(const TensorType& x, const std::vector<int64_t>& perm) {
  bp_attrs_transpose attributes = bp_attrs_transpose_defaults();
  attributes.perm = list(perm);
  return inferred("transpose", {x}, &attributes);
}

TEST(InferTranspose, Sizes_ArePermuted) {
  EXPECT_EQ(transposed(f32({2, kN, 4}), {2, 0, 1}), "f32[4, 2, s0]");
  EXPECT_EQ(transposed(f32({2, kN, 4}), {}), "f32[4, s0, 2]");
  EXPECT_EQ(transposed(f32({}), {}), "f32[]");
  EXPECT_EQ(transposed(no_rank(), {1, 0}), "f32[?, ?]");
  EXPECT_EQ(transposed(no_rank(), {}), "f32[...]");
}

TEST(InferTranspose, BadPermutations_AreNamed) {
  EXPECT_EQ(transposed(f32({2, 3}), {0}),
            "transpose: attribute 'perm': expected 2 values, found 1");
  EXPECT_EQ(transposed(f32({2, 3}), {0, 0}),
            "transpose: attribute 'perm': expected each of 0 to 1 once, found [0, 0]");
  EXPECT_NE(transposed(f32({2, 3}), {0, 2}).find("each of 0 to 1 once"), std::string::npos);
  EXPECT_EQ(transposed(f32({2, 3}), {0, -2}),
            "transpose: attribute 'perm': expected each of 0 to 1 once, found [0, -2]");
  EXPECT_NE(transposed(no_rank(), std::vector<int64_t>(17, 0)).find("found 17"), std::string::npos);
}

TEST(InferIdentity, Type_Stays) {
  EXPECT_EQ(inferred("identity", {typed(BP_DTYPE_U16, {kN, 0})}), "u16[s0, 0]");
}

TEST(InferConstant, Type_IsTheAttributes) {
  const std::array<int64_t, 2> sizes{2, 1};
  const std::array<float, 2> values{1, 2};
  bp_tensor tensor{};
  tensor.handle = reinterpret_cast<uintptr_t>(values.data());
  tensor.storage_bytes = sizeof(values);
  tensor.dtype = BP_DTYPE_F32;
  tensor.rank = 2;
  tensor.sizes = sizes.data();
  bp_attrs_constant attributes = bp_attrs_constant_defaults();
  attributes.value = &tensor;
  EXPECT_EQ(inferred("constant", {}, &attributes), "f32[2, 1]");
  attributes.value = nullptr;
  EXPECT_EQ(inferred("constant", {}, &attributes),
            "constant: attribute 'value': expected a dtype, found code 0");
}

std::string gathered(const TensorType& x, const TensorType& indices, int64_t axis) {
  bp_attrs_gather attributes = bp_attrs_gather_defaults();
  attributes.axis = axis;
  return inferred("gather", {x, indices}, &attributes);
}

TEST(InferGather, Indices_ReplaceTheAxis) {
  const TensorType indices = typed(BP_DTYPE_I64, {5, kN});
  EXPECT_EQ(gathered(f32({2, 3, 4}), indices, 1), "f32[2, 5, s0, 4]");
  EXPECT_EQ(gathered(f32({2, 3, 4}), indices, -3), "f32[5, s0, 3, 4]");
  EXPECT_EQ(gathered(f32({2, 3}), typed(BP_DTYPE_I32, {}), 1), "f32[2]");
  EXPECT_EQ(gathered(f32({0, 3}), typed(BP_DTYPE_I32, {0}), 0), "f32[0, 3]");
  EXPECT_EQ(gathered(no_rank(), indices, 0), "f32[...]");
}

TEST(InferGather, BadArguments_AreNamed) {
  const TensorType indices = typed(BP_DTYPE_I64, {2});
  EXPECT_EQ(gathered(f32({2, 3}), indices, 2),
            "gather: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_NE(gathered(f32({}), indices, 0).find("rank 0"), std::string::npos);
  EXPECT_EQ(gathered(f32({2, 0}), indices, 1),
            "gather: input 'x': dimension 1 of [2, 0] has nothing to gather from");
  EXPECT_NE(gathered(f32({2}), f32({2}), 0).find("expected a dtype of {i32, i64}"),
            std::string::npos);
  Dims nine;
  nine.resize(9, 1);
  EXPECT_EQ(gathered(f32(nine), typed(BP_DTYPE_I64, nine), 0),
            "gather: input 'indices': the output would have rank 17, above 16");
}

TEST(InferNonZero, Count_IsTheUpperBound) {
  EXPECT_EQ(inferred("non_zero", {f32({2, 3})}), "i64[2, 6]");
  EXPECT_EQ(inferred("non_zero", {f32({kN, 3})}), "i64[2, ?]");
  EXPECT_EQ(inferred("non_zero", {f32({kN})}), "i64[1, s0]");
  EXPECT_EQ(inferred("non_zero", {f32({0, 3})}), "i64[2, 0]");
  EXPECT_EQ(inferred("non_zero", {f32({})}), "i64[0, 1]");
  EXPECT_EQ(inferred("non_zero", {no_rank()}), "i64[?, ?]");
}

// --- views
// ----------------------------------------------------------------------------------------

ViewResult view_of(std::string_view op, const Dims& sizes, const Dims& strides,
                   const Dims& out_sizes, const void* attributes = nullptr) {
  const TensorType inputs[] = {{.dtype = BP_DTYPE_F32, .has_rank = true, .sizes = sizes}};
  const void* const host_data[] = {nullptr};
  return schema_of(op).view({inputs, host_data, attributes}, strides, out_sizes);
}

std::string view_strides(std::string_view op, const Dims& sizes, const Dims& strides,
                         const Dims& out_sizes, const void* attributes = nullptr) {
  const ViewResult view = view_of(op, sizes, strides, out_sizes, attributes);
  if (!view.possible) return "copy";
  // Not to_string, which shows negative numbers as unknown sizes.
  std::string text = "[";
  for (int64_t stride : view.strides)
    text += (text.size() > 1 ? ", " : "") + std::to_string(stride);
  return text + "]";
}

TEST(ViewReshape, Contiguous_IsAlwaysAView) {
  EXPECT_EQ(view_strides("reshape", {2, 3, 4}, {12, 4, 1}, {6, 4}), "[4, 1]");
  EXPECT_EQ(view_strides("reshape", {2, 3, 4}, {12, 4, 1}, {2, 2, 3, 2}), "[12, 6, 2, 1]");
  EXPECT_EQ(view_strides("flatten", {2, 3, 4}, {12, 4, 1}, {2, 12}), "[12, 1]");
  EXPECT_EQ(view_strides("reshape", {}, {}, {1, 1}), "[1, 1]");
  EXPECT_EQ(view_strides("reshape", {1, 1}, {7, 9}, {}), "[]");
  EXPECT_EQ(view_strides("reshape", {0, 3}, {3, 1}, {5, 0}), "[1, 1]");
}

TEST(ViewReshape, StridedChunks_SplitAndMergeWithin) {
  // Rows with a gap behind each: columns can be split, rows and columns cannot be merged.
  EXPECT_EQ(view_strides("reshape", {2, 6}, {8, 1}, {2, 3, 2}), "[8, 2, 1]");
  EXPECT_EQ(view_strides("reshape", {2, 6}, {8, 1}, {12}), "copy");
  EXPECT_EQ(view_strides("reshape", {2, 6}, {8, 1}, {3, 4}), "copy");
  // Every second element merges over both dimensions.
  EXPECT_EQ(view_strides("reshape", {2, 3}, {6, 2}, {6}), "[2]");
  // Transposed: a size of 1 goes anywhere, more does not.
  EXPECT_EQ(view_strides("reshape", {3, 2}, {1, 3}, {3, 1, 2, 1}), "[1, 6, 3, 3]");
  EXPECT_EQ(view_strides("reshape", {3, 2}, {1, 3}, {6}), "copy");
  // Repeated and reversed elements.
  EXPECT_EQ(view_strides("reshape", {4}, {0}, {2, 2}), "[0, 0]");
  EXPECT_EQ(view_strides("reshape", {6}, {-1}, {2, 3}), "[-3, -1]");
}

TEST(ViewReshape, Views_ReadTheSameElements) {
  const Dims sizes{2, 1, 4, 3};
  const Dims strides{40, 7, 6, 2};
  const Dims out_sizes{2, 2, 2, 3};
  const ViewResult view = view_of("reshape", sizes, strides, out_sizes);
  ASSERT_TRUE(view.possible);
  const Dims& y = view.strides;
  for (int64_t i = 0; i < 24; ++i) {
    const int64_t from = i / 12 * strides[0] + i / 3 % 4 * strides[2] + i % 3 * strides[3];
    const int64_t to = i / 12 * y[0] + i / 6 % 2 * y[1] + i / 3 % 2 * y[2] + i % 3 * y[3];
    EXPECT_EQ(from, to) << i;
  }
}

TEST(ViewTranspose, Strides_ArePermuted) {
  bp_attrs_transpose attributes = bp_attrs_transpose_defaults();
  EXPECT_EQ(view_strides("transpose", {2, 3, 4}, {12, 4, 1}, {4, 3, 2}, &attributes), "[1, 4, 12]");
  const std::vector<int64_t> perm{1, 2, 0};
  attributes.perm = list(perm);
  EXPECT_EQ(view_strides("transpose", {2, 3, 4}, {-12, 0, 1}, {3, 4, 2}, &attributes),
            "[0, 1, -12]");
}

TEST(ViewIdentity, Strides_Stay) {
  EXPECT_EQ(view_strides("identity", {2, 3}, {1, 2}, {2, 3}), "[1, 2]");
}

}  // namespace
}  // namespace bp::ops
