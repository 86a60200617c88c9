// SPDX-License-Identifier: Apache-2.0
//
// Building, checking, changing and resizing graphs.
#include "core/graph/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "core/graph/tiny_ops_test.hpp"
#include "core/op/scalar.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tiny::f32;

/// x[N, 3] -> plus(x, x) -> y
Graph sum_graph() {
  Graph graph(tiny::registry());
  const int64_t n = graph.symbol("N");
  const ValueId x = *graph.add_input("x", f32({n, 3}));
  const ValueId y = *graph.op("plus", std::vector<ValueId>{x, x});
  EXPECT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  return graph;
}

OpId op_id(std::string_view name) { return *tiny::registry().find(name); }

TEST(HostTensor, Allocate_Sizes_ZeroedAlignedMemory) {
  void* data = nullptr;
  const auto tensor = HostTensor::allocate(BP_DTYPE_F32, {2, 3}, &data);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes, 24u);
  EXPECT_EQ(tensor->data, data);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  EXPECT_THAT(tiny::values_of<float>(*tensor), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(HostTensor, Allocate_NoElements_DataIsNotNull) {
  void* data = nullptr;
  const auto tensor = HostTensor::allocate(BP_DTYPE_F32, {0, 3}, &data);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes, 0u);
  EXPECT_NE(tensor->data, nullptr);
}

TEST(HostTensor, Allocate_SizesOverflow_InvalidArgument) {
  void* data = nullptr;
  const auto tensor =
      HostTensor::allocate(BP_DTYPE_F32, {int64_t{1} << 40, int64_t{1} << 40}, &data);
  EXPECT_EQ(tensor.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(tensor.status().message(), HasSubstr("has no size in bytes"));
}

TEST(HostTensor, Allocate_MoreThanThereIs_OutOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process for such a request";
#endif
  void* data = nullptr;
  const auto tensor = HostTensor::allocate(BP_DTYPE_I8, {int64_t{1} << 55}, &data);
  EXPECT_EQ(tensor.status().code(), BP_OUT_OF_MEMORY);
}

TEST(Graph, AddNode_KnownSizes_InfersTypes) {
  const Graph graph = sum_graph();
  ASSERT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.node(0).name, "plus#0");
  EXPECT_EQ(graph.to_string(graph.value(graph.outputs()[0]).type), "f32[N, 3]");
  EXPECT_TRUE(graph.verify().ok());
}

TEST(Graph, AddNode_OptionalInputLeftOut_IsNoValue) {
  const Graph graph = sum_graph();
  EXPECT_THAT(graph.node(0).inputs, ElementsAre(0u, 0u, kNoValue));
}

TEST(Graph, AddNode_WrongSizes_NamesNodeAndLeavesGraph) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_input("a", f32({2, 3}));
  const ValueId b = *graph.add_input("b", f32({2, 4}));
  const auto node = graph.add_node(op_id("plus"), "sum1", std::vector<ValueId>{a, b}, {});
  EXPECT_EQ(node.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(node.status().message(), "node 'sum1': plus: sizes [2, 3] and [2, 4] differ");
  EXPECT_EQ(graph.values().size(), 2u);
  EXPECT_TRUE(graph.nodes().empty());
}

TEST(Graph, AddNode_WrongDtype_NamesInput) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_input("a", f32({2}));
  const ValueId b = *graph.add_input("b", {.dtype = BP_DTYPE_I64, .has_rank = true, .sizes = {2}});
  const auto node = graph.add_node(op_id("plus"), "sum1", std::vector<ValueId>{a, b}, {});
  EXPECT_THAT(node.status().message(), HasSubstr("node 'sum1': plus: input 'b'"));
  EXPECT_THAT(node.status().message(), HasSubstr("found i64"));
}

TEST(Graph, AddNode_TooFewInputs_InvalidArgument) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_input("a", f32({2}));
  const auto node = graph.add_node(op_id("plus"), "sum1", std::vector<ValueId>{a}, {});
  EXPECT_EQ(node.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(node.status().message(), HasSubstr("expected 2 to 3 inputs, found 1"));
}

TEST(Graph, AddNode_UnknownValue_InvalidArgument) {
  Graph graph(tiny::registry());
  const auto node = graph.add_node(op_id("turn"), "t", std::vector<ValueId>{7}, {});
  EXPECT_EQ(node.status().message(), "node 't': there is no value 7");
}

