// SPDX-License-Identifier: Apache-2.0
//
// Normalizations. The mean, the variance and the factors round with the size of what they are made
// of, not with that of the result, which may be near 0: hence the absolute part of their bound.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

// For inputs within [-4, 4] that do not lie all in one place.
constexpr double kMomentsAbsolute = 64;

double set_count(std::span<const OracleTensor> inputs, int64_t) {
  return static_cast<double>(inputs[0].count());
}

Recipe normalization(std::string_view op, std::vector<Variant> variants, Shot special) {
  return {.op = op,
          .variants = std::move(variants),
          .precise = {FillKind::kExponent},
          .nearness = Nearness::kSoftmax,
          .absolute = kMomentsAbsolute,
          .terms = set_count,
          .specials = {std::move(special)},
          .special_fills = {FillKind::kSpecialLane, FillKind::kTerm}};
}

/// Of layer_norm, or without a bias of rms_norm.
Shot trailing(const Dims& x, int64_t axis, const Dims& scale, const std::optional<Dims>& bias,
              bool takes_bias) {
  Shot shot{{x, scale}, {{"axis", axis}}};
  if (takes_bias) shot.inputs.push_back(bias);
  return shot;
}

Recipe trailing_recipe(std::string_view op, bool takes_bias) {
  const auto shot = [takes_bias](const Dims& x, int64_t axis, const Dims& scale,
                                 const std::optional<Dims>& bias) {
    return trailing(x, axis, scale, bias, takes_bias);
  };
  std::vector<Shot> lengths;
  for (const int64_t length : {1, 8, 9, 17, 33, 65, 257, 1025, 2500}) {
    lengths.push_back(shot({3, length}, -1, {length}, Dims{length}));
  }
  return normalization(
      op,
      {{"normal", {shot({5, 37}, -1, {37}, Dims{37})}},
       {"axes",
        {shot({4, 5, 6}, 1, {5, 6}, Dims{5, 6}), shot({4, 5, 6}, 0, {4, 5, 6}, std::nullopt),
         shot({2, 3, 4, 5}, -2, {4, 5}, std::nullopt)}},
       {"broadcast",
        {shot({4, 5, 6}, 1, {6}, Dims{5, 1}), shot({4, 5, 6}, 2, {}, Dims{1}),
         shot({4, 5, 6}, 2, {4, 1, 6}, std::nullopt)}},
       {"lengths", lengths},
       {"zero", {shot({0, 4}, 1, {4}, Dims{4}), shot({4, 0}, 1, {0}, std::nullopt)}}},
      shot({5, 37}, -1, {37}, Dims{37}));
}

/// Of instance_norm and group_norm.
Shot channels(const Dims& x, std::vector<Setting> attributes) {
  return {{x, Dims{x[1]}, Dims{x[1]}}, std::move(attributes)};
}

Recipe instance_norm() {
  const auto shot = [](const Dims& x) { return channels(x, {}); };
  return normalization("instance_norm",
                       {{"image", {shot({2, 5, 4, 7})}},
                        {"ranks", {shot({2, 3, 37}), shot({2, 3, 2, 3, 4})}},
                        {"sizes", {shot({1, 1, 1}), shot({1, 3, 17, 31}), shot({3, 2, 1025})}},
                        {"zero", {shot({0, 5, 4}), shot({2, 5, 0})}}},
                       shot({2, 5, 4, 9}));
}

Recipe group_norm() {
  const auto shot = [](const Dims& x, int64_t groups) {
    return channels(x, {{"num_groups", groups}});
  };
  return normalization(
      "group_norm",
      {{"image", {shot({2, 6, 4, 5}, 3)}},
       {"groups", {shot({2, 6, 4, 5}, 1), shot({2, 6, 4, 5}, 6), shot({2, 6, 33}, 2)}},
       {"sizes", {shot({1, 1, 1}, 1), shot({1, 4, 17, 31}, 2), shot({3, 2, 2, 3, 2}, 1)}},
       {"zero", {shot({0, 6, 4}, 3), shot({2, 6, 0}, 2)}}},
      shot({2, 6, 10, 4}, 3));
}

Recipe mean_variance_norm() {
  const auto shot = [](const Dims& x, std::vector<int64_t> axes) {
    return Shot{{x}, {{"axes", std::move(axes)}}};
  };
  return normalization("mean_variance_norm",
                       {{"image", {shot({2, 3, 4, 5}, {0, 2, 3})}},
                        {"axes", {shot({4, 5, 6}, {1}), shot({4, 5, 6}, {-1, 0}), shot({9}, {})}},
                        {"zero", {shot({0, 3, 4}, {0, 2})}}},
                       shot({5, 37}, {1}));
}

Recipe lp_norm() {
  const auto shot = [](const Dims& x, int64_t axis, int64_t p) {
    return Shot{{x}, {{"axis", axis}, {"p", p}}};
  };
  return normalization(
      "lp_norm",
      {{"normal", {shot({5, 37}, -1, 2)}},
       {"axes", {shot({4, 5, 6}, 0, 1), shot({4, 5, 6}, 1, 2), shot({4, 5, 6}, 2, 1)}},
       {"zero", {shot({0, 4}, 1, 2), shot({4, 0}, 1, 1)}}},
      shot({5, 37}, -1, 1));
}

Recipe lrn() {
  const auto shot = [](const Dims& x, int64_t size) {
    return Shot{{x}, {{"size", size}, {"alpha", 0.75}, {"bias", 1.5}}};
  };
  return normalization("lrn",
                       {{"image", {shot({2, 7, 4, 5}, 3)}},
                        {"sizes", {shot({2, 7, 33}, 4), shot({1, 3, 2, 2}, 9), shot({2, 5}, 1)}},
                        {"zero", {shot({0, 3, 4}, 3), shot({2, 0, 4}, 3), shot({2, 3, 0}, 3)}}},
                       shot({3, 12, 5}, 3));
}

}  // namespace

void add_normalization_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(trailing_recipe("layer_norm", true));
  recipes->push_back(trailing_recipe("rms_norm", false));
  recipes->push_back(instance_norm());
  recipes->push_back(group_norm());
  recipes->push_back(mean_variance_norm());
  recipes->push_back(lp_norm());
  recipes->push_back(lrn());
}

}  // namespace bp::conform
