// SPDX-License-Identifier: Apache-2.0
//
// ONNX operators become ours: attributes, operator sets, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/node_import.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using Ints = std::vector<int64_t>;

/// A node over an image x [N, 1, size, size].
Model image_model(const Message& the_node, Dim size = int64_t{8}) {
  Model model = one_node(the_node);
  model.inputs = {value_info("x", {"N", int64_t{1}, size, size})};
  return model;
}

Model conv_model(const std::vector<Message>& attributes, Dim size = int64_t{8}) {
  Model model = image_model(node("Conv", "c", {"x", "w"}, {"y"}, attributes), size);
  model.initializers = {floats("w", {2, 1, 3, 3}, std::vector<float>(18, 1))};
  return model;
}

std::string attributes_of(const Result<Graph>& graph) {
  if (!graph.ok()) return graph.status().to_string();
  return graph->nodes().back().attributes.to_string();
}

TEST(ConvertConv, Attributes_Copied) {
  const auto graph =
      import_model(conv_model({attr("kernel_shape", Ints{3, 3}), attr("pads", Ints{1, 1, 1, 1}),
                               attr("strides", Ints{2, 2}), attr("group", 1L)}));
  EXPECT_EQ(type_of(graph), "f32[N, 2, 4, 4]");
  EXPECT_THAT(attributes_of(graph), HasSubstr("pads=[1, 1, 1, 1]"));
  EXPECT_THAT(attributes_of(graph), HasSubstr("strides=[2, 2]"));
}

TEST(ConvertConv, AutoPad_Resolved) {
  const auto upper =
      import_model(conv_model({attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{2, 2})}));
  EXPECT_EQ(type_of(upper), "f32[N, 2, 4, 4]");
  EXPECT_THAT(attributes_of(upper), HasSubstr("pads=[0, 0, 1, 1]"));
  const auto lower =
      import_model(conv_model({attr("auto_pad", "SAME_LOWER"), attr("strides", Ints{2, 2})}));
  EXPECT_THAT(attributes_of(lower), HasSubstr("pads=[1, 1, 0, 0]"));
  const auto dilated =
      import_model(conv_model({attr("auto_pad", "SAME_UPPER"), attr("dilations", Ints{2, 2})}));
  EXPECT_EQ(type_of(dilated), "f32[N, 2, 8, 8]");
  EXPECT_THAT(attributes_of(dilated), HasSubstr("pads=[2, 2, 2, 2]"));
  const auto valid = import_model(conv_model({attr("auto_pad", "VALID")}));
  EXPECT_EQ(type_of(valid), "f32[N, 2, 6, 6]");
  const auto not_set =
      import_model(conv_model({attr("auto_pad", "NOTSET"), attr("pads", Ints{1, 1, 1, 1})}));
  EXPECT_EQ(type_of(not_set), "f32[N, 2, 8, 8]");
}

TEST(ConvertConv, AutoPadWithoutStride_NeedsNoSize) {
  const auto graph = import_model(conv_model({attr("auto_pad", "SAME_UPPER")}, "H"));
  EXPECT_THAT(attributes_of(graph), HasSubstr("pads=[1, 1, 1, 1]"));
}

/// A stride times the number of windows reaches beyond the input: past 2^63 for the largest.
TEST(ConvertConv, AutoPadOfHugeSize_DoesNotOverflow) {
  constexpr int64_t kLargest = INT64_MAX / 16;
  Model model = one_node(node("Conv", "c", {"x", "w"}, {"y"},
                              {attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{2})}));
  model.initializers = {floats("w", {1, 1, 3}, {1, 2, 3})};
  model.inputs = {value_info("x", {int64_t{1}, int64_t{1}, kLargest})};
  const auto graph = import_model(model);
  EXPECT_EQ(type_of(graph), "f32[1, 1, 288230376151711744]");
  EXPECT_THAT(attributes_of(graph), HasSubstr("pads=[1, 1]"));
  for (const int64_t size : {kLargest + 1, INT64_MAX}) {
    model.inputs = {value_info("x", {int64_t{0}, int64_t{1}, size})};
    EXPECT_THAT(refused(model).message(), HasSubstr("have more elements than can be counted"));
  }
}

