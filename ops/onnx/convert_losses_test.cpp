// SPDX-License-Identifier: Apache-2.0
//
// Losses: their values are ONNX's own cases (tests/onnx); here is what is refused, and the sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::HasSubstr;

Model loss_model(const std::string& op, const std::vector<Message>& attributes,
                 const std::vector<std::string>& outputs = {"y"}) {
  Model model = one_node(node(op, "l", {"x", "t"}, outputs, attributes));
  model.opset = 13;
  model.inputs = {value_info("x", {"N", 5L, 4L}), value_info("t", {"N", 4L}, kInt64Type)};
  return model;
}

std::string loss_type(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? output_type(*graph) : graph.status().to_string();
}

TEST(ConvertLosses, Sizes) {
  for (const std::string op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    EXPECT_EQ(loss_type(loss_model(op, {})), "f32[]");
    EXPECT_EQ(loss_type(loss_model(op, {attr("reduction", "sum")})), "f32[]");
    EXPECT_EQ(loss_type(loss_model(op, {attr("reduction", "none"), attr("ignore_index", -1L)})),
              "f32[N, 4]");
  }
}

TEST(ConvertLosses, UnknownReduction_IsNamed) {
  EXPECT_THAT(loss_type(loss_model("NegativeLogLikelihoodLoss", {attr("reduction", "most")})),
              HasSubstr("attribute 'reduction': expected none, sum or mean, found 'most'"));
}

}  // namespace
}  // namespace bp
