// SPDX-License-Identifier: Apache-2.0
//
// What the neutral passes fold and remove, what they leave, and that a wrong fold is caught.
#include "core/passes/passes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/log.hpp"
#include "core/graph/tiny_ops_test.hpp"

namespace bp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using tiny::f32;
using tiny::floats;
using tiny::numbers;

using Ids = std::vector<ValueId>;

/// Runs plus and find on the host, and counts.
struct Folder {
  int calls = 0;
  FoldFn fn() {
    return [this](const Node& node, std::span<const HostTensor* const> inputs) {
      return run(node, inputs);
    };
  }
  Result<std::vector<HostTensor>> run(const Node& node, std::span<const HostTensor* const> inputs) {
    ++calls;
    const std::string_view name = tiny::registry().schema(node.op).name;
    const HostTensor& a = *inputs[0];
    if (name == "plus") {
      const auto x = tiny::values_of<float>(a);
      auto y = tiny::values_of<float>(*inputs[1]);
      for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
      return std::vector<HostTensor>{floats(a.sizes, y)};
    }
    if (name == "find") {
      std::vector<int64_t> found;
      const auto x = tiny::values_of<float>(a);
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] != 0) found.push_back(static_cast<int64_t>(i));
      }
      return std::vector<HostTensor>{numbers(found)};
    }
    return Status(BP_UNSUPPORTED, "no kernel for " + std::string(name));
  }
};

const HostTensor& output_constant(const Graph& graph) {
  return *graph.value(graph.outputs()[0]).constant;
}

Attributes literal_value(const std::vector<float>& values) {
  Attributes attributes(tiny::registry().schema(*tiny::registry().find("literal")));
  const std::vector<int64_t> sizes = {static_cast<int64_t>(values.size())};
  EXPECT_TRUE(
      attributes.set_tensor("value", BP_DTYPE_F32, sizes, std::as_bytes(std::span(values))).ok());
  return attributes;
}

TEST(Passes, ConstantOperator_NoFoldFunction_BecomesConstant) {
  Graph graph(tiny::registry());
  const ValueId c = *graph.op("literal", Ids{}, literal_value({1, 2}));
  ASSERT_TRUE(graph.set_outputs({c}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_THAT(tiny::values_of<float>(output_constant(graph)), ElementsAre(1, 2));
}

TEST(Passes, AllInputsConstant_Folded) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({2}, {1, 2}));
  const ValueId b = *graph.add_constant("b", floats({2}, {10, 20}));
  const ValueId c = *graph.op("plus", Ids{a, b});
  const ValueId d = *graph.op("plus", Ids{c, b});
  ASSERT_TRUE(graph.set_outputs({d}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn()}).ok());
  EXPECT_EQ(folder.calls, 2);
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_THAT(tiny::values_of<float>(output_constant(graph)), ElementsAre(21, 42));
  EXPECT_EQ(graph.find_value("a"), kNoValue);
}

TEST(Passes, NoFoldFunction_NodeStays) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({2}, {1, 2}));
  const ValueId c = *graph.op("plus", Ids{a, a});
  ASSERT_TRUE(graph.set_outputs({c}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, FoldFails_NodeStays) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({1, 2}, {1, 2}));
  const NodeId two = *graph.add_node(*tiny::registry().find("twice"), "t", Ids{a}, {});
  ASSERT_TRUE(graph.set_outputs({graph.node(two).outputs[1]}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn()}).ok());
  EXPECT_EQ(folder.calls, 1);
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, DeadNode_NeverFolded) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({2}, {1, 2}));
  *graph.op("plus", Ids{a, a});
  ASSERT_TRUE(graph.set_outputs({a}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn()}).ok());
  EXPECT_EQ(folder.calls, 0);
}

