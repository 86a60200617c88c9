// SPDX-License-Identifier: Apache-2.0
//
// The model around the nodes: what is read, and the words for every kind of broken file. Every
// sentence about bad files that users can meet is asserted here.
#include "ops/onnx/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/log.hpp"
#include "core/base/temp_folder_test.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Model relu_model() { return one_node(node("Relu", "relu1", {"x"}, {"y"})); }

/// x -> Add(x, w) -> y, with w of one row.
Model weighted_model(const Message& weight) {
  return {.nodes = {node("Add", "add1", {"x", "w"}, {"y"})}, .initializers = {weight}};
}

TEST(ImportOnnx, OneNode_Graph) {
  const auto graph = import_model(relu_model());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->to_string(),
            "input x: f32[N, 3]\n"
            "y: f32[N, 3] = relu(x)  # relu1\n"
            "output y: y\n");
  EXPECT_TRUE(graph->verify().ok());
}

TEST(ImportOnnx, UnnamedNode_NamedAfterOperator) {
  const auto graph = import_model(one_node(node("Relu", "", {"x"}, {"y"})));
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->node(0).name, "Relu#0");
}

TEST(ImportOnnx, AlignedRawWeights_UsedInPlace) {
  const std::string bytes = weighted_model(floats("w", {1, 3}, {1, 2, 3})).bytes();
  // Try all offsets: the float bytes are aligned at one of four.
  int in_place = 0;
  for (size_t offset = 0; offset < 4; ++offset) {
    std::shared_ptr<std::byte[]> memory(new std::byte[bytes.size() + offset]);
    std::memcpy(memory.get() + offset, bytes.data(), bytes.size());
    const std::span span(memory.get() + offset, bytes.size());
    const auto graph = import_onnx(span, memory, "m.onnx", registry());
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    const auto weight = graph->value(graph->find_value("w")).constant;
    EXPECT_THAT(values_of<float>(*weight), ElementsAre(1, 2, 3));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(weight->data) % 4, 0u);
    const auto* data = static_cast<const std::byte*>(weight->data);
    if (data < span.data() || data >= span.data() + span.size()) continue;
    ++in_place;
    EXPECT_EQ(weight->owner, std::shared_ptr<const void>(memory));
  }
  EXPECT_EQ(in_place, 1);
}

TEST(ImportOnnx, WeightsOutliveModel) {
  auto graph = import_model(weighted_model(floats("w", {1, 3}, {1, 2, 3})));
  ASSERT_TRUE(graph.ok());
  const auto weight = graph->value(graph->find_value("w")).constant;
  graph = Status(BP_INTERNAL, "gone");
  EXPECT_THAT(values_of<float>(*weight), ElementsAre(1, 2, 3));
}

TEST(ImportOnnx, UnsortedNodes_Sorted) {
  const Model model = {.nodes = {node("Relu", "last", {"b"}, {"y"}),
                                 node("Exp", "middle", {"a"}, {"b"}),
                                 node("Sqrt", "first", {"x"}, {"a"})}};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("sqrt", "exp", "relu"));
}

TEST(ImportOnnx, SortedNodes_KeepTheirOrder) {
  const Model model = {.nodes = {node("Relu", "a", {"x"}, {"a"}), node("Exp", "b", {"x"}, {"b"}),
                                 node("Add", "c", {"b", "a"}, {"y"})}};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(op_names(*graph), ElementsAre("relu", "exp", "add"));
}

Model model_with_default() {
  Model model = weighted_model(floats("w", {1, 3}, {1, 2, 3}));
  model.inputs.push_back(value_info("w", {"M", int64_t{3}}));
  return model;
}

TEST(ImportOnnx, InputWithInitializer_IsAConstantThatMayBeGiven) {
  const auto graph = import_model(model_with_default());
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->inputs().size(), 1u);
  EXPECT_NE(graph->value(graph->find_value("w")).constant, nullptr);
  ASSERT_EQ(graph->default_inputs().size(), 1u);
  const DefaultInput& input = graph->default_inputs()[0];
  EXPECT_EQ(input.value, graph->find_value("w"));
  EXPECT_EQ(graph->to_string(input.type), "f32[M, 3]");
  const auto given = graph->with_default_inputs(std::vector{input.value});
  ASSERT_TRUE(given.ok()) << given.status().to_string();
  EXPECT_EQ(given->inputs().size(), 2u);
  EXPECT_TRUE(given->default_inputs().empty());
  EXPECT_TRUE(given->verify().ok()) << given->verify().to_string();
  EXPECT_EQ(output_type(*given), "f32[?, 3]");
  const auto constant = graph->with_default_inputs({});
  ASSERT_TRUE(constant.ok());
  EXPECT_TRUE(constant->default_inputs().empty());
  EXPECT_EQ(output_type(*constant), "f32[N, 3]");
}

