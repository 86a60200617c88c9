// SPDX-License-Identifier: Apache-2.0
//
// Decompositions against the operators themselves: both through the oracle, the decomposed graph
// node by node with every intermediate result rounded, as devices do it. Special values and shapes
// of the graphs; tests/conform/decompositions_test.cpp has every operator with the kit's calls.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/graph/graph.hpp"
#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;

const OpRegistry& registry() {
  static const OpRegistry* const kRegistry = [] {
    auto* made = new OpRegistry;
    EXPECT_TRUE(register_ops(made).ok());
    return made;
  }();
  return *kRegistry;
}

std::vector<TensorType> types_of(const std::vector<OracleTensor>& inputs) {
  std::vector<TensorType> types;
  for (const OracleTensor& input : inputs) {
    types.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
  }
  return types;
}

Status decompose(std::string_view op, const std::vector<TensorType>& types, const void* attributes,
                 Graph* graph) {
  const OpSchema& schema = schema_of(op);
  const auto complete = Attributes::copy_from(schema, attributes);
  EXPECT_TRUE(complete.ok());
  const std::vector<const void*> host_data(types.size(), nullptr);
  return schema.decompose({.inputs = types, .host_data = host_data, .attributes = complete->data()},
                          graph);
}

/// The operators of a graph, in order: "matmul add".
std::string operators_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    if (!text.empty()) text += " ";
    text += graph.registry().schema(node.op).name;
  }
  return text;
}

struct Outcome {
  std::string operators;
  OracleTensor direct;
  OracleTensor composed;
};

Outcome run_both(std::string_view op, const std::vector<OracleTensor>& inputs,
                 const void* attributes = nullptr) {
  Outcome outcome;
  Graph graph(registry());
  const Status status = decompose(op, types_of(inputs), attributes, &graph);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(graph.verify().ok()) << graph.verify().to_string();
  outcome.operators = operators_of(graph);
  std::vector<OracleTensor> present;
  for (const OracleTensor& input : inputs) {
    if (input.dtype != BP_DTYPE_NONE) present.push_back(input);
  }
  std::vector<OracleTensor> outputs;
  const Status composed = evaluate_graph(graph, present, &outputs);
  EXPECT_TRUE(composed.ok()) << composed.to_string();
  if (composed.ok()) outcome.composed = outputs[0];
  outcome.direct = evaluated(op, inputs, attributes);
  return outcome;
}

/// Same dtype and sizes; each value off by at most this part of the largest finite one.
void expect_close(const Outcome& outcome, double relative_error) {
  EXPECT_EQ(outcome.composed.dtype, outcome.direct.dtype);
  EXPECT_EQ(outcome.composed.sizes, outcome.direct.sizes);
  const auto expected = outcome.direct.to_f64();
  const auto found = outcome.composed.to_f64();
  ASSERT_EQ(found.size(), expected.size());
  double scale = 0;
  for (double value : expected) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i;
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(found[i], expected[i]) << i;
    } else {
      EXPECT_NEAR(found[i], expected[i], relative_error * scale) << i;
    }
  }
}

/// Values from -1 to 1 that look random and are the same everywhere.
OracleTensor noise(uint32_t dtype, Dims sizes, uint32_t seed, double low = -1, double high = 1) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(std::span<const int64_t>(sizes.data(), sizes.size()));
       ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(low + (high - low) * (seed >> 8) / 16777216.0);
  }
  return tensor(dtype, sizes, values);
}

TEST(DecomposeGemm, Plain_IsAMatmul) {
  const auto outcome =
      run_both("gemm", {noise(BP_DTYPE_F32, {3, 4}, 1), noise(BP_DTYPE_F32, {4, 5}, 2)});
  EXPECT_EQ(outcome.operators, "matmul");
  EXPECT_EQ(outcome.composed.bytes, outcome.direct.bytes);
}

