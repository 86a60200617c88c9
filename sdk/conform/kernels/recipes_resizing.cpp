// SPDX-License-Identifier: Apache-2.0
//
// Operators that make other sizes of images.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

Setting text(std::string_view name, std::string_view value) { return {name, value}; }

/// By sizes, one for each dimension.
Shot to_sizes(const Dims& x, std::vector<int64_t> sizes, std::vector<Setting> attributes) {
  const auto count = static_cast<int64_t>(sizes.size());
  Shot shot{{x, Dims{count}, std::nullopt, std::nullopt}, std::move(attributes)};
  shot.host_values = std::move(sizes);
  return shot;
}

Shot by_scales(const Dims& x, std::vector<double> scales, std::vector<Setting> attributes) {
  const auto count = static_cast<int64_t>(scales.size());
  Shot shot{{x, std::nullopt, Dims{count}, std::nullopt}, std::move(attributes)};
  shot.host_reals = std::move(scales);
  return shot;
}

Shot crop(const Dims& x, std::vector<int64_t> sizes, std::vector<double> roi,
          std::vector<Setting> attributes) {
  attributes.push_back(text("coordinates", "tf_crop_and_resize"));
  attributes.push_back({"extrapolation_value", 5.0});
  Shot shot = to_sizes(x, std::move(sizes), std::move(attributes));
  shot.inputs[3] = Dims{static_cast<int64_t>(roi.size())};
  shot.host_reals = std::move(roi);
  return shot;
}

std::vector<Shot> in_all_coordinates(const Setting& mode) {
  std::vector<Shot> shots;
  for (const std::string_view name :
       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric"}) {
    shots.push_back(by_scales({1, 2, 4, 8}, {1, 1, 2, 0.5}, {mode, text("coordinates", name)}));
  }
  return shots;
}

/// Sizes and scales are powers of two, with which places are exact in any order of operations: of
/// others a kernel may come to the other side of a half.
Recipe resize() {
  const Setting linear = text("mode", "linear");
  const Setting cubic = text("mode", "cubic");
  const Setting antialias{"antialias", int64_t{1}};
  const Setting exclude{"exclude_outside", int64_t{1}};
  const Setting last_two{"axes", std::vector<int64_t>{2, 3}};
  const Shot plane = by_scales({2, 3, 4, 8}, {1, 1, 2, 2}, {});
  return {
      .op = "resize",
      .variants =
          {{"nearest", {plane}},
           {"nearest_modes",
            {by_scales({1, 2, 4, 8}, {1, 1, 2, 2}, {text("nearest_mode", "floor")}),
             by_scales({1, 2, 4, 8}, {1, 1, 2, 2}, {text("nearest_mode", "ceil")}),
             by_scales({1, 2, 4, 8}, {1, 1, 0.5, 2}, {text("nearest_mode", "round_prefer_ceil")}),
             by_scales({1, 2, 4, 8}, {1, 1, 0.5, 4},
                       {text("nearest_mode", "floor"), text("coordinates", "asymmetric")})}},
           {"linear",
            {by_scales({2, 3, 4, 8}, {1, 1, 2, 2}, {linear}),
             to_sizes({1, 2, 8, 4}, {1, 2, 4, 16}, {linear}),
             to_sizes({1, 2, 4, 8}, {8, 16}, {linear, last_two})}},
           {"linear_coordinates", in_all_coordinates(linear)},
           {"cubic", {by_scales({1, 2, 4, 8}, {1, 1, 2, 2}, {cubic})}},
           {"antialias", {to_sizes({1, 1, 16, 32}, {1, 1, 4, 8}, {linear, antialias})}},
           {"crop",
            {crop({1, 1, 5, 5}, {1, 1, 3, 9}, {0, 0, 0.25, -0.5, 1, 1, 0.75, 1.5}, {linear}),
             crop({1, 1, 5, 5}, {1, 1, 3, 9}, {0, 0, 0.25, -0.5, 1, 1, 0.75, 1.5}, {})}},
           {"ranks",
            {by_scales({8}, {2}, {linear}), by_scales({2, 4, 2, 8}, {2, 2, 2, 2}, {linear}),
             by_scales({1, 1, 4, 2, 8}, {1, 1, 2, 2, 0.5}, {linear})}},
           {"wide",
            {by_scales({1, 1, 2, 4096}, {1, 1, 2, 2}, {linear}),
             by_scales({1, 1, 2, 4096}, {1, 1, 2, 2}, {})}},
           {"zero",
            {to_sizes({0, 3, 4, 4}, {0, 3, 8, 8}, {linear}),
             to_sizes({1, 3, 4, 4}, {1, 3, 0, 8}, {})}}},
      .exact = {FillKind::kTerm},
      .precise = {FillKind::kTame},
      .nearness = Nearness::kMixtures,
      .inexact = {by_scales({1, 2, 4, 8}, {1, 1, 2, 2}, {cubic, exclude}),
                  by_scales({1, 2, 4, 8}, {1, 1, 2, 0.5},
                            {linear, text("coordinates", "align_corners")}),
                  to_sizes({1, 1, 16, 32}, {1, 1, 4, 8}, {cubic, antialias}),
                  to_sizes({2, 7, 9}, {2, 11, 5}, {linear}),
                  to_sizes({2, 7, 9}, {2, 11, 5}, {cubic})},
      .specials = {plane, by_scales({2, 3, 4, 8}, {1, 1, 2, 2}, {linear})},
      .special_fills = {FillKind::kSpecialLane}};
}

}  // namespace

void add_resizing_recipes(std::vector<Recipe>* recipes) { recipes->push_back(resize()); }

}  // namespace bp::conform