/// By pads there would be a window over nothing.
TEST(ConvertConv, AutoPadOfSizeZero_IsRefused) {
  Model model = one_node(node("Conv", "c", {"x", "w"}, {"y"},
                              {attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{2})}));
  model.initializers = {floats("w", {1, 1, 3}, {1, 2, 3})};
  model.inputs = {value_info("x", {int64_t{1}, int64_t{1}, int64_t{0}})};
  EXPECT_THAT(refused(model).message(),
              HasSubstr("spatial dimension 0 of size 0 has no room for a window with auto_pad"));
}

TEST(ConvertConv, AutoPadOfUnknownSize_StaysWithTheOperator) {
  const auto graph =
      import_model(conv_model({attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{2, 2})}, "H"));
  EXPECT_THAT(attributes_of(graph), HasSubstr("auto_pad=\"SAME_UPPER\""));
  EXPECT_EQ(type_of(graph), "f32[N, 2, ?, ?]");
}

TEST(ConvertConv, BadAttributes_Named) {
  EXPECT_THAT(refused(conv_model({attr("auto_pad", "SAME")})).message(),
              HasSubstr("attribute 'auto_pad': expected NOTSET, VALID, SAME_UPPER or SAME_LOWER, "
                        "found 'SAME'"));
  EXPECT_THAT(
      refused(conv_model({attr("auto_pad", "VALID"), attr("pads", Ints{1, 1, 1, 1})})).message(),
      HasSubstr("attribute 'pads': expected none beside auto_pad VALID, found 1"));
  EXPECT_THAT(
      refused(conv_model({attr("auto_pad", "SAME_UPPER"), attr("pads", Ints{0})})).message(),
      HasSubstr("attribute 'pads': expected 4 entries, found 1"));
  for (const int64_t size : {int64_t{-1}, int64_t{0}}) {
    EXPECT_EQ(
        refused(conv_model({attr("kernel_shape", Ints{size, 3})})).message(),
        "m.onnx: node 'c' (Conv, opset 17): attribute 'kernel_shape': expected entries from 1 to "
        "2147483647, found " +
            std::to_string(size));
  }
  EXPECT_THAT(
      refused(conv_model({attr("kernel_shape", Ints{5, 5})})).message(),
      HasSubstr("attribute 'kernel_shape': expected that of the weights, [3, 3], found [5, 5]"));
  EXPECT_THAT(
      refused(conv_model({attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{0, 2})})).message(),
      HasSubstr("attribute 'strides': expected entries from 1 to 2147483647, found 0"));
  EXPECT_THAT(
      refused(conv_model({attr("auto_pad", "SAME_UPPER"), attr("strides", Ints{2})})).message(),
      HasSubstr("attribute 'strides': expected 2 entries, found 1"));
  EXPECT_THAT(
      refused(conv_model({attr("auto_pad", "SAME_UPPER"), attr("dilations", Ints{INT64_MAX, 1})}))
          .message(),
      HasSubstr("attribute 'dilations': expected entries from 1 to 2147483647, found 9223"));
}

TEST(ConvertConv, KernelShapeOfTooManySizes_IsNotIgnored) {
  Model model =
      image_model(node("Conv", "c", {"x", "w"}, {"y"}, {attr("kernel_shape", Ints(20, 3))}));
  // Weights of which only the dtype is known.
  model.inputs.push_back(
      Message().text(1, "w").message(2, Message().message(1, Message().varint(1, 1))));
  EXPECT_EQ(refused(model).message(),
            "m.onnx: node 'c' (Conv, opset 17): attribute 'kernel_shape': expected 1 to 14 "
            "entries, found 20");
  model.nodes = {node("Conv", "c", {"x", "w"}, {"y"}, {attr("kernel_shape", Ints{3, 3})})};
  EXPECT_TRUE(import_model(model).ok());
}

