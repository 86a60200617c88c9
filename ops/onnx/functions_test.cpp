// SPDX-License-Identifier: Apache-2.0
//
// Functions of the model: what a call becomes, and the words for what cannot be called.
#include "ops/onnx/functions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

struct Function {
  std::string name;
  std::vector<std::string> inputs = {"a"};
  std::vector<std::string> outputs = {"b"};
  std::vector<Message> nodes = {};
  std::vector<std::string> attributes = {};
  std::vector<Message> defaults = {};
  int64_t opset = 17;
  std::string domain = "local";
  std::string overload = "";

  Message message() const {
    Message result = Message().text(1, name);
    for (const std::string& input : inputs) result.text(4, input);
    for (const std::string& output : outputs) result.text(5, output);
    for (const std::string& attribute : attributes) result.text(6, attribute);
    for (const Message& part : nodes) result.message(7, part);
    if (opset > 0) result.message(9, Message().varint(2, static_cast<uint64_t>(opset)));
    result.text(10, domain);
    for (const Message& attribute : defaults) result.message(11, attribute);
    return overload.empty() ? result : result.text(13, overload);
  }
};

Message call(std::string_view op, std::string_view name, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {}) {
  return node(op, name, inputs, outputs, attributes).text(7, "local");
}

/// An attribute of a function's node that is one of the function's.
Message reference(std::string_view name, std::string_view of, uint64_t type) {
  return Message().text(1, name).varint(20, type).text(21, of);
}

Model with_functions(const std::vector<Message>& nodes, const std::vector<Function>& functions) {
  Model model;
  model.nodes = nodes;
  for (const Function& function : functions) model.more_model.message(25, function.message());
  model.more_model.message(8, Message().text(1, "local").varint(2, 1));
  return model;
}

std::string graph_text(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? graph->to_string() : graph.status().to_string();
}

Function silu() {
  return {.name = "Silu",
          .nodes = {node("Exp", "e", {"a"}, {"t"}), node("Mul", "", {"a", "t"}, {"b"})}};
}

TEST(OnnxFunctions, Call_IsWrittenOut) {
  EXPECT_EQ(graph_text(with_functions({call("Silu", "act", {"x"}, {"y"})}, {silu()})),
            "input x: f32[N, 3]\n"
            "act/t: f32[N, 3] = exp(x)  # act/e\n"
            "y: f32[N, 3] = mul(x, act/t)  # act/Mul#1\n"
            "output y: y\n");
}

TEST(OnnxFunctions, TwoCalls_ShareNoNames) {
  EXPECT_EQ(graph_text(with_functions(
                {call("Silu", "act", {"x"}, {"m"}), call("Silu", "act", {"m"}, {"y"})}, {silu()})),
            "input x: f32[N, 3]\n"
            "act/t: f32[N, 3] = exp(x)  # act/e\n"
            "m: f32[N, 3] = mul(x, act/t)  # act/Mul#1\n"
            "act#1/t: f32[N, 3] = exp(m)  # act#1/e\n"
            "y: f32[N, 3] = mul(m, act#1/t)  # act#1/Mul#1\n"
            "output y: y\n");
}

TEST(OnnxFunctions, NewNames_AvoidTheModels) {
  EXPECT_THAT(
      graph_text(with_functions(
          {node("Relu", "r", {"x"}, {"act/t"}), call("Silu", "act", {"act/t"}, {"y"})}, {silu()})),
      HasSubstr("act/t': f32[N, 3] = exp(act/t)"));
}

TEST(OnnxFunctions, UnnamedCall_IsNamedAfterTheFunction) {
  EXPECT_THAT(graph_text(with_functions({call("Silu", "", {"x"}, {"y"})}, {silu()})),
              HasSubstr("# Silu#0/e\n"));
}

