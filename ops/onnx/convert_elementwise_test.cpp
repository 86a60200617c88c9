// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators whose ONNX form is not ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> steps_of(const Model& model) {
  const auto graph = import_model(model);
  return graph.ok() ? op_names(*graph) : std::vector{graph.status().to_string()};
}
std::vector<std::string> steps_of(const Message& the_node, int64_t opset) {
  Model model = one_node(the_node);
  model.opset = opset;
  return steps_of(model);
}

TEST(ConvertSum, Inputs_Chained) {
  EXPECT_THAT(steps_of(node("Sum", "s", {"x", "x", "x"}, {"y"}), 13), ElementsAre("add", "add"));
  EXPECT_THAT(steps_of(node("Mean", "m", {"x", "x", "x"}, {"y"}), 13),
              ElementsAre("add", "add", "div"));
  EXPECT_THAT(steps_of(node("Mean", "m", {"x"}, {"y"}), 13), ElementsAre("identity"));
  EXPECT_THAT(steps_of(node("Min", "m", {"x", "x"}, {"y"}), 13), ElementsAre("min"));
}

TEST(ConvertClip, Bounds_AsAttributesOrInputs) {
  EXPECT_THAT(steps_of(node("Clip", "c", {"x"}, {"y"}, {attr("min", 0.f), attr("max", 6.f)}), 10),
              ElementsAre("clip"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x"}, {"y"}, {attr("max", 6.f)}), 7), ElementsAre("min"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x", "x", "x"}, {"y"}), 11), ElementsAre("clip"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x", "x"}, {"y"}), 13), ElementsAre("max"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x", "", "x"}, {"y"}), 13), ElementsAre("min"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x"}, {"y"}), 13), ElementsAre("identity"));
  EXPECT_THAT(steps_of(node("Clip", "c", {"x"}, {"y"}, {attr("min", 0.f)}), 11)[0],
              HasSubstr("attribute 'min' is not known"));
}

TEST(ConvertForms, AttributesChooseTheOperator) {
  EXPECT_THAT(steps_of(node("Gelu", "g", {"x"}, {"y"}), 20), ElementsAre("gelu"));
  EXPECT_THAT(steps_of(node("Gelu", "g", {"x"}, {"y"}, {attr("approximate", "tanh")}), 20),
              ElementsAre("gelu_tanh"));
  EXPECT_THAT(steps_of(node("Gelu", "g", {"x"}, {"y"}, {attr("approximate", "erf")}), 20)[0],
              HasSubstr("attribute 'approximate': expected none or tanh, found 'erf'"));
  EXPECT_THAT(steps_of(node("Mod", "m", {"x", "x"}, {"y"}, {attr("fmod", 1L)}), 13),
              ElementsAre("fmod"));
  EXPECT_THAT(steps_of(node("Mod", "m", {"x", "x"}, {"y"}), 13), ElementsAre("mod"));
}

Model with_types(const Message& the_node, int x_type, int z_type) {
  Model model = one_node(the_node);
  model.opset = 18;
  model.inputs = {value_info("x", {int64_t{3}}, x_type), value_info("z", {int64_t{3}}, z_type)};
  return model;
}

TEST(ConvertPow, Dtypes_AreMadeEqual) {
  const Message pow = node("Pow", "p", {"x", "z"}, {"y"});
  EXPECT_THAT(steps_of(with_types(pow, kFloatType, kFloatType)), ElementsAre("pow"));
  EXPECT_THAT(steps_of(with_types(pow, kFloatType, kInt32Type)), ElementsAre("cast", "pow"));
  EXPECT_THAT(steps_of(with_types(pow, kInt32Type, kUint8Type)), ElementsAre("cast", "pow"));
  EXPECT_THAT(steps_of(with_types(pow, kInt64Type, kInt32Type)), ElementsAre("cast", "pow"));
  // 2^32 would be 0 in i32, and u8 has no exponents below 0.
  EXPECT_THAT(steps_of(with_types(pow, kInt32Type, kInt64Type)),
              ElementsAre("cast", "pow", "cast"));
  EXPECT_THAT(steps_of(with_types(pow, kUint8Type, kInt32Type)),
              ElementsAre("cast", "cast", "pow", "cast"));
  EXPECT_THAT(steps_of(with_types(pow, kInt32Type, kFloatType)),
              ElementsAre("cast", "cast", "pow", "cast"));
}

