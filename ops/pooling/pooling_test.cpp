// SPDX-License-Identifier: Apache-2.0
//
// Pooling and auto_pad: inference, the oracle against values worked out by hand, decompositions
// against the oracle.
#include <cmath>
#include <map>

#include "core/graph/graph.hpp"
#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

/// A call of a pooling operator: lists by name, flags as numbers.
Attributes pool(std::string_view op,
                const std::vector<std::pair<std::string_view, std::vector<int64_t>>>& lists,
                const std::vector<std::pair<std::string_view, int64_t>>& numbers = {},
                std::string_view auto_pad = "NOTSET") {
  Attributes attributes(schema_of(op));
  for (const auto& [name, values] : lists) EXPECT_TRUE(attributes.set_i64s(name, values).ok());
  for (const auto& [name, value] : numbers) EXPECT_TRUE(attributes.set_i64(name, value).ok());
  if (op != "conv" || auto_pad != "NOTSET") {
    EXPECT_TRUE(attributes.set_str("auto_pad", auto_pad).ok());
  }
  return attributes;
}

std::string inferred_pool(std::string_view op, const TensorType& x, const Attributes& attributes) {
  return inferred(op, {x}, attributes.data());
}

std::vector<double> computed(std::string_view op, const OracleTensor& x,
                             const Attributes& attributes) {
  return values_of(evaluated(op, {x}, attributes.data()));
}

/// What the decomposition gives, node by node in the oracle; its operators into `operators`.
OracleTensor composed(std::string_view op, const std::vector<OracleTensor>& inputs,
                      const void* attributes, std::string* operators) {
  static const OpRegistry* const kRegistry = [] {
    auto* made = new OpRegistry;
    EXPECT_TRUE(register_ops(made).ok());
    return made;
  }();
  std::vector<TensorType> types;
  for (const OracleTensor& input : inputs) types.push_back(typed(input.dtype, input.sizes));
  const OpSchema& schema = schema_of(op);
  const auto complete = Attributes::copy_from(schema, attributes);
  EXPECT_TRUE(complete.ok());
  const std::vector<const void*> host_data(types.size(), nullptr);
  Graph graph(*kRegistry);
  const Status made = schema.decompose(
      {.inputs = types, .host_data = host_data, .attributes = complete->data()}, &graph);
  EXPECT_TRUE(made.ok()) << made.to_string();
  operators->clear();
  for (const Node& node : graph.nodes()) {
    *operators +=
        (operators->empty() ? "" : " ") + std::string(graph.registry().schema(node.op).name);
  }
  std::vector<OracleTensor> outputs;
  const Status ran = evaluate_graph(graph, inputs, &outputs);
  EXPECT_TRUE(ran.ok()) << ran.to_string();
  return ran.ok() ? outputs[0] : OracleTensor();
}

TEST(InferAutoPad, Sizes_FollowOnnx) {
  const auto same = [](std::vector<int64_t> strides, std::string_view mode = "SAME_UPPER") {
    return pool("average_pool", {{"kernel_shape", {3, 2}}, {"strides", std::move(strides)}},
                {{"ceil_mode", 1}}, mode);
  };
  const TensorType x = f32({kN, 3, 8, 7});
  EXPECT_EQ(inferred_pool("average_pool", x, same({2, 3})), "f32[s0, 3, 4, 3]");
  EXPECT_EQ(inferred_pool("average_pool", x, same({2, 3}, "SAME_LOWER")), "f32[s0, 3, 4, 3]");
  EXPECT_EQ(inferred_pool("average_pool", x, same({2, 3}, "VALID")), "f32[s0, 3, 3, 2]");
  EXPECT_EQ(inferred_pool("average_pool", f32({1, 1, kM, kU}), same({})), "f32[1, 1, s1, ?]");
  EXPECT_EQ(inferred_pool("average_pool", f32({1, 1, kM, 0}), same({2, 2})),
            "average_pool: input 'x': spatial dimension 1 of size 0 has no room for a window with "
            "auto_pad");
  const Attributes conv = pool("conv", {{"strides", {2}}}, {}, "SAME_LOWER");
  EXPECT_EQ(inferred("conv", {f32({1, 1, 9}), no_rank()}, conv.data()), "f32[1, ?, 5]");
  EXPECT_EQ(inferred("conv", {f32({1, 1, kN}), f32({2, 1, 3})}, conv.data()), "f32[1, 2, ?]");
}

