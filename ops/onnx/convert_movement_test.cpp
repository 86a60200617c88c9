// SPDX-License-Identifier: Apache-2.0
//
// ONNX operators that move elements become ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backplane/ops/attributes.h"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;

/// A node over x [N, 1, 8].
Model movement(const Message& the_node, int64_t opset) {
  Model model = one_node(the_node);
  model.inputs = {value_info("x", {"N", int64_t{1}, int64_t{8}})};
  model.opset = opset;
  return model;
}

Message int32s(std::string_view name, const std::vector<int32_t>& values) {
  return tensor(name, {static_cast<int64_t>(values.size())}, kInt32Type, bytes_of(values));
}

TEST(ConvertSqueeze, AxesAsAttributeOrInput_Same) {
  const Message by_attribute = node("Squeeze", "s", {"x"}, {"y"}, {attr("axes", Ints{1})});
  EXPECT_EQ(type_of(import_model(movement(by_attribute, 12))), "f32[N, 8]");
  Model by_input = movement(node("Squeeze", "s", {"x", "a"}, {"y"}), 13);
  by_input.initializers = {int64s("a", {1})};
  EXPECT_EQ(type_of(import_model(by_input)), "f32[N, 8]");
  EXPECT_THAT(refused(movement(by_attribute, 13)).message(),
              HasSubstr("attribute 'axes' is not known"));
  by_input.opset = 12;
  EXPECT_THAT(refused(by_input).message(), HasSubstr("expected 1 inputs, found 2"));
  EXPECT_EQ(type_of(import_model(movement(node("Squeeze", "s", {"x"}, {"y"}), 11))), "f32[...]");
}

TEST(ConvertUnsqueeze, AxesAsAttributeOrInput_Same) {
  const Message by_attribute = node("Unsqueeze", "u", {"x"}, {"y"}, {attr("axes", Ints{0, 4})});
  EXPECT_EQ(type_of(import_model(movement(by_attribute, 7))), "f32[1, N, 1, 8, 1]");
  EXPECT_THAT(refused(movement(node("Unsqueeze", "u", {"x"}, {"y"}), 11)).message(),
              HasSubstr("node 'u' (Unsqueeze, opset 11): attribute 'axes' is missing"));
  Model by_input = movement(node("Unsqueeze", "u", {"x", "a"}, {"y"}), 28);
  by_input.initializers = {int64s("a", {-1})};
  EXPECT_EQ(type_of(import_model(by_input)), "f32[N, 1, 8, 1]");
}

/// As PyTorch exports grouped attention; known, and made by the model itself.
TEST(ConvertListInput, Scalar_IsAListOfOne) {
  Model model = movement(node("Unsqueeze", "u", {"x", "a"}, {"y"}), 20);
  model.initializers = {tensor("a", {}, kInt64Type, bytes_of<int64_t>({1}))};
  const auto known = import_model(model);
  EXPECT_EQ(type_of(known), "f32[N, 1, 1, 8]");
  EXPECT_THAT(op_names(*known), ElementsAre("unsqueeze"));
  model = movement(node("Expand", "e", {"x", "s"}, {"y"}), 13);
  model.inputs.push_back(value_info("s", {}, kInt64Type));
  const auto unknown = import_model(model);
  EXPECT_EQ(type_of(unknown), "f32[N, 1, 8]");
  EXPECT_THAT(op_names(*unknown), ElementsAre("reshape", "expand"));
  model = movement(node("Squeeze", "s", {"x", "a"}, {"y"}), 13);
  model.initializers = {tensor("a", {1, 1}, kInt64Type, bytes_of<int64_t>({1}))};
  EXPECT_THAT(refused(model).message(), HasSubstr("input 'axes': expected rank 1, found [1, 1]"));
}

TEST(ConvertSlice, AttributesOrInputs_Same) {
  const Message by_attribute =
      node("Slice", "s", {"x"}, {"y"},
           {attr("starts", Ints{2}), attr("ends", Ints{-1}), attr("axes", Ints{2})});
  EXPECT_EQ(type_of(import_model(movement(by_attribute, 9))), "f32[N, 1, 5]");
  EXPECT_THAT(
      refused(movement(node("Slice", "s", {"x"}, {"y"}, {attr("starts", Ints{2})}), 9)).message(),
      HasSubstr("attribute 'ends' is missing"));
  Model by_input = movement(node("Slice", "s", {"x", "b", "e", "a"}, {"y"}), 10);
  by_input.initializers = {int64s("b", {2}), int64s("e", {-1}), int64s("a", {2})};
  EXPECT_EQ(type_of(import_model(by_input)), "f32[N, 1, 5]");
  by_input.initializers = {int32s("b", {2}), int32s("e", {-1}), int32s("a", {2})};
  const auto narrow = import_model(by_input);
  EXPECT_EQ(type_of(narrow), "f32[N, 1, 5]");
  EXPECT_THAT(op_names(*narrow), ElementsAre("slice"));
}