TEST(ConvertNode, UnknownAttribute_NamesItAndTheKnown) {
  const Status status = refused(conv_model({attr("stride", Ints{2, 2})}));
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_EQ(status.message(),
            "m.onnx: node 'c' (Conv, opset 17): attribute 'stride' is not known; it has auto_pad "
            "dilations group kernel_shape pads strides");
  EXPECT_THAT(
      refused(one_node(node("Add", "a", {"x", "x"}, {"y"}, {attr("broadcast", 1L)}))).message(),
      HasSubstr("attribute 'broadcast' is not known; it has none"));
}

TEST(ConvertNode, AttributeOfWrongTypeOrTwice_Named) {
  EXPECT_THAT(refused(conv_model({attr("group", 1.0f)})).message(),
              HasSubstr("attribute 'group': expected INT, found FLOAT"));
  EXPECT_THAT(refused(conv_model({Message().text(1, "group").varint(20, 5)})).message(),
              HasSubstr("attribute 'group': expected INT, found GRAPH"));
  EXPECT_THAT(refused(conv_model({Message().text(1, "group").varint(3, 1)})).message(),
              HasSubstr("attribute 'group': expected INT, found type 0"));
  EXPECT_THAT(refused(conv_model({attr("group", 1L), attr("group", 2L)})).message(),
              HasSubstr("node 'c' (Conv, opset 17): attribute 'group' is given twice"));
  EXPECT_THAT(refused(conv_model({attr("group", 1L).text(21, "g")})).message(),
              HasSubstr("attribute 'group' refers to an attribute of a function"));
}

TEST(ConvertNode, FlagBeyondZeroAndOne_Invalid) {
  const auto check = [](const Model& model, const std::string& name) {
    const Status status = refused(model);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(status.message(), HasSubstr("attribute '" + name + "': expected 0 or 1, found "));
  };
  check(one_node(node("ReduceSum", "r", {"x"}, {"y"}, {attr("keepdims", 2L)})), "keepdims");
  check(one_node(node("ReduceSum", "r", {"x"}, {"y"}, {attr("noop_with_empty_axes", -1L)})),
        "noop_with_empty_axes");
  check(one_node(node("Gemm", "g", {"x", "x"}, {"y"}, {attr("transB", 2L)})), "transB");
  Model cast = one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 7L), attr("saturate", 2L)}));
  cast.opset = 19;
  check(cast, "saturate");
}

TEST(ConvertNode, WrongArguments_Named) {
  EXPECT_THAT(refused(one_node(node("Relu", "r", {"x", "x"}, {"y"}))).message(),
              HasSubstr("node 'r' (Relu, opset 17): expected 1 inputs, found 2"));
  EXPECT_THAT(refused(one_node(node("Conv", "r", {"x"}, {"y"}))).message(),
              HasSubstr("expected 2 to 3 inputs, found 1"));
  EXPECT_THAT(refused(one_node(node("Max", "r", {}, {"y"}))).message(),
              HasSubstr("expected 1 or more inputs, found 0"));
  EXPECT_THAT(refused(one_node(node("Add", "r", {"x", ""}, {"y"}))).message(),
              HasSubstr("input 1 is missing"));
  EXPECT_THAT(refused(one_node(node("Max", "r", {"x", ""}, {"y"}))).message(),
              HasSubstr("input 1 is missing"));
  EXPECT_THAT(refused(one_node(node("Relu", "r", {"x"}, {"y", "z"}))).message(),
              HasSubstr("output 1 ('z') is not supported, only output 0 is"));
}

TEST(ConvertBatchNorm, Inference_Read) {
  Model model = image_model(
      node("BatchNormalization", "b", {"x", "s", "s", "s", "s"}, {"y", "", ""},
           {attr("epsilon", 0.25f), attr("momentum", 0.9f), attr("training_mode", 0L)}));
  model.initializers = {floats("s", {1}, {1})};
  const auto graph = import_model(model);
  EXPECT_EQ(type_of(graph), "f32[N, 1, 8, 8]");
  EXPECT_EQ(attributes_of(graph), "epsilon=0.25");
}

