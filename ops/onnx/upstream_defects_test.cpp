// SPDX-License-Identifier: Apache-2.0
//
// Models of the kinds that ended processes of the onnx package itself, by the number of its pull
// request (github.com/onnx/onnx) that mended each there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;

/// 8032, 8109: a copy of all bytes into room for whole elements alone. Each dtype that was read so,
/// with one byte too few and one too many.
TEST(UpstreamDefects, RawDataOfPartsOfElements_8032_8109) {
  constexpr int kUint64Type = 13;
  for (const int type : {kFloatType, kInt32Type, kInt64Type, kDoubleType, kUint64Type}) {
    const bool is_short = type == kFloatType || type == kInt32Type;
    const size_t whole = is_short ? 8 : 16;
    for (const size_t bytes : {whole - 1, whole + 1}) {
      Model model = one_node(node("Identity", "same", {"w"}, {"y"}));
      model.initializers = {tensor("w", {2}, type, std::string(bytes, '\1'))};
      EXPECT_THAT(refused(model).message(), HasSubstr(" need " + std::to_string(whole) +
                                                      " bytes, found " + std::to_string(bytes)))
          << type;
    }
  }
}

/// 8109 was reached through the scales of an old Upsample, which are read as values.
TEST(UpstreamDefects, ScalesOfPartsOfElements_8109) {
  Model model = one_node(node("Upsample", "up", {"x", "scales"}, {"y"}, {attr("mode", "nearest")}));
  model.opset = 9;
  model.inputs = {value_info("x", {int64_t{1}, int64_t{1}, int64_t{2}, int64_t{2}})};
  model.initializers = {tensor("scales", {4}, kFloatType, std::string(15, '\1'))};
  EXPECT_THAT(refused(model).message(), HasSubstr("need 16 bytes, found 15"));
}

/// The error of y = OP(x f32[1, 4, 4, 4], constants), which must name its node.
std::string words_of(std::string_view op, const std::vector<Message>& attributes,
                     const std::vector<std::pair<std::string, Message>>& constants = {},
                     const std::vector<Dim>& sizes = {int64_t{1}, int64_t{4}, int64_t{4},
                                                      int64_t{4}}) {
  std::vector<std::string> names = {"x"};
  Model model;
  for (const auto& [name, constant] : constants) {
    names.push_back(name);
    model.initializers.push_back(constant);
  }
  model.inputs = {value_info("x", sizes)};
  model.nodes = {node(op, "far", names, {"y"}, attributes)};
  const std::string words(refused(model).message());
  EXPECT_THAT(words, HasSubstr("node 'far'"));
  return words;
}
std::pair<std::string, Message> constant(std::string name, const Ints& values) {
  Message tensor = int64s(name, values);
  return {std::move(name), std::move(tensor)};
}

/// 8277: sizes that a model chose, added, multiplied and divided without a check.
TEST(UpstreamDefects, WindowsBeyondCounting_8277) {
  const std::pair<std::string, Message> weights = {"w", floats("w", {1, 4, 1, 1}, {1, 2, 3, 4})};
  const std::pair<std::string, Message> backward = {"w", floats("w", {4, 1, 1, 1}, {1, 2, 3, 4})};
  for (const int64_t far : {INT64_MAX, INT64_MIN, INT64_MAX - 1, int64_t{1} << 32}) {
    for (const char* name : {"dilations", "strides"}) {
      const Message given = attr(name, Ints{far, 1});
      EXPECT_THAT(words_of("Conv", {given}, {weights}), HasSubstr(name));
      EXPECT_THAT(words_of("ConvTranspose", {given}, {backward}), HasSubstr(name));
      EXPECT_THAT(words_of("MaxPool", {attr("kernel_shape", Ints{1, 1}), given}), HasSubstr(name));
    }
    const Message pads = attr("pads", Ints{far, 0, far, 0});
    EXPECT_THAT(words_of("Conv", {pads}, {weights}), HasSubstr("pads"));
    EXPECT_THAT(words_of("ConvTranspose", {pads}, {backward}), HasSubstr("pads"));
    for (const char* pool : {"MaxPool", "AveragePool", "LpPool"}) {
      EXPECT_THAT(words_of(pool, {attr("kernel_shape", Ints{1, 1}), pads}), HasSubstr("pads"));
      EXPECT_THAT(words_of(pool, {attr("kernel_shape", Ints{far, 1})}), HasSubstr("kernel_shape"));
    }
    EXPECT_THAT(words_of("ConvTranspose", {attr("output_padding", Ints{far, 0})}, {backward}),
                HasSubstr("output_padding"));
  }
}

/// 8277: a square of the block size that wraps to 0 was divided by.
TEST(UpstreamDefects, BlocksBeyondCounting_8277) {
  for (const int64_t far : {INT64_MAX, INT64_MIN, int64_t{1} << 32, int64_t{1} << 31, int64_t{0}}) {
    EXPECT_THAT(words_of("SpaceToDepth", {attr("blocksize", far)}), HasSubstr("block"));
    EXPECT_THAT(words_of("DepthToSpace", {attr("blocksize", far)}), HasSubstr("block"));
  }
}

/// 8277: sizes from the values of constants.
TEST(UpstreamDefects, SizesBeyondCounting_8277) {
  for (const int64_t far : {INT64_MAX, INT64_MAX - 3, INT64_MIN}) {
    EXPECT_THAT(words_of("Pad", {}, {constant("pads", {far, 0, 0, 0, far, 0, 0, 0})}),
                HasSubstr("pads"));
    EXPECT_THAT(words_of("Tile", {}, {constant("repeats", {1, far, 1, 1})}), HasSubstr("repeats"));
    EXPECT_THAT(words_of("Reshape", {}, {constant("shape", {far, far})}), HasSubstr("far"));
    EXPECT_THAT(words_of("Expand", {}, {constant("shape", {far, 1, 1, 1, 1})}), HasSubstr("far"));
    EXPECT_THAT(words_of("Split", {}, {constant("split", {far, far})}), HasSubstr("split"));
  }
  Model model;
  model.inputs = {value_info("x", {INT64_MAX / 16, int64_t{1}})};
  model.nodes = {
      node("Concat", "far", std::vector<std::string>(17, "x"), {"y"}, {attr("axis", int64_t{0})})};
  EXPECT_THAT(
      refused(model).message(),
      HasSubstr("node 'far': concat: output 'y': sizes [9223372036854775807, 1] have more"));
}

/// 8277: INT64_MIN / -1, and by 0.
TEST(UpstreamDefects, RangesBeyondCounting_8277) {
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    Model model;
    model.inputs = {};
    model.nodes = {node("Range", "far", {"start", "limit", "delta"}, {"y"})};
    for (const auto& [name, value] :
         {std::pair{"start", start}, {"limit", limit}, {"delta", delta}}) {
      model.initializers.push_back(tensor(name, {}, kInt64Type, bytes_of<int64_t>({value})));
    }
    return type_of(import_model(model));
  };
  EXPECT_THAT(range(0, INT64_MIN, -1), HasSubstr("have more elements than can be counted"));
  EXPECT_THAT(range(INT64_MIN, INT64_MAX, 1), HasSubstr("have more elements than can be counted"));
  EXPECT_THAT(range(0, 1, 0), HasSubstr("'delta': expected a number other than 0, found 0"));
  EXPECT_EQ(range(INT64_MAX, INT64_MIN, INT64_MIN), "i64[2]");
}

}  // namespace
}  // namespace bp