TEST(ImportOnnx, InputWithInitializer_OfIrVersion3_IsAConstant) {
  Model model = model_with_default();
  model.ir_version = 3;
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_TRUE(graph->default_inputs().empty());
}

/// A node of x and of an input "v" with an initializer.
Model model_with_default_of(Message of, Message initializer, Message input) {
  Model model = one_node(std::move(of));
  model.initializers = {std::move(initializer)};
  model.inputs.push_back(std::move(input));
  return model;
}

TEST(ImportOnnx, InputWithInitializer_ThatAnAttributeCouldHold_MayBeGiven) {
  const Model models[] = {
      model_with_default_of(node("ReduceSum", "n", {"x", "v"}, {"y"}), int64s("v", {1}),
                            value_info("v", {int64_t{1}}, kInt64Type)),
      model_with_default_of(node("Pow", "n", {"x", "v"}, {"y"}), floats("v", {1}, {2}),
                            value_info("v", {int64_t{1}})),
      model_with_default_of(node("Unsqueeze", "n", {"x", "v"}, {"y"}), int64s("v", {0}),
                            value_info("v", {int64_t{1}}, kInt64Type)),
      model_with_default_of(node("Split", "n", {"x", "v"}, {"y"}), int64s("v", {3}),
                            value_info("v", {int64_t{1}}, kInt64Type))};
  for (const Model& model : models) {
    const auto graph = import_model(model);
    ASSERT_TRUE(graph.ok()) << graph.status().to_string();
    ASSERT_EQ(graph->default_inputs().size(), 1u);
    const ValueId value = graph->default_inputs()[0].value;
    EXPECT_EQ(value, graph->find_value("v"));
    // Another value can only have an effect where a node reads it.
    const auto reads = [&](const Node& node) { return std::ranges::count(node.inputs, value) > 0; };
    EXPECT_TRUE(std::ranges::any_of(graph->nodes(), reads));
  }
}

TEST(ImportOnnx, InputWithInitializer_ThatOnlyAConstantCanBe_IsAConstant) {
  Model model = one_node(node("Dropout", "n", {"x", "", "v"}, {"y"}));
  model.initializers = {tensor("v", {}, kBoolType, std::string(1, '\0'))};
  model.inputs.push_back(value_info("v", {}, kBoolType));
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_TRUE(graph->default_inputs().empty());
}

TEST(ImportOnnx, InputAndInitializerDiffer_Named) {
  Model model = weighted_model(floats("w", {1, 3}, {1, 2, 3}));
  model.inputs.push_back(value_info("w", {int64_t{2}, int64_t{3}}));
  EXPECT_EQ(refused(model).message(),
            "m.onnx: input 'w' and its initializer, f32[1, 3], have different types");
}

TEST(ImportOnnx, OutputIsInput_Legal) {
  Model model;
  model.outputs = {Message().text(1, "x")};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->outputs()[0], graph->inputs()[0]);
}

TEST(ImportOnnx, UnknownDims_StayUnknown) {
  Model model = relu_model();
  model.inputs = {value_info("x", {"", "N", int64_t{0}})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph), "f32[?, N, 0]");
}

TEST(ImportOnnx, InputWithoutShape_HasNoRank) {
  Model model = relu_model();
  const Message type = Message().message(1, Message().varint(1, 1));
  model.inputs = {Message().text(1, "x").message(2, type)};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_FALSE(graph->value(graph->inputs()[0]).type.has_rank);
}

// --- Files ---

TEST(ImportOnnxBad, EmptyBytes) {
  EXPECT_EQ(import_bytes("").status().message(), "m.onnx: the file is empty (0 bytes)");
}