TEST(DecomposeGemm, Everything_IsFiveSteps) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  attributes.alpha = 0.5;
  attributes.beta = -3;
  attributes.trans_a = 1;
  attributes.trans_b = 1;
  for (const Dims& c : {Dims{}, Dims{5}, Dims{3, 1}, Dims{3, 5}}) {
    const auto outcome = run_both(
        "gemm",
        {noise(BP_DTYPE_F32, {4, 3}, 1), noise(BP_DTYPE_F32, {5, 4}, 2), noise(BP_DTYPE_F32, c, 3)},
        &attributes);
    EXPECT_EQ(outcome.operators, "transpose transpose matmul mul mul add");
    expect_close(outcome, 1e-6);
  }
}

TEST(DecomposeGemm, C_IsLeftOutWithBetaZeroAndWhenAbsent) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  attributes.beta = 0;
  const auto a = floats({1, 1}, {2});
  const auto outcome = run_both("gemm", {a, a, floats({1}, {kNan})}, &attributes);
  EXPECT_EQ(outcome.operators, "matmul");
  EXPECT_THAT(values_of(outcome.composed), ElementsAre(4));
  EXPECT_EQ(run_both("gemm", {a, a, OracleTensor()}).operators, "matmul");
}

TEST(DecomposeGemm, HalfTypesWithFactors_WorkInF32) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  const auto a = tensor(BP_DTYPE_F16, {1, 2}, {300, 300});
  const auto b = tensor(BP_DTYPE_F16, {2, 1}, {300, 300});
  EXPECT_EQ(run_both("gemm", {a, b}, &attributes).operators, "matmul");
  attributes.alpha = 0.25;
  // The product alone, 180000, is beyond f16; 45000 is not, and rounds to 44992.
  const auto outcome = run_both("gemm", {a, b}, &attributes);
  EXPECT_EQ(outcome.operators, "cast cast matmul mul cast");
  EXPECT_THAT(values_of(outcome.composed), ElementsAre(44992));
  EXPECT_EQ(outcome.composed.bytes, outcome.direct.bytes);
}

TEST(DecomposeGemm, Integers_StayExactOrAreRefused) {
  bp_attrs_gemm attributes = bp_attrs_gemm_defaults();
  attributes.alpha = -3;
  const auto a = tensor(BP_DTYPE_I8, {1, 2}, {100, 7});
  const auto b = tensor(BP_DTYPE_I8, {2, 1}, {5, -9});
  const auto outcome = run_both("gemm", {a, b}, &attributes);
  EXPECT_EQ(outcome.composed.bytes, outcome.direct.bytes);
  attributes.alpha = 200;
  Graph graph(registry());
  EXPECT_EQ(decompose("gemm", types_of({a, b}), &attributes, &graph).code(), BP_UNSUPPORTED);
  attributes.alpha = -1;
  Graph other(registry());
  const auto u8 = typed(BP_DTYPE_U8, {1, 1});
  EXPECT_EQ(decompose("gemm", {u8, u8}, &attributes, &other).code(), BP_UNSUPPORTED);
}

std::vector<OracleTensor> batch_norm_inputs(uint32_t dtype, Dims sizes) {
  const Dims channels{sizes[1]};
  return {noise(dtype, sizes, 1), noise(dtype, channels, 2), noise(dtype, channels, 3),
          noise(dtype, channels, 4), noise(dtype, channels, 5, 0, 2)};
}

TEST(DecomposeBatchNorm, EveryRank_IsClose) {
  for (const Dims& sizes : {Dims{4, 3}, Dims{2, 3, 5}, Dims{2, 3, 4, 5}, Dims{0, 3, 2}}) {
    const auto outcome = run_both("batch_norm", batch_norm_inputs(BP_DTYPE_F32, sizes));
    expect_close(outcome, 1e-5);
    EXPECT_EQ(outcome.operators, "add sqrt reciprocal mul mul sub reshape mul reshape add");
  }
}

TEST(DecomposeBatchNorm, HalfTypes_AreAsGoodAsTheOperator) {
  expect_close(run_both("batch_norm", batch_norm_inputs(BP_DTYPE_F16, {2, 3, 5})), 1e-3);
  expect_close(run_both("batch_norm", batch_norm_inputs(BP_DTYPE_BF16, {2, 3, 5})), 8e-3);
}

TEST(DecomposeBatchNorm, NegativeVariance_GivesNan) {
  auto inputs = batch_norm_inputs(BP_DTYPE_F32, {1, 1, 2});
  inputs[4] = floats({1}, {-2});
  expect_close(run_both("batch_norm", inputs), 0);
}

