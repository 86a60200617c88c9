// SPDX-License-Identifier: Apache-2.0
//
// resize: inference, and the oracle against values worked out by hand.
#include <map>

#include "core/op/attributes.hpp"
#include "ops/oracle/oracle_test_support.hpp"

namespace bp::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNan;

using Texts = std::map<std::string_view, std::string_view>;

Attributes resize(const Texts& texts, const std::vector<int64_t>& axes = {},
                  const std::map<std::string_view, int64_t>& flags = {}) {
  Attributes attributes(schema_of("resize"));
  for (const auto& [name, value] : texts) EXPECT_TRUE(attributes.set_str(name, value).ok());
  for (const auto& [name, value] : flags) EXPECT_TRUE(attributes.set_i64(name, value).ok());
  EXPECT_TRUE(attributes.set_i64s("axes", axes).ok());
  return attributes;
}

const OracleTensor kNone{};

std::string by_sizes(const TensorType& x, const std::vector<int64_t>& sizes,
                     const Attributes& attributes = resize({})) {
  const TensorType list = typed(BP_DTYPE_I64, {static_cast<int64_t>(sizes.size())});
  return inferred("resize", {x, list}, attributes.data(), {nullptr, sizes.data()});
}

std::string by_scales(const TensorType& x, const std::vector<float>& scales,
                      const Attributes& attributes = resize({})) {
  const TensorType list = typed(BP_DTYPE_F32, {static_cast<int64_t>(scales.size())});
  return inferred("resize", {x, {}, list}, attributes.data(), {nullptr, nullptr, scales.data()});
}

/// One dimension by a scale, or to a size.
std::vector<double> scaled(const std::vector<double>& x, double scale,
                           const Attributes& attributes) {
  const auto values = doubles({static_cast<int64_t>(x.size())}, x);
  return values_of(evaluated("resize", {values, kNone, floats({1}, {scale})}, attributes.data()));
}

std::vector<double> sized(const std::vector<double>& x, int64_t size,
                          const Attributes& attributes) {
  const auto values = doubles({static_cast<int64_t>(x.size())}, x);
  return values_of(evaluated("resize", {values, longs({1}, {size})}, attributes.data()));
}

TEST(InferResize, Sizes_AreGivenOrScaled) {
  EXPECT_EQ(by_sizes(f32({kN, 3, 4, 5}), {7, 3, 8, 1}), "f32[7, 3, 8, 1]");
  EXPECT_EQ(by_scales(f32({kN, 3, 4, 5}), {1, 1, 2, 0.5f}), "f32[s0, 3, 8, 2]");
  EXPECT_EQ(by_scales(f32({kN, kU, 5}), {2, 1, 0.7f}), "f32[?, ?, 3]");
  // In f32 this is 7, in f64 a little less.
  EXPECT_EQ(by_scales(f32({10}), {0.7f}), "f32[7]");
  EXPECT_EQ(by_sizes(f32({kN, 3, 4, 5}), {9, 2}, resize({}, {-1, 1})), "f32[s0, 2, 4, 9]");
  EXPECT_EQ(inferred("resize", {f32({2, 3}), typed(BP_DTYPE_I64, {2})}), "f32[?, ?]");
  EXPECT_EQ(inferred("resize", {no_rank(BP_DTYPE_U8), typed(BP_DTYPE_I64, {2})}), "u8[...]");
}

TEST(InferResize, AspectRatio_IsKept) {
  const auto policy = [](std::string_view name) {
    return resize({{"keep_aspect_ratio_policy", name}}, {1, 2});
  };
  EXPECT_EQ(by_sizes(f32({1, 2, 4}), {7, 8}, policy("not_larger")), "f32[1, 4, 8]");
  EXPECT_EQ(by_sizes(f32({1, 2, 4}), {7, 8}, policy("not_smaller")), "f32[1, 7, 14]");
  EXPECT_EQ(by_sizes(f32({1, 2, kU}), {7, 8}, policy("not_larger")), "f32[1, ?, ?]");
}

TEST(InferResize, BadArguments_AreNamed) {
  const TensorType x = f32({2, 3});
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({{"mode", "area"}})),
            "resize: attribute 'mode': expected one of nearest, linear, cubic, found 'area'");
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({{"coordinates", ""}})),
            "resize: attribute 'coordinates': expected one of half_pixel, half_pixel_symmetric, "
            "pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize, found ''");
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({{"nearest_mode", "up"}})),
            "resize: attribute 'nearest_mode': expected one of round_prefer_floor, "
            "round_prefer_ceil, floor, ceil, found 'up'");
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({{"keep_aspect_ratio_policy", "no"}})),
            "resize: attribute 'keep_aspect_ratio_policy': expected one of stretch, not_larger, "
            "not_smaller, found 'no'");
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({}, {}, {{"antialias", 1}})),
            "resize: attribute 'antialias': expected none beside mode nearest, found true");
  EXPECT_EQ(by_sizes(x, {2}, resize({}, {2})),
            "resize: attribute 'axes': expected -2 to 1, found 2");
  EXPECT_EQ(by_sizes(x, {2, 3, 4}), "resize: input 'sizes': expected 2 values, found 3");
  EXPECT_EQ(by_sizes(x, {2, -1}),
            "resize: input 'sizes': expected values from 0 to 2147483647, found -1");
  EXPECT_EQ(by_scales(x, {1, 0}),
            "resize: input 'scales': expected finite values above 0, found 0.000000");
  EXPECT_EQ(by_scales(x, {1, 2e9f}),
            "resize: input 'scales': a size of 3 times 2000000000.000000 is too large");
  EXPECT_EQ(by_sizes(f32({0, 3}), {2, 3}),
            "resize: input 'x': an axis of size 0 has nothing to make 2 elements of");
  EXPECT_EQ(inferred("resize", {x}),
            "resize: input 'sizes': expected either sizes or scales, found neither");
  EXPECT_EQ(by_sizes(x, {2, 3}, resize({{"coordinates", "tf_crop_and_resize"}})),
            "resize: input 'roi': expected a list beside tf_crop_and_resize, found none");
}

