// SPDX-License-Identifier: Apache-2.0
//
// Operators that slide a window over images, or take all of one.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

Setting ints(std::string_view name, std::vector<int64_t> values) {
  return {name, std::move(values)};
}

Shot pool(const Dims& x, std::vector<int64_t> kernel, std::vector<Setting> attributes) {
  attributes.push_back({"kernel_shape", std::move(kernel)});
  return {{x}, std::move(attributes)};
}

Recipe max_pool() {
  const Shot plane =
      pool({2, 3, 8, 10}, {2, 3}, {ints("strides", {2, 1}), ints("pads", {0, 1, 1, 0})});
  const Setting halves = ints("strides", {2, 2});
  return {
      .op = "max_pool",
      .variants = {{"plane", {plane}},
                   {"halving",
                    {pool({2, 3, 8, 10}, {2, 2}, {halves}), pool({1, 4, 6, 34}, {2, 2}, {halves}),
                     pool({1, 2, 7, 5}, {2, 2}, {halves})}},
                   {"windows",
                    {pool({1, 2, 9, 9}, {3, 3}, {ints("dilations", {2, 2})}),
                     pool({1, 2, 7, 8}, {3, 2}, {halves, {"ceil_mode", int64_t{1}}}),
                     pool({1, 1, 5, 5}, {5, 5}, {})}},
                   {"line", {pool({2, 3, 17}, {4}, {ints("strides", {3})})}},
                   {"space", {pool({1, 2, 4, 5, 6}, {2, 2, 3}, {})}},
                   {"zero", {pool({0, 3, 8, 8}, {2, 2}, {halves})}}},
      .exact = {FillKind::kSum},
      .specials = {plane},
      .special_fills = {FillKind::kSpecialLane}};
}

/// No window of a shot has more elements, each divided by their number.
double window_terms(std::span<const OracleTensor>, int64_t) { return 64; }

/// Windows of 2 and 4 elements only have exact means of whole numbers, so that nothing is compared
/// bit by bit where padding is left out.
Recipe average_pool() {
  const Setting counted{"count_include_pad", int64_t{1}};
  const Setting ceil{"ceil_mode", int64_t{1}};
  const Setting halves = ints("strides", {2, 2});
  const Shot plane =
      pool({2, 3, 8, 10}, {2, 3}, {ints("strides", {2, 1}), ints("pads", {0, 1, 1, 0})});
  return {
      .op = "average_pool",
      .variants =
          {{"plane", {plane}},
           {"halving",
            {pool({2, 3, 8, 10}, {2, 2}, {halves}), pool({1, 2, 7, 5}, {2, 2}, {halves})}},
           {"padding",
            {pool({1, 2, 9, 9}, {3, 3}, {ints("pads", {1, 1, 1, 1}), counted}),
             pool({1, 2, 9, 9}, {3, 3}, {ints("pads", {1, 1, 1, 1})}),
             pool({1, 2, 7, 8}, {3, 2}, {halves, ceil, ints("pads", {1, 0, 1, 1}), counted}),
             pool({1, 2, 7, 8}, {3, 2}, {halves, ceil, ints("pads", {1, 0, 1, 1})})}},
           {"windows",
            {pool({1, 2, 9, 9}, {3, 3}, {ints("dilations", {2, 2})}),
             pool({2, 3, 7, 7}, {7, 7}, {}), pool({1, 2, 5, 140}, {2, 3}, {})}},
           {"line", {pool({2, 3, 17}, {4}, {ints("strides", {3})}), pool({2, 2, 50}, {45}, {})}},
           {"space", {pool({1, 2, 4, 5, 6}, {2, 2, 3}, {ints("pads", {1, 0, 0, 0, 1, 1})})}},
           {"zero", {pool({0, 3, 8, 8}, {2, 2}, {halves})}}},
      .nearness = Nearness::kSums,
      .terms = window_terms,
      .specials = {plane},
      .special_fills = {FillKind::kSpecialLane}};
}