TEST(ConvertBatchNorm, ParametersOfOtherDtypes_AreWidened) {
  Model model =
      image_model(node("BatchNormalization", "b", {"x", "s", "s", "m", "m"}, {"y", "", ""}));
  model.initializers = {floats("s", {1}, {1}),
                        tensor("m", {1}, kDoubleType, bytes_of<double>({1}))};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cast", "cast", "batch_norm", "cast"));
  EXPECT_EQ(type_of(graph), "f32[N, 1, 8, 8]");
  model.initializers[1] = tensor("m", {1}, kInt32Type, bytes_of<int32_t>({1}));
  EXPECT_THAT(refused(model).message(),
              HasSubstr("input 3: expected a dtype of {f16, bf16, f32, f64}, found i32"));
}

TEST(ConvertBatchNorm, Training_Unsupported) {
  Model model = image_model(node("BatchNormalization", "b", {"x", "s", "s", "s", "s"}, {"y"},
                                 {attr("training_mode", 1L)}));
  model.initializers = {floats("s", {1}, {1})};
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_THAT(refused(model).message(),
              HasSubstr("attribute 'training_mode': only 0 is supported, found 1"));
  model.opset = 9;
  EXPECT_THAT(refused(model).message(),
              HasSubstr("attribute 'training_mode' is not known; it has epsilon momentum"));
  model.nodes = {node("BatchNormalization", "b", {"x", "s", "s", "s", "s"}, {"y", "m"})};
  EXPECT_THAT(refused(model).message(), HasSubstr("output 1 ('m') is not supported"));
  model.nodes = {
      node("BatchNormalization", "b", {"x", "s", "s", "s", "s"}, {"y"}, {attr("spatial", 0L)})};
  model.opset = 7;
  EXPECT_THAT(refused(model).message(),
              HasSubstr("attribute 'spatial': only 1 is supported, found 0"));
}

TEST(ConvertMaxPool, Attributes_Copied) {
  const auto graph =
      import_model(image_model(node("MaxPool", "p", {"x"}, {"y"},
                                    {attr("kernel_shape", Ints{3, 3}), attr("strides", Ints{2, 2}),
                                     attr("ceil_mode", 1L), attr("storage_order", 1L)})));
  EXPECT_EQ(type_of(graph), "f32[N, 1, 4, 4]");
}

TEST(ConvertMaxPool, AutoPad_IgnoresCeilMode) {
  const auto same =
      import_model(image_model(node("MaxPool", "p", {"x"}, {"y"},
                                    {attr("kernel_shape", Ints{2, 2}), attr("strides", Ints{3, 3}),
                                     attr("ceil_mode", 1L), attr("auto_pad", "SAME_UPPER")})));
  EXPECT_EQ(type_of(same), "f32[N, 1, 3, 3]");
  const auto valid =
      import_model(image_model(node("MaxPool", "p", {"x"}, {"y"},
                                    {attr("kernel_shape", Ints{3, 3}), attr("strides", Ints{2, 2}),
                                     attr("ceil_mode", 1L), attr("auto_pad", "VALID")})));
  EXPECT_EQ(type_of(valid), "f32[N, 1, 3, 3]");
}

TEST(ConvertMaxPool, Refused) {
  EXPECT_THAT(refused(image_model(node("MaxPool", "p", {"x"}, {"y"}))).message(),
              HasSubstr("attribute 'kernel_shape': expected 1 to 14 entries, found 0"));
  Model old = image_model(node("MaxPool", "p", {"x"}, {"y"},
                               {attr("kernel_shape", Ints{2, 2}), attr("ceil_mode", 1L)}));
  old.opset = 9;
  EXPECT_THAT(refused(old).message(), HasSubstr("attribute 'ceil_mode' is not known"));
}