TEST(InferAutoPad, BadValues_AreNamed) {
  const TensorType x = f32({1, 1, 8});
  EXPECT_EQ(inferred_pool("max_pool", x, pool("max_pool", {{"kernel_shape", {2}}}, {}, "SAME")),
            "max_pool: attribute 'auto_pad': expected NOTSET, VALID, SAME_UPPER or SAME_LOWER, "
            "found 'SAME'");
  EXPECT_EQ(
      inferred_pool("average_pool", x,
                    pool("average_pool", {{"kernel_shape", {2}}, {"pads", {0, 0}}}, {}, "VALID")),
      "average_pool: attribute 'pads': expected none beside auto_pad VALID, found 2 values");
}

TEST(InferAveragePool, BadArguments_AreNamed) {
  const TensorType x = f32({1, 1, 8});
  EXPECT_EQ(inferred_pool("average_pool", x, pool("average_pool", {{"kernel_shape", {}}})),
            "average_pool: attribute 'kernel_shape': expected 1 to 14 values, found 0");
  EXPECT_EQ(inferred_pool("average_pool", x, pool("average_pool", {{"kernel_shape", {2, 2}}})),
            "average_pool: input 'x': expected rank 4, two more than kernel_shape has values, "
            "found [1, 1, 8]");
  EXPECT_EQ(inferred_pool("average_pool", x, pool("average_pool", {{"kernel_shape", {9}}})),
            "average_pool: input 'x': spatial dimension 0 of size 8 plus padding 0 has no room "
            "for a window of 9");
}

TEST(InferGlobalPool, SpatialSizes_BecomeOne) {
  for (const std::string op : {"global_average_pool", "global_max_pool"}) {
    EXPECT_EQ(inferred(op, {f32({kN, 3, kU, 8})}), "f32[s0, 3, 1, 1]");
    EXPECT_EQ(inferred(op, {f32({2, 3, 0})}), "f32[2, 3, 1]");
    EXPECT_EQ(inferred(op, {no_rank()}), "f32[...]");
    EXPECT_EQ(inferred(op, {f32({2, 3})}),
              op + ": input 'x': expected rank 3 or more, found [2, 3]");
  }
}

TEST(OracleAveragePool, Padding_CountsWhereAsked) {
  const auto x = floats({1, 1, 4}, {1, 2, 3, 7});
  const auto window = [](int64_t counted, std::vector<int64_t> pads, int64_t ceil) {
    return pool("average_pool", {{"kernel_shape", {3}}, {"strides", {2}}, {"pads", pads}},
                {{"count_include_pad", counted}, {"ceil_mode", ceil}});
  };
  EXPECT_THAT(computed("average_pool", x, window(0, {1, 1}, 0)), ElementsAre(1.5, 4));
  EXPECT_THAT(computed("average_pool", x, window(1, {1, 1}, 0)), ElementsAre(1, 4));
  // The last window holds 7 and one padding, and reaches one further, which never counts.
  EXPECT_THAT(computed("average_pool", x, window(1, {1, 1}, 1)), ElementsAre(1, 4, 3.5));
  EXPECT_THAT(computed("average_pool", floats({1, 1, 5}, {1, 2, 3, 7, 8}), window(1, {0, 1}, 1)),
              ElementsAre(2, 6, 4));
  EXPECT_THAT(computed("average_pool", floats({1, 1, 4}, {1, 2, 3, 7}), window(1, {0, 0}, 1)),
              ElementsAre(2, 5));
}

