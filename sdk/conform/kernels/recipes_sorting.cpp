// SPDX-License-Identifier: Apache-2.0
//
// Operators that look for extreme values.
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

}  // namespace

void add_sorting_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(position("argmax"));
  recipes->push_back(position("argmin"));
}

}  // namespace bp::conform
