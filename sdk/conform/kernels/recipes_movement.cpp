// SPDX-License-Identifier: Apache-2.0
//
// Operators that move elements: what arrives has the bits that left.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

Shot reshape_to(const Dims& x, std::vector<int64_t> shape) {
  const Dims shape_sizes{static_cast<int64_t>(shape.size())};
  return {{x, shape_sizes}, {}, std::move(shape)};
}

Recipe reshape() {
  return {.op = "reshape",
          .variants = {{"matrix", {reshape_to({2, 3, 35}, {6, -1})}},
                       {"shapes",
                        {reshape_to({2, 3, 35}, {0, 105}), reshape_to({1, 1}, {1}),
                         reshape_to({12}, {3, 2, 2})}},
                       {"zero", {reshape_to({0, 3}, {0, 3})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Shot with(const Dims& x, std::vector<Setting> attributes) { return {{x}, std::move(attributes)}; }

Recipe flatten() {
  return {.op = "flatten",
          .variants = {{"matrix", {with({2, 3, 35}, {{"axis", int64_t{2}}})}},
                       {"axes",
                        {with({2, 3, 5}, {{"axis", int64_t{0}}}), with({2, 3, 5}, {}),
                         with({2, 3, 5}, {{"axis", int64_t{-1}}})}},
                       {"zero", {with({0, 3}, {})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Recipe transpose() {
  const auto to = [](const Dims& x, std::vector<int64_t> perm) {
    return with(x, {{"perm", std::move(perm)}});
  };
  return {.op = "transpose",
          .variants = {{"matrix", {to({2, 3, 35}, {2, 0, 1})}},
                       {"orders",
                        {to({17, 33}, {1, 0}), to({2, 3, 4, 5}, {}), to({2, 3, 4, 5}, {0, 2, 1, 3}),
                         to({7}, {0})}},
                       {"zero", {to({0, 3}, {1, 0})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

/// The lists are the further inputs, each read on the host; nullopt: an absent one.
Shot with_lists(const Dims& x, const std::vector<std::optional<std::vector<int64_t>>>& lists) {
  Shot shot{{x}};
  for (const auto& list : lists) {
    shot.inputs.emplace_back();
    if (!list) continue;
    shot.inputs.back() = Dims{static_cast<int64_t>(list->size())};
    shot.host_values.insert(shot.host_values.end(), list->begin(), list->end());
  }
  return shot;
}

Recipe squeeze() {
  return {.op = "squeeze",
          .variants = {{"matrix", {with_lists({2, 1, 35}, {{{1}}})}},
                       {"axes",
                        {with_lists({1, 3, 1, 5}, {{{-2, 0}}}), with_lists({1, 3, 1}, {}),
                         with_lists({1, 3}, {{std::vector<int64_t>()}})}},
                       {"zero", {with_lists({0, 1}, {{{1}}})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Recipe unsqueeze() {
  return {.op = "unsqueeze",
          .variants = {{"matrix", {with_lists({2, 35}, {{{1}}})}},
                       {"axes", {with_lists({3, 5}, {{{-1, 0}}}), with_lists({}, {{{1, 0}}})}},
                       {"zero", {with_lists({0, 3}, {{{1}}})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Recipe expand() {
  return {.op = "expand",
          .variants = {{"matrix", {with_lists({3, 1}, {{{3, 35}}})}},
                       {"shapes",
                        {with_lists({3, 1, 5}, {{{2, 1, 4, 1}}}), with_lists({}, {{{2, 7}}}),
                         with_lists({5}, {{{1}}})}},
                       {"zero", {with_lists({1, 3}, {{{0, 1}}})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Recipe slice() {
  return {.op = "slice",
          .variants = {{"matrix", {with_lists({9, 35}, {{{1, 3}}, {{7, 40}}})}},
                       {"ranges",
                        {with_lists({9, 7}, {{{-2}}, {{1}}, {{0}}, {{-2}}}),
                         with_lists({9, 7}, {{{2}}, {{INT64_MAX}}, {{-1}}, std::nullopt}),
                         with_lists({4, 5, 6}, {{{5, 0}}, {{-9, 6}}, {{-1, 1}}, {{-1, 2}}})}},
                       {"zero", {with_lists({9, 3}, {{{4}}, {{2}}})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true};
}

Recipe concat() {
  const auto along = [](int64_t axis, std::vector<std::optional<Dims>> parts) {
    return Shot{std::move(parts), {{"axis", axis}}};
  };
  return {.op = "concat",
          .variants = {{"middle", {along(1, {{{2, 3, 5}}, {{2, 4, 5}}, {{2, 1, 5}}})}},
                       {"axes",
                        {along(0, {{{2, 9}}, {{5, 9}}}), along(-1, {{{3, 1}}, {{3, 1}}, {{3, 2}}}),
                         along(0, {{{17}}})}},
                       {"zero", {along(1, {{{2, 3}}, {{2, 0}}, {{2, 2}}}), along(0, {{{0, 3}}})}}},
          .exact = {FillKind::kSum},
          .many = {along(1, {{{65, 257}}, {{65, 1025}}, {{65, 3}}})},
          .zero_sign = true};
}

Shot taken(const Dims& x, const Dims& indices, int64_t axis) {
  const auto rank = static_cast<int64_t>(x.size());
  return {
      {x, indices}, {{"axis", axis}}, {}, x[static_cast<size_t>(axis < 0 ? axis + rank : axis)]};
}

Recipe gather() {
  return {.op = "gather",
          .variants = {{"middle", {taken({4, 5, 6}, {2, 3}, 1)}},
                       {"axes",
                        {taken({4, 5, 6}, {3}, 0), taken({4, 5, 6}, {7}, -1), taken({9}, {4}, 0)}},
                       {"scalar", {taken({4, 5}, {}, 0), taken({9}, {}, 0)}},
                       {"zero", {taken({4, 5}, {0}, 0), taken({4, 0}, {3}, 0)}}},
          .exact = {FillKind::kSum, FillKind::kIndex},
          .precise = {FillKind::kFull, FillKind::kIndex},
          .specials = {taken({4, 5, 6}, {3, 4}, 1)},
          .special_fills = {FillKind::kSum, FillKind::kBadIndex},
          .zero_sign = true};
}

Recipe non_zero() {
  return {.op = "non_zero",
          .variants = {{"matrix", {with({2, 3, 35}, {})}},
                       {"lengths",
                        {with({1}, {}), with({7}, {}), with({33}, {}), with({257}, {}),
                         with({1025}, {})}},
                       {"scalar", {with({}, {})}},
                       {"zero", {with({0}, {}), with({2, 0, 3}, {})}}},
          .exact = {FillKind::kHalfZero}};
}

}  // namespace

void add_movement_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(reshape());
  recipes->push_back(flatten());
  recipes->push_back(transpose());
  recipes->push_back(squeeze());
  recipes->push_back(unsqueeze());
  recipes->push_back(expand());
  recipes->push_back(slice());
  recipes->push_back(concat());
  recipes->push_back(gather());
  recipes->push_back(non_zero());
}

std::vector<Recipe> all_recipes() {
  std::vector<Recipe> recipes;
  add_elementwise_recipes(&recipes);
  add_product_recipes(&recipes);
  add_reduction_recipes(&recipes);
  add_pooling_recipes(&recipes);
  add_resizing_recipes(&recipes);
  add_movement_recipes(&recipes);
  add_normalization_recipes(&recipes);
  add_attention_recipes(&recipes);
  add_indexing_recipes(&recipes);
  add_sorting_recipes(&recipes);
  return recipes;
}

}  // namespace bp::conform
