// SPDX-License-Identifier: Apache-2.0
//
// What inference says of operators that choose elements by indices, and of what is wrong.
#include <gtest/gtest.h>

#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

TensorType i64s(Dims sizes) { return typed(BP_DTYPE_I64, sizes); }

std::string elements(const TensorType& x, const TensorType& indices, int64_t axis) {
  bp_attrs_gather_elements attributes = bp_attrs_gather_elements_defaults();
  attributes.axis = axis;
  return inferred("gather_elements", {x, indices}, &attributes);
}

TEST(InferGatherElements, Sizes_AreTheIndices) {
  EXPECT_EQ(elements(f32({2, 3, 4}), i64s({2, 9, 4}), 1), "f32[2, 9, 4]");
  EXPECT_EQ(elements(f32({2, 3, 4}), typed(BP_DTYPE_I32, {1, 2, 9}), -1), "f32[1, 2, 9]");
  EXPECT_EQ(elements(f32({kN, 3}), i64s({kM, kU}), 0), "f32[s1, ?]");
  EXPECT_EQ(elements(no_rank(), i64s({2, 3}), 5), "f32[2, 3]");
  EXPECT_EQ(elements(f32({2, 3}), no_rank(BP_DTYPE_I64), 0), "f32[...]");
  EXPECT_EQ(elements(f32({0, 3}), i64s({0, 3}), 0), "f32[0, 3]");
}

TEST(InferGatherElements, BadArguments_AreNamed) {
  EXPECT_EQ(elements(f32({2, 3}), i64s({2}), 0),
            "gather_elements: input 'indices': expected rank 2, as x has, found [2]");
  EXPECT_EQ(elements(f32({2, 3}), i64s({2, 3}), -3),
            "gather_elements: attribute 'axis': expected -2 to 1, found -3");
  EXPECT_EQ(elements(f32({2, 3}), i64s({3, 3}), 1),
            "gather_elements: input 'indices': dimension 0: expected at most the 2 of x [2, 3], "
            "found [3, 3]");
  EXPECT_EQ(elements(f32({0, 3}), i64s({1, 3}), 0),
            "gather_elements: input 'x': dimension 0 of [0, 3] has no elements to index");
  EXPECT_NE(elements(f32({}), i64s({}), 0).find("rank 0"), std::string::npos);
}

std::string nd(const TensorType& x, const TensorType& indices, int64_t batch_dims = 0) {
  bp_attrs_gather_nd attributes = bp_attrs_gather_nd_defaults();
  attributes.batch_dims = batch_dims;
  return inferred("gather_nd", {x, indices}, &attributes);
}

TEST(InferGatherNd, Sizes_AreThoseOfRowsAndSlices) {
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({5, 6, 2})), "f32[5, 6, 4]");
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({3})), "f32[]");
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({1})), "f32[3, 4]");
  EXPECT_EQ(nd(f32({2, kN, 4}), i64s({kM, 1})), "f32[s1, s0, 4]");
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({2, 5, 1}), 1), "f32[2, 5, 4]");
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({kU, 5, 1}), 1), "f32[2, 5, 4]");
  EXPECT_EQ(nd(f32({2, 3, 4}), i64s({5, kU})), "f32[...]");
  EXPECT_EQ(nd(no_rank(), i64s({5, 2})), "f32[...]");
  EXPECT_EQ(nd(f32({0, 4}), i64s({0, 1})), "f32[0, 4]");
}

TEST(InferGatherNd, BadArguments_AreNamed) {
  EXPECT_EQ(nd(f32({}), i64s({1})), "gather_nd: input 'x': expected rank 1 or more, found rank 0");
  EXPECT_EQ(nd(f32({2}), i64s({})),
            "gather_nd: input 'indices': expected rank 1 or more, found rank 0");
  EXPECT_EQ(nd(f32({2, 3}), i64s({5, 3})),
            "gather_nd: input 'indices': last dimension: expected 1 to 2, found [5, 3]");
  EXPECT_EQ(nd(f32({2, 3}), i64s({5, 0})),
            "gather_nd: input 'indices': last dimension: expected 1 to 2, found [5, 0]");
  EXPECT_EQ(nd(f32({2, 3}), i64s({2, 2}), 1),
            "gather_nd: input 'indices': last dimension: expected 1 to 1, found [2, 2]");
  EXPECT_EQ(nd(f32({2, 3}), i64s({2, 1}), 2),
            "gather_nd: attribute 'batch_dims': expected 0 to 1, below both ranks, found 2");
  EXPECT_EQ(nd(f32({2, 3}), i64s({2, 1}), -1),
            "gather_nd: attribute 'batch_dims': expected 0 to 1, below both ranks, found -1");
  EXPECT_EQ(nd(f32({2, 3}), i64s({3, 1}), 1),
            "gather_nd: input 'indices': batch dimension 0: expected 2, as in x, found [3, 1]");
  EXPECT_EQ(nd(f32({0, 3}), i64s({3, 1})),
            "gather_nd: input 'x': dimension 0 of [0, 3] has no elements to index");
  Dims ten;
  ten.resize(10, 1);
  EXPECT_EQ(nd(f32(ten), i64s(ten)),
            "gather_nd: input 'indices': the output would have rank 18, above 16");
}

