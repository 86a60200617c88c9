// SPDX-License-Identifier: Apache-2.0
//
// Operators that move elements: what arrives has the bits that left.
#include "core/base/dtype.hpp"
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
          .zero_sign = true,
          .least_different = 3};  // few elements are repeated
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

Recipe split() {
  const auto parts = [](const Dims& sizes, int64_t count, int64_t axis,
                        std::vector<int64_t> each = {}) {
    return Shot{{sizes}, {{"num_outputs", count}, {"axis", axis}, {"sizes", std::move(each)}}};
  };
  return {.op = "split",
          .variants = {{"middle", {parts({2, 8, 5}, 3, 1)}},
                       {"sizes", {parts({2, 8, 5}, 3, -2, {3, 4, 1})}},
                       {"axes", {parts({7, 9}, 2, 0), parts({3, 4}, 4, -1), parts({17}, 1, 0)}},
                       {"zero", {parts({2, 5}, 3, 1, {2, 0, 3}), parts({0, 3}, 3, 1)}}},
          .exact = {FillKind::kSum},
          .many = {parts({65, 1285}, 3, 1)},
          .specials = {parts({9, 12}, 3, 1)},
          .special_fills = {FillKind::kSpecialLane},
          .zero_sign = true};
}

Recipe tile() {
  return {.op = "tile",
          .variants = {{"matrix", {with_lists({3, 7}, {{{2, 5}}})}},
                       {"repeats",
                        {with_lists({3, 1, 4}, {{{1, 6, 1}}}), with_lists({9}, {{{1}}}),
                         with_lists({}, {{std::vector<int64_t>()}}),
                         with_lists(all_dimensions(),
                                    {{{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1}}})}},
                       {"zero", {with_lists({2, 3}, {{{0, 2}}}), with_lists({0, 3}, {{{2, 2}}})}}},
          .exact = {FillKind::kSum},
          .specials = {with_lists({9, 12}, {{{2, 3}}})},
          .special_fills = {FillKind::kSpecialLane},
          .zero_sign = true};
}

Shot padded(const Dims& x, std::vector<int64_t> pads, std::string_view mode,
            std::optional<Dims> value = {}, std::optional<std::vector<int64_t>> axes = {}) {
  Shot shot = with_lists(x, {std::move(pads), {}, std::move(axes)});
  shot.inputs[2] = value;
  shot.attributes = {{"mode", mode}};
  return shot;
}

Recipe pad() {
  return {
      .op = "pad",
      .variants = {{"constant", {padded({3, 5}, {1, 0, 2, 3}, "constant", Dims{})}},
                   {"modes",
                    {padded({3, 5}, {2, 1, 0, 7}, "edge"), padded({3, 5}, {2, 9, 2, 4}, "reflect"),
                     padded({3, 5}, {7, 0, 1, 6}, "wrap"),
                     padded({1, 5}, {2, 0, 2, 0}, "reflect")}},
                   {"negative",
                    {padded({6, 5}, {-2, 1, 3, -1}, "constant", Dims{1}),
                     padded({6, 5}, {-2, -1, 0, 3}, "reflect"),
                     padded({6, 5}, {0, 0, 0, 0}, "edge"), padded({6, 5}, {-1, 0, 0, -1}, "wrap")}},
                   {"axes", {padded({2, 3, 4}, {1, 2, 0, 1}, "constant", {}, {{-1, 0}})}},
                   {"zero", {padded({0, 3}, {1, 0, 1, 0}, "constant", Dims{})}}},
      .exact = {FillKind::kSum},
      .specials = {padded({9, 12}, {1, 0, 2, 3}, "constant", Dims{}),
                   padded({9, 12}, {1, 0, 2, 3}, "reflect")},
      .special_fills = {FillKind::kSpecialLane},
      .zero_sign = true,
      .least_share = 0.1};
}

Recipe blocks(std::string_view op, const Dims& first, const Dims& second) {
  const auto in_mode = [](const Dims& x, int64_t size, std::string_view mode) {
    return with(x, {{"block_size", size}, {"mode", mode}});
  };
  Dims empty = first;
  empty[0] = 0;
  return {.op = op,
          .variants = {{"columns_last", {in_mode(first, 2, "DCR")}},
                       {"modes",
                        {in_mode(first, 2, "CRD"), in_mode(second, 3, "DCR"),
                         in_mode(second, 1, "CRD")}},
                       {"zero", {in_mode(empty, 2, "DCR")}}},
          .exact = {FillKind::kSum},
          .specials = {in_mode(first, 2, "CRD")},
          .special_fills = {FillKind::kSpecialLane},
          .zero_sign = true};
}

/// kTerm gives k values of some 30 at most, beyond the edges of smaller matrices.
Recipe trilu() {
  const auto triangle = [](const Dims& x, std::optional<Dims> k, bool upper) {
    Shot shot{{x}, {{"upper", int64_t{upper ? 1 : 0}}}};
    if (k) shot.inputs.push_back(k);
    return shot;
  };
  return {.op = "trilu",
          .variants = {{"matrix", {triangle({17, 35}, Dims{}, true)}},
                       {"shapes",
                        {triangle({3, 5, 4}, std::nullopt, false),
                         triangle({2, 20, 9}, Dims{1}, false), triangle({1, 7}, Dims{}, true)}},
                       {"zero", {triangle({0, 3}, Dims{}, true)}}},
          .exact = {FillKind::kSum, FillKind::kTerm},
          .precise = {FillKind::kFull, FillKind::kTerm},
          .specials = {triangle({17, 35}, std::nullopt, true), triangle({9, 12}, Dims{}, false)},
          .special_fills = {FillKind::kSpecialLane, FillKind::kTerm},
          .zero_sign = true,
          .least_share = 0};  // k may lie beyond all elements
}

Recipe bit_cast() {
  return {.op = "bit_cast",
          .variants = {{"matrix", {with({3, 35}, {})}}, {"zero", {with({0, 3}, {})}}},
          .exact = {FillKind::kSum},
          .zero_sign = true,
          .takes = [](uint32_t dtype, uint32_t named) {
            return named != BP_DTYPE_BOOL && dtype != BP_DTYPE_BOOL &&
                   dtype_bits(dtype) == dtype_bits(named);
          }};
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
  recipes->push_back(split());
  recipes->push_back(tile());
  recipes->push_back(pad());
  recipes->push_back(blocks("depth_to_space", {2, 12, 3, 5}, {1, 18, 2, 1}));
  recipes->push_back(blocks("space_to_depth", {2, 3, 4, 6}, {1, 2, 3, 9}));
  recipes->push_back(trilu());
  recipes->push_back(bit_cast());
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
  add_quantization_recipes(&recipes);
  add_attention_recipes(&recipes);
  add_indexing_recipes(&recipes);
  add_sorting_recipes(&recipes);
  return recipes;
}

}  // namespace bp::conform