TEST(OracleResize, Nearest_RoundsAsAsked) {
  const std::vector<double> x{1, 2, 3, 4};
  const auto nearest = [](std::string_view mode, std::string_view coordinates = "half_pixel") {
    return resize({{"nearest_mode", mode}, {"coordinates", coordinates}});
  };
  // Places 0.5 and 2.5.
  EXPECT_THAT(scaled(x, 0.5, nearest("round_prefer_floor")), ElementsAre(1, 3));
  EXPECT_THAT(scaled(x, 0.5, nearest("round_prefer_ceil")), ElementsAre(2, 4));
  EXPECT_THAT(scaled(x, 0.5, nearest("floor")), ElementsAre(1, 3));
  EXPECT_THAT(scaled(x, 0.5, nearest("ceil")), ElementsAre(2, 4));
  // Places 0, 4/3, 8/3.
  EXPECT_THAT(sized(x, 3, nearest("floor", "asymmetric")), ElementsAre(1, 2, 3));
  EXPECT_THAT(sized(x, 3, nearest("ceil", "asymmetric")), ElementsAre(1, 3, 4));
  EXPECT_THAT(sized(x, 3, nearest("round_prefer_floor", "align_corners")), ElementsAre(1, 2, 4));
  EXPECT_THAT(values_of(evaluated("resize", {tensor(BP_DTYPE_BOOL, {2}, {0, 1}), longs({1}, {4})})),
              ElementsAre(0, 0, 1, 1));
}

TEST(OracleResize, Linear_MixesTwo) {
  const auto linear = [](std::string_view coordinates) {
    return resize({{"mode", "linear"}, {"coordinates", coordinates}});
  };
  EXPECT_THAT(scaled({0, 4}, 2, linear("half_pixel")), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(scaled({0, 4}, 2, linear("asymmetric")), ElementsAre(0, 2, 4, 4));
  EXPECT_THAT(sized({0, 4, 8}, 5, linear("align_corners")), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_THAT(scaled({0, 4, 8}, 0.5, linear("pytorch_half_pixel")), ElementsAre(0));
  EXPECT_THAT(scaled({0, 4, 8}, 0.5, linear("half_pixel")), ElementsAre(2));
  // One of 1.5 elements, in the middle of x.
  EXPECT_THAT(scaled({0, 4, 8}, 0.5, linear("half_pixel_symmetric")), ElementsAre(4));
  EXPECT_THAT(scaled({kInf, 4, 8}, 1, linear("asymmetric")), ElementsAre(kInf, 4, 8));
  EXPECT_THAT(scaled({4, kInf}, 2, linear("asymmetric")), ElementsAre(4, kInf, kInf, kInf));
  const auto bytes = tensor(BP_DTYPE_I8, {2}, {1, 4});
  EXPECT_THAT(values_of(evaluated("resize", {bytes, longs({1}, {4})}, linear("half_pixel").data())),
              ElementsAre(1, 2, 3, 4));
}

TEST(OracleResize, CubicAndAntialias_AreWeighted) {
  // At 3/4 between two elements: -0.03515625, 0.26171875, 0.87890625, -0.10546875 for a = -0.75.
  const auto cubic = resize({{"mode", "cubic"}});
  EXPECT_DOUBLE_EQ(scaled({0, 0, 1, 0}, 2, cubic)[3], 0.26171875);
  EXPECT_DOUBLE_EQ(scaled({0, 0, 1, 0}, 2, cubic)[4], 0.87890625);
  const auto excluded = resize({{"mode", "cubic"}}, {}, {{"exclude_outside", 1}});
  EXPECT_DOUBLE_EQ(scaled({1, 1, 1, 1}, 2, excluded)[0], 1);
  EXPECT_DOUBLE_EQ(scaled({1, 0, 0, 0}, 2, excluded)[0], 0.87890625 / (0.87890625 - 0.10546875));
  // Weights of 1/8, 3/8, 3/8, 1/8 round the place 0.5; the border repeats.
  const auto smooth = resize({{"mode", "linear"}}, {}, {{"antialias", 1}});
  EXPECT_THAT(scaled({8, 0, 0, 0}, 0.5, smooth), ElementsAre(4, 0));
  EXPECT_THAT(scaled({0, 8, 0, 0}, 0.5, smooth), ElementsAre(3, 1));
}

TEST(OracleResize, Crop_FillsWhatIsOutside) {
  Attributes crop = resize({{"mode", "linear"}, {"coordinates", "tf_crop_and_resize"}});
  ASSERT_TRUE(crop.set_f64("extrapolation_value", 9).ok());
  const auto x = floats({5}, {0, 1, 2, 3, 4});
  EXPECT_THAT(values_of(evaluated("resize", {x, longs({1}, {3}), kNone, floats({2}, {0.25, 0.75})},
                                  crop.data())),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(values_of(evaluated("resize", {x, longs({1}, {3}), kNone, floats({2}, {0.5, 1.5})},
                                  crop.data())),
              ElementsAre(2, 4, 9));
}

}  // namespace
}  // namespace bp::ops