TEST(ImportOnnxBad, NotOnnx) {
  const Status text = import_bytes("Hello, this is some text.").status();
  EXPECT_EQ(text.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(text.message(), StartsWith("m.onnx: not a valid ONNX file: "));
  for (const char* other : {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
                            "<!doctype html><html></html>", "\n{\"error\": 404}"}) {
    EXPECT_THAT(import_bytes(other).status().message(),
                HasSubstr("The file begins as text, like a web page or what Git LFS keeps"));
  }
  const Status png = import_bytes("\x89PNG\r\n\x1a\n0000").status();
  EXPECT_EQ(png.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(png.message(), StartsWith("m.onnx: not a valid ONNX file: "));
  const Status zeros = import_bytes(std::string(100, '\0')).status();
  EXPECT_THAT(zeros.message(), HasSubstr("field number 0 is out of range"));
}

TEST(ImportOnnxBad, Truncated_NamesFileAndPosition) {
  const std::string bytes = relu_model().bytes();
  const Status status = import_bytes(bytes.substr(0, bytes.size() - 1)).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(StartsWith("m.onnx: not a valid ONNX file: ModelProto at "),
                                      HasSubstr("truncated: expected")));
}

TEST(ImportOnnxBad, MissingFile_Unavailable) {
  const auto graph = load_onnx("/nowhere/m.onnx", registry());
  EXPECT_EQ(graph.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(graph.status().message(), StartsWith("/nowhere/m.onnx: cannot open the file"));
}

TEST(ImportOnnxBad, EmptyFile) {
  const TempFolder folder;
  const auto graph = load_onnx(folder.write("empty.onnx", ""), registry());
  EXPECT_EQ(graph.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(graph.status().message(), HasSubstr("empty.onnx: the file is empty (0 bytes)"));
}

TEST(ImportOnnxBad, OversizedFile_NamesLimit) {
  const TempFolder folder;
  const std::string path = folder.write("huge.onnx", "x");
  std::filesystem::resize_file(path, kMaxOnnxBytes + 1);  // sparse: takes no disk
  const auto graph = load_onnx(path, registry());
  EXPECT_EQ(graph.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(graph.status().message(),
              HasSubstr("huge.onnx: the file is too large: expected at most 2147483647 bytes, "
                        "found 2147483648"));
}

TEST(ImportOnnxBad, UnknownField_Named) {
  Model model = relu_model();
  model.more_model.varint(27, 1);
  EXPECT_THAT(refused(model).message(), HasSubstr("ModelProto at byte"));
  EXPECT_THAT(refused(model).message(), HasSubstr("field 27 is not in ONNX IR version 14"));
}

// --- Versions ---

TEST(ImportOnnxBad, NoIrVersionOrGraph) {
  Model model = relu_model();
  model.ir_version = 0;
  EXPECT_EQ(refused(model).message(), "m.onnx: not an ONNX model: it has no ir_version");
  const std::string no_graph = Message().varint(1, 8).bytes();
  EXPECT_EQ(import_bytes(no_graph).status().message(),
            "m.onnx: not an ONNX model: it has no graph");
}

TEST(ImportOnnxBad, IrVersionOutOfRange) {
  Model model = relu_model();
  model.ir_version = 15;
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_EQ(refused(model).message(), "m.onnx: ONNX IR version 15: expected 3 to 14");
  model.ir_version = 2;
  EXPECT_EQ(refused(model).message(), "m.onnx: ONNX IR version 2: expected 3 to 14");
}

TEST(ImportOnnxBad, OpsetOutOfRangeOrMissing) {
  Model model = relu_model();
  model.opset = 5;
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_EQ(refused(model).message(), "m.onnx: opset 5: expected 6 to 28");
  model.opset = 29;
  EXPECT_EQ(refused(model).message(), "m.onnx: opset 29: expected 6 to 28");
  model.opset = -1;
  EXPECT_EQ(refused(model).message(),
            "m.onnx: the model names no operator set (opset_import) of the default domain");
  model.opset = 17;
  model.more_model.message(8, Message().text(1, "ai.onnx").varint(2, 17));
  EXPECT_EQ(refused(model).message(), "m.onnx: the operator set of domain '' is given twice");
}

TEST(ImportOnnx, OtherDomainImported_NotUsed_Legal) {
  Model model = relu_model();
  model.more_model.message(8, Message().text(1, "ai.onnx.ml").varint(2, 3));
  EXPECT_TRUE(import_model(model).ok());
}

TEST(ImportOnnxBad, SparseInitializers_Unsupported) {
  Model model = relu_model();
  model.more_graph.message(15, Message());
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_EQ(refused(model).message(),
            "m.onnx: the model has sparse initializers; only dense ones are supported");
}

// --- Nodes and names ---

TEST(ImportOnnxBad, UnknownOperator_NamesNodeOpsetAndNearest) {
  const Status status = refused(one_node(node("Relux", "n1", {"x"}, {"y"})));
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_EQ(status.message(),
            "m.onnx: node 'n1' (Relux, opset 17): the operator is not known; nearest is 'Relu'");
  EXPECT_THAT(
      refused(one_node(node("GridSample", "n1", {"x"}, {"y"}))).message(),
      HasSubstr(
          "the operator is not known; operators.md of the documentation lists those that are"));
  EXPECT_THAT(
      refused(one_node(node("If", "n1", {"x"}, {"y"}))).message(),
      HasSubstr(
          "the operator is not known; operators.md of the documentation lists those that are"));
}

TEST(ImportOnnxBad, ManyUnknownOperators_AreToldInOneLineWithACount) {
  Model model;
  std::string from = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string to = i == 39 ? "y" : "v" + std::to_string(i);
    // "Exp" is known; 12 others are not, some of them more than once.
    const std::string op = i % 4 == 0 ? "Exp" : "Odd" + std::to_string(i % 12) + "\n";
    model.nodes.push_back(node(op, "n" + std::to_string(i), {from}, {to}));
    from = to;
  }
  const Status status = refused(model);
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_THAT(
      status.message(),
      HasSubstr(". In all, 30 nodes use 9 such operators: Odd1 , Odd2 , Odd3 , Odd5 , Odd6 , "
                "Odd7 , Odd9 , Odd10  and 1 more"));
}

TEST(ImportOnnxBad, OneUnknownOperatorInSeveralNodes_IsCounted) {
  const Model model = {
      .nodes = {node("Relux", "n1", {"x"}, {"v"}), node("Relux", "n2", {"v"}, {"y"})}};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: node 'n1' (Relux, opset 17): the operator is not known; nearest is 'Relu'. In "
            "all, 2 nodes use 1 such operator: Relux");
}

TEST(ImportOnnxBad, OperatorOfLaterOpset_NamesFirst) {
  Model model = one_node(node("NonZero", "n1", {"x"}, {"y"}));
  model.opset = 8;
  EXPECT_EQ(refused(model).message(),
            "m.onnx: node 'n1' (NonZero, opset 8): the operator exists since opset 9");
}

TEST(ImportOnnxBad, UnknownDomain_Named) {
  Message custom = node("Gelu", "n1", {"x"}, {"y"});
  custom.text(7, "com.example");
  const Status status = refused(one_node(custom));
  EXPECT_EQ(status.code(), BP_UNSUPPORTED);
  EXPECT_EQ(status.message(),
            "m.onnx: node 'n1' (com.example.Gelu, opset 17): operators of domain 'com.example' are "
            "not known, only those of ai.onnx");
}

TEST(ImportOnnxBad, Cycle_NamesItsNodes) {
  const Model model = {
      .nodes = {node("Relu", "start", {"x"}, {"s"}), node("Add", "a", {"s", "c_out"}, {"a_out"}),
                node("Exp", "b", {"a_out"}, {"b_out"}), node("Exp", "c", {"b_out"}, {"c_out"}),
                node("Sqrt", "after", {"c_out"}, {"y"})}};
  const Status status = refused(model);
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(), "m.onnx: the graph has a cycle: 'a' needs 'c' needs 'b' needs 'a'");
}

TEST(ImportOnnxBad, NodeReadsItself_Cycle) {
  EXPECT_EQ(refused(one_node(node("Add", "n1", {"x", "y"}, {"y"}))).message(),
            "m.onnx: the graph has a cycle: 'n1' needs 'n1'");
}

TEST(ImportOnnxBad, LongCycle_Shortened) {
  Model model;
  for (int i = 0; i < 20; ++i) {
    const std::string in = "v" + std::to_string((i + 19) % 20);
    model.nodes.push_back(node("Exp", "n" + std::to_string(i), {in}, {"v" + std::to_string(i)}));
  }
  EXPECT_THAT(refused(model).message(), HasSubstr("needs 'n13' needs 12 more needs 'n0'"));
}

TEST(ImportOnnxBad, MissingInitializer_NamesNodeAndNearest) {
  Model model = weighted_model(floats("weight1", {1, 3}, {1, 2, 3}));
  model.nodes = {node("Add", "add1", {"x", "weight2"}, {"y"})};
  EXPECT_EQ(refused(model).code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused(model).message(),
            "m.onnx: node 'add1' (Add): input 1 'weight2' is missing: no initializer, input or "
            "node has this name; nearest is 'weight1'");
}

TEST(ImportOnnxBad, DuplicateInitializer_NamesBoth) {
  Model model = weighted_model(floats("w", {1, 3}, {1, 2, 3}));
  model.initializers.push_back(floats("w", {1, 3}, {4, 5, 6}));
  EXPECT_EQ(refused(model).message(),
            "m.onnx: the name 'w' is given twice: by initializer 0 and by initializer 1");
}

TEST(ImportOnnxBad, DuplicateNames) {
  Model model = {.nodes = {node("Relu", "a", {"x"}, {"y"}), node("Exp", "b", {"x"}, {"y"})}};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: the name 'y' is given twice: by node 'a' and by node 'b'");
  model = one_node(node("Relu", "a", {"x"}, {"x"}));
  EXPECT_EQ(refused(model).message(),
            "m.onnx: the name 'x' is given twice: by input 'x' and by node 'a'");
  model = relu_model();
  model.inputs.push_back(value_info("x", {}));
  EXPECT_EQ(refused(model).message(), "m.onnx: two inputs named 'x'");
  model = relu_model();
  model.outputs.push_back(Message().text(1, "y"));
  EXPECT_EQ(refused(model).message(), "m.onnx: two outputs named 'y'");
}

TEST(ImportOnnxBad, NamesMissing) {
  Model model = relu_model();
  model.inputs.push_back(value_info("", {}));
  EXPECT_THAT(refused(model).message(),
              AllOf(StartsWith("m.onnx: not a valid ONNX file: GraphProto at byte"),
                    EndsWith(": input 1 has no name")));
  model = weighted_model(floats("", {1, 3}, {1, 2, 3}));
  EXPECT_THAT(refused(model).message(), EndsWith(": initializer 0 has no name"));
  model = relu_model();
  model.outputs.push_back(Message());
  EXPECT_THAT(refused(model).message(), EndsWith(": output 1 has no name"));
  model = relu_model();
  model.nodes.push_back(Message());
  EXPECT_THAT(refused(model).message(), EndsWith(": node 1 has no op_type"));
  EXPECT_THAT(refused(one_node(node("Relu", "a", {"x"}, {"y"}, {Message()}))).message(),
              AllOf(StartsWith("m.onnx: not a valid ONNX file: NodeProto at byte"),
                    EndsWith(": attribute 0 has no name")));
  EXPECT_EQ(refused(one_node(node("Relu", "a", {"x"}, {""}))).message(),
            "m.onnx: node 'a' has no outputs");
  EXPECT_EQ(refused(one_node(node("Relu", "a", {"x"}, {}))).message(),
            "m.onnx: node 'a' has no outputs");
}

TEST(ImportOnnxBad, Outputs) {
  Model model = relu_model();
  model.outputs = {};
  EXPECT_EQ(refused(model).message(), "m.onnx: the graph has no outputs");
  model.outputs = {Message().text(1, "yy")};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: output 'yy' is missing: no initializer, input or node has this name; nearest "
            "is 'y'");
  model.outputs = {value_info("y", {"N", int64_t{3}}, kInt64Type)};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: output 'y': declared as i64, the graph makes f32[N, 3]");
  model.outputs = {value_info("y", {"N", int64_t{3}}, 0)};
  EXPECT_EQ(
      refused(model).message(),
      "m.onnx: output 'y': declared as a tensor of element type 0, the graph makes f32[N, 3]");
  model.outputs = {Message().text(1, "y").message(2, Message())};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: output 'y': declared as something that is no tensor, the graph makes f32[N, "
            "3]");
}

