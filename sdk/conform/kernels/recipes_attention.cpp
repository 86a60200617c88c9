// SPDX-License-Identifier: Apache-2.0
//
// Attention. Scores round with the size of the products that they are made of, and weights with the
// size of the scores: hence the absolute part of their bound, for inputs within [-4, 4].
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

constexpr double kScoresAbsolute = 256;

struct Sizes {
  int64_t batch = 2;
  int64_t q_heads = 3;
  int64_t kv_heads = 3;
  int64_t queries = 5;
  int64_t keys = 9;
  int64_t dim = 8;
  int64_t v_dim = 8;
};

/// With v of attention, without of attention_scores.
Shot attend(bool has_v, const Sizes& s, std::vector<Setting> attributes = {},
            const std::optional<Dims>& mask = std::nullopt, bool has_lengths = false) {
  Shot shot{{Dims{s.batch, s.q_heads, s.queries, s.dim}, Dims{s.batch, s.kv_heads, s.keys, s.dim}},
            std::move(attributes)};
  if (has_v) shot.inputs.push_back(Dims{s.batch, s.kv_heads, s.keys, s.v_dim});
  shot.inputs.push_back(mask);
  shot.inputs.push_back(has_lengths ? std::optional<Dims>(Dims{s.batch}) : std::nullopt);
  return shot;
}

std::vector<Variant> attention_variants(bool has_v) {
  const auto shot = [has_v](const Sizes& sizes, std::vector<Setting> attributes = {},
                            const std::optional<Dims>& mask = std::nullopt,
                            bool has_lengths = false) {
    return attend(has_v, sizes, std::move(attributes), mask, has_lengths);
  };
  const auto set = [](std::string_view name, int64_t value) { return Setting{name, value}; };
  const Setting causal = set("causal", 1);
  return {
      {"heads", {shot({}, {}, Dims{5, 9})}},
      {"groups",
       {shot({.q_heads = 4, .kv_heads = 2, .v_dim = 5}), shot({.q_heads = 6, .kv_heads = 1}),
        shot({.q_heads = 6, .kv_heads = 3, .queries = 33}, {causal})}},
      {"positions",
       {shot({}, {causal}), shot({}, {causal, set("query_offset", -1)}),
        shot({}, {causal, set("query_offset", 2)}), shot({}, {set("left_window", 2)}),
        shot({.queries = 9}, {set("left_window", 1), set("right_window", 2)}),
        shot({.queries = 9, .keys = 5}, {causal, set("query_offset", -1)})}},
      {"masks",
       {shot({}, {}, Dims{9}), shot({}, {}, Dims{2, 1, 1, 9}), shot({}, {causal}, Dims{3, 5, 1}),
        shot({}, {}, Dims{2, 3, 5, 9}), shot({}, {}, Dims{5, 1}), shot({}, {}, Dims{})}},
      {"lengths",
       {shot({.batch = 4}, {}, std::nullopt, true), shot({}), shot({.batch = 3}),
        shot({.batch = 3}, {causal}, Dims{5, 9}, true)}},
      {"scores",
       {shot({}, {{"scale", 0.5}}), shot({}, {{"softcap", 2.0}}),
        shot({}, {{"softcap", 3.0}, causal}, Dims{5, 9})}},
      {"large",
       {shot({.batch = 1, .queries = 70, .keys = 150, .dim = 33, .v_dim = 40}, {causal}),
        shot({.batch = 1,
              .q_heads = 2,
              .kv_heads = 1,
              .queries = 65,
              .keys = 64,
              .dim = 64,
              .v_dim = 64}),
        shot({.q_heads = 4, .kv_heads = 2, .queries = 1, .keys = 200, .dim = 64, .v_dim = 64}, {},
             Dims{200})}},
      {"zero", {shot({.batch = 0}), shot({.queries = 0}), shot({.batch = 1, .keys = 0})}}};
}

double key_count(std::span<const OracleTensor> inputs, int64_t) {
  return static_cast<double>(inputs[1].count());
}

Recipe recipe_of(std::string_view op, bool has_v) {
  Recipe recipe{.op = op,
                .variants = attention_variants(has_v),
                .precise = {FillKind::kExponent},
                .nearness = Nearness::kSoftmax,
                .absolute = kScoresAbsolute,
                .terms = key_count,
                .special_fills = {FillKind::kSpecialLane, FillKind::kTerm}};
  // Three special values, since the product of the largest overflows in f32; 16, so that the scale
  // is exact.
  recipe.specials = {
      attend(has_v, {.batch = 1, .q_heads = 2, .kv_heads = 2, .queries = 2, .keys = 7, .dim = 16})};
  recipe.precise.resize(has_v ? 4 : 3, FillKind::kExponent);
  recipe.precise.push_back(FillKind::kHalfZero);  // kv_lengths
  return recipe;
}

/// x [2, heads, 5, dim] with a table of its own, or one of `rows` rows that positions choose from.
Shot turn(int64_t heads, int64_t dim, std::vector<Setting> attributes = {},
          std::optional<int64_t> rows = std::nullopt, int64_t pairs = 0) {
  if (pairs == 0) pairs = dim / 2;
  const Dims table = rows ? Dims{*rows, pairs} : Dims{2, 5, pairs};
  Shot shot{{Dims{2, heads, 5, dim}, table, table}, std::move(attributes)};
  shot.inputs.push_back(rows ? std::optional<Dims>(Dims{2, 5}) : std::nullopt);
  shot.extent = rows.value_or(0);
  return shot;
}

Recipe rotary_embedding() {
  const Setting interleaved{"interleaved", int64_t{1}};
  const Setting four{"rotary_dim", int64_t{4}};
  Recipe recipe{
      .op = "rotary_embedding",
      .variants = {{"halves", {turn(3, 8)}},
                   {"neighbours", {turn(3, 8, {interleaved}), turn(1, 34, {interleaved})}},
                   {"partly",
                    {turn(2, 7, {four}, std::nullopt, 2),
                     turn(2, 8, {four, interleaved}, std::nullopt, 2)}},
                   {"positions", {turn(3, 8, {}, 9), turn(2, 6, {interleaved}, 1)}},
                   {"zero", {turn(0, 8)}}},
      .exact = {FillKind::kTerm, FillKind::kTerm, FillKind::kTerm, FillKind::kIndex},
      .precise = {FillKind::kExponent, FillKind::kExponent, FillKind::kExponent, FillKind::kIndex},
      .nearness = Nearness::kSoftmax,
      .absolute = kScoresAbsolute,
      .terms = key_count};
  recipe.specials = {turn(2, 8, {}, 9)};
  recipe.special_fills = {FillKind::kTerm, FillKind::kTerm, FillKind::kTerm, FillKind::kBadIndex};
  return recipe;
}

}  // namespace

void add_attention_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(recipe_of("attention", true));
  Recipe scores = recipe_of("attention_scores", false);
  std::vector<Shot> stages;
  for (const int64_t stage : {0, 1, 2, 3}) {
    stages.push_back(attend(false, {}, {{"stage", stage}, {"softcap", 2.0}}, Dims{5, 9}));
  }
  scores.variants.push_back({"stages", stages});
  scores.least_share = 0.2;  // masked scores have a probability of 0
  recipes->push_back(std::move(scores));
  recipes->push_back(rotary_embedding());
}

}  // namespace bp::conform
