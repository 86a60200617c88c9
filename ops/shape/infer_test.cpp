// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that look at sizes alone, and the constants that they decompose into.
#include <gtest/gtest.h>

#include "core/graph/graph.hpp"
#include "ops/infer/infer_test_support.hpp"

namespace bp::ops {
namespace {

bp_attrs_shape between(int64_t start, int64_t end) {
  bp_attrs_shape attributes = bp_attrs_shape_defaults();
  attributes.start = start;
  attributes.end = end;
  return attributes;
}

TEST(InferShape, Range_IsCutToTheRank) {
  EXPECT_EQ(inferred("shape", {f32({2, kN, kU})}), "i64[3]");
  EXPECT_EQ(inferred("shape", {f32({})}), "i64[0]");
  EXPECT_EQ(inferred("shape", {no_rank()}), "i64[?]");
  const bp_attrs_shape last = between(-1, INT64_MAX);
  EXPECT_EQ(inferred("shape", {f32({2, 3})}, &last), "i64[1]");
  const bp_attrs_shape beyond = between(-9, 9);
  EXPECT_EQ(inferred("shape", {f32({2, 3})}, &beyond), "i64[2]");
  const bp_attrs_shape backwards = between(2, 1);
  EXPECT_EQ(inferred("shape", {f32({2, 3, 4})}, &backwards), "i64[0]");
  EXPECT_EQ(inferred("size", {no_rank()}), "i64[]");
}

/// The constant that a decomposition gives, or the error's words.
std::string constant_of(std::string_view op, const TensorType& x, const void* attributes) {
  static const OpRegistry& registry = *[] {
    auto* all = new OpRegistry;
    EXPECT_TRUE(register_ops(all).ok());
    return all;
  }();
  Graph graph(registry);
  const TensorType inputs[] = {x};
  const void* const host_data[] = {nullptr};
  const Status status = schema_of(op).decompose({inputs, host_data, attributes}, &graph);
  if (!status.ok()) return status.message();
  const HostTensor& value = *graph.value(graph.outputs()[0]).constant;
  const std::span numbers(static_cast<const int64_t*>(value.data), value.bytes / 8);
  return to_string(value.sizes) + ":" + to_string(Dims(numbers));
}

TEST(DecomposeShape, KnownSizes_AreConstants) {
  const bp_attrs_shape all = bp_attrs_shape_defaults();
  EXPECT_EQ(constant_of("shape", f32({2, 0, 4}), &all), "[3]:[2, 0, 4]");
  const bp_attrs_shape inner = between(1, -1);
  EXPECT_EQ(constant_of("shape", f32({2, 3, 4}), &inner), "[1]:[3]");
  const bp_attrs_shape backwards = between(2, 1);
  EXPECT_EQ(constant_of("shape", f32({2, 3, 4}), &backwards), "[0]:[]");
  EXPECT_EQ(constant_of("size", f32({2, 3, 4}), nullptr), "[]:[24]");
  EXPECT_EQ(constant_of("size", f32({}), nullptr), "[]:[1]");
}

TEST(DecomposeShape, UnknownSizes_AreRefused) {
  const bp_attrs_shape all = bp_attrs_shape_defaults();
  EXPECT_EQ(constant_of("shape", f32({2, kN}), &all), "the sizes of x are not known");
  EXPECT_EQ(constant_of("size", no_rank(), nullptr), "the sizes of x are not known");
}

}  // namespace
}  // namespace bp::ops