TEST(ImportOnnx, DeclaredOutputSizesWrong_Warned) {
  Model model = relu_model();
  model.outputs = {value_info("y", {"N", int64_t{4}})};
  std::vector<std::string> lines;
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  const auto graph = import_model(model);
  set_log_sink({});
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(lines, ElementsAre("output 'y': its declared sizes are wrong, the graph makes "
                                 "f32[N, 3]"));
}

// --- Sizes and values ---

TEST(ImportOnnx, SizeMinusOneIsFree) {
  Model model = relu_model();
  model.inputs = {value_info("x", {int64_t{-1}, int64_t{3}})};
  model.outputs = {value_info("y", {int64_t{-1}, int64_t{3}})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->value(graph->inputs()[0]).type.sizes, (Dims{kUnknownDim, 3}));
}

TEST(ImportOnnxBad, InputSizes) {
  Model model = relu_model();
  model.inputs = {value_info("x", {int64_t{-2}, int64_t{3}})};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: input 'x': size -2 of dimension 0 is negative; a free dimension has a name or "
            "is -1");
  model.inputs = {value_info("x", {int64_t{1} << 62, int64_t{1} << 62})};
  EXPECT_THAT(refused(model).message(), AllOf(StartsWith("m.onnx: input 'x': sizes ["),
                                              HasSubstr("have more elements than can be counted")));
  model.inputs = {value_info("x", std::vector<Dim>(17, int64_t{1}))};
  EXPECT_EQ(refused(model).message(), "m.onnx: input 'x': rank 17: expected at most 16");
}