TEST(DecomposeBatchNorm, SymbolicBatch_GoesThrough) {
  const TensorType c = f32({3});
  Graph graph(registry());
  ASSERT_TRUE(decompose("batch_norm", {f32({kN, 3, 8, kU}), c, c, c, c}, nullptr, &graph).ok());
  EXPECT_EQ(graph.value(graph.outputs()[0]).type.sizes, (Dims{kN, 3, 8, kU}));
  Graph other(registry());
  EXPECT_EQ(decompose("batch_norm", {no_rank(), c, c, c, c}, nullptr, &other).code(),
            BP_UNSUPPORTED);
}

TEST(DecomposeSoftmax, EachAxis_IsClose) {
  bp_attrs_softmax attributes = bp_attrs_softmax_defaults();
  for (int64_t axis : {-1, 0, 1, -3}) {
    attributes.axis = axis;
    const auto outcome =
        run_both("softmax", {noise(BP_DTYPE_F32, {3, 4, 5}, 9, -20, 20)}, &attributes);
    EXPECT_EQ(outcome.operators, "reduce_max sub exp reduce_sum div");
    expect_close(outcome, 1e-6);
  }
}

TEST(DecomposeSoftmax, SpecialValues_Agree) {
  expect_close(run_both("softmax", {floats({2, 3}, {1e30, 1e30, -1e30, -kInf, 0, -kInf})}), 1e-7);
  expect_close(run_both("softmax", {floats({1, 3}, {kNan, 1, 2})}), 0);
  expect_close(run_both("softmax", {floats({2, 0}, {})}), 0);
}

TEST(DecomposeSoftmax, LongHalfRows_DoNotOverflow) {
  const auto outcome =
      run_both("softmax", {tensor(BP_DTYPE_F16, {70000}, std::vector<double>(70000, 1.0))});
  EXPECT_EQ(outcome.operators, "cast reduce_max sub exp reduce_sum div cast");
  EXPECT_EQ(outcome.composed.bytes, outcome.direct.bytes);
}

TEST(DecomposeLogSumExp, InfinitiesAndNothing_Agree) {
  bp_attrs_reduce_log_sum_exp attributes = bp_attrs_reduce_log_sum_exp_defaults();
  const std::vector<int64_t> last{1};
  attributes.axes = list(last);
  const auto outcome =
      run_both("reduce_log_sum_exp",
               {floats({4, 3}, {800, 801, 790, -kInf, -kInf, -kInf, kInf, 1, -kInf, kNan, 0, 1})},
               &attributes);
  expect_close(outcome, 1e-6);
  EXPECT_NEAR(values_of(outcome.direct)[0], 801.31327, 1e-4);
  EXPECT_EQ(values_of(outcome.direct)[1], -kInf);
  EXPECT_EQ(values_of(outcome.direct)[2], kInf);
  attributes.keepdims = 0;
  const auto nothing = run_both("reduce_log_sum_exp", {floats({2, 0}, {})}, &attributes);
  expect_close(nothing, 0);
  EXPECT_THAT(values_of(nothing.direct), ElementsAre(-kInf, -kInf));
}

TEST(DecomposeRelu, Values_AreEqual) {
  const auto outcome = run_both("relu", {floats({5}, {-1, 2, kNan, -kInf, kInf})});
  EXPECT_EQ(outcome.operators, "max");
  expect_close(outcome, 0);
  EXPECT_THAT(values_of(outcome.composed), ElementsAre(0, 2, ::testing::IsNan(), 0, kInf));
  expect_close(run_both("relu", {tensor(BP_DTYPE_I8, {2}, {-5, 5})}), 0);
}

/// A call with auto_pad that an operator decomposes.
struct Example {
  std::vector<TensorType> inputs;
  Attributes attributes;
};

Example auto_pad_example(const OpSchema& schema) {
  Attributes attributes(schema);
  EXPECT_TRUE(attributes.set_str("auto_pad", "SAME_UPPER").ok());
  if (schema.name == "conv") {
    return {{f32({2, 2, 3}), f32({2, 2, 2}), f32({2})}, std::move(attributes)};
  }
  const std::array<int64_t, 1> kernel{2};
  EXPECT_TRUE(attributes.set_i64s("kernel_shape", kernel).ok());
  return {{f32({2, 2, 3})}, std::move(attributes)};
}