TEST(ConvertSlice, StepsWithoutAxes_AreRead) {
  Model model = movement(node("Slice", "s", {"x", "b", "e", "", "d"}, {"y"}), 13);
  model.initializers = {int64s("b", {0, 0, -1}), int64s("e", {INT64_MAX, 1, INT64_MIN}),
                        int64s("d", {1, 1, -2})};
  EXPECT_EQ(type_of(import_model(model)), "f32[N, 1, 4]");
}

TEST(ConvertSlice, ValuesOfARun_AreWidened) {
  Model model = movement(node("Slice", "s", {"x", "b", "e"}, {"y"}), 13);
  model.inputs.push_back(value_info("b", {int64_t{1}}, kInt32Type));
  model.inputs.push_back(value_info("e", {int64_t{1}}, kInt32Type));
  const auto graph = import_model(model);
  EXPECT_EQ(type_of(graph), "f32[?, 1, 8]");
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cast", "slice"));
}

TEST(ConvertExpandAndConcat, Attributes_Copied) {
  Model expand = movement(node("Expand", "e", {"x", "s"}, {"y"}), 8);
  expand.initializers = {int64s("s", {3, 1})};
  EXPECT_EQ(type_of(import_model(expand)), "f32[N, 3, 8]");
  EXPECT_EQ(type_of(import_model(
                movement(node("Concat", "c", {"x", "x", "x"}, {"y"}, {attr("axis", -1L)}), 11))),
            "f32[N, 1, 24]");
  EXPECT_THAT(refused(movement(node("Concat", "c", {"x"}, {"y"}), 11)).message(),
              HasSubstr("attribute 'axis'"));
}

Model split(const std::vector<Message>& attributes, int64_t opset,
            const std::vector<std::string>& outputs = {"y", "z"}) {
  Model model = movement(node("Split", "s", {"x"}, outputs, attributes), opset);
  model.outputs = {Message().text(1, "y"), Message().text(1, "z")};
  return model;
}

TEST(ConvertSplit, KnownSizes_AreAttributes) {
  const auto equal = import_model(split({attr("axis", 2L)}, 12));
  ASSERT_TRUE(equal.ok()) << equal.status().to_string();
  EXPECT_THAT(op_names(*equal), ElementsAre("split"));
  EXPECT_EQ(output_type(*equal, 0) + output_type(*equal, 1), "f32[N, 1, 4]f32[N, 1, 4]");
  const auto sizes = import_model(split({attr("axis", -1L), attr("split", Ints{3, 5})}, 7));
  EXPECT_EQ(output_type(*sizes, 0) + output_type(*sizes, 1), "f32[N, 1, 3]f32[N, 1, 5]");
  Model by_input = split({}, 13);
  by_input.nodes = {node("Split", "s", {"x", "p"}, {"y", "z"}, {attr("axis", 2L)})};
  by_input.initializers = {int64s("p", {8, 0})};
  const auto read = import_model(by_input);
  EXPECT_EQ(output_type(*read, 0) + output_type(*read, 1), "f32[N, 1, 8]f32[N, 1, 0]");
}

TEST(ConvertSplit, UnequalParts_TheLastIsSmallerFromOpset18) {
  Model model = split({attr("axis", 2L), attr("num_outputs", 3L)}, 18, {"y", "", "z"});
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph, 0) + output_type(*graph, 1), "f32[N, 1, 3]f32[N, 1, 2]");
  EXPECT_THAT(op_names(*graph), ElementsAre("split"));
  EXPECT_THAT(refused(split({attr("axis", 2L)}, 13, {"y", "", "z"})).message(),
              HasSubstr("input 0: expected a dimension that has 3 equal parts, found size 8"));
}

