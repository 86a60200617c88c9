// SPDX-License-Identifier: Apache-2.0
//
// range and eye_like: inference, values worked out by hand, and the constants that they become.
#include <array>

#include "core/graph/graph.hpp"
#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ranged(uint32_t dtype, double start, double limit, double delta) {
  const std::array<OracleTensor, 3> values = {
      tensor(dtype, {}, {start}), tensor(dtype, {}, {limit}), tensor(dtype, {}, {delta})};
  const TensorType scalar = typed(dtype, {});
  return inferred("range", {scalar, scalar, scalar}, nullptr,
                  {values[0].bytes.data(), values[1].bytes.data(), values[2].bytes.data()});
}

TEST(InferRange, Count_IsRoundedUp) {
  EXPECT_EQ(ranged(BP_DTYPE_I64, 0, 10, 3), "i64[4]");
  EXPECT_EQ(ranged(BP_DTYPE_I32, 10, 0, -5), "i32[2]");
  EXPECT_EQ(ranged(BP_DTYPE_I16, 0, 10, -1), "i16[0]");
  EXPECT_EQ(ranged(BP_DTYPE_U8, 250, 255, 2), "u8[3]");
  EXPECT_EQ(ranged(BP_DTYPE_F32, 0, 1, 0.25), "f32[4]");
  EXPECT_EQ(ranged(BP_DTYPE_F16, 1, 0, -0.375), "f16[3]");
  EXPECT_EQ(ranged(BP_DTYPE_BF16, -2, 2, 1.5), "bf16[3]");
  EXPECT_EQ(ranged(BP_DTYPE_F64, 5, 5, 1), "f64[0]");
  EXPECT_EQ(inferred("range", {f32({}), f32({1}), no_rank()}), "f32[?]");
}

TEST(InferRange, BadNumbers_AreNamed) {
  EXPECT_EQ(ranged(BP_DTYPE_I64, 0, 1, 0),
            "range: input 'delta': expected a number other than 0, found 0");
  EXPECT_EQ(ranged(BP_DTYPE_F32, 0, kInf, 1),
            "range: input 'limit': expected a finite number, found inf");
  EXPECT_THAT(ranged(BP_DTYPE_BF16, kNan, 1, 1), HasSubstr("expected a finite number, found"));
  EXPECT_THAT(ranged(BP_DTYPE_F64, 0, 1e300, 1e-300), HasSubstr("can be counted"));
  EXPECT_EQ(inferred("range", {f32({2}), f32({}), f32({})}),
            "range: input 'start': expected one number, found [2]");
  const OracleTensor least = longs({}, {INT64_MIN});
  const OracleTensor most = longs({}, {INT64_MAX});
  const OracleTensor one = longs({}, {1});
  const TensorType scalar = typed(BP_DTYPE_I64, {});
  EXPECT_THAT(inferred("range", {scalar, scalar, scalar}, nullptr,
                       {least.bytes.data(), most.bytes.data(), one.bytes.data()}),
              HasSubstr("can be counted"));
}

TEST(OracleRange, Values_AreStepsFromTheStart) {
  EXPECT_THAT(evaluated("range", {longs({}, {5}), longs({}, {-3}), longs({}, {-3})}).to_i64(),
              ElementsAre(5, 2, -1));
  EXPECT_THAT(values_of(evaluated("range", {floats({}, {1}), floats({1}, {2}), floats({}, {0.5})})),
              ElementsAre(1, 1.5));
}

OpRegistry& registry_of_ops() {
  static OpRegistry* const kMade = [] {
    auto* made = new OpRegistry;
    EXPECT_TRUE(register_ops(made).ok());
    return made;
  }();
  return *kMade;
}

/// What an operator is folded to.
OracleTensor folded(std::string_view op, const std::vector<OracleTensor>& inputs,
                    const Attributes& attributes = {}) {
  std::vector<TensorType> types;
  std::vector<const void*> data;
  for (const OracleTensor& input : inputs) {
    types.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
    data.push_back(input.bytes.data());
  }
  Graph graph(registry_of_ops());
  const Status made = schema_of(op).decompose(
      {.inputs = types, .host_data = data, .attributes = attributes.data()}, &graph);
  EXPECT_TRUE(made.ok()) << made.to_string();
  EXPECT_TRUE(graph.nodes().empty());
  return made.ok() ? oracle_tensor(*graph.value(graph.outputs()[0]).constant) : OracleTensor();
}

TEST(DecomposeRange, EveryDtype_IsTheOraclesConstant) {
  for (const uint32_t dtype :
       {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_I8, BP_DTYPE_I16,
        BP_DTYPE_I32, BP_DTYPE_I64, BP_DTYPE_U8, BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64}) {
    const std::vector<OracleTensor> inputs = {tensor(dtype, {}, {3}), tensor(dtype, {}, {100}),
                                              tensor(dtype, {}, {7})};
    EXPECT_EQ(folded("range", inputs).bytes, evaluated("range", inputs).bytes) << dtype;
  }
  const std::vector<OracleTensor> thirds = {floats({}, {-1}), floats({}, {1}),
                                            floats({}, {1 / 3.})};
  EXPECT_EQ(folded("range", thirds).bytes, evaluated("range", thirds).bytes);
}

TEST(DecomposeRange, MoreThanAConstantHolds_Unsupported) {
  const std::array<OracleTensor, 3> values = {longs({}, {0}), longs({}, {1 << 30}), longs({}, {1})};
  const std::vector<TensorType> types(3, typed(BP_DTYPE_I64, {}));
  const std::vector<const void*> data = {values[0].bytes.data(), values[1].bytes.data(),
                                         values[2].bytes.data()};
  Graph graph(registry_of_ops());
  const OpSchema& schema = schema_of("range");
  EXPECT_EQ(schema.decompose({types, data, nullptr}, &graph).code(), BP_UNSUPPORTED);
  EXPECT_EQ(schema.decompose({types, std::vector<const void*>(3, nullptr), nullptr}, &graph).code(),
            BP_UNSUPPORTED);
}

TEST(EyeLike, Diagonal_IsOne) {
  Attributes attributes(schema_of("eye_like"));
  EXPECT_TRUE(attributes.set_i64("dtype", BP_DTYPE_I32).ok());
  const std::vector<OracleTensor> x = {floats({2, 3}, {9, 9, 9, 9, 9, 9})};
  EXPECT_EQ(inferred("eye_like", {f32({kN, 3})}, attributes.data()), "i32[s0, 3]");
  EXPECT_EQ(inferred("eye_like", {f32({3})}, attributes.data()),
            "eye_like: input 'x': expected rank 2, found [3]");
  EXPECT_EQ(inferred("eye_like", {f32({3, 3})}),
            "eye_like: attribute 'dtype' of type dtype is required and was not set");
  for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{-1}, int64_t{-2},
                          INT64_MAX, INT64_MIN}) {
    EXPECT_TRUE(attributes.set_i64("k", k).ok());
    EXPECT_EQ(folded("eye_like", x, attributes).bytes,
              evaluated("eye_like", x, attributes.data()).bytes)
        << k;
    attributes = Attributes(schema_of("eye_like"));
    EXPECT_TRUE(attributes.set_i64("dtype", BP_DTYPE_F16).ok());
  }
  EXPECT_TRUE(attributes.set_i64("k", 1).ok());
  EXPECT_THAT(values_of(evaluated("eye_like", x, attributes.data())),
              ElementsAre(0, 1, 0, 0, 0, 1));
}

}  // namespace
}  // namespace bp::ops