TEST(OracleAveragePool, SpecialWindows_AreDefined) {
  const auto alone = pool("average_pool", {{"kernel_shape", {1}}, {"pads", {1, 0}}});
  EXPECT_THAT(computed("average_pool", floats({1, 1, 1}, {3}), alone), ElementsAre(IsNan(), 3));
  const auto dilated = pool("average_pool", {{"kernel_shape", {2}}, {"dilations", {2}}});
  EXPECT_THAT(computed("average_pool", floats({1, 1, 4}, {1, 5, 4, kInf}), dilated),
              ElementsAre(2.5, kInf));
  const auto same = pool("average_pool", {{"kernel_shape", {2}}}, {}, "SAME_LOWER");
  EXPECT_THAT(computed("average_pool", floats({1, 1, 3}, {1, 3, 6}), same), ElementsAre(1, 2, 4.5));
  const auto upper = pool("average_pool", {{"kernel_shape", {2}}}, {}, "SAME_UPPER");
  EXPECT_THAT(computed("average_pool", floats({1, 1, 3}, {1, 3, 6}), upper),
              ElementsAre(2, 4.5, 6));
}

TEST(OracleGlobalPool, Values_AreOnePerChannel) {
  const auto x = floats({2, 2, 1, 2}, {1, 2, 3, -5, kNan, 0, 0.5, 0.25});
  EXPECT_THAT(values_of(evaluated("global_average_pool", {x})),
              ElementsAre(1.5, -1, IsNan(), 0.375));
  EXPECT_THAT(values_of(evaluated("global_max_pool", {x})), ElementsAre(2, 3, IsNan(), 0.5));
  EXPECT_THAT(values_of(evaluated("global_average_pool", {floats({1, 2, 0}, {})})),
              ElementsAre(IsNan(), IsNan()));
  EXPECT_THAT(values_of(evaluated("global_max_pool", {tensor(BP_DTYPE_I8, {1, 1, 0}, {})})),
              ElementsAre(-128));
  // The sum alone is beyond f16.
  EXPECT_THAT(values_of(evaluated("global_average_pool",
                                  {tensor(BP_DTYPE_F16, {1, 1, 2}, {60000, 60000})})),
              ElementsAre(60000));
}

TEST(DecomposePool, Values_AreThoseOfTheOperator) {
  std::string operators;
  std::vector<double> values;
  for (int i = 0; i < 42; ++i) values.push_back(std::sin(i) * 4);
  for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_F64}) {
    const auto x = tensor(dtype, {1, 2, 3, 7}, values);
    const double error = dtype == BP_DTYPE_F16 ? 4e-3 : dtype == BP_DTYPE_F32 ? 1e-6 : 2e-15;
    for (const std::string op : {"global_average_pool", "global_max_pool"}) {
      const auto direct = values_of(evaluated(op, {x}));
      const auto found = values_of(composed(op, {x}, nullptr, &operators));
      ASSERT_EQ(found.size(), direct.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], direct[i], error) << op;
    }
    EXPECT_EQ(operators, "reduce_max");
    for (const std::string op : {"max_pool", "average_pool"}) {
      for (const std::string mode : {"VALID", "SAME_UPPER", "SAME_LOWER"}) {
        const auto attributes =
            pool(op, {{"kernel_shape", {2, 3}}, {"strides", {1, 2}}}, {{"ceil_mode", 1}}, mode);
        const auto direct = evaluated(op, {x}, attributes.data());
        EXPECT_EQ(composed(op, {x}, attributes.data(), &operators).bytes, direct.bytes) << op;
        EXPECT_EQ(operators, op);
      }
    }
  }
}

TEST(DecomposeConv, AutoPad_BecomesPads) {
  std::string operators;
  const auto x = floats({1, 1, 6}, {1, 2, 3, 4, 5, 6});
  const auto w = floats({1, 1, 4}, {1, 10, 100, 1000});
  const auto upper = pool("conv", {{"strides", {2}}}, {}, "SAME_UPPER");
  const auto direct = evaluated("conv", {x, w}, upper.data());
  EXPECT_THAT(values_of(direct), ElementsAre(3210, 5432, 654));
  EXPECT_EQ(composed("conv", {x, w}, upper.data(), &operators).bytes, direct.bytes);
  const auto lower = pool("conv", {{"strides", {3}}}, {}, "SAME_LOWER");
  EXPECT_THAT(values_of(evaluated("conv", {x, w}, lower.data())), ElementsAre(3210, 6543));
}

