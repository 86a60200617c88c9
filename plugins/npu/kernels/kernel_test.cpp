// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic kernels against values worked out by hand: strided, broadcast, zero-size and 0-d
// operands, and calls that are wrong. Each case runs on the calling thread and again on a stream.
#include <cmath>
#include <limits>

#include "plugins/npu/kernels/kernel_harness_test.hpp"

namespace bp::npu_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(NpuUnary, Values_FollowTheOperators) {
  const Input x = dense<float>({4}, {-1, 0, 4, kInf});
  EXPECT_THAT(compute<float>("relu", {x}, {4}), ElementsAre(0, 0, 4, kInf));
  EXPECT_THAT(compute<float>("reciprocal", {x}, {4}), ElementsAre(-1, kInf, 0.25f, 0));
  const auto exponentials = compute<float>("exp", {x}, {4});
  EXPECT_FLOAT_EQ(exponentials[0], 0.36787944f);
  EXPECT_EQ(exponentials[1], 1.0f);
  EXPECT_EQ(exponentials[3], kInf);
  const auto roots = compute<float>("sqrt", {x}, {4});
  EXPECT_TRUE(std::isnan(roots[0]));
  EXPECT_EQ(roots[2], 2.0f);
  EXPECT_TRUE(std::isnan(compute<float>("relu", {dense<float>({1}, {kNan})}, {1})[0]));
}

TEST(NpuUnary, ZeroSizeAndRankZero_Work) {
  EXPECT_THAT(compute<float>("relu", {dense<float>({2, 0, 3}, {})}, {2, 0, 3}), IsEmpty());
  EXPECT_THAT(compute<float>("relu", {dense<float>({}, {-2})}, {}), ElementsAre(0));
}

