// SPDX-License-Identifier: Apache-2.0
//
// Attention of ONNX becomes ours.
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

std::string attributes_of(const Graph& graph, std::string_view op) {
  for (const Node& each : graph.nodes()) {
    if (graph.registry().schema(each.op).name == op) return each.attributes.to_string();
  }
  return "no such node";
}

Model model_of(const Message& the_node, const std::vector<Message>& inputs) {
  Model model = one_node(the_node);
  model.opset = 25;
  model.inputs = inputs;
  return model;
}

const std::vector<Message>& of_rank_4() {
  static const auto* made =
      new std::vector<Message>{value_info("q", {"N", int64_t{4}, "S", int64_t{8}}),
                               value_info("k", {"N", int64_t{2}, "S", int64_t{8}}),
                               value_info("v", {"N", int64_t{2}, "S", int64_t{6}}),
                               value_info("pk", {"N", int64_t{2}, "P", int64_t{8}}),
                               value_info("pv", {"N", int64_t{2}, "P", int64_t{6}})};
  return *made;
}

TEST(ConvertAttention, Attributes_Copied) {
  const auto graph =
      import_model(model_of(node("Attention", "a", {"q", "k", "v"}, {"y"},
                                 {attr("is_causal", 1L), attr("scale", 0.5f), attr("softcap", 2.0f),
                                  attr("left_window_size", 3L), attr("softmax_precision", 1L)}),
                            of_rank_4()));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("attention"));
  EXPECT_EQ(output_type(*graph), "f32[N, 4, S, 6]");
  EXPECT_THAT(attributes_of(*graph, "attention"),
              AllOf(HasSubstr("causal=true"), HasSubstr("scale=0.5"), HasSubstr("softcap=2"),
                    HasSubstr("left_window=3")));
}

TEST(ConvertAttention, ValuesOfAnotherDtype_AreWidenedAndTheResultIsThatOfQueries) {
  std::vector<Message> mixed = of_rank_4();
  mixed[2] = value_info("v", {"N", int64_t{2}, "S", int64_t{6}}, kDoubleType);
  const auto graph = import_model(model_of(node("Attention", "a", {"q", "k", "v"}, {"y"}), mixed));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("cast", "cast", "attention", "cast"));
  EXPECT_EQ(output_type(*graph), "f32[N, 4, S, 6]");
}

TEST(ConvertAttention, Rank3_IsSplitIntoHeads) {
  const auto graph = import_model(
      model_of(node("Attention", "a", {"q", "k", "v"}, {"y"},
                    {attr("q_num_heads", 4L), attr("kv_num_heads", 2L)}),
               {value_info("q", {"N", "S", int64_t{32}}), value_info("k", {"N", "K", int64_t{16}}),
                value_info("v", {"N", "K", int64_t{6}})}));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph),
              ElementsAre("reshape", "transpose", "reshape", "transpose", "reshape", "transpose",
                          "attention", "transpose", "reshape"));
  EXPECT_EQ(output_type(*graph), "f32[N, S, 12]");
}

TEST(ConvertAttention, Past_IsJoinedAndTheLastQueryStandsAtTheLastKey) {
  Model model = model_of(node("Attention", "a", {"q", "k", "v", "", "pk", "pv"},
                              {"y", "present_k", "present_v"}, {attr("is_causal", 1L)}),
                         of_rank_4());
  const auto graph = import_model(model);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("concat", "concat", "attention"));
  EXPECT_THAT(attributes_of(*graph, "attention"), HasSubstr("query_offset=-1"));
  model.inputs[3] = value_info("pk", {"N", int64_t{2}, int64_t{7}, int64_t{8}});
  model.inputs[4] = value_info("pv", {"N", int64_t{2}, int64_t{7}, int64_t{6}});
  EXPECT_THAT(attributes_of(*import_model(model), "attention"), HasSubstr("query_offset=7"));
  model = model_of(
      node("Attention", "a", {"q", "k", "v", "", "pk", "pv"}, {"y"}, {attr("is_causal", 1L)}),
      of_rank_4());
  model.inputs[0] = value_info("q", {"N", int64_t{4}, "T", int64_t{8}});
  EXPECT_EQ(refused(model).code(), BP_UNSUPPORTED);
  EXPECT_THAT(refused(model).message(), HasSubstr("as many new keys as queries"));
}

TEST(ConvertAttention, ScoresOutput_IsASecondNode) {
  const auto graph =
      import_model(model_of(node("Attention", "a", {"q", "k", "v"}, {"y", "", "", "scores"},
                                 {attr("qk_matmul_output_mode", 2L), attr("is_causal", 1L)}),
                            of_rank_4()));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("attention", "attention_scores"));
  EXPECT_THAT(attributes_of(*graph, "attention_scores"),
              AllOf(HasSubstr("stage=2"), HasSubstr("causal=true")));
}