TEST(ConvertGemm, Attributes_Copied) {
  Model model = one_node(node("Gemm", "g", {"x", "w"}, {"y"},
                              {attr("alpha", 0.5f), attr("beta", 2.0f), attr("transB", 1L)}));
  model.initializers = {floats("w", {2, 3}, {1, 2, 3, 4, 5, 6})};
  const auto graph = import_model(model);
  EXPECT_EQ(type_of(graph), "f32[N, 2]");
  EXPECT_THAT(attributes_of(graph),
              AllOf(HasSubstr("alpha=0.5"), HasSubstr("beta=2"), HasSubstr("trans_b=true")));
  model.opset = 10;
  EXPECT_THAT(refused(model).message(), HasSubstr("expected 3 inputs, found 2"));
}

TEST(ConvertSoftmax, Opset13_OneAxis) {
  const auto graph = import_model(one_node(node("Softmax", "s", {"x"}, {"y"})));
  EXPECT_EQ(attributes_of(graph), "axis=-1");
}

TEST(ConvertSoftmax, Opset12LastAxis_OneNode) {
  Model model = one_node(node("Softmax", "s", {"x"}, {"y"}));
  model.opset = 12;
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(op_names(*graph), ElementsAre("softmax"));
  EXPECT_EQ(attributes_of(graph), "axis=1");
}

TEST(ConvertSoftmax, Opset12InnerAxis_OverFlattenedMatrix) {
  Model model = one_node(node("Softmax", "s", {"x"}, {"y"}));
  model.opset = 11;
  model.inputs = {value_info("x", {"N", int64_t{3}, int64_t{4}})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("flatten", "softmax", "reshape"));
  EXPECT_EQ(graph->to_string(graph->value(graph->node(0).outputs[0]).type), "f32[N, 12]");
  const auto shape = graph->value(graph->node(2).inputs[1]).constant;
  EXPECT_THAT(values_of<int64_t>(*shape), ElementsAre(-1, 3, 4));
}

TEST(ConvertSoftmax, Opset12TrailingOnes_OneNode) {
  Model model = one_node(node("Softmax", "s", {"x"}, {"y"}, {attr("axis", -3L)}));
  model.opset = 12;
  model.inputs = {value_info("x", {"N", int64_t{3}, int64_t{1}, int64_t{1}})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("softmax"));
  EXPECT_EQ(attributes_of(graph), "axis=1");
}

TEST(ConvertSoftmax, Opset12TooManyUnknowns_Unsupported) {
  Model model = one_node(node("Softmax", "s", {"x"}, {"y"}));
  model.opset = 12;
  model.inputs = {value_info("x", {"N", "M", int64_t{4}})};
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_THAT(refused(model).message(), HasSubstr("have too many unknowns to restore them"));
  model.inputs = {value_info("x", {"N", int64_t{0}, int64_t{4}})};
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  model.nodes = {node("Softmax", "s", {"x"}, {"y"}, {attr("axis", 3L)})};
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'axis': expected a dimension of"));
}

TEST(ConvertMax, Inputs_Chained) {
  Model model = one_node(node("Max", "m", {"x", "x", "x"}, {"y"}));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("max", "max"));
  EXPECT_EQ(graph->node(0).name, "m/max");
  EXPECT_EQ(graph->node(1).inputs[0], graph->node(0).outputs[0]);
  const auto one = import_model(one_node(node("Max", "m", {"x"}, {"y"})));
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(op_names(*one), ElementsAre("identity"));
}

/// Each step would keep a copy of the whole name.
TEST(ConvertMax, LongName_ShortenedInSteps) {
  const std::string name(100'000, 'n');
  const auto graph = import_model(one_node(node("Max", name, {"x", "x", "x"}, {"y"})));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->node(0).name, name.substr(0, 256) + ".../max");
  EXPECT_EQ(graph->node(1).name, name);
}