TEST(Passes, NodeWithoutInputs_NotFolded) {
  Graph graph(tiny::registry());
  const ValueId n = *graph.op("noise", Ids{}, literal_value({1}));
  ASSERT_TRUE(graph.set_outputs({n}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn()}).ok());
  EXPECT_EQ(folder.calls, 0);
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, ViewOfConstant_SameBytesWithoutFoldFunction) {
  Graph graph(tiny::registry());
  const HostTensor weights = floats({6}, {1, 2, 3, 4, 5, 6});
  const ValueId w = *graph.add_constant("w", weights);
  const ValueId shape = *graph.add_constant("shape", numbers({2, 3}));
  const ValueId y = *graph.op("resize", Ids{w, shape});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_EQ(output_constant(graph).sizes, (Dims{2, 3}));
  EXPECT_EQ(output_constant(graph).data, weights.data);
}

TEST(Passes, TurnedConstant_NotTakenForTheSameBytes) {
  Graph graph(tiny::registry());
  const ValueId w = *graph.add_constant("w", floats({2, 2}, {1, 2, 3, 4}));
  const ValueId y = *graph.op("turn", Ids{w});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, FoldedShape_MakesSizesKnown) {
  Graph graph(tiny::registry());
  const ValueId mask = *graph.add_constant("mask", floats({4}, {0, 0, 1, 1}));
  const ValueId found = *graph.op("find", Ids{mask});  // [4] at most, really {2, 3}
  const ValueId x = *graph.add_input("x", f32({graph.symbol("N")}));
  const ValueId y = *graph.op("resize", Ids{x, found});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  Folder folder;
  const Status status = run_passes(&graph, {.fold = folder.fn()});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.value(graph.outputs()[0]).type.sizes, (Dims{2, 3}));
}

TEST(Passes, ChainOfFoldedShapes_EachNodeTriedOnce) {
  Graph graph(tiny::registry());
  const ValueId mask = *graph.add_constant("mask", floats({2}, {0, 1}));
  const ValueId one = *graph.add_constant("one", numbers({1}));
  ValueId shape = *graph.op("find", Ids{mask});
  for (int i = 0; i < 20; ++i) shape = *graph.op("resize", Ids{one, shape});
  ASSERT_TRUE(graph.set_outputs({shape}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn()}).ok());
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_EQ(folder.calls, 1) << "of find alone: each resize is a view of sizes known by then";
}

TEST(Passes, ResultOverLimit_NotFolded) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({4}, {1, 2, 3, 4}));
  const NodeId two = *graph.add_node(*tiny::registry().find("twice"), "t", Ids{a}, {});
  ASSERT_TRUE(graph.set_outputs({graph.node(two).outputs[0]}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn(), .fold_limit_bytes = 8}).ok());
  EXPECT_EQ(folder.calls, 0) << "two outputs of 16 bytes from an input of 16";
}

TEST(Passes, ResultAsLargeAsInputs_FoldedOverLimit) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({4}, {1, 2, 3, 4}));
  const ValueId c = *graph.op("plus", Ids{a, a});
  ASSERT_TRUE(graph.set_outputs({c}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn(), .fold_limit_bytes = 8}).ok());
  EXPECT_EQ(folder.calls, 1);
}

TEST(Passes, ChainOfResults_IsFoldedUpToALimitForAll) {
  Graph graph(tiny::registry());
  ValueId sum = *graph.add_constant("a", floats({4}, {1, 2, 3, 4}));
  for (int i = 0; i < 10; ++i) sum = *graph.op("plus", Ids{sum, sum});
  ASSERT_TRUE(graph.set_outputs({sum}, {"y"}).ok());
  Folder folder;
  ASSERT_TRUE(run_passes(&graph, {.fold = folder.fn(), .fold_limit_bytes = 8}).ok());
  EXPECT_EQ(folder.calls, 4) << "of 16 bytes each, and 8 times 8 for all";
  EXPECT_EQ(graph.nodes().size(), 6u) << "which are left as they are";
}

