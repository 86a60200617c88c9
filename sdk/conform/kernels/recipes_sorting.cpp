// SPDX-License-Identifier: Apache-2.0
//
// Operators that look for extreme values, and running sums and products.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

Shot along(const Dims& x, int64_t axis, bool keepdims, bool last = false) {
  return {{x},
          {{"axis", axis},
           {"keepdims", int64_t{keepdims ? 1 : 0}},
           {"select_last_index", int64_t{last ? 1 : 0}}}};
}

/// kTerm has equal values in every lane of some length.
Recipe position(std::string_view op) {
  std::vector<Shot> lengths;
  for (const int64_t length : {1, 3, 8, 9, 17, 33, 65, 257, 1025}) {
    lengths.push_back(along({length}, 0, false));
    lengths.push_back(along({length}, 0, true, true));
  }
  return {.op = op,
          .variants = {{"middle", {along({6, 37, 5}, 1, true)}},
                       {"axes",
                        {along({40, 7, 5}, 0, false), along({6, 7, 65}, -1, true),
                         along({6, 7, 65}, 2, false, true), along({65, 40}, 0, true, true)}},
                       {"lengths", lengths},
                       {"zero", {along({0, 3}, 1, false), along({3, 0}, 0, true)}}},
          .exact = {FillKind::kTerm},
          .many = {along({70000}, 0, true), along({300, 257}, 0, true)},
          .specials = {along({6, 37, 5}, 1, true), along({18, 36}, 1, false),
                       along({36, 18}, 0, false, true)},
          .special_fills = {FillKind::kSpecialColumn}};
}

Shot best(const Dims& x, int64_t k, int64_t axis, bool largest) {
  return {{x, Dims{1}}, {{"axis", axis}, {"largest", int64_t{largest ? 1 : 0}}}, {k}};
}

Recipe top_k() {
  return {.op = "top_k",
          .variants = {{"last", {best({6, 37}, 5, -1, true)}},
                       {"axes",
                        {best({6, 37, 5}, 4, 1, false), best({40, 7}, 40, 0, true),
                         best({6, 7, 5}, 1, 2, false)}},
                       {"lengths",
                        {best({33}, 33, 0, false), best({2000}, 9, 0, true),
                         best({3, 5000}, 50, 1, false), best({1}, 1, 0, true)}},
                       {"zero",
                        {best({0, 3}, 2, 1, true), best({4, 3}, 0, 1, true),
                         best({4, 0}, 0, 1, false)}}},
          .exact = {FillKind::kTerm},
          .many = {best({70000}, 300, 0, true), best({20000, 3}, 9000, 0, false)},
          .specials = {best({6, 37}, 20, 1, true), best({36, 18}, 12, 0, false)},
          .special_fills = {FillKind::kSpecialColumn}};
}

Shot sorted(const Dims& x, int64_t axis, bool descending) {
  return {{x}, {{"axis", axis}, {"descending", int64_t{descending ? 1 : 0}}}};
}

/// Short lanes and long ones, for which kernels have ways of their own.
Recipe sort(std::string_view op) {
  std::vector<Shot> lengths;
  for (const int64_t length : {1, 2, 9, 33, 257, 1025}) {
    lengths.push_back(sorted({length}, 0, length % 2 == 0));
  }
  return {
      .op = op,
      .variants = {{"last", {sorted({6, 37}, -1, false)}},
                   {"axes",
                    {sorted({6, 37, 5}, 1, true), sorted({40, 7}, 0, false),
                     sorted({3, 700, 2}, 1, false)}},
                   {"lengths", lengths},
                   {"zero", {sorted({0, 3}, 1, true), sorted({3, 0}, 1, false)}}},
      .exact = {FillKind::kTerm},
      .many = {sorted({70000}, 0, false), sorted({300, 257}, 0, true)},
      .specials = {sorted({6, 37}, 1, false), sorted({36, 18}, 0, true), sorted({900}, 0, false)},
      .special_fills = {FillKind::kSpecialColumn}};
}

Shot searched(int64_t sorted_count, const Dims& values, bool right) {
  return {{Dims{sorted_count}, values}, {{"right", int64_t{right ? 1 : 0}}}};
}

Recipe searchsorted() {
  return {.op = "searchsorted",
          .variants = {{"matrix", {searched(37, {6, 7}, false)}},
                       {"sides", {searched(37, {6, 7}, true), searched(1, {5, 3, 2}, true)}},
                       {"lengths", {searched(200, {33}, false), searched(16, {257}, true)}},
                       {"scalar", {searched(20, {}, true)}},
                       {"zero", {searched(0, {4}, true), searched(4, {0, 3}, false)}}},
          .exact = {FillKind::kRising, FillKind::kTerm},
          .precise = {FillKind::kRising, FillKind::kFull},
          .many = {searched(65537, {300}, false)},
          .specials = {searched(200, {36}, false), searched(200, {36}, true)},
          .special_fills = {FillKind::kRising, FillKind::kSpecialColumn},
          .least_share = 0.1};  // what is below all of them has the place 0
}

double scanned_terms(std::span<const OracleTensor> inputs, int64_t) {
  int64_t longest = 1;
  for (const int64_t size : inputs[0].sizes) longest = size > longest ? size : longest;
  return static_cast<double>(longest + 1);
}

Shot scanned(const Dims& x, int64_t axis, bool exclusive, bool reverse) {
  return {{x, Dims{}},
          {{"exclusive", int64_t{exclusive ? 1 : 0}}, {"reverse", int64_t{reverse ? 1 : 0}}},
          {axis}};
}

/// Lanes are short: a long product leaves the range of every type.
Recipe scan(std::string_view op, FillKind exact) {
  return {
      .op = op,
      .variants = {{"middle", {scanned({6, 9, 5}, 1, false, false)}},
                   {"axes",
                    {scanned({6, 7, 13}, -1, false, false), scanned({12, 7}, 0, false, false),
                     scanned({4, 11}, 1, true, false)}},
                   {"orders",
                    {scanned({6, 13}, 1, false, true), scanned({6, 13}, 1, true, true),
                     scanned({13, 6}, 0, true, true)}},
                   {"zero", {scanned({0, 3}, 1, false, false), scanned({3, 0}, 1, true, true)}}},
      .exact = {exact},
      .nearness = Nearness::kSums,
      .terms = scanned_terms,
      .specials = {scanned({6, 9, 5}, 1, false, false), scanned({7, 12}, -1, true, true)},
      .special_fills = {FillKind::kSpecialLane}};
}

Recipe cumsum() {
  Recipe recipe = scan("cumsum", FillKind::kTerm);
  recipe.many = {scanned({3, 5000}, 1, false, false), scanned({300, 70}, 0, true, false)};
  return recipe;
}

}  // namespace

void add_sorting_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(top_k());
  recipes->push_back(sort("sort"));
  recipes->push_back(sort("argsort"));
  recipes->push_back(searchsorted());
  recipes->push_back(cumsum());
  recipes->push_back(scan("cumprod", FillKind::kPower));
  recipes->back().least_share = 0.25;  // products of integers wrap to 0
  recipes->push_back(position("argmax"));
  recipes->push_back(position("argmin"));
}

}  // namespace bp::conform
