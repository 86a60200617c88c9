// SPDX-License-Identifier: Apache-2.0
#include "core/passes/merge_equal.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/graph/tiny_ops_test.hpp"

namespace bp {
namespace {

using tiny::f32;
using tiny::floats;
using tiny::numbers;

using Ids = std::vector<ValueId>;

/// The graph's text after the pass, without the names of nodes.
std::string merged(Graph graph) {
  merge_equal(&graph);
  const Status sound = graph.verify();
  return sound.ok() ? graph.to_string() : sound.to_string();
}

size_t node_count(const Graph& graph) {
  Graph copy = graph;
  merge_equal(&copy);
  EXPECT_TRUE(copy.verify().ok()) << copy.verify().to_string();
  return copy.nodes().size();
}

class MergeEqual : public testing::Test {
 protected:
  ValueId plus(ValueId a, ValueId b) { return *graph_.op("plus", Ids{a, b}); }
  void outputs(const Ids& ids) {
    std::vector<std::string> names;
    for (size_t i = 0; i < ids.size(); ++i) names.push_back("y" + std::to_string(i));
    ASSERT_TRUE(graph_.set_outputs(ids, names).ok());
  }

  Graph graph_{tiny::registry()};
  const ValueId x_ = *graph_.add_input("x", f32({2, 3}));
  const ValueId z_ = *graph_.add_input("z", f32({2, 3}));
};

TEST_F(MergeEqual, Chains_AreComputedOnce) {
  const ValueId a = plus(plus(x_, z_), z_);
  const ValueId b = plus(plus(x_, z_), z_);
  outputs({plus(a, b)});
  EXPECT_EQ(merged(graph_),
            "input x: f32[2, 3]\n"
            "input z: f32[2, 3]\n"
            "%2: f32[2, 3] = plus(x, z, -)  # plus#0\n"
            "%3: f32[2, 3] = plus(%2, z, -)  # plus#1\n"
            "%4: f32[2, 3] = plus(%3, %3, -)  # plus#4\n"
            "output y0: %4\n");
}

TEST_F(MergeEqual, OtherInputs_Order_OrOperator_Stay) {
  const ValueId turned = *graph_.op("turn", Ids{x_});
  const ValueId same = *graph_.op("same", Ids{x_});
  outputs({plus(plus(x_, z_), plus(z_, x_)), turned, same});
  EXPECT_EQ(node_count(graph_), 5u);
}

TEST_F(MergeEqual, SmallConstants_AreMergedByTheirValues) {
  const ValueId one = *graph_.add_constant("one", floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  const ValueId two = *graph_.add_constant("two", floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  const ValueId other = *graph_.add_constant("other", floats({2, 3}, {1, 2, 3, 4, 5, 7}));
  outputs({plus(plus(x_, one), plus(plus(x_, two), plus(x_, other)))});
  EXPECT_EQ(node_count(graph_), 4u);
}

TEST_F(MergeEqual, ConstantsOfOtherSizesOrDtype_Stay) {
  const ValueId flat = *graph_.add_constant("", floats({6}, {1, 2, 3, 4, 5, 6}));
  const ValueId wide = *graph_.add_constant("", floats({1, 6}, {1, 2, 3, 4, 5, 6}));
  const ValueId shape = *graph_.add_constant("", numbers({1, 6}));
  const ValueId a = *graph_.op("resize", Ids{flat, shape});
  const ValueId b = *graph_.op("resize", Ids{wide, shape});
  outputs({plus(a, b)});
  EXPECT_EQ(node_count(graph_), 3u);
}

TEST_F(MergeEqual, Outputs_KeepValuesOfTheirOwn) {
  const ValueId a = plus(x_, z_);
  const ValueId b = plus(x_, z_);
  const ValueId constant = *graph_.add_constant("", floats({2, 3}, {0, 0, 0, 0, 0, 0}));
  const ValueId equal = *graph_.add_constant("", floats({2, 3}, {0, 0, 0, 0, 0, 0}));
  outputs({a, b, constant, equal, plus(a, b)});
  merge_equal(&graph_);
  EXPECT_TRUE(graph_.verify().ok()) << graph_.verify().to_string();
  EXPECT_EQ(graph_.nodes().size(), 3u);
  EXPECT_NE(graph_.outputs()[0], graph_.outputs()[1]);
  EXPECT_NE(graph_.outputs()[2], graph_.outputs()[3]);
}

TEST_F(MergeEqual, DefaultInputs_AreNoOrdinaryConstants) {
  const ValueId w = *graph_.add_constant("w", floats({2, 3}, {0, 0, 0, 0, 0, 0}));
  const ValueId v = *graph_.add_constant("v", floats({2, 3}, {0, 0, 0, 0, 0, 0}));
  graph_.add_default_input(w, f32({2, 3}));
  outputs({plus(plus(x_, w), plus(x_, v))});
  EXPECT_EQ(node_count(graph_), 3u);
}

TEST_F(MergeEqual, NodesWithoutInputs_NeedNotMakeTheSame) {
  const OpSchema& schema = tiny::registry().schema(*tiny::registry().find("noise"));
  const auto noise = [&] {
    Attributes attributes(schema);
    const std::vector<float> value(6);
    const std::vector<int64_t> sizes = {2, 3};
    EXPECT_TRUE(
        attributes.set_tensor("value", BP_DTYPE_F32, sizes, std::as_bytes(std::span(value))).ok());
    return *graph_.op("noise", Ids{}, attributes);
  };
  const ValueId a = noise();
  outputs({plus(a, noise())});
  EXPECT_EQ(node_count(graph_), 3u);
}

TEST_F(MergeEqual, SeveralOutputs_AreMergedTogether) {
  const OpId twice = *tiny::registry().find("twice");
  const NodeId a = *graph_.add_node(twice, "a", Ids{x_}, {});
  const NodeId b = *graph_.add_node(twice, "b", Ids{x_}, {});
  outputs({plus(graph_.node(a).outputs[0], graph_.node(b).outputs[1])});
  EXPECT_EQ(node_count(graph_), 2u);
}

TEST_F(MergeEqual, ManyNodes_TakeLittleTime) {
  constexpr int kNodes = 50'000;
  ValueId value = x_;
  for (int i = 0; i < kNodes; ++i) value = plus(value, i % 2 == 0 ? z_ : x_);
  outputs({value});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(node_count(graph_), static_cast<size_t>(kNodes));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace bp