TEST(ConvertSplit, SizesOfARun_GiveUnknownParts) {
  Model model = split({}, 13);
  model.nodes = {node("Split", "s", {"x", "p"}, {"y", "z"}, {attr("axis", 2L)})};
  model.inputs.push_back(value_info("p", {int64_t{2}}, kInt64Type));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph, 1), "f32[N, 1, ?]");
  EXPECT_THAT(op_names(*graph), ElementsAre("slice", "add", "slice", "add", "slice", "slice"));
}

TEST(ConvertSplit, BadSizes_Named) {
  const auto words = [](const std::vector<Message>& attributes, int64_t opset) {
    return refused(split(attributes, opset)).message();
  };
  EXPECT_THAT(words({attr("axis", 3L)}, 12),
              HasSubstr("attribute 'axis': expected -3 to 2, found 3"));
  EXPECT_THAT(words({attr("axis", 2L), attr("split", Ints{3})}, 12),
              HasSubstr("'split': expected 2 sizes, one for each output, found 1"));
  EXPECT_THAT(words({attr("axis", 2L), attr("split", Ints{3, 6})}, 12),
              HasSubstr("attribute 'sizes': expected sizes from 0 that together are the "
                        "dimension's, 8, found 6"));
  EXPECT_THAT(words({attr("axis", 2L), attr("split", Ints{3, 4})}, 12),
              HasSubstr("attribute 'sizes': expected sizes that together are 8, found 7"));
  EXPECT_THAT(words({attr("axis", 2L), attr("split", Ints{-1, 9})}, 12), HasSubstr("found -1"));
  EXPECT_THAT(words({attr("num_outputs", 3L)}, 18),
              HasSubstr("attribute 'num_outputs': expected 2, as there are outputs, found 3"));
}

TEST(ConvertSplit, UnknownSize_IsDividedWhenItIsKnown) {
  const auto graph = import_model(split({attr("axis", 0L)}, 12));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph, 1), "f32[?, 1, 8]");
  EXPECT_THAT(op_names(*graph), ElementsAre("split"));
}

TEST(ConvertConstantOfShape, Value_IsExpanded) {
  Model model =
      one_node(node("ConstantOfShape", "c", {"s"}, {"y"},
                    {attr("value", tensor("v", {1}, kInt32Type, bytes_of<int32_t>({7})))}));
  model.initializers = {int64s("s", {2, 3})};
  const auto graph = import_model(model);
  EXPECT_EQ(type_of(graph), "i32[2, 3]");
  EXPECT_THAT(op_names(*graph), ElementsAre("expand"));
  model.nodes = {node("ConstantOfShape", "c", {"s"}, {"y"})};
  EXPECT_EQ(type_of(import_model(model)), "f32[2, 3]");
  model.nodes = {
      node("ConstantOfShape", "c", {"s"}, {"y"}, {attr("value", floats("v", {2}, {1, 2}))})};
  EXPECT_THAT(refused(model).message(), HasSubstr("'value': expected one element, found [2]"));
}

TEST(ConvertPad, EveryForm_Same) {
  Model old = movement(
      node("Pad", "p", {"x"}, {"y"}, {attr("pads", Ints{0, 0, 1, 0, 0, 2}), attr("mode", "edge")}),
      10);
  EXPECT_EQ(type_of(import_model(old)), "f32[N, 1, 11]");
  old.nodes = {node("Pad", "p", {"x"}, {"y"})};
  EXPECT_THAT(refused(old).message(), HasSubstr("attribute 'pads' is missing"));
  Model by_input = movement(node("Pad", "p", {"x", "p"}, {"y"}), 11);
  by_input.initializers = {int64s("p", {0, 0, 1, 0, 0, 2})};
  EXPECT_EQ(type_of(import_model(by_input)), "f32[N, 1, 11]");
  Model with_axes =
      movement(node("Pad", "p", {"x", "p", "", "a"}, {"y"}, {attr("mode", "wrap")}), 19);
  with_axes.initializers = {int64s("p", {1, 2}), int32s("a", {-1})};
  EXPECT_EQ(type_of(import_model(with_axes)), "f32[N, 1, 11]");
  with_axes.opset = 13;
  EXPECT_THAT(refused(with_axes).message(), HasSubstr("expected 2 to 3 inputs, found 4"));
}