TEST(Graph, AddNode_RequiredAttributeMissing_NamesIt) {
  Graph graph(tiny::registry());
  const auto node = graph.add_node(op_id("literal"), "c", {}, {});
  EXPECT_EQ(node.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(node.status().message(), HasSubstr("node 'c'"));
  EXPECT_THAT(node.status().message(), HasSubstr("value"));
}

TEST(Graph, AddNode_OutputNameTaken_InvalidArgument) {
  Graph graph = sum_graph();
  const std::vector<std::string> names = {"x"};
  const auto node = graph.add_node(op_id("same"), "s", std::vector<ValueId>{0}, {}, names);
  EXPECT_EQ(node.status().message(),
            "node 's': the name 'x' is taken by another value of the graph");
}

TEST(Graph, AddNode_TwoOutputsOfOneName_InvalidArgument) {
  Graph graph = sum_graph();
  const std::vector<std::string> names = {"p", "p"};
  const auto node = graph.add_node(op_id("twice"), "s", std::vector<ValueId>{0}, {}, names);
  EXPECT_EQ(node.status().message(), "node 's': two outputs named 'p'");
}

TEST(Graph, Op_UnknownName_SuggestsNearest) {
  Graph graph(tiny::registry());
  const auto value = graph.op("pluss", {});
  EXPECT_EQ(value.status().message(), "there is no operator 'pluss'; did you mean 'plus'?");
}

TEST(Graph, AddInput_TakenName_InvalidArgument) {
  Graph graph = sum_graph();
  EXPECT_EQ(graph.add_input("x", f32({1})).status().code(), BP_INVALID_ARGUMENT);
}

TEST(Graph, AddInput_SizesOverflow_NamesInput) {
  Graph graph(tiny::registry());
  const auto input = graph.add_input("big", f32({int64_t{1} << 40, kUnknownDim, int64_t{1} << 40}));
  EXPECT_EQ(input.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(input.status().message(), HasSubstr("input 'big'"));
}

/// A zero makes the product fit, but not the sizes that are looked at alone.
TEST(Graph, ZeroBesideHugeSize_InvalidArgument) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() / 16;
  Graph graph(tiny::registry());
  const auto input = graph.add_input("big", f32({0, 1, kLargest + 1}));
  EXPECT_EQ(input.status().message(),
            "input 'big': sizes [0, 1, 576460752303423488] have more elements than can be counted");
  void* data = nullptr;
  const auto tensor = HostTensor::allocate(BP_DTYPE_F32, {kLargest + 1, 0}, &data);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(graph.add_constant("w", *tensor).status().message(),
            "constant 'w': sizes [576460752303423488, 0] have more elements than can be counted");
  EXPECT_TRUE(graph.add_input("fits", f32({0, kUnknownDim, kLargest})).ok());
}

TEST(Graph, AddConstant_BytesDoNotMatch_InvalidArgument) {
  Graph graph(tiny::registry());
  HostTensor tensor = tiny::floats({2}, {1, 2});
  tensor.sizes = {3};
  const auto constant = graph.add_constant("w", tensor);
  EXPECT_EQ(constant.status().message(), "constant 'w': 8 bytes are not f32[3]");
}

TEST(Graph, Symbol_SameName_SameSize) {
  Graph graph(tiny::registry());
  const int64_t n = graph.symbol("N");
  EXPECT_EQ(graph.symbol("N"), n);
  EXPECT_NE(graph.symbol("M"), n);
  EXPECT_LT(n, kUnknownDim);
  EXPECT_EQ(graph.symbol_name(n), "N");
  EXPECT_EQ(graph.symbol_name(3), "");
  EXPECT_EQ(graph.symbol_name(kUnknownDim), "");
  EXPECT_EQ(graph.symbol_name(symbol_dim(17)), "");
}

TEST(Graph, SetOutputs_BadValueOrName_InvalidArgument) {
  Graph graph = sum_graph();
  EXPECT_THAT(graph.set_outputs({9}, {"y"}).message(), HasSubstr("output 'y'"));
  EXPECT_THAT(graph.set_outputs({1, 1}, {"y", "y"}).message(), HasSubstr("two outputs named 'y'"));
  EXPECT_EQ(graph.set_outputs({1}, {}).code(), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(graph.set_outputs({1, 1}, {"y", "z"}).ok());
}

TEST(Graph, ToString_Nodes_OneLineEach) {
  EXPECT_EQ(sum_graph().to_string(),
            "input x: f32[N, 3]\n"
            "%1: f32[N, 3] = plus(x, x, -)  # plus#0\n"
            "output y: %1\n");
}

TEST(Graph, WithInputSizes_Symbol_BoundEverywhere) {
  const Graph graph = sum_graph();
  const auto sized = graph.with_input_sizes(std::vector<Dims>{{5, 3}});
  ASSERT_TRUE(sized.ok()) << sized.status().to_string();
  EXPECT_EQ(sized->value(sized->outputs()[0]).type.sizes, (Dims{5, 3}));
  EXPECT_TRUE(sized->verify().ok());
  EXPECT_FALSE(is_known(graph.value(graph.outputs()[0]).type.sizes[0]));
}

TEST(Graph, WithInputSizes_WrongRank_NamesInput) {
  const auto sized = sum_graph().with_input_sizes(std::vector<Dims>{{5, 3, 1}});
  EXPECT_EQ(sized.status().message(), "input 'x': expected f32[N, 3], found sizes [5, 3, 1]");
}

TEST(Graph, WithInputSizes_WrongFixedSize_NamesInput) {
  const auto sized = sum_graph().with_input_sizes(std::vector<Dims>{{5, 4}});
  EXPECT_EQ(sized.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(sized.status().message(), "input 'x': expected f32[N, 3], found sizes [5, 4]");
}

TEST(Graph, WithInputSizes_WrongCount_InvalidArgument) {
  const auto sized = sum_graph().with_input_sizes({});
  EXPECT_EQ(sized.status().message(), "expected sizes for 1 inputs, found 0");
}

TEST(Graph, WithInputSizes_SymbolTwoSizes_NamesSymbol) {
  Graph graph(tiny::registry());
  const int64_t n = graph.symbol("N");
  const ValueId a = *graph.add_input("a", f32({n}));
  const ValueId b = *graph.add_input("b", f32({n}));
  ASSERT_TRUE(graph.set_outputs({a, b}, {"p", "q"}).ok());
  const auto sized = graph.with_input_sizes(std::vector<Dims>{{5}, {6}});
  EXPECT_EQ(sized.status().message(),
            "input 'b': expected f32[N], found sizes [6]; N is 5 already");
  const auto half = graph.with_input_sizes(std::vector<Dims>{{5}, {kUnknownDim}});
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(half->value(b).type.sizes, Dims{5});
}

TEST(Graph, WithInputSizes_NoRank_TakesAnyRank) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_input("a", {.dtype = BP_DTYPE_F32, .has_rank = false, .sizes = {}});
  ASSERT_TRUE(graph.set_outputs({a}, {"p"}).ok());
  EXPECT_EQ(graph.to_string(graph.value(a).type), "f32[...]");
  const auto sized = graph.with_input_sizes(std::vector<Dims>{{5, 6}});
  ASSERT_TRUE(sized.ok());
  EXPECT_EQ(sized->value(a).type.sizes, (Dims{5, 6}));
}

TEST(Graph, RemoveDead_UnusedNodesAndConstants_AreGone) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({2, 3}));
  *graph.add_input("unused", f32({1}));
  *graph.add_constant("dead", tiny::floats({1}, {1}));
  const ValueId live = *graph.add_constant("live", tiny::floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  *graph.op("turn", std::vector<ValueId>{x});
  const ValueId y = *graph.op("plus", std::vector<ValueId>{x, live});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  graph.remove_dead();
  EXPECT_TRUE(graph.verify().ok()) << graph.verify().to_string();
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.inputs().size(), 2u);
  EXPECT_EQ(graph.find_value("dead"), kNoValue);
  EXPECT_EQ(graph.value(graph.find_value("live")).constant->bytes, 24u);
  EXPECT_EQ(graph.value(graph.outputs()[0]).producer, 0u);
}

