// SPDX-License-Identifier: Apache-2.0
//
// Quantization, with scales that are powers of two: quotients and products are exact then, and so
// are results.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

std::vector<Variant> quantization_variants(bool may_lack_zero) {
  const auto shot = [](const Dims& x, const Dims& scale, const std::optional<Dims>& zero,
                       int64_t axis, int64_t block) {
    return Shot{{x, scale, zero}, {{"axis", axis}, {"block_size", block}}};
  };
  std::vector<Variant> variants = {
      {"tensor", {shot({2, 3, 35}, {}, Dims{}, 1, 0)}},
      {"axes",
       {shot({2, 3, 35}, {3}, Dims{3}, 1, 0), shot({2, 3, 35}, {35}, Dims{35}, -1, 0),
        shot({4, 9}, {4}, Dims{}, 0, 0), shot({4, 9}, {1}, Dims{1}, 0, 0)}},
      {"blocks", {shot({4, 10}, {4, 4}, Dims{4, 4}, 1, 3), shot({6, 5}, {3, 5}, Dims{3, 5}, 0, 2)}},
      {"scalar", {shot({}, {}, Dims{}, 0, 0), shot({}, {1}, Dims{}, 0, 0)}},
      {"zero", {shot({0, 3}, {3}, Dims{3}, 1, 0)}}};
  if (may_lack_zero) {
    variants.push_back({"no_zero", {shot({2, 3, 35}, {3}, std::nullopt, 1, 0)}});
  }
  return variants;
}

Recipe quantization(std::string_view op, bool may_lack_zero) {
  const std::vector<FillKind> fills = {FillKind::kTerm, FillKind::kPositivePower, FillKind::kTerm};
  return {
      .op = op, .variants = quantization_variants(may_lack_zero), .exact = fills, .precise = fills};
}

Recipe quantize_linear() {
  Recipe recipe = quantization("quantize_linear", false);
  recipe.specials = {Shot{{Dims{2, 3, 35}, Dims{3}, Dims{3}}, {{"axis", int64_t{1}}}}};
  recipe.special_fills = {FillKind::kSpecialLane, FillKind::kPositivePower, FillKind::kTerm};
  return recipe;
}

}  // namespace

void add_quantization_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(quantize_linear());
  recipes->push_back(quantization("dequantize_linear", true));
}

}  // namespace bp::conform
