// SPDX-License-Identifier: Apache-2.0
//
// Operators that work element by element. Those with an expression need no recipe of their own: it
// follows from the row (ops/defs), with the shapes of this file. Their ulps are those of OpenCL's
// table for full precision: 0 for what IEEE 754 rounds correctly everywhere.
#include <algorithm>
#include <iterator>

#include "ops/expr/rows.hpp"
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

/// Round vector widths, where tails are lost.
constexpr int64_t kLengths[] = {1,  3,  7,  8,   9,   15,  16,  17,  31,
                                33, 64, 65, 127, 128, 256, 257, 1025};

struct FillWord {
  std::string_view word;
  FillKind kind;
};
constexpr FillWord kFillWords[] = {
    {"sum", FillKind::kSum},
    {"product", FillKind::kProduct},
    {"term", FillKind::kTerm},
    {"square", FillKind::kSquare},
    {"power", FillKind::kPower},
    {"full", FillKind::kFull},
    {"positive", FillKind::kPositive},
    {"wide", FillKind::kWide},
    {"exponent", FillKind::kExponent},
    {"sweep", FillKind::kSweep},
    {"few", FillKind::kFew},
    {"odd", FillKind::kOdd},
    {"unit", FillKind::kUnit},
    {"above_one", FillKind::kAboveOne},
    {"magnitude", FillKind::kMagnitude},
    {"angle", FillKind::kAngle},
    {"small", FillKind::kSmall},
    {"half_zero", FillKind::kHalfZero},
    {"factor", FillKind::kFactor},
    {"special_lane", FillKind::kSpecialLane},
    {"infinite_lane", FillKind::kInfiniteLane},
};

/// As many inputs as are asked for, of these shapes in turn.
Shot shot(size_t input_count, std::initializer_list<Dims> sizes) {
  Shot result;
  for (size_t i = 0; i < input_count; ++i) result.inputs.push_back(sizes.begin()[i % sizes.size()]);
  return result;
}

std::vector<Shot> lengths(size_t input_count) {
  std::vector<Shot> shots;
  for (const int64_t length : kLengths) shots.push_back(shot(input_count, {{length}}));
  return shots;
}

std::vector<Shot> many(size_t input_count) {
  std::vector<Shot> shots;
  for (const Dims& sizes : {Dims{65537}, Dims{4096}, all_dimensions()}) {
    shots.push_back(shot(input_count, {sizes}));
  }
  return shots;
}

std::vector<Variant> unary_variants() {
  return {{"matrix", {{{Dims{2, 3, 35}}}}},
          {"lengths", lengths(1)},
          {"ranks", {{{Dims{2, 1, 3, 1, 2, 2, 3}}}, {{Dims{1, 1, 5, 1}}}}},
          {"scalar", {{{Dims{}}}}},
          {"zero", {{{Dims{0}}}, {{Dims{2, 0, 3}}}}}};
}

/// Of two inputs or three.
std::vector<Variant> broadcast_variants(size_t count) {
  return {
      {"matrix", {shot(count, {{2, 3, 35}})}},
      {"lengths", lengths(count)},
      {"broadcast",
       {shot(count, {{2, 1, 5, 7}, {3, 1, 7}, {1, 1, 7}}), shot(count, {{4, 1}, {1, 6}}),
        shot(count, {{3, 7}, {}, {}}), shot(count, {{7}, {2, 3, 7}, {3, 1}}),
        shot(count, {{1, 1, 1}, {5, 33}})}},
      {"ranks",
       {shot(count, {{2, 1, 3, 1, 2, 2, 3}}), shot(count, {{1, 2, 1, 3, 1, 2, 1, 5}, {5}})}},
      {"scalar", {shot(count, {{}})}},
      {"zero", {shot(count, {{0}}), shot(count, {{2, 0, 3}, {3}}), shot(count, {{0, 3}, {1, 1}})}}};
}

Recipe elementwise(std::string_view op, size_t input_count) {
  const int64_t specials = special_count();
  Recipe recipe;
  recipe.op = op;
  recipe.variants = input_count == 1 ? unary_variants() : broadcast_variants(input_count);
  recipe.many = many(input_count);
  recipe.special_fills = {FillKind::kSpecialColumn};
  recipe.specials = {shot(input_count, {{input_count == 1 ? specials : specials * specials}})};
  // Of three inputs the middle one goes with each of the others.
  if (input_count > 1) recipe.special_fills = {FillKind::kSpecialRow, FillKind::kSpecialColumn};
  if (input_count > 2) recipe.special_fills.push_back(FillKind::kSpecialRow);
  recipe.zero_sign = true;
  return recipe;
}

Recipe of_row(const expr::Row& row) {
  Recipe recipe = elementwise(row.op, row.inputs.size());
  recipe.exact = fills_named(row.cases.exact);
  recipe.precise = fills_named(row.cases.precise);
  recipe.zero_sign = !row.cases.either_zero;
  recipe.least_different = row.cases.least_different;
  if (row.ulps > 0) recipe.nearness = Nearness::kUlps;
  recipe.ulps = row.ulps;
  recipe.half_ulps = row.half_ulps;
  recipe.near_input = row.near_input;
  return recipe;
}

Recipe moving(std::string_view op, FillKind precise) {
  Recipe recipe = elementwise(op, 1);
  recipe.exact = {FillKind::kSum};
  recipe.precise = {precise};
  return recipe;
}

}  // namespace

std::vector<FillKind> fills_named(std::span<const std::string_view> words) {
  std::vector<FillKind> kinds;
  for (const std::string_view word : words) {
    // The generator knows the same words.
    const auto* found = std::find_if(std::begin(kFillWords), std::end(kFillWords),
                                     [word](const FillWord& row) { return row.word == word; });
    kinds.push_back(found->kind);
  }
  return kinds;
}

void add_elementwise_recipes(std::vector<Recipe>* recipes) {
  for (const expr::Row& row : expr::all_rows()) recipes->push_back(of_row(row));
  recipes->push_back(moving("cast", FillKind::kWide));
  recipes->push_back(moving("identity", FillKind::kFull));
}

}  // namespace bp::conform