std::string scattered(const TensorType& x, const TensorType& indices, const TensorType& updates,
                      int64_t axis, std::string_view reduction = "none") {
  bp_attrs_scatter_elements attributes = bp_attrs_scatter_elements_defaults();
  attributes.axis = axis;
  attributes.reduction = {reduction.data(), reduction.size()};
  return inferred("scatter_elements", {x, indices, updates}, &attributes);
}

TEST(InferScatterElements, Sizes_AreThoseOfX) {
  EXPECT_EQ(scattered(f32({2, 3}), i64s({1, 9}), f32({1, 9}), 1), "f32[2, 3]");
  EXPECT_EQ(scattered(f32({kN, 3}), i64s({kU, 9}), f32({5, 9}), 1, "max"), "f32[s0, 3]");
  EXPECT_EQ(scattered(no_rank(), i64s({1, 9}), f32({1, 9}), 1, "add"), "f32[...]");
  EXPECT_EQ(scattered(f32({2, 3}), no_rank(BP_DTYPE_I64), f32({1, 9}), 1, "mul"), "f32[2, 3]");
  EXPECT_EQ(scattered(f32({0, 3}), i64s({0, 3}), f32({0, 3}), 0, "min"), "f32[0, 3]");
}

TEST(InferScatterElements, BadArguments_AreNamed) {
  EXPECT_EQ(scattered(f32({2, 3}), i64s({1, 9}), f32({1, 8}), 1),
            "scatter_elements: input 'updates': expected sizes [1, 9], found [1, 8]");
  EXPECT_EQ(scattered(f32({2, 3}), i64s({1}), f32({1}), 1),
            "scatter_elements: input 'indices': expected rank 2, as x has, found [1]");
  EXPECT_EQ(scattered(f32({2, 3}), i64s({3, 1}), f32({3, 1}), 1),
            "scatter_elements: input 'indices': dimension 0: expected at most the 2 of x [2, 3], "
            "found [3, 1]");
  EXPECT_EQ(scattered(f32({2, 3}), i64s({1, 9}), f32({1, 9}), 2),
            "scatter_elements: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(scattered(f32({2, 3}), i64s({1, 9}), f32({1, 9}), 1, "sub"),
            "scatter_elements: attribute 'reduction': expected none, add, mul, max or min, found "
            "'sub'");
  EXPECT_NE(scattered(f32({2}), i64s({2}), typed(BP_DTYPE_F64, {2}), 0).find("f64"),
            std::string::npos);
}

std::string scattered_nd(const TensorType& x, const TensorType& indices, const TensorType& updates,
                         std::string_view reduction = "none") {
  bp_attrs_scatter_nd attributes = bp_attrs_scatter_nd_defaults();
  attributes.reduction = {reduction.data(), reduction.size()};
  return inferred("scatter_nd", {x, indices, updates}, &attributes);
}

TEST(InferScatterNd, Sizes_AreThoseOfX) {
  EXPECT_EQ(scattered_nd(f32({2, 3, 4}), i64s({5, 2}), f32({5, 4})), "f32[2, 3, 4]");
  EXPECT_EQ(scattered_nd(f32({2, 3}), i64s({2}), f32({}), "add"), "f32[2, 3]");
  EXPECT_EQ(scattered_nd(f32({2, kN}), i64s({kM, 1}), f32({7, 3}), "add"), "f32[2, s0]");
  EXPECT_EQ(scattered_nd(f32({2, 3}), i64s({5, kU}), f32({1, 2, 3})), "f32[2, 3]");
  EXPECT_EQ(scattered_nd(f32({2, 3}), no_rank(BP_DTYPE_I64), f32({1, 2, 3})), "f32[2, 3]");
  EXPECT_EQ(scattered_nd(no_rank(), i64s({5, 2}), no_rank()), "f32[...]");
}