TEST(InferLpPool, BadPower_IsNamed) {
  EXPECT_EQ(inferred_pool("lp_pool", f32({1, 1, 8}),
                          pool("lp_pool", {{"kernel_shape", {2}}}, {{"p", 0}})),
            "lp_pool: attribute 'p': expected 1 or more, found 0");
  EXPECT_EQ(
      inferred_pool("max_pool_indices", f32({1, 1, 8}),
                    pool("max_pool_indices", {{"kernel_shape", {2}}}, {{"storage_order", 2}})),
      "max_pool_indices: attribute 'storage_order': expected 0 or 1, found 2");
}

TEST(OracleLpPool, Padding_AddsNothing) {
  const auto norm = [](int64_t p) {
    return pool("lp_pool", {{"kernel_shape", {2}}, {"strides", {2}}, {"pads", {1, 0}}},
                {{"p", p}, {"ceil_mode", 1}});
  };
  const auto x = doubles({1, 1, 4}, {3, -3, 4, -5});
  EXPECT_THAT(computed("lp_pool", x, norm(2)), ElementsAre(3, 5, 5));
  EXPECT_THAT(computed("lp_pool", x, norm(1)), ElementsAre(3, 7, 5));
  EXPECT_THAT(values_of(evaluated("global_lp_pool", {doubles({1, 2, 2}, {3, 4, -5, 12})})),
              ElementsAre(5, 13));
}

std::vector<int64_t> indices_of(const OracleTensor& x, const Attributes& attributes) {
  std::vector<OracleTensor> outputs;
  const Status status =
      evaluate(schema_of("max_pool_indices"), {&x, 1}, attributes.data(), &outputs);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return status.ok() ? outputs[1].to_i64() : std::vector<int64_t>();
}

TEST(OracleMaxPoolIndices, FirstOfEqualOnes_IsCountedInAllOfX) {
  const auto x = floats({1, 2, 2, 3}, {1, 2, 2, 0, 2, 1, kNan, 5, kNan, -kInf, -kInf, -kInf});
  const auto rows = pool("max_pool_indices", {{"kernel_shape", {2, 2}}});
  EXPECT_THAT(indices_of(x, rows), ElementsAre(1, 1, 6, 8));
  const auto columns = pool("max_pool_indices", {{"kernel_shape", {2, 2}}}, {{"storage_order", 1}});
  EXPECT_THAT(indices_of(x, columns), ElementsAre(2, 2, 6, 10));
  const auto padded = pool("max_pool_indices", {{"kernel_shape", {1}}, {"pads", {1, 0}}});
  EXPECT_THAT(indices_of(floats({1, 1, 2}, {-kInf, 3}), padded), ElementsAre(-1, 0, 1));
}

/// Attributes of a transposed convolution by name.
Attributes transposed(const std::map<std::string_view, std::vector<int64_t>>& lists,
                      std::string_view auto_pad = "NOTSET", int64_t group = 1) {
  Attributes attributes(schema_of("conv_transpose"));
  for (const auto& [name, values] : lists) EXPECT_TRUE(attributes.set_i64s(name, values).ok());
  EXPECT_TRUE(attributes.set_str("auto_pad", auto_pad).ok());
  EXPECT_TRUE(attributes.set_i64("group", group).ok());
  return attributes;
}

std::string inferred_transposed(const TensorType& x, const TensorType& w,
                                const Attributes& attributes) {
  return inferred("conv_transpose", {x, w}, attributes.data());
}