/// An operator may keep itself as its only part where the attributes become simpler.
TEST(DecomposeAutoPad, Part_IsTheOperatorWithPads) {
  for (const std::string_view name : {"conv", "max_pool", "average_pool"}) {
    const Example example = auto_pad_example(schema_of(name));
    Graph graph(registry());
    ASSERT_TRUE(decompose(name, example.inputs, example.attributes.data(), &graph).ok()) << name;
    EXPECT_EQ(operators_of(graph), name);
    Graph again(registry());
    const void* resolved = graph.nodes()[0].attributes.data();
    EXPECT_EQ(decompose(name, example.inputs, resolved, &again).code(), BP_UNSUPPORTED) << name;
  }
}

/// Of one spatial dimension.
struct TransposedLine {
  int64_t in;
  int64_t kernel;
  int64_t stride;
  int64_t dilation = 1;
  int64_t out = 0;  // output_shape; 0: what follows from the others
};

Attributes attributes_of(const TransposedLine& line) {
  Attributes attributes(schema_of("conv_transpose"));
  EXPECT_TRUE(attributes.set_i64s("strides", {&line.stride, 1}).ok());
  EXPECT_TRUE(attributes.set_i64s("dilations", {&line.dilation, 1}).ok());
  if (line.out != 0) EXPECT_TRUE(attributes.set_i64s("output_shape", {&line.out, 1}).ok());
  return attributes;
}

/// Of x and weights of 1, 2, 3...; of the weights the first is infinite, the last NaN.
Outcome run_transposed(const TransposedLine& line) {
  std::vector<double> x(static_cast<size_t>(line.in));
  std::iota(x.begin(), x.end(), 1);
  std::vector<double> w(static_cast<size_t>(line.kernel));
  std::iota(w.begin(), w.end(), 1);
  w.front() = kInf;
  w.back() = kNan;
  return run_both("conv_transpose", {floats({1, 1, line.in}, x), floats({1, 1, line.kernel}, w)},
                  attributes_of(line).data());
}

TEST(DecomposeConvTranspose, EveryGeometry_IsEqual) {
  for (int64_t i = 0; i < 3 * 4 * 4 * 4 * 10; ++i) {
    const TransposedLine line{.in = i % 3 + 1,
                              .kernel = i / 3 % 4 + 1,
                              .stride = i / 12 % 4 + 1,
                              .dilation = i / 48 % 4 + 1,
                              .out = i / 192};
    SCOPED_TRACE(testing::Message()
                 << "in " << line.in << ", kernel " << line.kernel << ", stride " << line.stride
                 << ", dilation " << line.dilation << ", out " << line.out);
    expect_close(run_transposed(line), 0);
  }
}

TEST(DecomposeConvTranspose, Strides_MakeAConvolutionOfEachPhaseThatHasWeights) {
  const auto convolutions = [](const TransposedLine& line) {
    const std::string operators = run_transposed(line).operators;
    size_t count = 0;
    for (size_t at = 0; (at = operators.find("conv ", at)) != std::string::npos; ++at) ++count;
    return count + (operators.ends_with("conv") ? 1 : 0);
  };
  EXPECT_EQ(convolutions({.in = 3, .kernel = 3, .stride = 1}), 1u);
  EXPECT_EQ(convolutions({.in = 3, .kernel = 3, .stride = 2}), 2u);
  EXPECT_EQ(convolutions({.in = 3, .kernel = 2, .stride = 4}), 2u);
  // All weights fall on one phase.
  EXPECT_EQ(convolutions({.in = 3, .kernel = 3, .stride = 2, .dilation = 2}), 1u);
  EXPECT_EQ(convolutions({.in = 1, .kernel = 3, .stride = 5}), 1u);
}

Status decompose_transposed(const TransposedLine& line, int64_t batch = 1) {
  Graph graph(registry());
  return decompose("conv_transpose", {f32({batch, 1, line.in}), f32({1, 1, line.kernel})},
                   attributes_of(line).data(), &graph);
}

