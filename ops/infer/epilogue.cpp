// SPDX-License-Identifier: Apache-2.0
//
// Epilogues; see epilogue.hpp.
#include "ops/infer/epilogue.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/base/dtype.hpp"

namespace bp::ops {
namespace {

constexpr auto kActivations = std::to_array<ActivationRow>({
    {"relu"},
    {"leaky_relu", "alpha"},
    {"elu", "alpha"},
    {"clip", "low", "high"},
    {"sigmoid"},
    {"hard_sigmoid", "alpha", "beta"},
    {"tanh"},
    {"swish", "alpha"},
    {"hard_swish"},
    {"mish"},
    {"gelu"},
    {"gelu_tanh"},
});

Status check_number(std::string_view attribute, double value, std::string_view parameter,
                    std::string_view activation) {
  if (parameter.empty()) {
    if (value == 0) return {};
    return attribute_error(attribute,
                           expected_found("0 beside activation '" + std::string(activation) + "'",
                                          std::to_string(value)));
  }
  const bool is_limit = activation == "clip";
  if (is_limit ? !std::isnan(value) : std::isfinite(value)) return {};
  return attribute_error(
      attribute, expected_found(is_limit ? "a number" : "a finite number", std::to_string(value)));
}

}  // namespace

const ActivationRow* find_activation(std::string_view name) {
  const auto found = std::find_if(kActivations.begin(), kActivations.end(),
                                  [&](const ActivationRow& row) { return row.name == name; });
  return found == kActivations.end() ? nullptr : &*found;
}

Status set_activation(const Activation& activation, Attributes* attributes) {
  BP_TRY(attributes->set_str("activation", activation.name));
  BP_TRY(attributes->set_f64("activation_alpha", activation.alpha));
  return attributes->set_f64("activation_beta", activation.beta);
}

Status check_activation(const Activation& activation, uint32_t dtype) {
  static constexpr ActivationRow kNone{""};
  const ActivationRow* row = activation.name.empty() ? &kNone : find_activation(activation.name);
  if (row == nullptr) {
    std::string names;
    for (const ActivationRow& each : kActivations) names += std::string(each.name) + ", ";
    return attribute_error("activation", expected_found(names + "or nothing",
                                                        "'" + std::string(activation.name) + "'"));
  }
  if (!activation.name.empty() && !is_float_dtype(dtype)) {
    return attribute_error("activation",
                           expected_found("none, as the dtype is " + std::string(dtype_name(dtype)),
                                          "'" + std::string(activation.name) + "'"));
  }
  BP_TRY(check_number("activation_alpha", activation.alpha, row->alpha, row->name));
  return check_number("activation_beta", activation.beta, row->beta, row->name);
}

Status check_equal_addend(const TensorType& addend, Dims* out_sizes) {
  if (!addend.has_rank) return {};
  bool fits = addend.sizes.size() == out_sizes->size();
  for (size_t i = 0; fits && i < out_sizes->size(); ++i) {
    fits = unify(addend.sizes[i], &(*out_sizes)[i]);
  }
  if (fits) return {};
  return input_error("addend", expected_found("sizes " + to_string(*out_sizes), addend.sizes));
}

Status check_broadcast_addend(std::string_view name, const TensorType& addend,
                              const Dims& out_sizes) {
  if (addend.dtype == BP_DTYPE_NONE || !addend.has_rank) return {};
  const size_t rank = addend.sizes.size();
  bool fits = rank <= out_sizes.size();
  for (size_t i = 0; fits && i < rank; ++i) {
    int64_t target = out_sizes[out_sizes.size() - rank + i];
    fits = addend.sizes[i] == 1 || unify(addend.sizes[i], &target);
  }
  if (fits) return {};
  return input_error(
      name, expected_found("sizes that broadcast to " + to_string(out_sizes), addend.sizes));
}

}  // namespace bp::ops