TEST(ImportOnnxBad, InputTypes) {
  Model model = relu_model();
  model.inputs = {value_info("x", {int64_t{3}}, kStringType)};
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_EQ(refused(model).message(), "m.onnx: input 'x': dtype STRING is not supported");
  model.inputs = {value_info("x", {int64_t{3}}, 99)};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: input 'x': expected a dtype code from 1 to 28, found 99");
  model.inputs = {Message().text(1, "x")};
  EXPECT_EQ(refused(model).message(), "m.onnx: input 'x': it has no type");
  model.inputs = {Message().text(1, "x").message(2, Message().message(4, Message()))};
  EXPECT_EQ(refused(model).message(), "m.onnx: input 'x': its type is not a tensor");
}

TEST(ImportOnnxBad, DtypeThatOperatorDoesNotTake_NamesNode) {
  Model model = one_node(node("Exp", "e", {"x"}, {"y"}));
  model.inputs = {value_info("x", {int64_t{3}}, kInt64Type)};
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED) << "ONNX may have it where we do not";
  EXPECT_THAT(refused(model).message(),
              AllOf(StartsWith("m.onnx: node 'e' (Exp, opset 17): input 'x': expected a dtype of"),
                    HasSubstr("found i64")));
}

TEST(ImportOnnxBad, ZeroBesideHugeSize) {
  Model model = relu_model();
  model.inputs = {value_info("x", {int64_t{0}, int64_t{1}, INT64_MAX})};
  EXPECT_EQ(refused(model).message(),
            "m.onnx: input 'x': sizes [0, 1, 9223372036854775807] have more elements than can be "
            "counted");
  EXPECT_EQ(refused(weighted_model(floats("w", {0, 1, INT64_MAX}, {}))).message(),
            "m.onnx: initializer: tensor 'w': sizes [0, 1, 9223372036854775807] of f32 are more "
            "bytes than can be counted");
}