TEST(DecomposeConvTranspose, TooManyPhases_AreRefused) {
  const Status many = decompose_transposed({.in = 2, .kernel = 2, .stride = 1025});
  EXPECT_EQ(many.code(), BP_UNSUPPORTED);
  EXPECT_EQ(many.message(), "strides that make more than 1024 convolutions of one");
  EXPECT_TRUE(decompose_transposed({.in = 2, .kernel = 2, .stride = 1024}).ok());
  EXPECT_TRUE(decompose_transposed({.in = 1, .kernel = 2, .stride = INT32_MAX}).ok());
  // Of the first 3 elements of y alone.
  EXPECT_TRUE(decompose_transposed({.in = 2, .kernel = 2, .stride = INT32_MAX, .out = 3}).ok());
}

TEST(DecomposeConvTranspose, WhatDoesNotFitAConvolution_IsRefused) {
  EXPECT_EQ(decompose_transposed({.in = 2, .kernel = 2, .stride = 2}, kN).code(), BP_UNSUPPORTED);
  // Weights 2^31 - 1 apart, and y lies between two of them.
  EXPECT_EQ(
      decompose_transposed({.in = 2, .kernel = 4, .stride = 1, .dilation = INT32_MAX, .out = 3})
          .message(),
      "pads beyond those that a convolution has");
  const TransposedLine wide{.in = 2, .kernel = INT32_MAX, .stride = INT32_MAX, .out = 3};
  EXPECT_EQ(decompose_transposed(wide).message(), "a kernel and a stride above 1048576");
  // y has 2^63 - 2^32 elements, its two phases together 2^63.
  const TransposedLine odd{.in = 2, .kernel = 1, .stride = 2, .out = INT32_MAX};
  EXPECT_EQ(decompose_transposed(odd, int64_t{1} << 32).message(), "the output is too large");
}

Outcome reduce_over(const std::vector<int64_t>& axes, const std::string& kind, bool keep_dims,
                    bool noop) {
  const OpSchema& schema = schema_of("reduce");
  Attributes attributes(schema);
  EXPECT_TRUE(attributes.set_str("kind", kind).ok());
  EXPECT_TRUE(attributes.set_i64("keepdims", keep_dims ? 1 : 0).ok());
  EXPECT_TRUE(attributes.set_i64("noop_with_empty_axes", noop ? 1 : 0).ok());
  const std::vector<OracleTensor> inputs = {
      floats({2, 3}, {1, 2, 3, -4, 5, 6}),
      OracleTensor::from_i64(BP_DTYPE_I64, {static_cast<int64_t>(axes.size())}, axes)};
  const std::vector<const void*> host_data = {nullptr, inputs[1].bytes.data()};
  Outcome outcome;
  Graph graph(registry());
  const auto types = types_of(inputs);
  const Status status = schema.decompose(
      {.inputs = types, .host_data = host_data, .attributes = attributes.data()}, &graph);
  EXPECT_TRUE(status.ok()) << status.to_string();
  outcome.operators = operators_of(graph);
  std::vector<OracleTensor> outputs;
  EXPECT_TRUE(evaluate_graph(graph, inputs, &outputs).ok());
  outcome.composed = outputs.at(0);
  outcome.direct = evaluated("reduce", inputs, attributes.data());
  return outcome;
}

TEST(DecomposeReduce, AxesThatAreAnInput) {
  const Outcome columns = reduce_over({0}, "reduce_sum", true, false);
  EXPECT_EQ(columns.operators, "reduce_sum");
  EXPECT_THAT(columns.direct.to_f64(), ElementsAre(-3, 7, 9));
  EXPECT_EQ(columns.direct.sizes, (Dims{1, 3}));
  expect_close(columns, 0);
  const Outcome rows = reduce_over({-1}, "reduce_max", false, true);
  EXPECT_THAT(rows.direct.to_f64(), ElementsAre(3, 6));
  expect_close(rows, 0);
  const Outcome all = reduce_over({}, "reduce_sum", false, false);
  EXPECT_THAT(all.direct.to_f64(), ElementsAre(13));
  expect_close(all, 0);
  const Outcome none = reduce_over({}, "reduce_sum", false, true);
  EXPECT_EQ(none.operators, "reshape reduce_sum");
  EXPECT_EQ(none.direct.sizes, (Dims{2, 3}));
  EXPECT_THAT(none.direct.to_f64(), ElementsAre(1, 2, 3, -4, 5, 6));
  expect_close(none, 0);
  const Outcome squares = reduce_over({}, "reduce_sum_square", false, true);
  EXPECT_THAT(squares.direct.to_f64(), ElementsAre(1, 4, 9, 16, 25, 36));
  expect_close(squares, 0);
}