TEST(OnnxFunctions, Nested_AreWrittenOut) {
  const Function twice = {
      .name = "Twice",
      .nodes = {call("Silu", "one", {"a"}, {"m"}), call("Silu", "two", {"m"}, {"b"})}};
  const auto graph =
      import_model(with_functions({call("Twice", "c", {"x"}, {"y"})}, {twice, silu()}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("exp", "mul", "exp", "mul"));
  EXPECT_EQ(graph->node(0).name, "c/one/e");
  EXPECT_NE(graph->find_value("c/two/t"), kNoValue);
}

TEST(OnnxFunctions, BodyInAnyOrder_IsSorted) {
  Function function = silu();
  std::swap(function.nodes[0], function.nodes[1]);
  const auto graph = import_model(with_functions({call("Silu", "", {"x"}, {"y"})}, {function}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("exp", "mul"));
}

Function flat() {
  return {.name = "Flat",
          .nodes = {node("Flatten", "f", {"a"}, {"b"}, {reference("axis", "where", 2)})},
          .attributes = {"where"}};
}

TEST(OnnxFunctions, AttributeReference_GetsTheCallsValue) {
  EXPECT_THAT(graph_text(with_functions(
                  {call("Flat", "", {"x"}, {"y"}, {attr("where", int64_t{0})})}, {flat()})),
              HasSubstr("flatten(x) {axis=0}"));
}

TEST(OnnxFunctions, AttributeReference_WithoutAValue_IsLeftOut) {
  EXPECT_THAT(graph_text(with_functions({call("Flat", "", {"x"}, {"y"})}, {flat()})),
              HasSubstr("flatten(x) {axis=1}"));
}

TEST(OnnxFunctions, AttributeReference_WithADefault_TakesIt) {
  Function function = flat();
  function.attributes = {};
  function.defaults = {attr("where", int64_t{2})};
  EXPECT_THAT(graph_text(with_functions({call("Flat", "", {"x"}, {"y"})}, {function})),
              HasSubstr("flatten(x) {axis=2}"));
  EXPECT_THAT(graph_text(with_functions(
                  {call("Flat", "", {"x"}, {"y"}, {attr("where", int64_t{0})})}, {function})),
              HasSubstr("flatten(x) {axis=0}"));
}

TEST(OnnxFunctions, AttributeReference_ThroughTwoCalls) {
  const Function outer = {.name = "Outer",
                          .nodes = {call("Flat", "in", {"a"}, {"b"}, {reference("where", "w", 2)})},
                          .attributes = {"w"}};
  EXPECT_THAT(graph_text(with_functions({call("Outer", "", {"x"}, {"y"}, {attr("w", int64_t{0})})},
                                        {outer, flat()})),
              HasSubstr("flatten(x) {axis=0}"));
}

TEST(OnnxFunctions, OwnOperatorSet_IsTheBodys) {
  Function old = {.name = "Old", .nodes = {node("Softmax", "s", {"a"}, {"b"})}};
  const auto ops = [&] {
    Model model =
        with_functions({call("Old", "", {"x"}, {"m"}), node("Softmax", "", {"m"}, {"y"})}, {old});
    model.inputs = {value_info("x", {int64_t{2}, int64_t{3}, int64_t{4}})};
    const auto graph = import_model(model);
    return graph.ok() ? op_names(*graph) : std::vector{graph.status().to_string()};
  };
  EXPECT_THAT(ops(), ElementsAre("softmax", "softmax"));
  old.opset = 11;  // softmax of a matrix: flattened, and back
  EXPECT_THAT(ops(), ElementsAre("flatten", "softmax", "reshape", "softmax"));
}

TEST(OnnxFunctions, ModelOfFunctionsAlone_NeedsNoDefaultDomain) {
  Model model = with_functions({call("Silu", "", {"x"}, {"y"})}, {silu()});
  model.opset = -1;
  EXPECT_TRUE(import_model(model).ok()) << graph_text(model);
}

TEST(OnnxFunctions, OptionalInput_MayBeLeftOut) {
  const Function function = {.name = "F",
                             .inputs = {"a", "w", "bias"},
                             .nodes = {node("Gemm", "g", {"a", "w", "bias"}, {"b"})}};
  Model model = with_functions({call("F", "", {"x", "w"}, {"y"})}, {function});
  model.initializers = {floats("w", {3, 2}, {1, 2, 3, 4, 5, 6})};
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph), "f32[N, 2]");
}

TEST(OnnxFunctions, OutputsNotAskedFor_AndInputsPassedThrough) {
  const Function function = {
      .name = "F",
      .inputs = {"a"},
      .outputs = {"a", "b", "c"},
      .nodes = {node("Exp", "", {"a"}, {"b"}), node("Relu", "", {"b"}, {"c"})}};
  const auto graph = import_model(with_functions(
      {call("F", "f", {"x"}, {"same", "", "c"}), node("Add", "", {"same", "c"}, {"y"})},
      {function}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), testing::UnorderedElementsAre("identity", "exp", "relu", "add"));
}

