// SPDX-License-Identifier: Apache-2.0
//
// Places, neighbours and weights along one dimension. See resize_axis.hpp.
#include "resize_axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace bp::cpu {
namespace {

// The same text with static lifetime.
template <size_t N>
std::string_view known_text(bp_str text, const std::array<std::string_view, N>& known) {
  const std::string_view given(text.ptr, text.len);
  for (const std::string_view name : known) {
    if (name == given) return name;
  }
  throw Refusal{"an attribute's text that is not known"};
}

}  // namespace

ResizeRules read_rules(const bp_attrs_resize& attrs) {
  using namespace std::literals;
  const std::string_view mode =
      known_text(attrs.mode, std::array{"nearest"sv, "linear"sv, "cubic"sv});
  return {.mode = mode == "nearest"  ? ResizeMode::kNearest
                  : mode == "linear" ? ResizeMode::kLinear
                                     : ResizeMode::kCubic,
          .coordinates =
              known_text(attrs.coordinates, std::array{"half_pixel"sv, "half_pixel_symmetric"sv,
                                                       "pytorch_half_pixel"sv, "align_corners"sv,
                                                       "asymmetric"sv, "tf_crop_and_resize"sv}),
          .nearest_mode = known_text(
              attrs.nearest_mode,
              std::array{"round_prefer_floor"sv, "round_prefer_ceil"sv, "floor"sv, "ceil"sv}),
          .cubic_coeff_a = attrs.cubic_coeff_a,
          .exclude_outside = attrs.exclude_outside != 0,
          .antialias = attrs.antialias != 0};
}

double ResizeAxis::place(const ResizeRules& rules, int64_t o) const {
  const auto at = static_cast<double>(o);
  const auto in_size = static_cast<double>(in);
  const double length = scale * in_size;  // may be no whole number
  if (rules.coordinates == "asymmetric") return at / scale;
  if (rules.coordinates == "align_corners") {
    return length == 1 ? 0 : at * (in_size - 1) / (length - 1);
  }
  if (rules.coordinates == "tf_crop_and_resize") {
    const double part = (end - begin) * (in_size - 1);
    return (length == 1 ? part / 2 : at * part / (length - 1)) + begin * (in_size - 1);
  }
  if (rules.coordinates == "pytorch_half_pixel" && out <= 1) return 0;
  const double centred = (at + 0.5) / scale - 0.5;
  if (rules.coordinates != "half_pixel_symmetric") return centred;
  return in_size / 2 * (1 - static_cast<double>(out) / length) + centred;
}

bool ResizeAxis::is_outside(const ResizeRules& rules, double place) const {
  return rules.coordinates == "tf_crop_and_resize" && !is_identity() &&
         (place < 0 || place > static_cast<double>(in - 1));
}

int64_t ResizeAxis::nearest(const ResizeRules& rules, double place) const {
  double index = std::floor(place);
  const double rest = place - index;
  const bool up = rules.nearest_mode == "ceil"                ? rest > 0
                  : rules.nearest_mode == "round_prefer_ceil" ? rest >= 0.5
                                                              : rest > 0.5;
  if (up && rules.nearest_mode != "floor") index += 1;
  return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(in - 1)));
}

int64_t ResizeAxis::tap_count(const ResizeRules& rules) const {
  if (is_identity() || rules.mode == ResizeMode::kNearest) return 1;
  const double reach = (rules.mode == ResizeMode::kLinear ? 1 : 2) / shrink(rules);
  return 2 * static_cast<int64_t>(std::ceil(reach)) + (shrink(rules) < 1 ? 1 : 0);
}

double resize_weight(const ResizeRules& rules, double distance) {
  const double x = std::fabs(distance);
  if (rules.mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  const double a = rules.cubic_coeff_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace bp::cpu
