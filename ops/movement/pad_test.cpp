// SPDX-License-Identifier: Apache-2.0
//
// Inference of tile, pad, trilu, depth_to_space and space_to_depth, and their values worked out by
// hand.
#include <optional>

#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<int64_t>;

TensorType list_type(const Numbers& values) {
  return typed(BP_DTYPE_I64, {static_cast<int64_t>(values.size())});
}
OracleTensor list_values(const Numbers& values) {
  return longs({static_cast<int64_t>(values.size())}, values);
}

std::string tiled(const TensorType& x, const Numbers& repeats) {
  return inferred("tile", {x, list_type(repeats)}, nullptr, {nullptr, repeats.data()});
}

TEST(InferTile, Sizes_AreMultiplied) {
  EXPECT_EQ(tiled(f32({2, 3}), {3, 1}), "f32[6, 3]");
  EXPECT_EQ(tiled(f32({kN, 3}), {1, 0}), "f32[s0, 0]");
  EXPECT_EQ(tiled(f32({kN, 3}), {2, 1}), "f32[?, 3]");
  EXPECT_EQ(tiled(no_rank(), {2, 1}), "f32[?, ?]");
  EXPECT_EQ(inferred("tile", {f32({0, 3}), typed(BP_DTYPE_I64, {2})}), "f32[0, ?]");
  EXPECT_EQ(inferred("tile", {no_rank(), typed(BP_DTYPE_I64, {kU})}), "f32[...]");
  EXPECT_EQ(tiled(f32({2, 3}), {3}),
            "tile: input 'repeats': expected 2 values, one for each dimension of x, found 1");
  EXPECT_EQ(tiled(f32({2}), {-1}), "tile: input 'repeats': expected numbers from 0, found -1");
  EXPECT_THAT(tiled(f32({8}), {INT64_MAX}), HasSubstr("is more than can be counted"));
}

