// SPDX-License-Identifier: Apache-2.0
//
// A resize along one dimension: which elements of the input each output takes, with what weights.
#ifndef BACKPLANE_PLUGINS_CPU_RESIZE_AXIS_HPP
#define BACKPLANE_PLUGINS_CPU_RESIZE_AXIS_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backplane/ops/resizing.h"
#include "kernel_support.hpp"

namespace bp::cpu {

enum class ResizeMode { kNearest, kLinear, kCubic };

/// What all dimensions have in common.
struct ResizeRules {
  ResizeMode mode;
  std::string_view coordinates;  // static texts, compared when a plan is made and in slow loops
  std::string_view nearest_mode;
  double cubic_coeff_a;
  bool exclude_outside;
  bool antialias;
};

/// Throws Refusal for texts that a newer core may have.
ResizeRules read_rules(const bp_attrs_resize& attrs);

class ResizeAxis {
 public:
  int64_t in = 1;
  int64_t out = 1;
  double scale = 1;
  double begin = 0;  // the part of the axis that tf_crop_and_resize takes
  double end = 1;

  bool is_identity() const { return in == out && scale == 1 && begin == 0 && end == 1; }
  /// The place in the input, in elements, that an output takes its value of.
  double place(const ResizeRules& rules, int64_t o) const;
  bool is_outside(const ResizeRules& rules, double place) const;
  /// The one element for mode nearest.
  int64_t nearest(const ResizeRules& rules, double place) const;
  /// How many elements an output may mix.
  int64_t tap_count(const ResizeRules& rules) const;
  /// Calls take(index, weight) for at most tap_count() elements; none of the weights is 0.
  template <class Take>
  void for_each_tap(const ResizeRules& rules, double place, const Take& take) const;

 private:
  double shrink(const ResizeRules& rules) const { return rules.antialias && scale < 1 ? scale : 1; }
};

/// Of an element at this distance, in steps of the wider grid.
double resize_weight(const ResizeRules& rules, double distance);

template <class Take>
void ResizeAxis::for_each_tap(const ResizeRules& rules, double place, const Take& take) const {
  const double narrowing = shrink(rules);
  const double reach = (rules.mode == ResizeMode::kLinear ? 1 : 2) / narrowing;
  const auto first = static_cast<int64_t>(std::floor(place - reach)) + 1;
  const int64_t count = tap_count(rules);
  const auto weight = [&](int64_t i) {
    const bool outside = i < 0 || i >= in;
    if (outside && rules.exclude_outside) return 0.0;
    return resize_weight(rules, (static_cast<double>(i) - place) * narrowing);
  };
  double divisor = 1;
  if (rules.antialias || rules.exclude_outside) {
    divisor = 0;
    for (int64_t k = 0; k < count; ++k) divisor += weight(first + k);
    if (divisor == 0) divisor = 1;
  }
  for (int64_t k = 0; k < count; ++k) {
    const double value = weight(first + k);
    if (value != 0) take(std::clamp<int64_t>(first + k, 0, in - 1), value / divisor);
  }
}

}  // namespace bp::cpu

#endif