TEST(ConvertReduction, AxesAsAttributeOrInput_Same) {
  Model by_attribute =
      one_node(node("ReduceSum", "r", {"x"}, {"y"}, {attr("axes", Ints{1}), attr("keepdims", 0L)}));
  by_attribute.opset = 12;
  EXPECT_EQ(type_of(import_model(by_attribute)), "f32[N]");
  Model by_input = one_node(node("ReduceSum", "r", {"x", "axes"}, {"y"}, {attr("keepdims", 0L)}));
  by_input.initializers = {int64s("axes", {1})};
  EXPECT_EQ(type_of(import_model(by_input)), "f32[N]");
  by_input.opset = 12;
  EXPECT_THAT(refused(by_input).message(), HasSubstr("expected 1 inputs, found 2"));
  by_attribute.opset = 13;
  EXPECT_THAT(refused(by_attribute).message(), HasSubstr("attribute 'axes' is not known"));
}

TEST(ConvertReduction, ReduceMax_AxesMoveAtOpset18) {
  Model model = one_node(node("ReduceMax", "r", {"x"}, {"y"}, {attr("axes", Ints{0})}));
  EXPECT_EQ(type_of(import_model(model)), "f32[1, 3]");
  model.opset = 18;
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'axes' is not known"));
}

TEST(ConvertReduction, EmptyAxes_AllOrNothing) {
  Model model = one_node(node("ReduceSum", "r", {"x", "axes"}, {"y"}, {attr("keepdims", 0L)}));
  model.initializers = {int64s("axes", {})};
  EXPECT_EQ(type_of(import_model(model)), "f32[]");
  model.nodes = {node("ReduceSum", "r", {"x", ""}, {"y"}, {attr("noop_with_empty_axes", 1L)})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(op_names(*graph), ElementsAre("identity"));
}

TEST(ConvertReduction, OverNothing_IsWhatIsDoneToEachElement) {
  const auto of = [](const char* op) {
    Model model = one_node(node(op, "r", {"x", "axes"}, {"y"}, {attr("noop_with_empty_axes", 1L)}));
    model.opset = 18;
    model.initializers = {int64s("axes", {})};
    const auto graph = import_model(model);
    EXPECT_TRUE(graph.ok()) << graph.status().to_string();
    EXPECT_EQ(type_of(graph), "f32[N, 3]");
    return graph.ok() ? op_names(*graph) : std::vector<std::string>();
  };
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"}) {
    EXPECT_THAT(of(op), ElementsAre("reduce")) << op;
  }
  for (const char* op : {"ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceProd"}) {
    EXPECT_THAT(of(op), ElementsAre("identity")) << op;
  }
}

TEST(ConvertReduction, AxesNotConstant_AreAnInput) {
  Model model = one_node(node("ReduceSum", "r", {"x", "axes"}, {"y"}));
  model.inputs.push_back(value_info("axes", {int64_t{1}}, kInt64Type));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(op_names(*graph), ElementsAre("reduce"));
  EXPECT_EQ(type_of(graph), "f32[?, ?]");
  model.inputs.pop_back();
  model.initializers = {floats("axes", {1}, {1})};
  EXPECT_THAT(refused(model).message(),
              HasSubstr("input 1 ('axes'): expected a list of i64, found f32[1]"));
}

TEST(ConvertReshape, ConstantShape_Inferred) {
  Model model = one_node(node("Reshape", "r", {"x", "s"}, {"y"}));
  model.initializers = {int64s("s", {0, 1, -1})};
  EXPECT_EQ(type_of(import_model(model)), "f32[N, 1, 3]");
  model.opset = 13;
  model.nodes = {node("Reshape", "r", {"x", "s"}, {"y"}, {attr("allowzero", 1L)})};
  EXPECT_THAT(refused(model).message(), HasSubstr("attribute 'allowzero' is not known"));
}

TEST(ConvertMovement, FlattenTransposeGather) {
  EXPECT_EQ(type_of(import_model(image_model(node("Flatten", "f", {"x"}, {"y"})))), "f32[N, 64]");
  EXPECT_EQ(type_of(import_model(
                one_node(node("Transpose", "t", {"x"}, {"y"}, {attr("perm", Ints{1, 0})})))),
            "f32[3, N]");
  EXPECT_EQ(type_of(import_model(one_node(node("Transpose", "t", {"x"}, {"y"})))), "f32[3, N]");
  Model gather = one_node(node("Gather", "g", {"x", "i"}, {"y"}, {attr("axis", 1L)}));
  gather.initializers = {int64s("i", {2, 0})};
  EXPECT_EQ(type_of(import_model(gather)), "f32[N, 2]");
}