/// A 0 beside it lets a size be any.
TEST(DecomposeAttention, MorePlacesThanAConstantHolds_AreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  bp_attrs_attention attributes = bp_attrs_attention_defaults();
  attributes.causal = 1;
  const TensorType q = f32({0, 1, 2, 1});
  const TensorType k = f32({0, 1, kHuge, 1});
  Graph graph(registry());
  const Status status = decompose("attention", {q, k, k}, &attributes, &graph);
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_EQ(status.message(),
            "decomposition: a dimension of 1099511627776 is too large for a list of its places");
}

TEST(DecomposeAttention, OffsetsAndWindowsWithoutEnd_DoNotWrap) {
  bp_attrs_attention attributes = bp_attrs_attention_defaults();
  attributes.query_offset = INT64_MAX;
  attributes.right_window = INT64_MAX;
  const auto x = floats({1, 1, 2, 1}, {1, 2});
  expect_close(run_both("attention", {x, x, x}, &attributes), 1e-6);
  attributes.left_window = INT64_MAX;
  expect_close(run_both("attention", {x, x, x}, &attributes), 1e-6);
}

TEST(DecomposeAttention, ScoresOfKeysThatTakeNoPart_DoNotMatter) {
  const auto q = floats({1, 1, 1, 1}, {1});
  const auto v = floats({1, 1, 2, 1}, {3, 5});
  const auto bools = tensor(BP_DTYPE_BOOL, {2}, {1, 0});
  for (const OracleTensor& mask : {bools, floats({2}, {0, -kInf})}) {
    for (const double odd : {kNan, kInf}) {
      const auto outcome = run_both("attention", {q, floats({1, 1, 2, 1}, {1, odd}), v, mask});
      EXPECT_THAT(values_of(outcome.composed), ElementsAre(3));
      expect_close(outcome, 0);
    }
  }
  bp_attrs_attention causal = bp_attrs_attention_defaults();
  causal.causal = 1;
  const auto outcome =
      run_both("attention", {q, floats({1, 1, 2, 1}, {1, 2}), v, floats({2}, {0, kNan})}, &causal);
  EXPECT_THAT(values_of(outcome.composed), ElementsAre(3));
  expect_close(outcome, 0);
}

TEST(DecomposeAttention, KeysBeyondTheirLengths_MayHoldAnything) {
  const auto q = floats({2, 1, 1, 1}, {1, 1});
  const auto k = floats({2, 1, 3, 1}, {1, kNan, kInf, 1, 1, -kInf});
  const auto v = floats({2, 1, 3, 1}, {3, kNan, kInf, 5, 7, -kInf});
  const auto outcome =
      run_both("attention", {q, k, v, OracleTensor(), tensor(BP_DTYPE_I64, {2}, {1, 2})});
  EXPECT_THAT(values_of(outcome.composed), ElementsAre(3, 6));
  expect_close(outcome, 0);
}

Outcome einsum(std::string_view equation, const std::vector<OracleTensor>& inputs) {
  bp_attrs_einsum attributes = bp_attrs_einsum_defaults();
  attributes.equation = {equation.data(), equation.size()};
  Outcome outcome = run_both("einsum", inputs, &attributes);
  expect_close(outcome, 1e-6);
  return outcome;
}

