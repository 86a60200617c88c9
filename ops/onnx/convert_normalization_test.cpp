// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of ONNX become ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/node_import.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A node over x [N, 4, 3] with parameters s and b of this many values.
Model model_of(const Message& the_node, int64_t opset, int64_t count) {
  Model model = one_node(the_node);
  model.opset = opset;
  model.inputs = {value_info("x", {"N", int64_t{4}, int64_t{3}})};
  const std::vector<float> ones(static_cast<size_t>(count), 1.0f);
  model.initializers = {floats("s", {count}, ones), floats("b", {count}, ones)};
  return model;
}

TEST(ConvertLayerNorm, Attributes_Copied) {
  const auto graph = import_model(
      model_of(node("LayerNormalization", "n", {"x", "s", "b"}, {"y"},
                    {attr("axis", 2L), attr("epsilon", 0.25f), attr("stash_type", 1L)}),
               17, 3));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("layer_norm"));
  EXPECT_THAT(graph->nodes().back().attributes.to_string(),
              AllOf(HasSubstr("axis=2"), HasSubstr("epsilon=0.25")));
}

TEST(ConvertLayerNorm, OutputsOfMoments_AreWorkedOutBeside) {
  const auto graph = import_model(
      model_of(node("LayerNormalization", "n", {"x", "s"}, {"y", "", "inverse"}), 17, 3));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("layer_norm", "reduce_sum", "mul", "sub", "mul",
                                            "reduce_sum", "mul", "add", "sqrt", "reciprocal"));
  Model unknown = model_of(
      node("LayerNormalization", "n", {"x", "s"}, {"y", "mean"}, {attr("axis", 0L)}), 17, 3);
  EXPECT_EQ(refused(unknown).code(), BP_UNSUPPORTED);
  EXPECT_THAT(refused(unknown).message(),
              HasSubstr("the outputs of moments need known sizes from axis 0 on"));
}

TEST(ConvertLayerNorm, OtherStash_Refused) {
  EXPECT_THAT(refused(model_of(node("LayerNormalization", "n", {"x", "s"}, {"y"},
                                    {attr("stash_type", 16L)}),
                               17, 3))
                  .message(),
              HasSubstr("attribute 'stash_type': only 1 is supported, found 16"));
  EXPECT_THAT(
      refused(model_of(node("LayerNormalization", "n", {"x", "s"}, {"y"}), 16, 3)).message(),
      HasSubstr("LayerNormalization"));
}

TEST(ConvertRmsNorm, MixedDtypes_AreWidened) {
  Model model = model_of(node("RMSNormalization", "n", {"x", "s"}, {"y"}), 23, 3);
  EXPECT_THAT(op_names(*import_model(model)), ElementsAre("rms_norm"));
  model.inputs = {value_info("x", {"N", int64_t{4}, int64_t{3}}, kDoubleType)};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "rms_norm", "cast"));
  EXPECT_EQ(output_type(*graph), "f32[N, 4, 3]");
}

TEST(ConvertGroupNorm, BeforeOpset21_ScaleOfGroupsIsRepeated) {
  const auto of_groups = [](int64_t opset, int64_t count) {
    return model_of(
        node("GroupNormalization", "n", {"x", "s", "b"}, {"y"}, {attr("num_groups", 2L)}), opset,
        count);
  };
  const auto graph = import_model(of_groups(21, 4));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("group_norm"));
  const auto old = import_model(of_groups(18, 2));
  ASSERT_TRUE(old.ok()) << old.status().to_string();
  EXPECT_THAT(op_names(*old),
              ElementsAre("reshape", "mul", "reshape", "reshape", "mul", "reshape", "group_norm"));
  EXPECT_THAT(refused(of_groups(21, 2)).message(), HasSubstr("expected size 4"));
  EXPECT_THAT(refused(of_groups(18, 4)).message(), HasSubstr("input 'shape'"));
}

}  // namespace
}  // namespace bp