TEST(ConvertCast, Dtypes) {
  EXPECT_EQ(type_of(import_model(one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 7L)})))),
            "i64[N, 3]");
  EXPECT_THAT(refused(one_node(node("Cast", "c", {"x"}, {"y"}))).message(),
              HasSubstr("attribute 'to' is missing"));
  EXPECT_THAT(refused(one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 8L)}))).message(),
              HasSubstr("attribute 'to': dtype STRING is not supported"));
  EXPECT_THAT(
      refused(one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", int64_t{1} << 40)}))).message(),
      HasSubstr("attribute 'to': expected a dtype code from 1 to 28, found 1099511627776"));
  const Status undefined = refused(one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 0L)})));
  EXPECT_EQ(undefined.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(undefined.message(),
              HasSubstr("attribute 'to': expected a dtype, found 0 (UNDEFINED)"));
  const Status to_f8 = refused(one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 17L)})));
  EXPECT_EQ(to_f8.code(), BP_UNSUPPORTED);
  EXPECT_THAT(to_f8.message(), HasSubstr("attribute 'to': expected a dtype of {bool, i8"));
  EXPECT_THAT(to_f8.message(), EndsWith("found f8e4m3fn"));
  Model f8 = one_node(node("Cast", "c", {"x"}, {"y"}, {attr("to", 17L), attr("saturate", 0L)}));
  f8.opset = 19;
  EXPECT_THAT(refused(f8).message(),
              HasSubstr("attribute 'saturate': only 1 is supported, found 0"));
}

TEST(ConvertConstant, EveryForm_Read) {
  const struct {
    Message attribute;
    const char* type;
  } cases[] = {
      {attr("value", floats("", {2}, {1, 2})), "f32[2]"},
      {attr("value_float", 2.5f), "f32[]"},
      {attr("value_floats", std::vector<float>{1, 2}), "f32[2]"},
      {attr("value_int", 7L), "i64[]"},
      {attr("value_ints", Ints{1, 2, 3}), "i64[3]"},
  };
  for (const auto& each : cases) {
    const auto graph = import_model(one_node(node("Constant", "c", {}, {"y"}, {each.attribute})));
    EXPECT_EQ(type_of(graph), each.type);
    EXPECT_NE(graph->value(graph->outputs()[0]).constant, nullptr);
    EXPECT_TRUE(graph->nodes().empty());
  }
}

TEST(ConvertConstant, Refused) {
  EXPECT_THAT(refused(one_node(node("Constant", "c", {}, {"y"}))).message(),
              HasSubstr("expected one attribute with a value, found 0"));
  EXPECT_THAT(refused(one_node(node("Constant", "c", {}, {"y"},
                                    {attr("value_int", 7L), attr("value_float", 7.0f)})))
                  .message(),
              HasSubstr("expected one attribute with a value, found 2"));
  EXPECT_THAT(
      refused(one_node(node("Constant", "c", {}, {"y"}, {attr("value_string", "s")}))).message(),
      HasSubstr("attribute 'value_string' is not supported"));
  EXPECT_THAT(
      refused(one_node(node("Constant", "c", {}, {"y"}, {attr("value", floats("t", {3}, {1, 2}))})))
          .message(),
      HasSubstr("node 'c' (Constant, opset 17): tensor 't': sizes [3] of f32 need 12 "
                "bytes, found 8"));
  Model old = one_node(node("Constant", "c", {}, {"y"}, {attr("value_int", 7L)}));
  old.opset = 11;
  EXPECT_THAT(refused(old).message(), HasSubstr("attribute 'value_int' is not known"));
}

