// SPDX-License-Identifier: Apache-2.0
//
// ONNX operators that choose or sort elements become ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/node_import.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

std::string imported_type(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? output_type(*graph) : graph.status().to_string();
}

/// x is f32 [N, 3].
Model with_indices(const Message& the_node, std::vector<int64_t> sizes) {
  Model model = one_node(the_node);
  std::vector<Dim> dims(sizes.begin(), sizes.end());
  model.inputs.push_back(value_info("i", dims, kInt64Type));
  return model;
}

TEST(ConvertGather, ElementsAndNd_Read) {
  Model elements =
      with_indices(node("GatherElements", "g", {"x", "i"}, {"y"}, {attr("axis", 1L)}), {2, 5});
  EXPECT_EQ(imported_type(elements), "f32[2, 5]");
  Model nd = with_indices(node("GatherND", "g", {"x", "i"}, {"y"}), {4, 1});
  EXPECT_EQ(imported_type(nd), "f32[4, 3]");
  nd.nodes = {node("GatherND", "g", {"x", "i"}, {"y"}, {attr("batch_dims", 1L)})};
  EXPECT_EQ(imported_type(nd), "f32[4]");
  nd.opset = 11;
  EXPECT_THAT(refused(nd).message(), HasSubstr("attribute 'batch_dims' is not known"));
}

TEST(ConvertScatter, Reduction_FromOpset16) {
  Model model = with_indices(node("ScatterElements", "s", {"x", "i", "u"}, {"y"},
                                  {attr("axis", 1L), attr("reduction", "max")}),
                             {1, 2});
  model.initializers = {floats("u", {1, 2}, {1, 2})};
  model.opset = 16;
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(graph->node(0).attributes.to_string(), HasSubstr("max"));
  model.opset = 15;
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'reduction' is not known"));
  model.nodes = {node("Scatter", "s", {"x", "i", "u"}, {"y"}, {attr("axis", 1L)})};
  model.opset = 10;
  EXPECT_EQ(imported_type(model), "f32[N, 3]");
}

TEST(ConvertScatter, UnknownReduction_Named) {
  Model model = with_indices(
      node("ScatterND", "s", {"x", "i", "u"}, {"y"}, {attr("reduction", "average")}), {1, 2});
  model.initializers = {floats("u", {1}, {1})};
  model.opset = 18;
  EXPECT_THAT(refused(model).message(),
              HasSubstr("attribute 'reduction': expected none, add, mul, max or min, found "
                        "'average'"));
}

TEST(ConvertCompress, WithoutAxis_FlattensFirst) {
  Model model = one_node(node("Compress", "c", {"x", "k"}, {"y"}));
  model.inputs.push_back(value_info("k", {int64_t{2}}, kBoolType));
  const auto flat = import_model(model);
  ASSERT_TRUE(flat.ok()) << flat.status().to_string();
  EXPECT_THAT(op_names(*flat), ElementsAre("reshape", "compress"));
  EXPECT_EQ(output_type(*flat), "f32[?]");  // as many as conditions are true
  model.nodes = {node("Compress", "c", {"x", "k"}, {"y"}, {attr("axis", -1L)})};
  const auto along = import_model(model);
  ASSERT_TRUE(along.ok()) << along.status().to_string();
  EXPECT_THAT(op_names(*along), ElementsAre("compress"));
  EXPECT_EQ(output_type(*along), "f32[?, ?]");
}

TEST(ConvertArg, SelectLastIndex_FromOpset12) {
  Model model = one_node(
      node("ArgMax", "a", {"x"}, {"y"}, {attr("axis", 1L), attr("select_last_index", 1L)}));
  model.opset = 12;
  EXPECT_EQ(imported_type(model), "i64[N, 1]");
  model.opset = 11;
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'select_last_index' is not known"));
  model.nodes = {node("ArgMin", "a", {"x"}, {"y"}, {attr("keepdims", 0L)})};
  EXPECT_EQ(imported_type(model), "i64[3]");
}

TEST(ConvertTopK, KIsAnAttributeOrAnInput) {
  Model model = one_node(node("TopK", "t", {"x"}, {"y", "i"}, {attr("k", 2L)}));
  model.opset = 9;
  EXPECT_EQ(imported_type(model), "f32[N, 2]");
  model.nodes = {node("TopK", "t", {"x"}, {"y"})};
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'k' is missing"));
  model.nodes = {node("TopK", "t", {"x", "k"}, {"y"}, {attr("largest", 0L), attr("sorted", 0L)})};
  model.initializers = {int64s("k", {1})};
  model.opset = 11;
  EXPECT_EQ(imported_type(model), "f32[N, 1]");
  model.nodes = {node("TopK", "t", {"x", "k"}, {"", "y"})};
  EXPECT_EQ(imported_type(model), "i64[N, 1]");
  model.initializers = {int64s("k", {4})};
  EXPECT_THAT(refused(model).message(), HasSubstr("input 'k': expected at most 3"));
}

TEST(ConvertOneHot, DepthMayBeAnyNumber) {
  Model model = with_indices(node("OneHot", "o", {"i", "d", "v"}, {"y"}, {attr("axis", 0L)}), {4});
  model.initializers = {int64s("d", {3}), floats("v", {2}, {0, 1})};
  EXPECT_EQ(imported_type(model), "f32[3, 4]");
  model.initializers = {floats("d", {1}, {3}), floats("v", {2}, {0, 1})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "one_hot"));
}

TEST(ConvertScan, AxisMayBeNarrow) {
  Model model = one_node(node("CumSum", "c", {"x", "a"}, {"y"}, {attr("exclusive", 1L)}));
  model.inputs.push_back(value_info("a", {}, kInt32Type));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cumsum"));
  model.nodes = {node("CumProd", "c", {"x", "a"}, {"y"})};
  model.inputs.back() = value_info("a", {}, kInt64Type);
  model.opset = 26;
  EXPECT_EQ(imported_type(model), "f32[N, 3]");
}

}  // namespace
}  // namespace bp
