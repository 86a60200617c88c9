// SPDX-License-Identifier: Apache-2.0
//
// What is wrong for which attribute and which input: what the schemas do not say. The right calls
// that these change are the first ones of the kit's recipes.
#include <cmath>
#include <cstdint>
#include <utility>

#include "tests/negative/cases.hpp"

namespace bp::negative {
namespace {

using List = std::vector<int64_t>;
constexpr int64_t kFar = 100;

int64_t number(int64_t value) { return value; }

}  // namespace

std::vector<AttributeRule> attribute_rules() {
  const int64_t least = INT64_MIN;
  const std::vector<decltype(conform::Setting::value)> windows = {List{0}, List{-1}, List{least}};
  return {
      {"axis",
       {number(kFar), number(-kFar), number(INT64_MAX), least},
       false,
       {},
       "quantize_linear"},
      // Quantization by one scale has no axis; quantization_test has the others.
      {"axis", {}, false, "quantize_linear"},
      {"axis", {}, false, "dequantize_linear"},
      {"batch_dims", {number(-1), number(kFar), least}},
      {"block_size", {number(0), number(-1)}, false, "depth_to_space"},
      {"block_size", {number(0), number(-1)}, false, "space_to_depth"},
      {"block_size", {number(7)}, false, "depth_to_space", {}, "x"},
      {"block_size", {number(7)}, false, "space_to_depth", {}, "x"},
      {"block_size", {number(-1), least}, false, "quantize_linear"},
      {"block_size", {number(-1), least}, false, "dequantize_linear"},
      {"group", {number(0), number(-1)}},
      {"group", {number(7), number(INT64_MAX)}, false, "conv", {}, "w"},
      {"group", {number(7), number(INT64_MAX)}, false, "conv_transpose", {}, "x"},
      {"num_outputs", {number(0), number(-1), number(kFar), number(INT64_MAX), least}},
      {"sizes", {List{1}, List{-1, 3}, List{INT64_MAX, INT64_MAX}}, false, "split"},
      {"num_groups", {number(0), number(-1)}},
      {"num_groups", {number(7), number(INT64_MAX)}, false, {}, {}, "x"},
      {"p", {number(0), number(-1)}},
      {"left_window", {number(-2), least}},
      {"right_window", {number(-2), least}},
      {"rotary_dim", {number(-2), number(3), number(kFar), least}},
      {"size", {number(0), number(-1), least}},
      {"stage", {number(-1), number(kFar)}},
      {"storage_order", {number(-1), number(2)}},
      {"axes", {List{kFar}, List{-kFar}, List{0, 0}}},
      {"dilations", windows, true},
      {"strides", windows, true},
      {"kernel_shape", windows, true},
      {"pads", {List{0, 0, 0}, List{-1}}, true},
      {"output_padding", {List{-1}, List{kFar}}, true},
      {"output_shape", {List{-1}}, true},
      {"perm", {List{0, 0, 0}, List{0}, List{kFar, 0, 1}, List{-1, 0, 1}}},
      {"auto_pad", {std::string_view("no_such_word"), std::string_view("")}},
      {"activation", {std::string_view("no_such_word"), std::string_view("Relu")}},
      {"activation_alpha", {0.5, std::nan("")}},  // beside no activation
      {"activation_beta", {0.5, std::nan("")}},
      {"coordinates", {std::string_view("no_such_word")}},
      {"equation",
       {std::string_view("no such word"), std::string_view("ij,jk->il"), std::string_view("->")}},
      {"keep_aspect_ratio_policy", {std::string_view("no_such_word")}},
      {"kind", {std::string_view("no_such_word")}},
      {"mode", {std::string_view("no_such_word"), std::string_view("")}},
      {"nearest_mode", {std::string_view("no_such_word")}},
      {"reduction", {std::string_view("no_such_word")}},
  };
}

std::vector<std::string_view> free_attributes() {
  return {"alpha", "beta",  "bias",        "cubic_coeff_a", "epsilon", "extrapolation_value",
          "gamma", "lambd", "scale",       "softcap",       "start",   "end",
          "k",     "value", "query_offset"};
}

std::vector<HostRule> host_rules() {
  return {
      {"reshape", "shape", {{-2}, {7, 7}, {-1, -1}, {INT64_MAX, INT64_MAX}, {INT64_MIN}}},
      {"squeeze", "axes", {{kFar}, {-kFar}, {0, 0}}},
      {"unsqueeze", "axes", {{kFar}, {-kFar}, {0, 0}}},
      {"expand", "shape", {{7, 11, 13}, {-1}, {INT64_MAX, INT64_MAX}}},
      {"tile", "repeats", {{-1, -1}, {1}, {INT64_MAX, INT64_MAX}}},
      {"top_k", "k", {{-1}, {1000000}, {1, 2}}},
      {"cumsum", "axis", {{kFar}, {-kFar}}},
      {"cumprod", "axis", {{kFar}, {-kFar}}},
      {"one_hot", "depth", {{-1}, {INT64_MIN}}},
      {"range", "delta", {{0}}},
      {"reduce", "axes", {{kFar}, {-kFar}, {0, 0}}},
      {"pad", "pads", {{1}, {INT64_MAX, 0, 0, INT64_MAX}}},
      {"slice", "ends", {{9, 9, 9, 9, 9, 9, 9}}},
      {"slice", "steps", {{0}, {0, 0}}},
      {"slice", "axes", {{kFar}, {0, 0}}},
      {"resize", "sizes", {{1}, {-1, -1, -1, -1}}},
      {"col2im", "image_shape", {{0, 0}, {-1, 4}, {INT64_MAX, INT64_MAX}}},
      {"col2im", "block_shape", {{0, 0}, {-1, 4}, {INT64_MAX, INT64_MAX}, {1}}},
  };
}

namespace {

/// Of products, windows, pools and operators with indices.
std::vector<SizesRule> rules_of_windows_and_indices() {
  const Dims far{7, 11, 13};
  return {
      {"conv", "x", {{}, {3}, {3, 4}, {1, 99, 9, 9}}},
      {"conv", "w", {{}, {3}, {4, 99, 3, 3}, {1, 1, 1, 1, 1, 1}}},
      {"conv_transpose", "x", {{}, {3}, {1, 99, 9, 9}}},
      {"conv_transpose", "w", {{}, {3}, {99, 4, 3, 3}}},
      {"batch_norm", "x", {{}, {3}, {2, 99, 5}}},
      {"batch_norm", "scale", {{}, {99}, {3, 1}}},
      {"batch_norm", "bias", {{}, {99}, {3, 1}}},
      {"batch_norm", "mean", {{}, {99}, {3, 1}}},
      {"batch_norm", "var", {{}, {99}, {3, 1}}},
      {"max_pool", "x", {{}, {3}, {3, 4}}},
      {"average_pool", "x", {{}, {3}, {3, 4}}},
      {"lp_pool", "x", {{}, {3}, {3, 4}}},
      {"max_pool_indices", "x", {{}, {3}, {3, 4}}},
      {"global_average_pool", "x", {{}, {3}}},
      {"global_max_pool", "x", {{}, {3}}},
      {"gemm", "a", {{}, {3}, {99, 98}, {1, 1, 1}}},
      {"gemm", "b", {{}, {3}, {99, 98}, {1, 1, 1}}},
      {"gemm", "c", {far}},
      {"matmul", "a", {{}, {99, 98}}},
      {"matmul", "b", {{}, {99, 98}}},
      {"gather", "x", {{}}},
      {"gather_elements", "indices", {{}, {99, 99, 99, 99}}},
      {"gather_nd", "indices", {{}, {2, 99}}},
      {"scatter_elements", "updates", {{}, far}},
      {"scatter_elements", "indices", {{}, {99, 99, 99, 99}}},
      {"scatter_nd", "indices", {{}, {2, 99}}},
      {"scatter_nd", "updates", {far}},
      {"compress", "condition", {{}, {2, 3}}},
  };
}

/// Of all others.
std::vector<SizesRule> other_rules() {
  const Dims far{7, 11, 13};
  return {
      {"squeeze", "x", {far}},
      {"trilu", "x", {{}, {3}}},
      {"eye_like", "x", {{}, {3}, far}},
      {"depth_to_space", "x", {{}, {3}, {1, 7, 2, 2}}},
      {"space_to_depth", "x", {{}, {3}, {1, 1, 7, 7}}},
      {"top_k", "x", {{}}},
      {"layer_norm", "scale", {far}},
      {"layer_norm", "bias", {far}},
      {"rms_norm", "scale", {far}},
      {"instance_norm", "x", {{}, {3}}},
      {"instance_norm", "scale", {{}, {99}, {3, 1}}},
      {"instance_norm", "bias", {{}, {99}, {3, 1}}},
      {"group_norm", "x", {{}, {3}}},
      {"group_norm", "scale", {{}, {99}, {3, 1}}},
      {"group_norm", "bias", {{}, {99}, {3, 1}}},
      {"mean_variance_norm", "x", {{}}},
      {"lrn", "x", {{}, {3}}},
      {"rotary_embedding", "x", {{}, {3}, {2, 3, 5}}},
      {"rotary_embedding", "cos", {{}, {99}, far}},
      {"rotary_embedding", "sin", {{}, {99}, far}},
      {"col2im", "x", {{}, {3}, {2, 7, 9}}},
      {"quantize_linear", "scale", {far}},
      {"quantize_linear", "zero_point", {far}},
      {"dequantize_linear", "scale", {far}},
      {"dequantize_linear", "zero_point", {far}},
      {"attention", "q", {{}, {3}, far}},
      {"attention", "k", {{}, {3}, far}},
      {"attention", "v", {{}, {3}, far}},
      {"attention_scores", "q", {{}, {3}, far}},
      {"attention_scores", "k", {{}, {3}, far}},
      {"concat", "x", {{}, far}},
      {"einsum", "x", {{}, {1, 1, 1, 1, 1}}},
  };
}

}  // namespace

std::vector<SizesRule> sizes_rules() {
  std::vector<SizesRule> rules = rules_of_windows_and_indices();
  for (SizesRule& rule : other_rules()) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace bp::negative