TEST(Passes, WrongFoldedSizes_InternalNamesNode) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({2}, {1, 2}));
  *graph.add_node(*tiny::registry().find("plus"), "sum", Ids{a, a}, {});
  ASSERT_TRUE(graph.set_outputs({1}, {"y"}).ok());
  const PassOptions options = {.fold = [](const Node&, std::span<const HostTensor* const>) {
    return Result<std::vector<HostTensor>>(std::vector<HostTensor>{floats({1}, {1})});
  }};
  const Status status = run_passes(&graph, options);
  EXPECT_EQ(status.code(), BP_INTERNAL);
  EXPECT_EQ(status.message(),
            "pass 'fold constants': folding node 'sum': expected f32[2], found f32[1]");
}

TEST(Passes, WrongFoldedCount_Internal) {
  Graph graph(tiny::registry());
  const ValueId a = *graph.add_constant("a", floats({2}, {1, 2}));
  const ValueId c = *graph.op("plus", Ids{a, a});
  ASSERT_TRUE(graph.set_outputs({c}, {"y"}).ok());
  const PassOptions options = {.fold = [](const Node&, std::span<const HostTensor* const>) {
    return Result<std::vector<HostTensor>>(std::vector<HostTensor>{});
  }};
  EXPECT_THAT(run_passes(&graph, options).message(), HasSubstr("expected 1 outputs, found 0"));
}

TEST(Passes, CopyBetweenNodes_Removed) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({graph.symbol("N"), 3}));
  const ValueId a = *graph.op("same", Ids{x});
  const ValueId b = *graph.op("same", Ids{a});
  const ValueId y = *graph.op("plus", Ids{b, x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  ASSERT_EQ(graph.nodes().size(), 1u);
  EXPECT_THAT(graph.node(0).inputs, ElementsAre(0u, 0u, kNoValue));
}

TEST(Passes, CopyToOutput_Stays) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({2, 3}));
  const ValueId y = *graph.op("same", Ids{x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, TurnOfEqualSizes_Stays) {
  Graph graph(tiny::registry());
  const int64_t n = graph.symbol("N");
  const ValueId x = *graph.add_input("x", f32({n, n}));
  const ValueId t = *graph.op("turn", Ids{x});
  const ValueId y = *graph.op("plus", Ids{t, x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(Passes, TurnOfOneElement_IsACopy) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({1, 1}));
  const ValueId t = *graph.op("turn", Ids{x});
  const ValueId y = *graph.op("plus", Ids{t, x});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Passes, ResizeToUnknownSizes_Stays) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({kUnknownDim}));
  const ValueId shape =
      *graph.add_input("shape", {.dtype = BP_DTYPE_I64, .has_rank = true, .sizes = {1}});
  const ValueId a = *graph.op("resize", Ids{x, shape});
  const ValueId y = *graph.op("find", Ids{a});
  ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
  ASSERT_TRUE(run_passes(&graph, {}).ok());
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(Passes, EachPass_ReportedAndLogged) {
  Graph graph(tiny::registry());
  const ValueId x = *graph.add_input("x", f32({2}));
  ASSERT_TRUE(graph.set_outputs({x}, {"y"}).ok());
  std::vector<std::string> passes;
  std::vector<std::string> lines;
  set_log_level(BP_LOG_DEBUG);
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  const PassOptions options = {
      .after_pass = [&](std::string_view pass, const Graph&) { passes.emplace_back(pass); }};
  const Status status = run_passes(&graph, options);
  set_log_sink({});
  set_log_level(BP_LOG_WARNING);
  ASSERT_TRUE(status.ok());
  EXPECT_THAT(passes,
              ElementsAre("remove dead code", "fold constants", "remove copies",
                          "merge equal nodes", "remove what folding left", "absorb epilogues"));
  EXPECT_THAT(lines, Contains(HasSubstr("pass fold constants: 0 -> 0 nodes")));
}

}  // namespace
}  // namespace bp
