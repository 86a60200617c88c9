// SPDX-License-Identifier: Apache-2.0
//
// Operators whose results are sums of products: matmul, gemm, einsum, conv, and batch_norm, whose
// few terms are bound in the same way.
#include "sdk/conform/kernels/recipe.hpp"

namespace bp::conform {
namespace {

using Terms = std::span<const OracleTensor>;

/// The size that a product of matrices sums over, and one for what is added to it.
double matmul_terms(Terms inputs, int64_t) {
  return static_cast<double>(inputs[0].sizes.back()) + (inputs.size() > 2 ? 1 : 0);
}

double gemm_terms(Terms inputs, int64_t output_count) {
  // count(a) count(b) / count(y) = K squared.
  const auto squared = static_cast<double>(inputs[0].count()) *
                       static_cast<double>(inputs[1].count()) /
                       static_cast<double>(output_count > 0 ? output_count : 1);
  int64_t terms = 0;
  while (static_cast<double>(terms * terms) < squared) ++terms;
  return static_cast<double>(terms + 1);
}

double conv_terms(Terms inputs, int64_t) {
  const OracleTensor& w = inputs[1];
  return static_cast<double>(w.count()) / static_cast<double>(w.sizes[0]) + 2;
}

double batch_norm_terms(Terms, int64_t) { return 4; }

Shot product(const Dims& a, const Dims& b) { return {{a, b}}; }

std::vector<Setting> activation(std::string_view name, double alpha = 0, double beta = 0) {
  return {{"activation", name}, {"activation_alpha", alpha}, {"activation_beta", beta}};
}

/// Activations that keep whole numbers exact, with a shot each.
template <class MakeShot>
std::vector<Shot> exact_activations(const MakeShot& make) {
  return {make(activation("relu")), make(activation("leaky_relu", 0.5)),
          make(activation("clip", -3, 6)), make(activation("hard_sigmoid", 0.0625, 0.5))};
}

/// ... and the others.
template <class MakeShot>
std::vector<Shot> inexact_activations(const MakeShot& make) {
  return {make(activation("elu", 0.5)),   make(activation("sigmoid")),    make(activation("tanh")),
          make(activation("swish", 1.5)), make(activation("hard_swish")), make(activation("mish")),
          make(activation("gelu")),       make(activation("gelu_tanh"))};
}

/// All: integers have none, so an operator that takes them too has these beside its variants.
template <class MakeShot>
std::vector<Shot> all_activations(const MakeShot& make) {
  std::vector<Shot> shots = exact_activations(make);
  for (Shot& shot : inexact_activations(make)) shots.push_back(std::move(shot));
  return shots;
}

/// Those that a library is likely to lose NaN or infinity in.
template <class MakeShot>
void add_special_activations(const MakeShot& make, std::vector<Shot>* shots) {
  for (const auto& settings :
       {activation("relu"), activation("clip", -3, 6), activation("hard_sigmoid", 0.25, 0.5),
        activation("gelu"), activation("leaky_relu", 0.5), activation("hard_swish"),
        activation("sigmoid")}) {
    shots->push_back(make(settings));
  }
}

Recipe matmul() {
  const auto finished = [](std::vector<Setting> attributes) {
    return Shot{{Dims{5, 17}, Dims{17, 9}, Dims{9}}, std::move(attributes)};
  };
  const auto sum = [](const Dims& a, const Dims& b, const Dims& addend) {
    return Shot{{a, b, addend}};
  };
  std::vector<Shot> specials = {product({5, 17}, {17, 9})};
  add_special_activations(finished, &specials);
  return {
      .op = "matmul",
      .variants = {{"matrix", {product({5, 17}, {17, 9})}},
                   {"sizes",
                    {product({1, 1}, {1, 1}), product({1, 7}, {7, 1}), product({3, 33}, {33, 65}),
                     product({16, 16}, {16, 16}), product({17, 64}, {64, 31}),
                     product({65, 3}, {3, 33}), product({2, 128}, {128, 70})}},
                   {"large", {product({64, 96}, {96, 80}), product({33, 512}, {512, 65})}},
                   {"vectors",
                    {product({17}, {17}), product({17}, {17, 9}), product({5, 17}, {17})}},
                   {"batches",
                    {product({2, 3, 4, 5}, {3, 5, 6}), product({2, 1, 4, 5}, {1, 3, 5, 2}),
                     product({7}, {2, 7, 3}), product({3, 5, 7}, {7, 4})}},
                   {"addend",
                    {sum({5, 17}, {17, 9}, {9}), sum({5, 17}, {17, 9}, {5, 9}),
                     sum({5, 17}, {17, 9}, {5, 1}), sum({33, 64}, {64, 48}, {33, 48}),
                     sum({33, 64}, {64, 48}, {1, 48}), sum({5, 17}, {17, 9}, {}),
                     sum({17}, {17, 9}, {9}), sum({5, 17}, {17}, {5}), sum({17}, {17}, {}),
                     sum({2, 3, 4, 5}, {3, 5, 6}, {6}), sum({2, 3, 4, 5}, {3, 5, 6}, {4, 6}),
                     sum({3, 24, 32}, {3, 32, 40}, {3, 24, 40}),
                     sum({3, 24, 32}, {3, 32, 40}, {40}), sum({3, 5, 7}, {7, 4}, {3, 5, 4})}},
                   {"zero",
                    {product({3, 0}, {0, 4}), product({0, 4}, {4, 3}),
                     product({2, 0, 3, 4}, {4, 5}), product({0}, {0})}}},
      .exact = {FillKind::kTerm},
      .nearness = Nearness::kSums,
      .terms = matmul_terms,
      .inexact = all_activations(finished),
      .specials = specials,
      .special_fills = {FillKind::kSpecialLane, FillKind::kTerm, FillKind::kTerm}};
}

Shot gemm_shot(const Dims& a, const Dims& b, std::optional<Dims> c,
               std::vector<Setting> attributes) {
  return {{a, b, c}, std::move(attributes)};
}

Recipe gemm() {
  const std::vector<Setting> scaled = {{"alpha", 2.0}, {"beta", 3.0}};
  const Setting trans_a{"trans_a", int64_t{1}};
  const Setting trans_b{"trans_b", int64_t{1}};
  const auto finished = [](std::vector<Setting> attributes) {
    return gemm_shot({5, 17}, {17, 9}, Dims{9}, std::move(attributes));
  };
  std::vector<Setting> scaled_relu = activation("relu");
  scaled_relu.insert(scaled_relu.end(), scaled.begin(), scaled.end());
  std::vector<Shot> inexact = all_activations(finished);
  inexact.push_back(gemm_shot({5, 17}, {17, 9}, Dims{5, 1}, scaled_relu));
  std::vector<Shot> specials = {gemm_shot({5, 17}, {17, 9}, Dims{9}, {})};
  add_special_activations(finished, &specials);
  return {.op = "gemm",
          .variants =
              {{"matrix", {gemm_shot({5, 17}, {17, 9}, Dims{5, 9}, scaled)}},
               {"orders",
                {gemm_shot({17, 5}, {17, 9}, Dims{5, 9}, {trans_a}),
                 gemm_shot({5, 17}, {9, 17}, Dims{9}, {trans_b}),
                 gemm_shot({17, 5}, {9, 17}, Dims{5, 1}, {trans_a, trans_b})}},
               {"addend",
                {gemm_shot({5, 17}, {17, 9}, std::nullopt, {}),
                 gemm_shot({5, 17}, {17, 9}, Dims{}, scaled),
                 gemm_shot({5, 17}, {17, 9}, Dims{1, 9}, scaled),
                 gemm_shot({5, 17}, {17, 9}, Dims{5, 1}, scaled)}},
               {"sizes",
                {gemm_shot({1, 1}, {1, 1}, Dims{1}, {}), gemm_shot({3, 33}, {33, 65}, Dims{65}, {}),
                 gemm_shot({1, 128}, {128, 70}, Dims{70}, {}),
                 gemm_shot({2, 64}, {10, 64}, Dims{10}, {trans_b}),
                 gemm_shot({4, 43}, {43, 130}, Dims{130}, {}),
                 gemm_shot({3, 43}, {35, 43}, Dims{35}, {trans_b})}},
               {"large",
                {gemm_shot({64, 96}, {96, 80}, Dims{80}, {}),
                 gemm_shot({33, 512}, {65, 512}, Dims{65}, {trans_b})}},
               {"zero",
                {gemm_shot({3, 0}, {0, 4}, Dims{4}, {}), gemm_shot({0, 4}, {4, 3}, Dims{3}, {})}}},
          .exact = {FillKind::kTerm},
          .nearness = Nearness::kSums,
          .terms = gemm_terms,
          .inexact = inexact,
          .specials = specials,
          .special_fills = {FillKind::kSpecialLane, FillKind::kTerm, FillKind::kTerm}};
}

/// All positions that the equation can name, for each element of the output: at least the number of
/// its terms.
double einsum_terms(Terms inputs, int64_t output_count) {
  double count = 1;
  for (const OracleTensor& x : inputs) count *= static_cast<double>(x.count());
  return count / static_cast<double>(output_count > 0 ? output_count : 1);
}

Recipe einsum() {
  const auto shot = [](std::string_view equation, std::vector<std::optional<Dims>> inputs) {
    return Shot{std::move(inputs), {{"equation", equation}}};
  };
  return {
      .op = "einsum",
      .variants = {{"matrix", {shot("ij,jk->ik", {{{5, 17}}, {{17, 9}}})}},
                   {"one",
                    {shot("ij->ij", {{{5, 17}}}), shot("ij->ji", {{{5, 17}}}),
                     shot("ij->i", {{{9, 17}}}), shot("...ii->...i", {{{4, 5, 5}}}),
                     shot("iji", {{{3, 17, 3}}})}},
                   {"batches",
                    {shot("bij,bjk->bik", {{{3, 4, 5}}, {{3, 5, 6}}}),
                     shot("...ij,...kj->...ik", {{{2, 1, 4, 5}}, {{3, 6, 5}}}),
                     shot("bqhd,bkhd->bhqk", {{{2, 5, 3, 8}}, {{2, 7, 3, 8}}})}},
                   {"several",
                    {shot("ijkl,klm->mji", {{{2, 3, 4, 5}}, {{4, 5, 6}}}),
                     shot("ij,jk->ik", {{{5, 1}}, {{7, 9}}})}},
                   {"elements",
                    {shot("i,j->ji", {{{9}}, {{7}}}), shot("Ai,i->iA", {{{4, 9}}, {{9}}})}},
                   {"three", {shot("ij,jk,kl->il", {{{5, 3}}, {{3, 4}}, {{4, 6}}})}},
                   {"zero", {shot("ij,jk->ik", {{{3, 0}}, {{0, 4}}}), shot("ij->j", {{{0, 4}}})}}},
      .exact = {FillKind::kTerm},
      .nearness = Nearness::kSums,
      .terms = einsum_terms,
      .specials = {shot("ij,jk->ik", {{{5, 17}}, {{17, 9}}})},
      .special_fills = {FillKind::kSpecialLane, FillKind::kTerm}};
}

Setting list(std::string_view name, std::vector<int64_t> values) {
  return {name, std::move(values)};
}

Shot conv_shot(const Dims& x, const Dims& w, bool bias, std::vector<Setting> attributes) {
  return {{x, w, bias ? std::optional<Dims>(Dims{w[0]}) : std::nullopt}, std::move(attributes)};
}

/// Of small images with padding.
std::vector<Shot> conv_batches() {
  const Setting same = list("pads", {1, 1, 1, 1});
  return {conv_shot({6, 3, 8, 8}, {17, 3, 3, 3}, true, {same}),
          conv_shot({5, 1, 7, 4}, {4, 1, 2, 3}, false,
                    {list("pads", {1, 0, 0, 1}), list("strides", {2, 1})}),
          conv_shot({6, 3, 4, 4}, {9, 3, 3, 3}, true,
                    {same, {"activation", std::string_view("relu")}})};
}

/// Of one dimension, with weights for all channels and for each its own.
std::vector<Shot> conv_lines() {
  const Setting pads = list("pads", {2, 2});
  return {conv_shot({2, 3, 17}, {4, 3, 5}, true, {pads}),
          conv_shot({2, 3, 40}, {6, 1, 5}, true, {{"group", int64_t{3}}, pads})};
}

Recipe conv() {
  const auto& shot = conv_shot;
  const Setting same = list("pads", {1, 1, 1, 1});
  const auto finished = [](std::vector<Setting> attributes) {
    return Shot{{Dims{2, 4, 9, 8}, Dims{6, 4, 3, 3}, Dims{6}, Dims{2, 6, 7, 6}},
                std::move(attributes)};
  };
  const auto activated = [](std::vector<Setting> attributes) {
    return Shot{{Dims{1, 3, 8, 8}, Dims{5, 3, 3, 3}, Dims{5}}, std::move(attributes)};
  };
  const auto sum = [](const Dims& x, const Dims& w, const Dims& addend,
                      std::vector<Setting> attributes) {
    return Shot{{x, w, std::nullopt, addend}, std::move(attributes)};
  };
  std::vector<Shot> specials = {shot({2, 4, 9, 8}, {6, 4, 3, 3}, true, {same})};
  add_special_activations(finished, &specials);
  add_special_activations(activated, &specials);
  return {
      .op = "conv",
      .variants = {{"plane",
                    {shot({2, 4, 9, 8}, {6, 4, 3, 3}, true, {same, list("strides", {1, 2})})}},
                   {"small",
                    {shot({1, 3, 8, 8}, {5, 3, 3, 3}, true, {same}),
                     shot({1, 2, 7, 5}, {3, 2, 3, 2}, false, {}),
                     shot({1, 8, 5, 5}, {9, 8, 1, 1}, true, {list("strides", {2, 2})})}},
                   {"batch", conv_batches()},
                   {"groups",
                    {shot({2, 4, 6, 6}, {6, 2, 3, 3}, true, {{"group", int64_t{2}}}),
                     shot({1, 5, 7, 6}, {5, 1, 3, 3}, false, {{"group", int64_t{5}}, same})}},
                   {"windows",
                    {shot({1, 2, 11, 9}, {3, 2, 3, 3}, true, {list("dilations", {2, 3})}),
                     shot({2, 3, 6, 7}, {4, 3, 2, 4}, true, {list("pads", {0, 2, 1, 3})}),
                     shot({2, 1, 12, 33}, {2, 1, 5, 5}, true, {same})}},
                   {"line", conv_lines()},
                   {"space", {shot({1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, true, {})}},
                   {"addend",
                    {sum({2, 4, 9, 8}, {6, 4, 3, 3}, {2, 6, 9, 8}, {same}),
                     sum({1, 5, 7, 6}, {5, 1, 3, 3}, {1, 5, 5, 4}, {{"group", int64_t{5}}}),
                     sum({2, 3, 17}, {4, 3, 5}, {2, 4, 13}, {}),
                     sum({1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {1, 3, 3, 3, 5}, {}),
                     sum({1, 2, 4, 4}, {3, 2, 3, 3}, {1, 3, 2, 2},
                         {{"auto_pad", std::string_view("SAME_UPPER")},
                          list("strides", {2, 2}),
                          {"activation", std::string_view("relu")}})}},
                   {"epilogue", exact_activations(finished)},
                   {"activation", exact_activations(activated)},
                   {"zero", {shot({0, 3, 8, 8}, {5, 3, 3, 3}, true, {same})}}},
      .exact = {FillKind::kTerm},
      .nearness = Nearness::kSums,
      .terms = conv_terms,
      .inexact = inexact_activations(finished),
      .specials = specials,
      .special_fills = {FillKind::kSpecialLane, FillKind::kTerm, FillKind::kTerm, FillKind::kTerm}};
}

/// Each output is a sum over channels and weights, and some of those are none of its own.
Recipe conv_transpose() {
  const auto shot = [](const Dims& x, const Dims& w, int64_t group, bool bias,
                       std::vector<Setting> attributes) {
    attributes.push_back({"group", group});
    return Shot{{x, w, bias ? std::optional<Dims>(Dims{w[1] * group}) : std::nullopt},
                std::move(attributes)};
  };
  const Setting twice = list("strides", {2, 2});
  const Setting one = list("pads", {1, 1, 1, 1});
  const Shot plane = shot({2, 4, 5, 6}, {4, 3, 3, 3}, 1, true, {twice, one});
  // A weight that is none meets elements of x alone, never what stands between them.
  Shot odd_weights = plane;
  odd_weights.fills = {FillKind::kTerm, FillKind::kSpecialLane, FillKind::kTerm};
  return {
      .op = "conv_transpose",
      .variants =
          {{"plane", {plane}},
           {"small",
            {shot({1, 3, 4, 4}, {3, 5, 2, 2}, 1, true, {twice}),
             shot({1, 2, 5, 3}, {2, 3, 4, 4}, 1, false, {twice, one}),
             shot({1, 4, 3, 3}, {4, 2, 1, 1}, 1, true, {list("strides", {3, 2})})}},
           {"groups",
            {shot({2, 4, 4, 5}, {4, 3, 3, 3}, 2, true, {one}),
             shot({1, 5, 4, 4}, {5, 1, 3, 2}, 5, false, {twice})}},
           {"sizes",
            {shot({1, 2, 3, 3}, {2, 2, 3, 3}, 1, true,
                  {list("strides", {3, 2}), list("output_padding", {1, 1})}),
             shot({1, 2, 3, 3}, {2, 2, 3, 3}, 1, true,
                  {list("strides", {3, 2}), list("output_shape", {10, 6})}),
             shot({1, 2, 4, 4}, {2, 2, 3, 3}, 1, true,
                  {twice, {"auto_pad", std::string_view("SAME_UPPER")}}),
             shot({1, 2, 4, 4}, {2, 2, 3, 3}, 1, true,
                  {twice, {"auto_pad", std::string_view("SAME_LOWER")}}),
             shot({1, 2, 4, 4}, {2, 2, 4, 4}, 1, true, {list("pads", {0, 2, 1, 3})}),
             shot({1, 2, 3, 1}, {2, 2, 3, 3}, 1, true,
                  {list("strides", {3, 2}), list("output_shape", {13, 9})}),
             shot({1, 2, 5, 4}, {2, 2, 2, 3}, 1, false, {twice, list("output_shape", {3, 2})})}},
           {"windows",
            {shot({1, 2, 6, 5}, {2, 3, 3, 3}, 1, true, {list("dilations", {2, 3})}),
             shot({1, 2, 3, 4}, {2, 3, 3, 4}, 1, true,
                  {list("dilations", {2, 3}), list("strides", {4, 2})})}},
           {"line",
            {shot({2, 3, 300}, {3, 2, 4}, 1, true, {list("strides", {2}), list("pads", {1, 1})})}},
           {"space",
            {shot({1, 2, 3, 2, 3}, {2, 2, 2, 3, 2}, 1, true, {list("strides", {2, 1, 2})})}},
           {"zero",
            {shot({0, 3, 4, 4}, {3, 5, 2, 2}, 1, true, {twice}),
             shot({1, 3, 0, 4}, {3, 5, 2, 2}, 1, true, {twice})}}},
      .exact = {FillKind::kTerm},
      .nearness = Nearness::kSums,
      .terms =
          [](Terms inputs, int64_t) {
            const OracleTensor& w = inputs[1];
            return static_cast<double>(w.count()) / static_cast<double>(w.sizes[1]) + 1;
          },
      .specials = {plane, odd_weights},
      .special_fills = {FillKind::kSpecialLane, FillKind::kTerm, FillKind::kTerm}};
}

/// Images of `image` with blocks of `block`, of which there are `positions`.
Shot blocks(const Dims& planes, const Dims& image, const Dims& block, int64_t positions,
            std::vector<Setting> attributes = {}) {
  const auto rank = static_cast<int64_t>(image.size());
  int64_t block_size = 1;
  for (const int64_t size : block) block_size *= size;
  Shot shot{{Dims{planes[0], planes[1] * block_size, positions}, Dims{rank}, Dims{rank}},
            std::move(attributes)};
  shot.host_values.assign(image.begin(), image.end());
  shot.host_values.insert(shot.host_values.end(), block.begin(), block.end());
  return shot;
}

Recipe col2im() {
  return {.op = "col2im",
          .variants = {{"plane", {blocks({2, 3}, {4, 5}, {2, 3}, 9)}},
                       {"windows",
                        {blocks({1, 2}, {5, 5}, {1, 5}, 5),
                         blocks({1, 2}, {5, 6}, {2, 2}, 6, {list("strides", {2, 2})}),
                         blocks({1, 2}, {4, 4}, {2, 2}, 4, {list("dilations", {2, 2})}),
                         blocks({2, 1}, {4, 4}, {3, 3}, 15, {list("pads", {0, 1, 1, 2})})}},
                       {"ranks",
                        {blocks({2, 3}, {9}, {4}, 6), blocks({1, 2}, {3, 3, 3}, {2, 2, 2}, 8)}},
                       {"zero", {blocks({0, 3}, {4, 5}, {2, 3}, 9)}}},
          .exact = {FillKind::kTerm},
          .nearness = Nearness::kSums,
          .terms = [](Terms inputs, int64_t) { return static_cast<double>(inputs[0].sizes[1]); },
          .specials = {blocks({2, 3}, {4, 5}, {2, 3}, 9)},
          .special_fills = {FillKind::kSpecialLane}};
}

Recipe batch_norm() {
  const Setting exactly{"epsilon", 0.0};
  const auto shot = [](const Dims& x, std::vector<Setting> attributes) {
    const Dims channels{x[1]};
    return Shot{{x, channels, channels, channels, channels}, std::move(attributes)};
  };
  return {.op = "batch_norm",
          .variants = {{"image", {shot({2, 5, 4, 3}, {exactly})}},
                       {"ranks", {shot({3, 7}, {exactly}), shot({2, 3, 2, 3, 4}, {exactly})}},
                       {"sizes", {shot({1, 1, 1, 1}, {exactly}), shot({1, 3, 17, 31}, {exactly})}},
                       {"zero", {shot({0, 5, 4, 3}, {exactly})}}},
          .exact = {FillKind::kTerm, FillKind::kPower, FillKind::kTerm, FillKind::kTerm,
                    FillKind::kPositivePower},
          .precise = {FillKind::kFull, FillKind::kFull, FillKind::kFull, FillKind::kFull,
                      FillKind::kPositive},
          .nearness = Nearness::kSums,
          .terms = batch_norm_terms,
          .subtracted = 3,
          .inexact = {shot({2, 5, 4, 3}, {}), shot({2, 5, 4, 3}, {{"epsilon", 3.0}})},
          .specials = {shot({2, 5, 4, 3}, {exactly})},
          .special_fills = {FillKind::kSpecialLane, FillKind::kPower, FillKind::kTerm,
                            FillKind::kTerm, FillKind::kPositivePower}};
}

}  // namespace

void add_product_recipes(std::vector<Recipe>* recipes) {
  recipes->push_back(matmul());
  recipes->push_back(gemm());
  recipes->push_back(einsum());
  recipes->push_back(conv());
  recipes->push_back(conv_transpose());
  recipes->push_back(col2im());
  recipes->push_back(batch_norm());
}

}  // namespace bp::conform
