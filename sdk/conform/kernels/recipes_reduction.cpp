// SPDX-License-Identifier: Apache-2.0
//
// Operators that make one value of many: reductions, softmax.
#include "ops/expr/rows.hpp"
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

double reduced_count(std::span<const OracleTensor> inputs, int64_t output_count) {
  const auto count = static_cast<double>(inputs[0].count());
  return output_count > 0 ? count / static_cast<double>(output_count) : 0;
}

Shot over(const Dims& x, std::vector<int64_t> axes, bool keepdims) {
  return {{x}, {{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims ? 1 : 0}}}};
}

std::vector<Variant> reduction_variants() {
  std::vector<Shot> lengths;
  for (const int64_t length : {1, 3, 8, 9, 17, 33, 65, 257, 1025}) {
    lengths.push_back(over({length}, {0}, false));
  }
  return {
      {"middle", {over({6, 7, 5}, {1}, false)}},
      {"axes",
       {over({6, 7, 5}, {0}, true), over({6, 7, 5}, {-1}, false), over({6, 7, 5}, {0, 2}, false),
        over({3, 2, 5, 4}, {1, 3}, true), over({6, 7, 5}, {}, true), over({20, 1}, {1}, false)}},
      {"lengths", lengths},
      {"tables",
       {over({33, 257}, {1}, false), over({257, 33}, {0}, false), over({65, 5}, {1}, false)}},
      {"scalar", {over({}, {}, false)}},
      {"zero", {over({0, 3}, {0}, false), over({0, 3}, {1}, false), over({2, 0}, {}, true)}}};
}

FillKind fill_named(std::string_view word) { return fills_named({&word, 1}).front(); }

/// What follows from a row with `combine`.
Recipe of_row(const expr::ReductionRow& row) {
  Recipe recipe{.op = row.op,
                .variants = reduction_variants(),
                .exact = {fill_named(row.exact)},
                .precise = {fill_named(row.precise)},
                .many = {over({65537}, {0}, false), over(all_dimensions(), {1, 5, 15}, false)},
                .specials = {over({6, 7, 5}, {1}, false)},
                .special_fills = {fill_named(row.special)},
                .least_different = row.least_different,
                .least_share = 0.25};  // products of integers wrap to 0
  // All of many are false, and any of many is true.
  if (row.forms.front().kind == expr::Class::kBool) recipe.least_share = 0;
  // What has no exact results names one fill for both.
  if (row.exact == row.precise) recipe.exact.clear();
  if (!row.chooses) {
    recipe.nearness = Nearness::kSums;
    recipe.terms = reduced_count;
    return recipe;
  }
  // Nothing is above -infinity, the lowest finite number neither.
  Shot lowest = over({9}, {0}, false);
  lowest.fills = {FillKind::kMinusInfinity};
  recipe.specials.push_back(std::move(lowest));
  return recipe;
}

Recipe log_sum_exp() {
  return {.op = "reduce_log_sum_exp",
          .variants = reduction_variants(),
          .precise = {FillKind::kExponent},
          .nearness = Nearness::kSoftmax,
          .terms = reduced_count,
          .specials = {over({6, 7, 5}, {1}, false)},
          .special_fills = {FillKind::kInfiniteLane}};
}

/// Axes that are an input.
Recipe reduce() {
  const auto shot = [](const Dims& x, std::vector<int64_t> axes, int64_t keepdims) {
    const auto count = static_cast<int64_t>(axes.size());
    return Shot{{x, Dims{count}}, {{"keepdims", keepdims}}, std::move(axes)};
  };
  return {.op = "reduce",
          .variants = {{"axes", {shot({6, 7, 5}, {0}, 1), shot({6, 7, 5}, {-1, 0}, 0)}},
                       {"all", {shot({3, 4}, {}, 0)}},
                       {"zero", {shot({0, 3}, {0}, 0)}}},
          .exact = {FillKind::kTerm},
          .nearness = Nearness::kSums,
          .terms = reduced_count,
          .specials = {shot({6, 7, 5}, {1}, 0)},
          .special_fills = {FillKind::kSpecialLane, FillKind::kTerm}};
}

Recipe softmax() {
  const auto shot = [](const Dims& x, int64_t axis) { return Shot{{x}, {{"axis", axis}}}; };
  std::vector<Shot> lengths;
  for (const int64_t length : {1, 3, 8, 9, 17, 33, 65, 257, 1025}) {
    lengths.push_back(shot({length}, 0));
  }
  return {.op = "softmax",
          .variants = {{"batch", {shot({5, 37}, -1)}},
                       {"axes", {shot({5, 7, 6}, 0), shot({5, 7, 6}, 1), shot({5, 7, 6}, 2)}},
                       {"lengths", lengths},
                       {"zero", {shot({0, 4}, 1), shot({4, 0}, 0)}}},
          .precise = {FillKind::kExponent},
          .nearness = Nearness::kSoftmax,
          .terms = [](std::span<const OracleTensor> inputs,
                      int64_t) { return static_cast<double>(inputs[0].count()); },
          .specials = {shot({5, 37}, -1)},
          .special_fills = {FillKind::kSpecialLane}};
}

Shot along(const Dims& x, int64_t axis) { return {{x}, {{"axis", axis}}}; }

Recipe log_softmax() {
  Recipe recipe = softmax();
  recipe.op = "log_softmax";
  recipe.absolute = 16;  // a result near 0 is the difference of larger numbers
  return recipe;
}

Recipe hardmax() {
  return {.op = "hardmax",
          .variants = {{"batch", {along({5, 37}, -1)}},
                       {"axes", {along({5, 7, 6}, 0), along({5, 7, 6}, 1)}},
                       {"zero", {along({0, 4}, 1)}}},
          .exact = {FillKind::kSum},
          .specials = {along({5, 37}, -1)},
          .special_fills = {FillKind::kSpecialLane},
          .least_different = 2,
          .least_share = 0.02};  // one 1 in each row
}

}  // namespace

void add_reduction_recipes(std::vector<Recipe>* recipes) {
  for (const expr::ReductionRow& row : expr::all_reductions()) recipes->push_back(of_row(row));
  recipes->push_back(log_sum_exp());
  recipes->push_back(reduce());
  recipes->push_back(softmax());
  recipes->push_back(log_softmax());
  recipes->push_back(hardmax());
}

}  // namespace bp::conform