TEST(ImportOnnxBad, WeightSizes) {
  EXPECT_EQ(refused(weighted_model(floats("w", {1, -3}, {1, 2, 3}))).message(),
            "m.onnx: initializer: tensor 'w': size -3 is negative");
  EXPECT_THAT(
      refused(weighted_model(floats("w", {int64_t{1} << 40, int64_t{1} << 40}, {1}))).message(),
      AllOf(StartsWith("m.onnx: initializer: tensor 'w': sizes [1099511627776, 1099511627776]"),
            HasSubstr("are more bytes than can be counted")));
  EXPECT_THAT(refused(weighted_model(floats("w", {int64_t{1} << 61}, {1}))).message(),
              HasSubstr("are more bytes than can be counted"));
  EXPECT_EQ(refused(weighted_model(floats("w", {1, 3}, {1, 2}))).message(),
            "m.onnx: initializer: tensor 'w': sizes [1, 3] of f32 need 12 bytes, found 8");
  EXPECT_EQ(refused(weighted_model(floats("w", {1, 1000000000}, {1, 2}))).message(),
            "m.onnx: initializer: tensor 'w': sizes [1, 1000000000] of f32 need 4000000000 bytes, "
            "found 8");
}

TEST(ImportOnnxBad, ShapesThatDoNotFit_NamesNode) {
  EXPECT_THAT(refused(weighted_model(floats("w", {1, 4}, {1, 2, 3, 4}))).message(),
              StartsWith("m.onnx: node 'add1': add: "));
}

TEST(ImportOnnxBad, ProductOfShapesOverflows_NamesNode) {
  Model model = one_node(node("MatMul", "mm", {"x", "z"}, {"y"}));
  const int64_t large = int64_t{1} << 40;
  model.inputs = {value_info("x", {large, int64_t{1}}), value_info("z", {int64_t{1}, large})};
  EXPECT_THAT(refused(model).message(),
              AllOf(StartsWith("m.onnx: node 'mm': matmul: "), HasSubstr("more elements than")));
}

}  // namespace
}  // namespace bp