TEST(ConvertDropout, Inference_Identity) {
  Model old = one_node(node("Dropout", "d", {"x"}, {"y"}, {attr("ratio", 0.5f)}));
  old.opset = 10;
  EXPECT_THAT(op_names(*import_model(old)), ElementsAre("identity"));
  Model model = one_node(node("Dropout", "d", {"x", "r", "t"}, {"y"}, {attr("seed", 1L)}));
  model.initializers = {floats("r", {}, {0.5f}), tensor("t", {}, kBoolType, std::string(1, '\0'))};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("identity"));
  model.initializers[1] = tensor("t", {}, kBoolType, "\x01");
  EXPECT_THAT(refused(model).message(),
              HasSubstr("input 2 ('training_mode'): only a constant false is supported"));
}

TEST(ConvertDropout, Mask_IsAllTrue) {
  for (const int64_t opset : {7, 9, 10, 12, 13, 22}) {
    Model model = one_node(node("Dropout", "d", {"x"}, {"y", "mask"}));
    model.opset = opset;
    model.outputs = {Message().text(1, "y"), Message().text(1, "mask")};
    const auto graph = import_model(model);
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    EXPECT_THAT(op_names(*graph), UnorderedElementsAre("identity", "shape", "expand"));
    EXPECT_THAT(output_type(*graph, 1), StartsWith(opset < 10 ? "f32[" : "bool[")) << opset;
  }
}

TEST(ConvertDynamicQuantizeLinear, Outputs_AreThree) {
  Model model = one_node(node("DynamicQuantizeLinear", "q", {"x"}, {"y", "scale", "zero"}));
  model.outputs = {Message().text(1, "y"), Message().text(1, "scale"), Message().text(1, "zero")};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph, 0), "u8[N, 3]");
  EXPECT_EQ(output_type(*graph, 1), "f32[]");
  EXPECT_EQ(output_type(*graph, 2), "u8[]");
}

TEST(ConvertElementwise, EveryOperator_Read) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Pow", "PRelu", "Mean"}) {
    const auto graph = import_model(one_node(node(op, "n", {"x", "x"}, {"y"})));
    EXPECT_EQ(type_of(graph), "f32[N, 3]") << op;
  }
  for (const char* op : {"Exp", "Sqrt", "Reciprocal", "Relu", "Identity", "Elu", "Softplus"}) {
    const auto graph = import_model(one_node(node(op, "n", {"x"}, {"y"})));
    EXPECT_EQ(type_of(graph), "f32[N, 3]") << op;
  }
  EXPECT_EQ(type_of(import_model(one_node(node("NonZero", "n", {"x"}, {"y"})))), "i64[2, ?]");
  Model matmul = one_node(node("MatMul", "n", {"x", "w"}, {"y"}));
  matmul.initializers = {floats("w", {3, 2}, {1, 2, 3, 4, 5, 6})};
  EXPECT_EQ(type_of(import_model(matmul)), "f32[N, 2]");
}

TEST(Rules, EveryOperator_CoversNewestOpsetAndIsOurs) {
  // A gap between two rows of one operator would be found by a user otherwise.
  for (const char* op : {"Add",       "BatchNormalization",
                         "Cast",      "Constant",
                         "Conv",      "Div",
                         "Dropout",   "Exp",
                         "Flatten",   "Gather",
                         "Gemm",      "Identity",
                         "MatMul",    "Max",
                         "MaxPool",   "Mul",
                         "NonZero",   "Reciprocal",
                         "ReduceMax", "ReduceSum",
                         "Relu",      "Reshape",
                         "Softmax",   "Sqrt",
                         "Sub",       "Transpose"}) {
    const int64_t first = std::string_view(op) == "NonZero" ? 9 : kOldestOpset;
    for (int64_t opset = first; opset <= kNewestOpset; ++opset) {
      const onnx::OpRule* const rule = onnx::find_rule(op, opset);
      ASSERT_NE(rule, nullptr) << op << " at opset " << opset;
      if (!rule->op.empty()) {
        EXPECT_TRUE(registry().find(rule->op).has_value()) << op;
      }
    }
  }
}

}  // namespace
}  // namespace bp
