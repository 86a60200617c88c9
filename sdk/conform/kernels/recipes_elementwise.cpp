// SPDX-License-Identifier: Apache-2.0
//
// Operators that work element by element. Their ulps are those of OpenCL's table for full
// precision: 0 for what IEEE 754 rounds correctly everywhere.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

/// Round vector widths, where tails are lost.
constexpr int64_t kLengths[] = {1,  3,  7,  8,   9,   15,  16,  17,  31,
                                33, 64, 65, 127, 128, 256, 257, 1025};

std::vector<Shot> lengths(size_t input_count) {
  std::vector<Shot> shots;
  for (const int64_t length : kLengths) {
    shots.push_back({std::vector<std::optional<Dims>>(input_count, Dims{length})});
  }
  return shots;
}

std::vector<Shot> many(size_t input_count) {
  std::vector<Shot> shots;
  for (const Dims& sizes : {Dims{65537}, Dims{4096}, kAllDimensions}) {
    shots.push_back({std::vector<std::optional<Dims>>(input_count, sizes)});
  }
  return shots;
}

std::vector<Variant> binary_variants() {
  return {{"matrix", {{{Dims{2, 3, 35}, Dims{2, 3, 35}}}}},
          {"lengths", lengths(2)},
          {"broadcast",
           {{{Dims{2, 1, 5, 7}, Dims{3, 1, 7}}},
            {{Dims{4, 1}, Dims{1, 6}}},
            {{Dims{3, 7}, Dims{}}},
            {{Dims{7}, Dims{2, 3, 7}}},
            {{Dims{1, 1, 1}, Dims{5, 33}}}}},
          {"ranks",
           {{{Dims{2, 1, 3, 1, 2, 2, 3}, Dims{2, 1, 3, 1, 2, 2, 3}}},
            {{Dims{1, 2, 1, 3, 1, 2, 1, 5}, Dims{5}}}}},
          {"scalar", {{{Dims{}, Dims{}}}}},
          {"zero", {{{Dims{0}, Dims{0}}}, {{Dims{2, 0, 3}, Dims{3}}}, {{Dims{0, 3}, Dims{1, 1}}}}}};
}

std::vector<Variant> unary_variants(const std::vector<Setting>& attributes = {}) {
  std::vector<Variant> variants = {{"matrix", {{{Dims{2, 3, 35}}}}},
                                   {"lengths", lengths(1)},
                                   {"ranks", {{{Dims{2, 1, 3, 1, 2, 2, 3}}}, {{Dims{1, 1, 5, 1}}}}},
                                   {"scalar", {{{Dims{}}}}},
                                   {"zero", {{{Dims{0}}}, {{Dims{2, 0, 3}}}}}};
  for (Variant& variant : variants) {
    for (Shot& shot : variant.shots) shot.attributes = attributes;
  }
  return variants;
}

Recipe binary(std::string_view op, std::vector<FillKind> exact) {
  const int64_t pairs = special_count() * special_count();
  return {.op = op,
          .variants = binary_variants(),
          .exact = std::move(exact),
          .many = many(2),
          .specials = {Shot{{Dims{pairs}, Dims{pairs}}}},
          .special_fills = {FillKind::kSpecialRow, FillKind::kSpecialColumn},
          .zero_sign = true};
}

Recipe unary(std::string_view op, std::vector<FillKind> exact, FillKind precise) {
  return {.op = op,
          .variants = unary_variants(),
          .exact = std::move(exact),
          .precise = {precise},
          .many = many(1),
          .specials = {Shot{{Dims{special_count()}}}},
          .special_fills = {FillKind::kSpecialColumn},
          .zero_sign = true};
}

Recipe within(double ulps, double half_ulps, Recipe recipe) {
  recipe.nearness = Nearness::kUlps;
  recipe.ulps = ulps;
  recipe.half_ulps = half_ulps;
  return recipe;
}

/// Either zero is the larger of two, and what is not above 0 may keep its sign.
Recipe either_zero(Recipe recipe) {
  recipe.zero_sign = false;
  return recipe;
}

}  // namespace

void add_elementwise_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(binary("add", {FillKind::kSum}));
  recipes->push_back(binary("sub", {FillKind::kSum}));
  recipes->push_back(binary("mul", {FillKind::kProduct}));
  recipes->push_back(within(2.5, 1, binary("div", {FillKind::kSum, FillKind::kPower})));
  recipes->push_back(either_zero(binary("max", {FillKind::kSum})));
  recipes->push_back(either_zero(unary("relu", {FillKind::kSum}, FillKind::kFull)));
  recipes->push_back(within(3, 2, unary("exp", {}, FillKind::kSweep)));
  recipes->push_back(within(3, 1.5, unary("sqrt", {FillKind::kSquare}, FillKind::kPositive)));
  recipes->push_back(within(2.5, 1, unary("reciprocal", {FillKind::kPower}, FillKind::kFull)));
  recipes->push_back(unary("cast", {FillKind::kSum}, FillKind::kWide));
  recipes->push_back(unary("identity", {FillKind::kSum}, FillKind::kFull));
}

}  // namespace bp::conform