TEST(InferConvTranspose, Sizes_FollowTheFormula) {
  const TensorType x = f32({kN, 2, 3, 4});
  const TensorType w = f32({2, 5, 3, 3});
  EXPECT_EQ(inferred_transposed(x, w, transposed({})), "f32[s0, 5, 5, 6]");
  EXPECT_EQ(
      inferred_transposed(
          x, w,
          transposed({{"strides", {2, 3}}, {"pads", {1, 0, 1, 2}}, {"output_padding", {1, 0}}})),
      "f32[s0, 5, 6, 10]");
  EXPECT_EQ(inferred_transposed(x, w, transposed({{"strides", {2, 3}}}, "SAME_UPPER")),
            "f32[s0, 5, 6, 12]");
  EXPECT_EQ(inferred_transposed(x, w, transposed({{"output_shape", {9, 8}}}, "NOTSET", 2)),
            "f32[s0, 10, 9, 8]");
  EXPECT_EQ(inferred_transposed(f32({1, 2, kU, 4}), w, transposed({})), "f32[1, 5, ?, 6]");
  EXPECT_EQ(inferred_transposed(no_rank(), no_rank(), transposed({})), "f32[...]");
}

TEST(InferConvTranspose, BadArguments_AreNamed) {
  const TensorType x = f32({1, 2, 3});
  const TensorType w = f32({2, 5, 3});
  EXPECT_EQ(inferred_transposed(f32({1, 3, 3}), w, transposed({})),
            "conv_transpose: input 'w': expected size 3 in dimension 0 (channels of x), found [2, "
            "5, 3]");
  EXPECT_EQ(inferred_transposed(x, w, transposed({}, "NOTSET", 0)),
            "conv_transpose: attribute 'group': expected 1 or more, found 0");
  EXPECT_EQ(inferred_transposed(x, w, transposed({}, "NOTSET", 3)),
            "conv_transpose: input 'x': expected channels (dimension 1) that are a multiple of 3 "
            "groups, found [1, 2, 3]");
  EXPECT_EQ(inferred_transposed(x, w, transposed({{"output_padding", {1}}})),
            "conv_transpose: attribute 'output_padding': expected values below stride or "
            "dilation, 1 in spatial dimension 0, found 1");
  EXPECT_EQ(inferred_transposed(x, w, transposed({{"output_shape", {0}}})),
            "conv_transpose: attribute 'output_shape': expected values from 1 to 2147483647, "
            "found 0");
  EXPECT_EQ(inferred_transposed(x, w, transposed({{"pads", {3, 2}}})),
            "conv_transpose: attribute 'pads': spatial dimension 0 of the output would have size "
            "0");
  EXPECT_EQ(
      inferred_transposed(f32({1, 2, int64_t{1} << 50}), w, transposed({{"strides", {1 << 20}}})),
      "conv_transpose: input 'x': spatial dimension 0 makes an output that is too large");
}

TEST(OracleConvTranspose, Values_AreSpread) {
  const auto x = floats({1, 1, 3}, {1, 2, 3});
  const auto w = floats({1, 1, 3}, {1, 10, 100});
  const auto y = [&](const Attributes& attributes) {
    return values_of(evaluated("conv_transpose", {x, w}, attributes.data()));
  };
  EXPECT_THAT(y(transposed({})), ElementsAre(1, 12, 123, 230, 300));
  EXPECT_THAT(y(transposed({{"pads", {1, 2}}})), ElementsAre(12, 123));
  EXPECT_THAT(y(transposed({{"strides", {2}}})), ElementsAre(1, 10, 102, 20, 203, 30, 300));
  EXPECT_THAT(y(transposed({{"strides", {2}}}, "SAME_UPPER")),
              ElementsAre(1, 10, 102, 20, 203, 30));
  EXPECT_THAT(y(transposed({{"strides", {2}}}, "SAME_LOWER")),
              ElementsAre(10, 102, 20, 203, 30, 300));
  EXPECT_THAT(y(transposed({{"output_shape", {6}}})), ElementsAre(1, 12, 123, 230, 300, 0));
  EXPECT_THAT(y(transposed({{"dilations", {2}}})), ElementsAre(1, 2, 13, 20, 130, 200, 300));
}

}  // namespace
}  // namespace bp::ops