TEST(Graph, RemoveDead_CaptureOfRegion_CountsAsUse) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({2, 3}));
  const ValueId held = *graph.op("turn", std::vector<ValueId>{x});
  const ValueId y = *graph.op("same", std::vector<ValueId>{x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  // Passes see captures like any other use.
  const_cast<Node&>(graph.node(1)).regions.push_back({{held}, nullptr});
  graph.remove_dead();
  EXPECT_EQ(graph.nodes().size(), 2u);
  EXPECT_TRUE(graph.verify().ok());
}

TEST(Graph, ReplaceWithConstant_Output_ProducerLetsGo) {
  Graph graph = sum_graph();
  const ValueId y = graph.outputs()[0];
  graph.replace_with_constant(y, tiny::floats({1, 3}, {1, 2, 3}));
  EXPECT_EQ(graph.node(0).outputs[0], kNoValue);
  EXPECT_EQ(graph.value(y).producer, kNoNode);
  EXPECT_TRUE(graph.verify().ok());
  graph.remove_dead();
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_TRUE(graph.verify().ok());
}

TEST(Graph, Verify_UseBeforeMade_InternalNamesNode) {
  Graph graph = sum_graph();
  std::vector<ValueId> swapped = {graph.outputs()[0], graph.outputs()[0]};
  graph.replace_uses(swapped);  // plus now reads its own output
  const Status status = graph.verify();
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_EQ(status.message(), "broken graph: node 'plus#0' uses value %1 before it is made");
}

TEST(Graph, Verify_TypeDiffersFromInference_InternalNamesNode) {
  Graph graph = sum_graph();
  const_cast<Value&>(graph.value(graph.outputs()[0])).type.sizes = {7};
  const Status status = graph.verify();
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_THAT(status.message(), HasSubstr("node 'plus#0' makes f32[N, 3], value %1 is f32[7]"));
}

TEST(Graph, AddScalar_EveryDtype_RoundsToIt) {
  Graph graph(tiny::registry());
  const ValueId id = *graph.add_scalar(BP_DTYPE_F32, 0.1);
  EXPECT_EQ(graph.value(id).type.sizes.size(), 0u);
  EXPECT_THAT(tiny::values_of<float>(*graph.value(id).constant), ElementsAre(0.1f));
  EXPECT_EQ(graph.add_scalar(BP_DTYPE_I4, 1).status().code(), BP_UNSUPPORTED);
  EXPECT_EQ(graph.add_scalar(99, 1).status().code(), BP_INVALID_ARGUMENT);
}

template <class T>
T scalar(uint32_t dtype, double value) {
  T result{};
  EXPECT_TRUE(write_scalar(dtype, value, &result).ok());
  return result;
}

TEST(WriteScalar, Integers_TruncateAndSaturate) {
  EXPECT_EQ(scalar<int8_t>(BP_DTYPE_I8, -3.9), -3);
  EXPECT_EQ(scalar<int8_t>(BP_DTYPE_I8, 300), 127);
  EXPECT_EQ(scalar<uint8_t>(BP_DTYPE_U8, -1), 0);
  EXPECT_EQ(scalar<int64_t>(BP_DTYPE_I64, 1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scalar<int64_t>(BP_DTYPE_I64, -1e30), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(scalar<uint64_t>(BP_DTYPE_U64, 1e30), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(scalar<int32_t>(BP_DTYPE_I32, std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(scalar<uint8_t>(BP_DTYPE_BOOL, 0.5), 1);
}

TEST(WriteScalar, HalfTypes_RoundToNearestEven) {
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 1), 0x3c00);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, -2), 0xc000);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 1 + 0x1p-11), 0x3c00);      // tie: even below
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 1 + 3 * 0x1p-11), 0x3c02);  // tie: even above
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 65504), 0x7bff);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 65520), 0x7c00);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 1e300), 0x7c00);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 0x1p-24), 0x0001);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 0x1p-25), 0x0000);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 0x1p-14 - 0x1p-26), 0x0400);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, -0.0), 0x8000);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, std::numeric_limits<double>::quiet_NaN()) & 0x7fff,
            0x7e00);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_BF16, 1), 0x3f80);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_BF16, 1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_BF16, 3.4e38), 0x7f80);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_BF16, -std::numeric_limits<double>::infinity()), 0xff80);
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_BF16, 0x1p-133), 0x0001);
}

TEST(WriteScalar, F16NearF32Tie_RoundsOnce) {
  // By way of f32 this becomes the tie 1 + 2^-11, which rounds down.
  EXPECT_EQ(scalar<uint16_t>(BP_DTYPE_F16, 1 + 0x1p-11 + 0x1p-30), 0x3c01);
}

}  // namespace
}  // namespace bp