TEST(ConvertPow, SquareOfFloats_IsAProduct) {
  Model model = with_types(node("Pow", "p", {"x", "two"}, {"y"}), kFloatType, kFloatType);
  const auto steps = [&](const Message& exponent) {
    model.initializers = {exponent};
    return steps_of(model);
  };
  EXPECT_THAT(steps(floats("two", {}, {2})), ElementsAre("mul"));
  EXPECT_THAT(steps(floats("two", {1}, {2})), ElementsAre("mul"));
  EXPECT_THAT(steps(int64s("two", {2})), ElementsAre("mul"));
  EXPECT_THAT(steps(floats("two", {1, 1}, {2})), ElementsAre("pow")) << "y has more dimensions";
  EXPECT_THAT(steps(floats("two", {3}, {2, 2, 2})), ElementsAre("pow"));
  EXPECT_THAT(steps(floats("two", {}, {2.0000002f})), ElementsAre("pow"));
  EXPECT_THAT(steps(floats("two", {}, {-2})), ElementsAre("pow"));
  model.inputs[0] = value_info("x", {int64_t{3}}, kInt32Type);
  EXPECT_THAT(steps(tensor("two", {}, kInt32Type, bytes_of<int32_t>({2}))), ElementsAre("pow"));
}

TEST(ConvertShrink, IntegersWithFractions_AreComputedInF64) {
  const auto steps = [](int x_type, float lambd, float bias) {
    return steps_of(
        with_types(node("Shrink", "s", {"x"}, {"y"}, {attr("lambd", lambd), attr("bias", bias)}),
                   x_type, kFloatType));
  };
  EXPECT_THAT(steps(kFloatType, 1.5f, 0.5f), ElementsAre("shrink"));
  EXPECT_THAT(steps(kInt32Type, 2.0f, 1.0f), ElementsAre("shrink"));
  EXPECT_THAT(steps(kInt32Type, 1.5f, 1.0f), ElementsAre("shrink"));
  EXPECT_THAT(steps(kInt32Type, -0.5f, 1.0f), ElementsAre("cast", "shrink", "cast"));
  EXPECT_THAT(steps(kUint8Type, 1.0f, -1.0f), ElementsAre("cast", "shrink", "cast"));
  EXPECT_THAT(steps(kUint8Type, 1.0f, 0.5f), ElementsAre("cast", "shrink", "cast"));
  EXPECT_THAT(steps_of(with_types(node("Shrink", "s", {"x"}, {"y"}), kInt32Type, kFloatType)),
              ElementsAre("shrink"));
}

TEST(ConvertBitShift, Direction_IsAnOperator) {
  EXPECT_THAT(
      steps_of(with_types(node("BitShift", "b", {"x", "z"}, {"y"}, {attr("direction", "LEFT")}),
                          kUint8Type, kUint8Type)),
      ElementsAre("shift_left"));
  EXPECT_THAT(
      steps_of(with_types(node("BitShift", "b", {"x", "z"}, {"y"}, {attr("direction", "RIGHT")}),
                          kUint8Type, kUint8Type)),
      ElementsAre("shift_right"));
  EXPECT_THAT(
      steps_of(with_types(node("BitShift", "b", {"x", "z"}, {"y"}), kUint8Type, kUint8Type))[0],
      HasSubstr("attribute 'direction': expected LEFT or RIGHT, found ''"));
}

TEST(ConvertCastLike, Dtype_IsThatOfTheOther) {
  const auto graph =
      import_model(with_types(node("CastLike", "c", {"x", "z"}, {"y"}), kFloatType, kUint8Type));
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(output_type(*graph), "u8[3]");
}

}  // namespace
}  // namespace bp
