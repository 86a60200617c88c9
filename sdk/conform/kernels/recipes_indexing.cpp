// SPDX-License-Identifier: Apache-2.0
//
// Operators that choose elements by indices or conditions, and those that write where indices say.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

Shot picked(const Dims& x, const Dims& indices, int64_t axis) {
  const auto rank = static_cast<int64_t>(x.size());
  return {
      {x, indices}, {{"axis", axis}}, {}, x[static_cast<size_t>(axis < 0 ? axis + rank : axis)]};
}

Recipe gather_elements() {
  return {.op = "gather_elements",
          .variants = {{"middle", {picked({4, 5, 6}, {4, 7, 6}, 1)}},
                       {"axes",
                        {picked({4, 5, 6}, {3, 2, 6}, 0), picked({4, 5, 6}, {4, 5, 9}, -1),
                         picked({9}, {300}, 0), picked({3, 2, 5, 4}, {3, 2, 1, 4}, 2)}},
                       {"tables", {picked({33, 65}, {33, 65}, 1), picked({300, 5}, {257, 5}, 0)}},
                       {"zero",
                        {picked({4, 5}, {0, 5}, 0), picked({0, 5}, {0, 5}, 1),
                         picked({4, 0}, {3, 0}, 0)}}},
          .exact = {FillKind::kSum, FillKind::kIndex},
          .precise = {FillKind::kFull, FillKind::kIndex},
          .specials = {picked({4, 5, 6}, {4, 4, 6}, 1)},
          .special_fills = {FillKind::kSum, FillKind::kBadIndex},
          .zero_sign = true};
}

/// The extent is that of the shortest indexed dimension.
Shot points(const Dims& x, const Dims& indices, int64_t batch_dims, int64_t extent) {
  return {{x, indices}, {{"batch_dims", batch_dims}}, {}, extent};
}

Recipe gather_nd() {
  return {.op = "gather_nd",
          .variants = {{"slices", {points({5, 5, 6}, {2, 3, 2}, 0, 5)}},
                       {"points",
                        {points({4, 5, 6}, {7, 3}, 0, 4), points({9}, {1}, 0, 9),
                         points({9}, {300, 1}, 0, 9), points({4, 5, 6}, {2}, 0, 4)}},
                       {"batches",
                        {points({3, 4, 5}, {3, 2, 1}, 1, 4), points({2, 3, 4}, {2, 3, 1}, 2, 4),
                         points({2, 3, 4, 5}, {2, 3, 7, 1}, 2, 4)}},
                       {"zero",
                        {points({4, 5}, {0, 2}, 0, 4), points({0, 5}, {0, 1}, 0, 1),
                         points({4, 0}, {3, 1}, 0, 4)}}},
          .exact = {FillKind::kSum, FillKind::kIndex},
          .precise = {FillKind::kFull, FillKind::kIndex},
          .specials = {points({5, 5, 6}, {6, 2}, 0, 5)},
          .special_fills = {FillKind::kSum, FillKind::kBadIndex},
          .zero_sign = true};
}

/// Updates of one element, and what was there.
double scattered_terms(std::span<const OracleTensor> inputs, int64_t) {
  int64_t longest = 1;
  for (const int64_t size : inputs[1].sizes) longest = size > longest ? size : longest;
  return static_cast<double>(longest + 1);
}

/// Powers of two have exact products.
void use_powers(Shot* shot) {
  shot->fills = {FillKind::kPower, FillKind::kIndex, FillKind::kPower};
}

Shot placed(const Dims& x, const Dims& indices, int64_t axis, std::string_view reduction) {
  Shot shot = picked(x, indices, axis);
  shot.inputs.push_back(indices);
  shot.attributes.push_back({"reduction", reduction});
  if (reduction == "mul") use_powers(&shot);
  return shot;
}

Recipe scatter_elements() {
  return {
      .op = "scatter_elements",
      .variants = {{"middle", {placed({4, 5, 6}, {4, 7, 6}, 1, "none")}},
                   {"axes",
                    {placed({4, 5, 6}, {3, 2, 6}, 0, "none"),
                     placed({4, 5, 6}, {4, 5, 9}, -1, "none"), placed({9}, {300}, 0, "none")}},
                   {"sums",
                    {placed({4, 5, 6}, {4, 7, 6}, 1, "add"), placed({33, 9}, {40, 9}, 0, "add")}},
                   {"products", {placed({6, 7, 6}, {6, 3, 6}, 1, "mul")}},
                   {"extremes",
                    {placed({4, 5, 6}, {4, 7, 6}, 1, "max"),
                     placed({4, 5, 6}, {4, 5, 9}, 2, "min")}},
                   {"zero",
                    {placed({4, 5}, {0, 5}, 0, "none"), placed({0, 5}, {0, 5}, 1, "add"),
                     placed({4, 0}, {3, 0}, 0, "none")}}},
      .exact = {FillKind::kTerm, FillKind::kIndex, FillKind::kTerm},
      .precise = {FillKind::kFull, FillKind::kIndex, FillKind::kFull},
      .nearness = Nearness::kSums,
      .terms = scattered_terms,
      .specials = {placed({4, 5, 6}, {4, 7, 6}, 1, "none"), placed({4, 5, 6}, {4, 7, 6}, 1, "max"),
                   placed({4, 5, 6}, {4, 7, 6}, 1, "min")},
      .special_fills = {FillKind::kSpecialLane, FillKind::kBadIndex, FillKind::kSpecialLane}};
}