TEST(OracleTile, Values_Repeat) {
  EXPECT_THAT(values_of(evaluated("tile", {floats({2, 1}, {1, 2}), list_values({2, 2})})),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
}

struct Pad {
  Numbers pads;
  std::string mode = "constant";
  std::optional<Numbers> axes = std::nullopt;
  std::optional<double> value = std::nullopt;

  Attributes attributes() const {
    Attributes result(schema_of("pad"));
    EXPECT_TRUE(result.set_str("mode", mode).ok());
    return result;
  }
};

std::string padded(const TensorType& x, const Pad& pad) {
  const Attributes attributes = pad.attributes();
  return inferred(
      "pad", {x, list_type(pad.pads), TensorType{}, pad.axes ? list_type(*pad.axes) : TensorType{}},
      attributes.data(),
      {nullptr, pad.pads.data(), nullptr, pad.axes ? pad.axes->data() : nullptr});
}

std::vector<double> pad_values(const OracleTensor& x, const Pad& pad) {
  const Attributes attributes = pad.attributes();
  return values_of(
      evaluated("pad",
                {x, list_values(pad.pads), pad.value ? floats({}, {*pad.value}) : OracleTensor(),
                 pad.axes ? list_values(*pad.axes) : OracleTensor()},
                attributes.data()));
}

TEST(InferPad, Sizes_Grow) {
  EXPECT_EQ(padded(f32({3, 4}), {{1, 0, 2, 5}}), "f32[6, 9]");
  EXPECT_EQ(padded(f32({3, 4}), {{-1, 0, -2, 1}}), "f32[0, 5]");
  EXPECT_EQ(padded(f32({3, kN}), {{1, 0, 2, 0}}), "f32[6, s0]");
  EXPECT_EQ(padded(f32({3, kN}), {{0, 1, 0, 0}}), "f32[3, ?]");
  EXPECT_EQ(padded(f32({3, 4, 5}), {{1, 2}, "edge", Numbers{-1}}), "f32[3, 4, 8]");
  EXPECT_EQ(padded(f32({0}), {{2, 1}}), "f32[3]");
  EXPECT_EQ(padded(no_rank(), {{1, 1}}), "f32[...]");
  EXPECT_EQ(inferred("pad", {f32({3, 4}), typed(BP_DTYPE_I64, {4})}), "f32[?, ?]");
}

TEST(InferPad, BadPads_AreNamed) {
  EXPECT_EQ(padded(f32({3}), {{1}}),
            "pad: input 'pads': expected 2 values, two for each dimension of x, found 1");
  EXPECT_EQ(padded(f32({3, 3}), {{1, 1, 1, 1}, "edge", Numbers{0}}),
            "pad: input 'pads': expected 2 values, two for each of axes, found 4");
  EXPECT_EQ(padded(f32({3}), {{1, 1}, "edge", Numbers{1}}),
            "pad: input 'axes': expected -1 to 0, found 1");
  EXPECT_EQ(padded(f32({3}), {{-2, -2}}),
            "pad: input 'pads': -2 and -2 take away more than a dimension of size 3 has");
  EXPECT_EQ(padded(f32({3}), {{INT64_MIN, INT64_MAX}}).find("pad: input 'pads': "), 0u);
  EXPECT_EQ(padded(f32({3}), {{INT64_MAX, 1}}),
            "pad: input 'pads': 9223372036854775807 and 1 are more than can be counted");
  EXPECT_EQ(padded(f32({0}), {{1, 0}, "wrap"}),
            "pad: input 'pads': a dimension without elements has none to repeat");
  EXPECT_EQ(padded(f32({3}), {{1, 1}, "mirror"}),
            "pad: attribute 'mode': expected constant, edge, reflect or wrap, found 'mirror'");
  EXPECT_EQ(inferred("pad", {f32({3}), typed(BP_DTYPE_I64, {2}), f32({2})}),
            "pad: input 'value': expected one element, found [2]");
}

TEST(OraclePad, EveryMode_AddsItsElements) {
  const auto x = floats({3}, {1, 2, 3});
  EXPECT_THAT(pad_values(x, {{1, 2}}), ElementsAre(0, 1, 2, 3, 0, 0));
  EXPECT_THAT(pad_values(x, {{1, 2}, "constant", std::nullopt, 9}), ElementsAre(9, 1, 2, 3, 9, 9));
  EXPECT_THAT(pad_values(x, {{2, 1}, "edge"}), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(pad_values(x, {{2, 1}, "reflect"}), ElementsAre(3, 2, 1, 2, 3, 2));
  EXPECT_THAT(pad_values(x, {{2, 1}, "wrap"}), ElementsAre(2, 3, 1, 2, 3, 1));
  EXPECT_THAT(pad_values(x, {{0, 6}, "reflect"}), ElementsAre(1, 2, 3, 2, 1, 2, 3, 2, 1));
  EXPECT_THAT(pad_values(floats({1}, {7}), {{2, 0}, "reflect"}), ElementsAre(7, 7, 7));
}

TEST(OraclePad, NegativePads_TakeAwayFirst) {
  const auto x = floats({4}, {1, 2, 3, 4});
  EXPECT_THAT(pad_values(x, {{-1, 1}}), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(pad_values(x, {{-1, 2}, "wrap"}), ElementsAre(2, 3, 4, 2, 3));
  EXPECT_THAT(pad_values(x, {{2, -2}, "reflect"}), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(pad_values(floats({2, 2}, {1, 2, 3, 4}), {{-1, 1}, "constant", Numbers{1}}),
              ElementsAre(2, 0, 4, 0));
}

TEST(InferTrilu, Sizes_Stay) {
  EXPECT_EQ(inferred("trilu", {f32({kN, 3, 4})}), "f32[s0, 3, 4]");
  EXPECT_EQ(inferred("trilu", {no_rank(), typed(BP_DTYPE_I64, {1})}), "f32[...]");
  EXPECT_EQ(inferred("trilu", {f32({3})}),
            "trilu: input 'x': expected two dimensions or more, found [3]");
  EXPECT_EQ(inferred("trilu", {f32({3, 3}), typed(BP_DTYPE_I64, {2})}),
            "trilu: input 'k': expected one number, found [2]");
}

TEST(OracleTrilu, Triangles_AreKept) {
  const auto x = floats({2, 3}, {1, 2, 3, 4, 5, kNan});
  bp_attrs_trilu attributes = bp_attrs_trilu_defaults();
  EXPECT_THAT(values_of(evaluated("trilu", {x, longs({}, {1})}, &attributes)).back(),
              ::testing::IsNan());
  attributes.upper = 0;
  EXPECT_THAT(values_of(evaluated("trilu", {x, longs({}, {0})}, &attributes)),
              ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(values_of(evaluated("trilu", {x, longs({1}, {INT64_MIN})}, &attributes)),
              ElementsAre(0, 0, 0, 0, 0, 0));
}

std::string with_blocks(std::string_view op, const TensorType& x, int64_t size,
                        std::string_view mode = "DCR") {
  Attributes attributes(schema_of(op));
  EXPECT_TRUE(attributes.set_i64("block_size", size).ok());
  EXPECT_TRUE(attributes.set_str("mode", mode).ok());
  return inferred(op, {x}, attributes.data());
}

TEST(InferBlocks, Sizes_MoveBetweenDepthAndSpace) {
  EXPECT_EQ(with_blocks("depth_to_space", f32({kN, 8, 3, 5}), 2), "f32[s0, 2, 6, 10]");
  EXPECT_EQ(with_blocks("depth_to_space", f32({1, kN, kM, 5}), 2), "f32[1, ?, ?, 10]");
  EXPECT_EQ(with_blocks("depth_to_space", no_rank(), 1), "f32[?, ?, ?, ?]");
  EXPECT_EQ(with_blocks("space_to_depth", f32({kN, 2, 6, 10}), 2), "f32[s0, 8, 3, 5]");
  EXPECT_EQ(with_blocks("space_to_depth", f32({1, 3, kN, 4}), 2), "f32[1, 12, ?, 2]");
}

TEST(InferBlocks, BadArguments_AreNamed) {
  EXPECT_EQ(with_blocks("depth_to_space", f32({1, 6, 3, 5}), 2),
            "depth_to_space: input 'x': expected a multiple of 4 channels, found [1, 6, 3, 5]");
  EXPECT_EQ(with_blocks("space_to_depth", f32({1, 6, 4, 5}), 2),
            "space_to_depth: input 'x': expected a multiple of 2 in dimension 3, found "
            "[1, 6, 4, 5]");
  EXPECT_EQ(with_blocks("depth_to_space", f32({4}), 2),
            "depth_to_space: input 'x': expected rank 4, found [4]");
  EXPECT_EQ(with_blocks("space_to_depth", f32({1, 1, 1, 1}), 0),
            "space_to_depth: attribute 'block_size': expected 1 to 32768, found 0");
  EXPECT_EQ(with_blocks("depth_to_space", f32({1, 4, 1, 1}), 2, "CDR"),
            "depth_to_space: attribute 'mode': expected DCR or CRD, found 'CDR'");
}

TEST(OracleBlocks, Channels_BecomePlaces) {
  Attributes attributes(schema_of("depth_to_space"));
  EXPECT_TRUE(attributes.set_i64("block_size", 2).ok());
  const auto x = floats({1, 8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(values_of(evaluated("depth_to_space", {x}, attributes.data())),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_TRUE(attributes.set_str("mode", "CRD").ok());
  const auto y = evaluated("depth_to_space", {x}, attributes.data());
  EXPECT_THAT(values_of(y), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  for (const char* mode : {"DCR", "CRD"}) {
    Attributes back(schema_of("space_to_depth"));
    EXPECT_TRUE(back.set_i64("block_size", 2).ok());
    EXPECT_TRUE(back.set_str("mode", mode).ok());
    Attributes forth(schema_of("depth_to_space"));
    EXPECT_TRUE(forth.set_i64("block_size", 2).ok());
    EXPECT_TRUE(forth.set_str("mode", mode).ok());
    const auto there = evaluated("depth_to_space", {x}, forth.data());
    EXPECT_EQ(evaluated("space_to_depth", {there}, back.data()).bytes, x.bytes) << mode;
  }
}

}  // namespace
}  // namespace bp::ops