TEST(DecomposeEinsum, Equations_TakeTheOperatorsThatTheyNeed) {
  const auto noises = [](const std::vector<Dims>& sizes) {
    std::vector<OracleTensor> inputs;
    for (const Dims& each : sizes) {
      inputs.push_back(noise(BP_DTYPE_F32, each, static_cast<uint32_t>(inputs.size()) + 1));
    }
    return inputs;
  };
  EXPECT_EQ(einsum("ij->ij", noises({{2, 3}})).operators, "identity");
  EXPECT_EQ(einsum("ij,jk->ik", noises({{2, 3}, {3, 4}})).operators, "matmul");
  EXPECT_EQ(einsum("...,...->...", noises({{2, 3}, {3}})).operators, "mul");
  EXPECT_EQ(einsum("bij,bkj->bik", noises({{5, 2, 3}, {5, 4, 3}})).operators, "transpose matmul");
  EXPECT_EQ(einsum("ii->i", noises({{3, 3}})).operators, "reshape slice");
  EXPECT_EQ(einsum("i,i->", noises({{3}, {3}})).operators, "reshape reshape matmul reshape");
  EXPECT_EQ(einsum("ij,jk->ik", noises({{2, 1}, {3, 4}})).operators.substr(0, 7), "squeeze");
  for (const auto& [equation, sizes] : std::vector<std::pair<std::string_view, std::vector<Dims>>>{
           {"iji->j", {{3, 4, 3}}},
           {"iiii->i", {{2, 2, 2, 2}}},
           {"ijij->ij", {{2, 3, 2, 3}}},
           {"i,j->ji", {{3}, {4}}},
           {"ijkl,klm->mji", {{2, 3, 4, 5}, {4, 5, 6}}},
           {"ijk,lm->jl", {{2, 3, 4}, {5, 6}}},
           {"ab,bc,cd,da->", {{2, 3}, {3, 4}, {4, 5}, {5, 2}}},
           {"a,a,a->a", {{3}, {1}, {3}}},
           {"...ij,...jk->...ik", {{5, 1, 2, 3}, {4, 3, 6}}},
           {"...i,i...->i...", {{2, 1, 3}, {3, 4}}},
           {"...i,...i->...", {{2, 3}, {3}}},
           {"abi,bci->cab", {{2, 3, 0}, {3, 4, 0}}},
           {"abi,jic->abjc", {{2, 0, 3}, {5, 3, 4}}},
           {"ij,kj->", {{2, 3}, {4, 3}}}}) {
    SCOPED_TRACE(equation);
    einsum(equation, noises(sizes));
  }
}

TEST(DecomposeEinsum, UnknownSizes_WhereReshapesCanTell) {
  bp_attrs_einsum attributes = bp_attrs_einsum_defaults();
  const auto operators = [&](std::string_view equation, const std::vector<TensorType>& types) {
    attributes.equation = {equation.data(), equation.size()};
    Graph graph(registry());
    const Status status = decompose("einsum", types, &attributes, &graph);
    return status.ok() ? operators_of(graph) : status.message();
  };
  EXPECT_EQ(operators("bhqd,bhkd->bhqk", {f32({kN, 2, kM, 8}), f32({kN, 2, kU, 8})}),
            "transpose matmul");
  EXPECT_EQ(operators("bqhd,dhe->bqe", {f32({1, kM, 2, 8}), f32({8, 2, 4})}),
            "transpose reshape reshape matmul reshape");
  EXPECT_EQ(operators("ii->i", {f32({kN, kN})}), "the size of a diagonal is not known");
  EXPECT_EQ(operators("bqhd,hde->bqe", {f32({kN, kM, 2, 8}), f32({2, 8, 4})}),
            "too many sizes are not known: [s0, s1, 4]");
}

TEST(EvaluateGraph, BadInputs_AreNamed) {
  Graph graph(registry());
  ASSERT_TRUE(decompose("softmax", {f32({kN, 3})}, nullptr, &graph).ok());
  std::vector<OracleTensor> outputs;
  EXPECT_EQ(evaluate_graph(graph, {}, &outputs).message(), "graph: expected 1 inputs, found 0");
  const std::array<OracleTensor, 1> wrong{floats({2, 4}, std::vector<double>(8, 0))};
  EXPECT_EQ(evaluate_graph(graph, wrong, &outputs).message(),
            "graph input 'x': expected f32[s0, 3], found f32[2, 4]");
  const std::array<OracleTensor, 1> good{floats({1, 3}, {0, 0, 0})};
  EXPECT_TRUE(evaluate_graph(graph, good, &outputs).ok());
}

}  // namespace
}  // namespace bp::ops