TEST(ConvertAttention, ShortMask_IsFilledUp) {
  std::vector<Message> inputs = of_rank_4();
  inputs[1] = value_info("k", {"N", int64_t{2}, int64_t{9}, int64_t{8}});
  inputs[2] = value_info("v", {"N", int64_t{2}, int64_t{9}, int64_t{6}});
  inputs.push_back(value_info("m", {int64_t{1}, int64_t{4}}, kBoolType));
  const auto graph =
      import_model(model_of(node("Attention", "a", {"q", "k", "v", "m"}, {"y"}), inputs));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph), ElementsAre("concat", "attention"));
  inputs.back() = value_info("m", {"S", int64_t{4}}, kBoolType);
  EXPECT_THAT(
      refused(model_of(node("Attention", "a", {"q", "k", "v", "m"}, {"y"}), inputs)).message(),
      HasSubstr("that ends before the keys needs known sizes"));
}

TEST(ConvertAttention, BadArguments_AreNamed) {
  const auto words = [](const Message& the_node, const std::vector<Message>& inputs) {
    return refused(model_of(the_node, inputs)).message();
  };
  EXPECT_THAT(words(node("Attention", "a", {"q", "k", "v", "", "pk"}, {"y"}), of_rank_4()),
              HasSubstr("past_key and past_value need each other"));
  EXPECT_THAT(
      words(node("Attention", "a", {"q", "k", "v"}, {"y"}, {attr("scale", 0.0f)}), of_rank_4()),
      HasSubstr("attribute 'scale': 0 is not supported"));
  EXPECT_THAT(words(node("Attention", "a", {"q", "k", "v"}, {"y", "", "", "s"},
                         {attr("qk_matmul_output_mode", 4L)}),
                    of_rank_4()),
              HasSubstr("attribute 'qk_matmul_output_mode': expected 0 to 3, found 4"));
  const std::vector<Message> of_rank_3 = {value_info("q", {"N", "S", int64_t{32}}),
                                          value_info("k", {"N", "K", int64_t{16}}),
                                          value_info("v", {"N", "K", int64_t{6}})};
  EXPECT_THAT(
      words(node("Attention", "a", {"q", "k", "v"}, {"y"}, {attr("kv_num_heads", 2L)}), of_rank_3),
      HasSubstr("attribute 'q_num_heads': expected a divisor of the last size of [s0, s1, "
                "32], found 0"));
  std::vector<Message> mixed = of_rank_4();
  mixed[1] = value_info("k", {"N", int64_t{2}, "S", int64_t{8}}, kDoubleType);
  EXPECT_THAT(words(node("Attention", "a", {"q", "k", "v"}, {"y"}), mixed),
              HasSubstr("inputs 'Q' and 'K': expected one dtype, found f32 and f64"));
  mixed[1] = of_rank_4()[1];
  mixed[2] = value_info("v", {"N", int64_t{2}, "S", int64_t{6}}, kInt32Type);
  EXPECT_THAT(words(node("Attention", "a", {"q", "k", "v"}, {"y"}), mixed),
              HasSubstr("input 2: expected a dtype of {f16, bf16, f32, f64}, found i32"));
  mixed[2] = value_info("v", {"N", int64_t{2}, int64_t{6}});
  EXPECT_THAT(words(node("Attention", "a", {"q", "k", "v"}, {"y"}), mixed),
              HasSubstr("inputs 'Q', 'K' and 'V': expected one known rank of 3 or 4"));
}

std::vector<Message> rotary_inputs(const Message& x) {
  return {x, value_info("c", {int64_t{50}, int64_t{4}}),
          value_info("s", {int64_t{50}, int64_t{4}})};
}

TEST(ConvertRotary, Rank3_IsSplitIntoHeads) {
  const auto graph = import_model(model_of(
      node("RotaryEmbedding", "r", {"x", "c", "s", "p"}, {"y"},
           {attr("num_heads", 4L), attr("interleaved", 1L), attr("rotary_embedding_dim", 8L)}),
      [] {
        auto inputs = rotary_inputs(value_info("x", {"N", "S", int64_t{32}}));
        inputs.push_back(value_info("p", {"N", "S"}, kInt64Type));
        return inputs;
      }()));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_THAT(op_names(*graph),
              ElementsAre("reshape", "transpose", "rotary_embedding", "transpose", "reshape"));
  EXPECT_THAT(attributes_of(*graph, "rotary_embedding"),
              AllOf(HasSubstr("interleaved=true"), HasSubstr("rotary_dim=8")));
}

TEST(ConvertRotary, BadHeads_AreNamed) {
  for (const int64_t heads : {0, 5}) {
    EXPECT_THAT(refused(model_of(node("RotaryEmbedding", "r", {"x", "c", "s"}, {"y"},
                                      {attr("num_heads", heads)}),
                                 rotary_inputs(value_info("x", {"N", "S", int64_t{32}}))))
                    .message(),
                HasSubstr("attribute 'num_heads': expected a divisor of the last size"));
  }
  EXPECT_THAT(refused(model_of(node("RotaryEmbedding", "r", {"x", "c", "s"}, {"y"}),
                               rotary_inputs(value_info("x", {"N", int64_t{32}}))))
                  .message(),
              HasSubstr("expected a known rank of 3 or 4"));
}

}  // namespace
}  // namespace bp