TEST(NpuUnary, AnyStrides_AreRead) {
  const std::vector<float> storage = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(compute<float>("relu", {strided<float>({3, 2}, {1, 3}, 0, storage)}, {3, 2}),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(compute<float>("relu", {strided<float>({2, 3}, {-3, -1}, 5, storage)}, {2, 3}),
              ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(compute<float>("relu", {strided<float>({2, 2}, {0, 2}, 1, storage)}, {2, 2}),
              ElementsAre(2, 4, 2, 4));
}

TEST(NpuBinary, Broadcast_BySizeAndByStride) {
  const Input column = dense<float>({2, 1}, {10, 20});
  const Input row = dense<float>({3}, {1, 2, 3});
  EXPECT_THAT(compute<float>("add", {column, row}, {2, 3}), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(compute<float>("sub", {column, row}, {2, 3}), ElementsAre(9, 8, 7, 19, 18, 17));
  const Input repeated = strided<float>({2, 3}, {0, 1}, 0, {1, 2, 3});
  EXPECT_THAT(compute<float>("mul", {column, repeated}, {2, 3}),
              ElementsAre(10, 20, 30, 20, 40, 60));
  EXPECT_THAT(compute<float>("div", {row, dense<float>({}, {2})}, {3}), ElementsAre(0.5f, 1, 1.5f));
}

TEST(NpuBinary, Integers_WrapAndDivideAsSpecified) {
  constexpr int32_t kMin32 = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  const Input a = dense<int32_t>({4}, {kMin32, 7, -7, 5});
  const Input b = dense<int32_t>({4}, {-1, 2, 2, 0});
  EXPECT_THAT(compute<int32_t>("div", {a, b}, {4}), ElementsAre(kMin32, 3, -3, 0));
  EXPECT_THAT(compute<int32_t>("add", {a, b}, {4}), ElementsAre(-(kMin32 + 1), 9, -5, 5));
  EXPECT_THAT(compute<int32_t>("max", {a, b}, {4}), ElementsAre(-1, 7, 2, 5));
  const Input big = dense<int64_t>({2}, {kMin64, kMin64});
  const Input small = dense<int64_t>({2}, {1, -1});
  EXPECT_THAT(compute<int64_t>("sub", {big, small}, {2}), ElementsAre(-(kMin64 + 1), kMin64 + 1));
  EXPECT_THAT(compute<int64_t>("mul", {big, small}, {2}), ElementsAre(kMin64, kMin64));
  EXPECT_THAT(compute<int64_t>("div", {big, small}, {2}), ElementsAre(kMin64, kMin64));
}

TEST(NpuBinary, MaxOfNan_IsNan) {
  const auto y = compute<float>(
      "max", {dense<float>({3}, {kNan, 1, 1}), dense<float>({3}, {1, kNan, -kInf})}, {3});
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 1.0f);
}

TEST(NpuBinary, ShapesThatDoNotBroadcast_AreRefused) {
  Call call("add", {dense<float>({2}, {1, 2}), dense<float>({3}, {1, 2, 3})}, BP_DTYPE_F32, {3});
  EXPECT_EQ(call.launch(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(call.device.host().last_message(), "add: input 0 does not broadcast to the output");
}

TEST(NpuIdentity, EveryElementSize_IsMaterialised) {
  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(compute<uint8_t>("identity", {strided<uint8_t>({3, 2}, {1, 3}, 0, bytes)}, {3, 2}),
              ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(compute<uint16_t>("identity", {strided<uint16_t>({2}, {-1}, 1, {7, 8})}, {2}),
              ElementsAre(8, 7));
  EXPECT_THAT(compute<int64_t>("identity", {strided<int64_t>({3}, {0}, 0, {9})}, {3}),
              ElementsAre(9, 9, 9));
  EXPECT_THAT(compute<float>("identity", {dense<float>({2, 2}, {1, 2, 3, 4})}, {2, 2}),
              ElementsAre(1, 2, 3, 4));
}

TEST(NpuCast, FloatToInteger_TruncatesAndSaturates) {
  const Input x = dense<float>({6}, {1.9f, -1.9f, kNan, kInf, -kInf, 3e9f});
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = BP_DTYPE_I32;
  EXPECT_THAT(compute<int32_t>("cast", {x}, {6}, &attributes),
              ElementsAre(1, -1, 0, INT32_MAX, INT32_MIN, INT32_MAX));
  attributes.to = BP_DTYPE_I64;
  EXPECT_THAT(compute<int64_t>("cast", {x}, {6}, &attributes),
              ElementsAre(1, -1, 0, INT64_MAX, INT64_MIN, 3000000000));
  attributes.to = BP_DTYPE_U8;
  EXPECT_THAT(compute<uint8_t>("cast", {x}, {6}, &attributes), ElementsAre(1, 0, 0, 255, 0, 255));
  attributes.to = BP_DTYPE_BOOL;
  EXPECT_THAT(compute<uint8_t>("cast", {x}, {6}, &attributes, BP_DTYPE_BOOL),
              ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(NpuCast, IntegersAndBool_ConvertAsSpecified) {
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = BP_DTYPE_I32;
  EXPECT_THAT(compute<int32_t>("cast", {dense<int64_t>({2}, {(int64_t{1} << 32) + 5, -1})}, {2},
                               &attributes),
              ElementsAre(5, -1));
  attributes.to = BP_DTYPE_F32;
  EXPECT_THAT(compute<float>("cast", {as_bool(dense<uint8_t>({2}, {0, 1}))}, {2}, &attributes),
              ElementsAre(0, 1));
  EXPECT_THAT(compute<float>("cast", {strided<int32_t>({2}, {-1}, 1, {-3, 4})}, {2}, &attributes),
              ElementsAre(4, -3));
}

TEST(NpuCast, OtherTarget_IsUnsupportedWithAReason) {
  bp_attrs_cast attributes = bp_attrs_cast_defaults();
  attributes.to = BP_DTYPE_F8E5M2;
  Call call("cast", {dense<float>({1}, {1})}, BP_DTYPE_F8E5M2, {1}, &attributes);
  EXPECT_EQ(call.make_plan(), BP_UNSUPPORTED);
  EXPECT_THAT(call.reason, HasSubstr("16 bits or more"));
}

TEST(NpuReduce, Axes_AreCountedFromEitherEnd) {
  const Input x = dense<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  EXPECT_THAT(compute<float>("reduce_sum", {x}, {1, 1}, &attributes), ElementsAre(21));
  const Dims last = {-1};
  attributes.axes = span_of(last);
  EXPECT_THAT(compute<float>("reduce_sum", {x}, {2, 1}, &attributes), ElementsAre(6, 15));
  attributes.keepdims = 0;
  EXPECT_THAT(compute<float>("reduce_sum", {x}, {2}, &attributes), ElementsAre(6, 15));
  const Dims first = {0};
  attributes.axes = span_of(first);
  EXPECT_THAT(compute<float>("reduce_sum", {x}, {3}, &attributes), ElementsAre(5, 7, 9));
  const Input transposed = strided<float>({3, 2}, {1, 3}, 0, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(compute<float>("reduce_sum", {transposed}, {2}, &attributes), ElementsAre(6, 15));
}

TEST(NpuReduce, Nothing_GivesTheNeutralElement) {
  bp_attrs_reduce_max attributes = bp_attrs_reduce_max_defaults();
  const Dims axes = {1};
  attributes.axes = span_of(axes);
  EXPECT_THAT(compute<float>("reduce_max", {dense<float>({2, 0}, {})}, {2, 1}, &attributes),
              ElementsAre(-kInf, -kInf));
  EXPECT_THAT(compute<int32_t>("reduce_max", {dense<int32_t>({1, 0}, {})}, {1, 1}, &attributes),
              ElementsAre(INT32_MIN));
  EXPECT_THAT(compute<int64_t>("reduce_sum", {dense<int64_t>({1, 0}, {})}, {1, 1}, &attributes),
              ElementsAre(0));
  EXPECT_THAT(compute<float>("reduce_sum", {dense<float>({}, {3})}, {}), ElementsAre(3));
}

TEST(NpuReduce, MaxOfNanAndWrappingSum_FollowTheOperators) {
  EXPECT_TRUE(std::isnan(compute<float>("reduce_max", {dense<float>({3}, {1, kNan, 2})}, {1})[0]));
  EXPECT_THAT(compute<int32_t>("reduce_sum", {dense<int32_t>({2}, {INT32_MAX, 1})}, {1}),
              ElementsAre(INT32_MIN));
}

TEST(NpuReduce, AxisOutOfRange_IsRefusedAtTheCall) {
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  const Dims axes = {2};
  attributes.axes = span_of(axes);
  Call call("reduce_sum", {dense<float>({1, 1}, {1})}, BP_DTYPE_F32, {1, 1}, &attributes);
  const Stream stream(call.device);
  EXPECT_EQ(call.launch(stream.get()), BP_INVALID_ARGUMENT);
  EXPECT_EQ(call.device.host().last_message(), "reduce_sum: an axis of a tensor of rank 2");
  EXPECT_EQ(stream.sync(), BP_OK);
}

TEST(NpuReduce, ShorterAttributesOfAnOlderCore_MeanDefaults) {
  const Dims axes = {0};
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  attributes.struct_size = offsetof(bp_attrs_reduce_sum, axes);
  attributes.axes = span_of(axes);  // Beyond what the struct says there is: all axes.
  EXPECT_THAT(
      compute<float>("reduce_sum", {dense<float>({2, 2}, {1, 2, 3, 4})}, {1, 1}, &attributes),
      ElementsAre(10));
}

TEST(NpuMatmul, Matrices_Multiply) {
  const Input a = dense<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Input b = dense<float>({3, 2}, {1, 0, 0, 1, 2, 2});
  EXPECT_THAT(compute<float>("matmul", {a, b}, {2, 2}), ElementsAre(7, 8, 16, 17));
  const Input b_transposed = strided<float>({3, 2}, {1, 3}, 0, {1, 0, 2, 0, 1, 2});
  EXPECT_THAT(compute<float>("matmul", {a, b_transposed}, {2, 2}), ElementsAre(7, 8, 16, 17));
}

TEST(NpuMatmul, OneDimensionalOperands_FollowNumPy) {
  const Input vector = dense<float>({2}, {1, 10});
  const Input matrix = dense<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(compute<float>("matmul", {vector, vector}, {}), ElementsAre(101));
  EXPECT_THAT(compute<float>("matmul", {vector, matrix}, {3}), ElementsAre(41, 52, 63));
  const Input three = dense<float>({3}, {1, 1, 1});
  EXPECT_THAT(compute<float>("matmul", {matrix, three}, {2}), ElementsAre(6, 15));
}

TEST(NpuMatmul, Batches_Broadcast) {
  const Input a = dense<float>({2, 1, 1, 2}, {1, 2, 3, 4});
  const Input b = dense<float>({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  EXPECT_THAT(compute<float>("matmul", {a, b}, {2, 3, 1, 1}), ElementsAre(1, 2, 3, 3, 4, 7));
}

TEST(NpuMatmul, EmptyOperands_GiveZerosOrNothing) {
  EXPECT_THAT(
      compute<float>("matmul", {dense<float>({2, 0}, {}), dense<float>({0, 1}, {})}, {2, 1}),
      ElementsAre(0, 0));
  EXPECT_THAT(
      compute<float>("matmul", {dense<float>({0, 2}, {}), dense<float>({2, 1}, {1, 1})}, {0, 1}),
      IsEmpty());
}

TEST(NpuMatmul, InnerSizesThatDiffer_AreRefused) {
  Call call("matmul", {dense<float>({1, 2}, {1, 2}), dense<float>({3, 1}, {1, 2, 3})}, BP_DTYPE_F32,
            {1, 1});
  EXPECT_EQ(call.launch(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(call.device.host().last_message(), "matmul: 2 columns times 3 rows");
}

TEST(NpuConv, TwoDimensions_WithBias) {
  const Input x = dense<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Input w = dense<float>({2, 1, 2, 2}, {1, 0, 0, 1, 0, 1, 1, 0});
  const Input b = dense<float>({2}, {0, 100});
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  EXPECT_THAT(compute<float>("conv", {x, w, b}, {1, 2, 2, 2}, &attributes),
              ElementsAre(6, 8, 12, 14, 106, 108, 112, 114));
  EXPECT_THAT(compute<float>("conv", {x, w, Input{}}, {1, 2, 2, 2}, &attributes),
              ElementsAre(6, 8, 12, 14, 6, 8, 12, 14));
  EXPECT_THAT(compute<float>("conv", {x, w}, {1, 2, 2, 2}),
              ElementsAre(6, 8, 12, 14, 6, 8, 12, 14));
}

TEST(NpuConv, PadsStridesAndDilations_MoveTheWindow) {
  const Input x = dense<float>({1, 1, 4}, {1, 2, 3, 4});
  const Input w = dense<float>({1, 1, 2}, {10, 1});
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  const Dims pads = {1, 2}, two = {2}, three = {3};
  attributes.pads = span_of(pads);
  EXPECT_THAT(compute<float>("conv", {x, w}, {1, 1, 6}, &attributes),
              ElementsAre(1, 12, 23, 34, 40, 0));
  attributes.strides = span_of(two);
  EXPECT_THAT(compute<float>("conv", {x, w}, {1, 1, 3}, &attributes), ElementsAre(1, 23, 40));
  attributes.dilations = span_of(three);
  EXPECT_THAT(compute<float>("conv", {x, w}, {1, 1, 2}, &attributes), ElementsAre(3, 20));
}

TEST(NpuConv, Groups_KeepTheirChannels) {
  const Input x = dense<float>({2, 2, 1}, {1, 2, 3, 4});
  const Input w = dense<float>({4, 1, 1}, {1, 10, 100, 1000});
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  attributes.group = 2;
  EXPECT_THAT(compute<float>("conv", {x, w}, {2, 4, 1}, &attributes),
              ElementsAre(1, 10, 200, 2000, 3, 30, 400, 4000));
}

TEST(NpuConv, ThreeDimensionsAndEmptyBatch_Work) {
  const Input x = dense<float>({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Input w = dense<float>({1, 1, 2, 1, 2}, {1, 1, 1, 1});
  EXPECT_THAT(compute<float>("conv", {x, w}, {1, 1, 1, 2, 1}), ElementsAre(14, 22));
  const Input none = dense<float>({0, 1, 2, 2, 2}, {});
  EXPECT_THAT(compute<float>("conv", {none, w}, {0, 1, 1, 2, 1}), IsEmpty());
}

TEST(NpuConv, WhatItCannotDo_IsRefusedWithWords) {
  Call flat("conv", {dense<float>({1, 1}, {1}), dense<float>({1, 1}, {1})}, BP_DTYPE_F32, {1, 1});
  EXPECT_EQ(flat.make_plan(), BP_UNSUPPORTED);
  EXPECT_EQ(flat.reason, "only 1 to 3 spatial dimensions");
  bp_attrs_conv attributes = bp_attrs_conv_defaults();
  const Dims strides = {1, 1};
  attributes.strides = span_of(strides);
  Call wrong("conv", {dense<float>({1, 1, 1}, {1}), dense<float>({1, 1, 1}, {1})}, BP_DTYPE_F32,
             {1, 1, 1}, &attributes);
  EXPECT_EQ(wrong.launch(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(wrong.device.host().last_message(), "conv: strides has 2 values; expected 1");
}

}  // namespace
}  // namespace bp::npu_test