TEST(OnnxFunctions, FunctionOfTheDefaultDomain_ComesFirst) {
  Function function = {.name = "Relu", .nodes = {node("Exp", "", {"a"}, {"b"})}};
  function.domain = "";
  const auto graph = import_model(with_functions({node("Relu", "", {"x"}, {"y"})}, {function}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("exp"));
}

TEST(OnnxFunctions, Overloads_AreToldApart) {
  Function exp = {.name = "F", .nodes = {node("Exp", "", {"a"}, {"b"})}};
  Function sqrt = {.name = "F", .nodes = {node("Sqrt", "", {"a"}, {"b"})}, .overload = "2"};
  const auto graph = import_model(with_functions(
      {call("F", "", {"x"}, {"m"}), call("F", "", {"m"}, {"y"}).text(8, "2")}, {exp, sqrt}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("exp", "sqrt"));
}

TEST(OnnxFunctions, NotCalled_IsNotLookedAt) {
  Function broken = {.name = "Broken", .nodes = {node("Nothing", "", {"q"}, {"b"})}, .opset = 99};
  EXPECT_TRUE(import_model(with_functions({node("Relu", "", {"x"}, {"y"})}, {broken})).ok());
}

// --- What is refused ---

std::string refusal(const std::vector<Message>& nodes, const std::vector<Function>& functions,
                    bp_status code = BP_INVALID_ARGUMENT) {
  const Status status = refused(with_functions(nodes, functions));
  EXPECT_EQ(status.code(), code) << status.to_string();
  return status.message();
}

TEST(OnnxFunctionsBad, Cycles_AreNamed) {
  const Message main = call("F", "n", {"x"}, {"y"});
  EXPECT_EQ(refusal({main}, {{.name = "F", .nodes = {call("F", "again", {"a"}, {"b"})}}}),
            "m.onnx: node 'n/again' (F): a function calls itself: function 'local.F' calls "
            "function 'local.F'");
  EXPECT_EQ(refusal({main}, {{.name = "F", .nodes = {call("G", "g", {"a"}, {"b"})}},
                             {.name = "G", .nodes = {call("H", "h", {"a"}, {"b"})}},
                             {.name = "H", .nodes = {call("F", "f", {"a"}, {"b"})}}}),
            "m.onnx: node 'n/g/h/f' (F): a function calls itself: function 'local.F' calls "
            "function 'local.G' calls function 'local.H' calls function 'local.F'");
}

std::vector<Function> chain(int count, int calls_each) {
  std::vector<Function> functions;
  for (int i = 0; i < count; ++i) {
    Function function = {.name = "F" + std::to_string(i)};
    std::string from = "a";
    for (int k = 0; k < calls_each; ++k) {
      const std::string to = k + 1 == calls_each ? "b" : "v" + std::to_string(k);
      function.nodes.push_back(i + 1 == count
                                   ? node("Relu", "", {from}, {to})
                                   : call("F" + std::to_string(i + 1), "", {from}, {to}));
      from = to;
    }
    functions.push_back(function);
  }
  return functions;
}

TEST(OnnxFunctionsBad, TooDeep) {
  const Message main = call("F0", "n", {"x"}, {"y"});
  EXPECT_TRUE(import_model(with_functions({main}, chain(64, 1))).ok());
  EXPECT_THAT(refusal({main}, chain(65, 1), BP_UNSUPPORTED),
              EndsWith("functions call each other more than 64 deep: function 'local.F64'"));
  EXPECT_THAT(refusal({main}, chain(20'000, 1), BP_UNSUPPORTED), HasSubstr("more than 64 deep"));
}

/// Written out, 2^60 nodes.
TEST(OnnxFunctionsBad, TooMuchWrittenOut) {
  const std::string words = refusal({call("F0", "n", {"x"}, {"y"})}, chain(60, 2), BP_UNSUPPORTED);
  EXPECT_EQ(words,
            "m.onnx: the model's functions, written out where they are called, take more than 64 "
            "MiB");
}

TEST(OnnxFunctionsBad, DefinedTwice) {
  EXPECT_EQ(refusal({call("Silu", "", {"x"}, {"y"})}, {silu(), silu()}),
            "m.onnx: function 'local.Silu' is defined twice");
}

TEST(OnnxFunctionsBad, Calls) {
  EXPECT_EQ(refusal({call("Silu", "n", {"x", "x"}, {"y"})}, {silu()}),
            "m.onnx: node 'n' (Silu): expected at most 1 inputs, found 2");
  EXPECT_EQ(refusal({call("Silu", "n", {"x"}, {"y", "z"})}, {silu()}),
            "m.onnx: node 'n' (Silu): expected at most 1 outputs, found 2");
  EXPECT_EQ(refusal({call("Silu", "n", {"x"}, {"y"}, {attr("beta", 1.0f)})}, {silu()}),
            "m.onnx: node 'n' (Silu): attribute 'beta' is not one of the function's");
  EXPECT_EQ(refusal({call("Flat", "n", {"x"}, {"y"},
                          {attr("where", int64_t{1}), attr("where", int64_t{1})})},
                    {flat()}),
            "m.onnx: node 'n' (Flat): attribute 'where' is given twice");
  EXPECT_EQ(refusal({call("Flat", "n", {"x"}, {"y"}, {attr("where", 1.0f)})}, {flat()}),
            "m.onnx: node 'n/f' (Flatten, opset 17): attribute 'axis': expected INT, found FLOAT");
  EXPECT_EQ(refusal({call("Silu", "n", {}, {"y"})}, {silu()}),
            "m.onnx: node 'n/e' (Exp, opset 17): input 0 is missing");
}

TEST(OnnxFunctionsBad, Bodies) {
  const Message main = call("F", "n", {"x"}, {"y"});
  EXPECT_EQ(refusal({main}, {{.name = "F", .nodes = {node("Add", "s", {"a", "w"}, {"b"})}}}),
            "m.onnx: function 'local.F': node 's': input 1 'w' is missing: no input or node of the "
            "function has this name");
  EXPECT_EQ(refusal({main}, {{.name = "F", .nodes = {node("Exp", "s", {"a"}, {"c"})}}}),
            "m.onnx: function 'local.F': output 'b' is missing: no input or node of the function "
            "has this name");
  EXPECT_EQ(refusal({main}, {{.name = "F", .nodes = {node("Exp", "s", {"a"}, {"a"})}}}),
            "m.onnx: function 'local.F': the name 'a' is given twice, the second time by node 's'");
  EXPECT_EQ(refusal({main}, {{.name = "F", .inputs = {"a", "a"}}}),
            "m.onnx: function 'local.F': the name 'a' is given twice, the second time by an input");
  EXPECT_EQ(refusal({main}, {{.name = "F", .outputs = {"a", "a"}}}),
            "m.onnx: function 'local.F': two outputs named 'a'");
  EXPECT_EQ(refusal({main}, {{.name = "F", .outputs = {""}}}),
            "m.onnx: function 'local.F': an output has no name");
  EXPECT_EQ(refusal({main},
                    {{.name = "F",
                      .nodes = {node("Flatten", "f", {"a"}, {"b"}, {reference("axis", "q", 2)})}}}),
            "m.onnx: function 'local.F': node 'f': attribute 'axis' refers to 'q', which is not an "
            "attribute of the function");
}

TEST(OnnxFunctionsBad, BodyWithACycle_IsTheGraphs) {
  EXPECT_EQ(
      refusal({call("F", "n", {"x"}, {"y"})},
              {{.name = "F",
                .nodes = {node("Add", "s", {"a", "t"}, {"b"}), node("Exp", "e", {"b"}, {"t"})}}}),
      "m.onnx: the graph has a cycle: 'n/s' needs 'n/e' needs 'n/s'");
}

TEST(OnnxFunctionsBad, OperatorSets) {
  Function function = silu();
  const Message main = call("Silu", "n", {"x"}, {"y"});
  function.opset = 29;
  EXPECT_EQ(refusal({main}, {function}, BP_UNSUPPORTED),
            "m.onnx: function 'local.Silu': opset 29: expected 6 to 28");
  function.opset = 0;
  EXPECT_EQ(refusal({main}, {function}),
            "m.onnx: function 'local.Silu' names no operator set (opset_import) of the default "
            "domain");
}

TEST(OnnxFunctionsBad, UnknownOperatorInside_IsNamed) {
  EXPECT_EQ(refusal({call("F", "n", {"x"}, {"y"})},
                    {{.name = "F", .nodes = {node("Relux", "r", {"a"}, {"b"})}}}, BP_UNSUPPORTED),
            "m.onnx: node 'n/r' (Relux, opset 17): the operator is not known; nearest is 'Relu'");
  EXPECT_EQ(refusal({call("Other", "n", {"x"}, {"y"})}, {silu()}, BP_UNSUPPORTED),
            "m.onnx: node 'n' (local.Other, opset 17): operators of domain 'local' are not known, "
            "only those of ai.onnx and the model's own functions");
}

TEST(OnnxFunctionsBad, ReferenceOutsideAFunction) {
  EXPECT_EQ(
      refused(one_node(node("Flatten", "f", {"x"}, {"y"}, {reference("axis", "q", 2)}))).message(),
      "m.onnx: node 'f' (Flatten, opset 17): attribute 'axis' refers to an attribute of a "
      "function, expected a value");
}

TEST(OnnxFunctionsBad, WithoutAName) {
  Model model = one_node(node("Relu", "", {"x"}, {"y"}));
  model.more_model.message(25, Message());
  EXPECT_THAT(refused(model).message(), EndsWith(": function 0 has no name"));
}

}  // namespace
}  // namespace bp
