// SPDX-License-Identifier: Apache-2.0
//
// What operator set 7 dropped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;

Model opset6(const Message& the_node, std::vector<Dim> x, std::vector<Dim> b) {
  Model model = one_node(the_node);
  model.opset = 6;
  model.inputs = {value_info("x", std::move(x)), value_info("b", std::move(b))};
  return model;
}

std::string adapted_type(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? output_type(*graph) : graph.status().to_string();
}

std::vector<std::string> names_of(const Model& model) {
  const auto graph = import_model(model);
  EXPECT_TRUE(graph.ok()) << graph.status().to_string();
  return graph.ok() ? op_names(*graph) : std::vector<std::string>();
}

Message add(const std::vector<Message>& attributes) {
  return node("Add", "a", {"x", "b"}, {"y"}, attributes);
}

TEST(Opset6, BroadcastAtTheEnd_IsDropped) {
  const Model model = opset6(add({attr("broadcast", 1L)}), {"N", 3L, 4L}, {3L, 4L});
  EXPECT_THAT(names_of(model), ElementsAre("add"));
  EXPECT_EQ(adapted_type(model), "f32[N, 3, 4]");
  const Model last = opset6(add({attr("broadcast", 1L), attr("axis", -1L)}), {2L, 3L}, {3L});
  EXPECT_THAT(names_of(last), ElementsAre("add"));
}

TEST(Opset6, BroadcastByAxis_IsAReshape) {
  const Model model =
      opset6(add({attr("broadcast", 1L), attr("axis", 1L)}), {"N", 3L, 4L, 5L}, {3L});
  EXPECT_THAT(names_of(model), ElementsAre("reshape", "add"));
  EXPECT_EQ(adapted_type(model), "f32[N, 3, 4, 5]");
}

TEST(Opset6, BadAxis_IsNamed) {
  EXPECT_THAT(adapted_type(opset6(add({attr("broadcast", 1L), attr("axis", 2L)}), {2L, 3L}, {3L})),
              HasSubstr("attribute 'axis': expected room for [3] in [2, 3], found 2"));
  EXPECT_THAT(adapted_type(opset6(add({attr("broadcast", 1L), attr("axis", 0L)}), {2L, 3L}, {"N"})),
              HasSubstr("are not known"));
}

TEST(Opset6, Training_IsRefused) {
  Model model = opset6(node("Dropout", "d", {"x"}, {"y"}, {attr("is_test", 1L)}), {2L}, {2L});
  EXPECT_EQ(adapted_type(model), "f32[2]");
  model.nodes = {node("Dropout", "d", {"x"}, {"y"})};
  EXPECT_THAT(adapted_type(model), HasSubstr("'is_test': only 1 is supported, found 0"));
}

TEST(Opset6, LaterAttribute_IsKeptOut) {
  Model model = opset6(add({attr("broadcast", 1L)}), {2L}, {2L});
  model.opset = 7;
  EXPECT_THAT(adapted_type(model), HasSubstr("attribute 'broadcast' is not known"));
}

}  // namespace
}  // namespace bp
