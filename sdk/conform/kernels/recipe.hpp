// SPDX-License-Identifier: Apache-2.0
//
// What a kernel of an operator is tried with, as data: shapes and attributes, fills, and how near
// the result has to be. Every operator that can have a kernel has a recipe; the dtypes come from
// its schema.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_RECIPE_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_RECIPE_HPP

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/op/attributes.hpp"
#include "core/op/schema.hpp"
#include "sdk/conform/kernels/fill.hpp"

namespace bp::conform {

struct Setting {
  std::string_view name;
  std::variant<int64_t, double, std::vector<int64_t>, std::string_view> value;
};

/// One call: sizes of each input (nullopt: an absent optional one) and attributes.
struct Shot {
  std::vector<std::optional<Dims>> inputs;
  std::vector<Setting> attributes = {};
  std::vector<int64_t> host_values = {};  // of the inputs read on the host, one after the other
  int64_t extent = 0;                     // of the dimension that indices point into
  std::vector<FillKind> fills = {};       // where not the recipe's
  std::vector<double> host_reals = {};    // as host_values, of inputs that are floats
};

/// BP_MAX_RANK of them.
inline Dims all_dimensions() { return {1, 2, 1, 1, 1, 3, 1, 1, 2, 1, 1, 5, 1, 1, 1, 2}; }

struct Variant {
  std::string_view name;  // part of the case's id
  std::vector<Shot> shots;
};

/// How near a float has to be to the exact result. Integers and bool are exact always.
enum class Nearness {
  kBitwise,   // one correctly rounded operation
  kUlps,      // units in the last place of the exact result
  kSums,      // u_out |ref| + 4 sqrt(K) u_acc sum|products|, K products in each sum
  kMixtures,  // u_out |ref| + 32 u_acc max|x|: sums with weights of both signs, which add up to 1
  kSoftmax,   // 8 u (1 + log2 n) relative, `absolute` u absolute; f16 and bf16: one unit more
};

struct Recipe {
  std::string_view op;
  std::vector<Variant> variants;  // the first has one shot; layouts and precision use it
  /// Per input; the last one repeats. `exact` empty: floats of this operator are never exact, and
  /// the variants take `precise`.
  std::vector<FillKind> exact = {};
  std::vector<FillKind> precise = {FillKind::kFull};
  Nearness nearness = Nearness::kBitwise;
  double ulps = 0;          // f32 and f64
  double half_ulps = 0;     // f16 and bf16
  bool near_input = false;  // units of the input nearest to 0 where larger than the result
  double absolute = 1;      // kSoftmax
  double (*terms)(std::span<const OracleTensor> inputs, int64_t output_count) = nullptr;
  std::optional<size_t> subtracted = {};  // kSums: the input that is taken away, not added
  /// Full mantissas only: attributes with which whole numbers give none.
  std::vector<Shot> inexact = {};
  /// In f32 alone, for the time that they take: sizes beyond caches and tiles, all dimensions.
  std::vector<Shot> many = {};
  /// Floats only; empty: none. With one fill per input.
  std::vector<Shot> specials = {};
  std::vector<FillKind> special_fills = {};
  bool zero_sign = false;  // the sign of a zero result is told
  /// Results of an exact trial that must differ from each other, or it would prove nothing.
  size_t least_different = 8;
  /// ... and the share of results that are not zero.
  double least_share = 0.3;
  /// Whether the operator takes a pair of dtypes that its schema admits; nullptr: it takes all.
  bool (*takes)(uint32_t dtype, uint32_t named) = nullptr;
};

/// The fills that rows of ops/defs name.
std::vector<FillKind> fills_named(std::span<const std::string_view> words);

/// In the order of the registry's operators.
std::vector<Recipe> all_recipes();
// Its parts, by family.
void add_elementwise_recipes(std::vector<Recipe>* recipes);
void add_product_recipes(std::vector<Recipe>* recipes);
void add_reduction_recipes(std::vector<Recipe>* recipes);
void add_pooling_recipes(std::vector<Recipe>* recipes);
void add_resizing_recipes(std::vector<Recipe>* recipes);
void add_movement_recipes(std::vector<Recipe>* recipes);
void add_normalization_recipes(std::vector<Recipe>* recipes);
void add_quantization_recipes(std::vector<Recipe>* recipes);
void add_attention_recipes(std::vector<Recipe>* recipes);
void add_indexing_recipes(std::vector<Recipe>* recipes);
void add_sorting_recipes(std::vector<Recipe>* recipes);

}  // namespace bp::conform

#endif