Shot slices(const Dims& x, const Dims& indices, const Dims& updates, int64_t extent,
            std::string_view reduction) {
  Shot shot{{x, indices, updates}, {{"reduction", reduction}}, {}, extent};
  if (reduction == "mul") use_powers(&shot);
  return shot;
}

Recipe scatter_nd() {
  return {
      .op = "scatter_nd",
      .variants =
          {{"slices", {slices({5, 5, 6}, {2, 3, 2}, {2, 3, 6}, 5, "none")}},
           {"points",
            {slices({4, 5, 6}, {7, 3}, {7}, 4, "none"), slices({9}, {1}, {}, 9, "none"),
             slices({9}, {30, 1}, {30}, 9, "none"), slices({4, 5, 6}, {2}, {6}, 4, "none")}},
           {"sums",
            {slices({5, 5, 6}, {8, 2}, {8, 6}, 5, "add"), slices({9}, {30, 1}, {30}, 9, "add")}},
           {"products", {slices({40, 6}, {20, 1}, {20, 6}, 40, "mul")}},
           {"extremes",
            {slices({5, 5, 6}, {8, 2}, {8, 6}, 5, "max"),
             slices({5, 6}, {9, 1}, {9, 6}, 5, "min")}},
           {"zero",
            {slices({4, 5}, {0, 2}, {0}, 4, "none"), slices({4, 0}, {3, 1}, {3, 0}, 4, "add")}}},
      .exact = {FillKind::kTerm, FillKind::kIndex, FillKind::kTerm},
      .precise = {FillKind::kFull, FillKind::kIndex, FillKind::kFull},
      .nearness = Nearness::kSums,
      .terms = scattered_terms,
      .specials = {slices({5, 5, 6}, {8, 2}, {8, 6}, 5, "none"),
                   slices({5, 5, 6}, {8, 2}, {8, 6}, 5, "max"),
                   slices({5, 5, 6}, {8, 2}, {8, 6}, 5, "min")},
      .special_fills = {FillKind::kSpecialLane, FillKind::kBadIndex, FillKind::kSpecialLane}};
}

Recipe compress() {
  const auto shot = [](const Dims& x, int64_t told, int64_t axis) {
    return Shot{{x, Dims{told}}, {{"axis", axis}}};
  };
  return {.op = "compress",
          .variants = {{"middle", {shot({2, 7, 5}, 7, 1)}},
                       {"axes",
                        {shot({6, 7, 5}, 6, 0), shot({2, 3, 35}, 35, -1), shot({257}, 257, 0),
                         shot({4, 6}, 3, 1)}},
                       {"zero", {shot({0, 3}, 0, 0), shot({4, 0}, 3, 0), shot({4, 5}, 0, 1)}}},
          .exact = {FillKind::kSum, FillKind::kHalfZero},
          .precise = {FillKind::kFull, FillKind::kHalfZero},
          .zero_sign = true};
}

/// kTerm has indices in range and far out of it.
Recipe one_hot() {
  const auto shot = [](const Dims& indices, int64_t depth, int64_t axis) {
    return Shot{{indices, Dims{}, Dims{2}}, {{"axis", axis}}, {depth}};
  };
  return {.op = "one_hot",
          .variants = {{"last", {shot({4, 5}, 3, -1)}},
                       {"axes", {shot({4, 5}, 7, 0), shot({3, 2}, 4, 1), shot({}, 5, 0)}},
                       {"zero", {shot({0}, 3, 0), shot({3}, 0, -1)}}},
          .exact = {FillKind::kTerm, FillKind::kTerm, FillKind::kSum},
          .precise = {FillKind::kTerm, FillKind::kTerm, FillKind::kFull},
          .specials = {shot({4, 5}, 3, -1), shot({4, 5}, 7, 0)},
          .special_fills = {FillKind::kTerm, FillKind::kTerm, FillKind::kOdd},
          .zero_sign = true,
          .least_different = 2,
          .least_share = 0};  // on and off, and off may be 0
}

}  // namespace

void add_indexing_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(gather_elements());
  recipes->push_back(gather_nd());
  recipes->push_back(scatter_elements());
  recipes->push_back(scatter_nd());
  recipes->push_back(compress());
  recipes->push_back(one_hot());
}

}  // namespace bp::conform