TEST(InferScatterNd, BadArguments_AreNamed) {
  EXPECT_EQ(scattered_nd(f32({2, 3, 4}), i64s({5, 2}), f32({5, 3})),
            "scatter_nd: input 'updates': expected sizes [5, 4], found [5, 3]");
  EXPECT_EQ(scattered_nd(f32({2, 3}), i64s({5, 3}), f32({5})),
            "scatter_nd: input 'indices': last dimension: expected 1 to 2, found [5, 3]");
  EXPECT_EQ(scattered_nd(f32({2, 0}), i64s({5, 2}), f32({5})),
            "scatter_nd: input 'x': dimension 1 of [2, 0] has no elements to index");
  EXPECT_EQ(scattered_nd(f32({2, 3}), i64s({5, 2}), f32({5}), ""),
            "scatter_nd: attribute 'reduction': expected none, add, mul, max or min, found ''");
}

std::string compressed(const TensorType& x, const TensorType& condition, int64_t axis) {
  bp_attrs_compress attributes = bp_attrs_compress_defaults();
  attributes.axis = axis;
  return inferred("compress", {x, condition}, &attributes);
}

TEST(InferCompress, Sizes_AreUpperBounds) {
  const auto told = [](int64_t count) { return typed(BP_DTYPE_BOOL, {count}); };
  EXPECT_EQ(compressed(f32({2, 3}), told(3), 1), "f32[2, 3]");
  EXPECT_EQ(compressed(f32({2, 3}), told(2), -1), "f32[2, 2]");
  EXPECT_EQ(compressed(f32({kN, 3}), told(4), 0), "f32[4, 3]");
  EXPECT_EQ(compressed(f32({kN, 3}), told(kU), 0), "f32[s0, 3]");
  EXPECT_EQ(compressed(no_rank(), told(4), 7), "f32[...]");
  EXPECT_EQ(compressed(f32({2, 3}), no_rank(BP_DTYPE_BOOL), 0), "f32[2, 3]");
}

TEST(InferCompress, BadArguments_AreNamed) {
  EXPECT_EQ(compressed(f32({2, 3}), typed(BP_DTYPE_BOOL, {3}), 0),
            "compress: input 'condition': expected at most 2 elements, as dimension 0 of x has, "
            "found [3]");
  EXPECT_EQ(compressed(f32({2, 3}), typed(BP_DTYPE_BOOL, {1, 2}), 0),
            "compress: input 'condition': expected rank 1, found [1, 2]");
  EXPECT_EQ(compressed(f32({2, 3}), typed(BP_DTYPE_BOOL, {2}), 2),
            "compress: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_NE(compressed(f32({2}), typed(BP_DTYPE_U8, {2}), 0).find("found u8"), std::string::npos);
}

std::string hot(const TensorType& indices, const int64_t* depth, const TensorType& values,
                int64_t axis = -1) {
  bp_attrs_one_hot attributes = bp_attrs_one_hot_defaults();
  attributes.axis = axis;
  return inferred("one_hot", {indices, i64s({}), values}, &attributes, {nullptr, depth, nullptr});
}

TEST(InferOneHot, Depth_IsANewDimension) {
  const int64_t depth = 5;
  EXPECT_EQ(hot(i64s({2, 3}), &depth, f32({2})), "f32[2, 3, 5]");
  EXPECT_EQ(hot(i64s({2, kN}), &depth, f32({2}), 0), "f32[5, 2, s0]");
  EXPECT_EQ(hot(i64s({}), nullptr, typed(BP_DTYPE_BOOL, {2})), "bool[?]");
  EXPECT_EQ(hot(no_rank(BP_DTYPE_I32), &depth, f32({kU})), "f32[...]");
}

TEST(InferOneHot, BadArguments_AreNamed) {
  const int64_t negative = -1;
  EXPECT_EQ(hot(i64s({2}), &negative, f32({2})),
            "one_hot: input 'depth': expected 0 or more, found -1");
  EXPECT_EQ(hot(i64s({2}), nullptr, f32({3})),
            "one_hot: input 'values': expected two values, found [3]");
  EXPECT_EQ(hot(i64s({2}), nullptr, f32({2}), 2),
            "one_hot: attribute 'axis': expected -2 to 1, found 2");
  EXPECT_EQ(inferred("one_hot", {i64s({2}), i64s({2}), f32({2})}),
            "one_hot: input 'depth': expected one value, found [2]");
}

}  // namespace
}  // namespace bp::ops