TEST(ConvertBlocks, AttributesOfTheirOperatorSets) {
  const auto blocks = [](const char* op, const std::vector<Message>& attributes, int64_t opset) {
    Model model = one_node(node(op, "b", {"x"}, {"y"}, attributes));
    model.inputs = {value_info("x", {"N", int64_t{4}, int64_t{2}, int64_t{2}})};
    model.opset = opset;
    return model;
  };
  EXPECT_EQ(type_of(import_model(blocks("DepthToSpace", {attr("blocksize", 2L)}, 7))),
            "f32[N, 1, 4, 4]");
  const std::vector<Message> both = {attr("blocksize", 2L), attr("mode", "CRD")};
  EXPECT_EQ(type_of(import_model(blocks("DepthToSpace", both, 11))), "f32[N, 1, 4, 4]");
  EXPECT_THAT(refused(blocks("DepthToSpace", both, 10)).message(),
              HasSubstr("attribute 'mode' is not known"));
  EXPECT_EQ(type_of(import_model(blocks("SpaceToDepth", both, 28))), "f32[N, 16, 1, 1]");
  EXPECT_THAT(refused(blocks("SpaceToDepth", both, 27)).message(),
              HasSubstr("attribute 'mode' is not known"));
}

TEST(ConvertCreation, TypesAndSizes) {
  Model range = one_node(node("Range", "r", {"b", "e", "d"}, {"y"}));
  range.initializers = {tensor("b", {}, kInt64Type, bytes_of<int64_t>({1})),
                        tensor("e", {}, kInt64Type, bytes_of<int64_t>({8})),
                        tensor("d", {}, kInt64Type, bytes_of<int64_t>({2}))};
  EXPECT_EQ(type_of(import_model(range)), "i64[4]");
  Model eye = one_node(node("EyeLike", "e", {"x"}, {"y"}, {attr("k", 1L)}));
  EXPECT_EQ(type_of(import_model(eye)), "f32[N, 3]");
  eye.nodes = {node("EyeLike", "e", {"x"}, {"y"}, {attr("dtype", 9L)})};
  EXPECT_EQ(type_of(import_model(eye)), "bool[N, 3]");
  eye.nodes = {node("EyeLike", "e", {"x"}, {"y"}, {attr("dtype", 8L)})};
  EXPECT_THAT(refused(eye).message(), HasSubstr("attribute 'dtype': dtype STRING"));
  EXPECT_EQ(type_of(import_model(one_node(node("Trilu", "t", {"x"}, {"y"}, {attr("upper", 0L)})))),
            "f32[N, 3]");
}

/// The operators, the nearest place of each resize behind it.
std::vector<std::string> resized_by(const std::vector<float>& scales) {
  Model model = movement(node("Resize", "r", {"x", "s"}, {"y"}), 10);
  if (scales.empty()) {
    model.inputs.push_back(value_info("s", {int64_t{3}}));
  } else {
    model.initializers = {floats("s", {3}, scales)};
  }
  const auto graph = import_model(model);
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  std::vector<std::string> names;
  for (size_t i = 0; graph.ok() && i < graph->nodes().size(); ++i) {
    names.push_back(op_names(*graph)[i]);
    if (names.back() != "resize") continue;
    const auto* attributes =
        static_cast<const bp_attrs_resize*>(graph->nodes()[i].attributes.data());
    EXPECT_EQ(std::string(attributes->coordinates.ptr, attributes->coordinates.len), "asymmetric");
    names.back() += " " + std::string(attributes->nearest_mode.ptr, attributes->nearest_mode.len);
  }
  return names;
}

/// Operator set 10's own case has 1 and 3 of 1, 2, 3, 4 by 0.6, and 1, 1, 2, 2 of 1, 2 by 2.
TEST(ConvertResize, NearestOfOpset10_IsBelowWhereItGrowsAndAboveWhereItShrinks) {
  EXPECT_THAT(resized_by({1, 1, 0.6F}), ElementsAre("resize ceil"));
  EXPECT_THAT(resized_by({1, 1, 2}), ElementsAre("resize floor"));
  EXPECT_THAT(resized_by({1, 1, 1}), ElementsAre("resize floor"));
  EXPECT_THAT(resized_by({1, 2, 0.5F}), ElementsAre("resize floor", "resize ceil"));
  EXPECT_THAT(resized_by({}), ElementsAre("max", "resize floor", "min", "resize ceil"));
}

}  // namespace
}  // namespace bp