Recipe max_pool_indices() {
  const Setting columns{"storage_order", int64_t{1}};
  const Shot plane =
      pool({2, 3, 8, 10}, {2, 3}, {ints("strides", {2, 1}), ints("pads", {0, 1, 1, 0})});
  return {.op = "max_pool_indices",
          .variants = {{"plane", {plane}},
                       {"columns",
                        {pool({2, 2, 7, 8}, {3, 2}, {columns, ints("strides", {2, 2})}),
                         pool({1, 2, 4, 5, 6}, {2, 2, 3}, {columns})}},
                       {"windows",
                        {pool({1, 2, 9, 9}, {3, 3}, {ints("dilations", {2, 2})}),
                         pool({1, 1, 3}, {2}, {ints("pads", {2, 0})})}},
                       {"line", {pool({2, 3, 17}, {4}, {ints("strides", {3})})}},
                       {"zero", {pool({0, 3, 8, 8}, {2, 2}, {})}}},
          .exact = {FillKind::kSum},
          .specials = {plane},
          .special_fills = {FillKind::kSpecialLane}};
}

Setting power(int64_t p) { return {"p", p}; }

/// Sums of powers have no exact roots.
Recipe lp_pool() {
  return {
      .op = "lp_pool",
      .variants =
          {{"plane",
            {pool({2, 3, 8, 10}, {2, 3}, {ints("strides", {2, 1}), ints("pads", {0, 1, 1, 0})})}},
           {"powers",
            {pool({1, 2, 9, 9}, {3, 3}, {power(1)}),
             pool({1, 2, 9, 9}, {3, 3}, {power(3), ints("dilations", {2, 2})})}},
           {"ceil",
            {pool({1, 2, 7, 8}, {3, 2}, {ints("strides", {2, 2}), {"ceil_mode", int64_t{1}}})}},
           {"zero", {pool({0, 3, 8, 8}, {2, 2}, {})}}},
      .nearness = Nearness::kUlps,
      .ulps = 64,
      .half_ulps = 2,
      .specials = {pool({1, 2, 9, 9}, {2, 3}, {ints("pads", {1, 1, 0, 1})}),
                   pool({1, 2, 9, 9}, {3, 2}, {power(1), ints("strides", {2, 2})}),
                   pool({1, 2, 9, 9}, {2, 2}, {power(3)})},
      .special_fills = {FillKind::kInfiniteLane}};
}

double channel_terms(std::span<const OracleTensor> inputs, int64_t output_count) {
  const auto count = static_cast<double>(inputs[0].count());
  return output_count > 0 ? count / static_cast<double>(output_count) : 0;
}

std::vector<Variant> global_variants() {
  const auto shot = [](const Dims& x) { return Shot{{x}}; };
  return {{"plane", {shot({2, 3, 7, 7})}},
          {"line", {shot({2, 5, 33}), shot({1, 3, 257}), shot({1, 1, 1})}},
          {"space", {shot({1, 2, 4, 5, 6}), shot({2, 3, 1, 2, 1, 3})}},
          {"zero", {shot({0, 3, 8, 8}), shot({2, 3, 0, 4})}}};
}

Recipe global_average_pool() {
  return {.op = "global_average_pool",
          .variants = global_variants(),
          .nearness = Nearness::kSums,
          .terms = channel_terms,
          .specials = {Shot{{Dims{2, 3, 7, 7}}}},
          .special_fills = {FillKind::kSpecialLane}};
}

Recipe global_lp_pool() {
  const auto shot = [](const Dims& x, int64_t p) { return Shot{{x}, {power(p)}}; };
  return {.op = "global_lp_pool",
          .variants = {{"plane", {shot({2, 3, 7, 7}, 2)}},
                       {"powers", {shot({2, 3, 17}, 1), shot({1, 2, 4, 5, 3}, 3)}},
                       {"zero", {shot({0, 3, 8, 8}, 2), shot({2, 3, 0}, 2)}}},
          .nearness = Nearness::kUlps,
          .ulps = 64,
          .half_ulps = 2,
          .specials = {shot({2, 3, 4, 4}, 1), shot({2, 3, 4, 4}, 2), shot({2, 3, 4, 4}, 3)},
          .special_fills = {FillKind::kInfiniteLane}};
}

Recipe global_max_pool() {
  return {.op = "global_max_pool",
          .variants = global_variants(),
          .exact = {FillKind::kSum},
          .specials = {Shot{{Dims{2, 3, 7, 7}}}},
          .special_fills = {FillKind::kSpecialLane},
          .least_different = 6};  // the largest of many are alike
}

}  // namespace

void add_pooling_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(max_pool());
  recipes->push_back(average_pool());
  recipes->push_back(global_average_pool());
  recipes->push_back(global_max_pool());
  recipes->push_back(lp_pool());
  recipes->push_back(global_lp_pool());
  recipes->push_back(max_pool_indices());
}

}  // namespace bp::conform
