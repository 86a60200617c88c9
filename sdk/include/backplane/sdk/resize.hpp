// SPDX-License-Identifier: Apache-2.0
//
// resize, for plans: which elements of x each output takes along one dimension, with what weights.
// Worked out in double on the host, so that a kernel only adds up. For some plugins, hence apart
// from sdk.hpp.
#ifndef BACKPLANE_SDK_RESIZE_HPP
#define BACKPLANE_SDK_RESIZE_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/ops/resizing.h"
#include "backplane/sdk/sdk.hpp"

namespace bp::sdk {

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
ResizeRules read_resize_rules(const bp_attrs_resize& attrs);

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

/// The same text with static lifetime.
template <size_t N>
std::string_view known_text(bp_str text, const std::array<std::string_view, N>& known) {
  const std::string_view given(text.ptr, text.len);
  for (const std::string_view name : known) {
    if (name == given) return name;
  }
  throw Refusal{"an attribute's text that is not known"};
}

inline ResizeRules read_resize_rules(const bp_attrs_resize& attrs) {
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

inline double ResizeAxis::place(const ResizeRules& rules, int64_t o) const {
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

inline bool ResizeAxis::is_outside(const ResizeRules& rules, double place) const {
  return rules.coordinates == "tf_crop_and_resize" && !is_identity() &&
         (place < 0 || place > static_cast<double>(in - 1));
}

inline int64_t ResizeAxis::nearest(const ResizeRules& rules, double place) const {
  double index = std::floor(place);
  const double rest = place - index;
  const bool up = rules.nearest_mode == "ceil"                ? rest > 0
                  : rules.nearest_mode == "round_prefer_ceil" ? rest >= 0.5
                                                              : rest > 0.5;
  if (up && rules.nearest_mode != "floor") index += 1;
  return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(in - 1)));
}

inline int64_t ResizeAxis::tap_count(const ResizeRules& rules) const {
  if (is_identity() || rules.mode == ResizeMode::kNearest) return 1;
  const double reach = (rules.mode == ResizeMode::kLinear ? 1 : 2) / shrink(rules);
  return 2 * static_cast<int64_t>(std::ceil(reach)) + (shrink(rules) < 1 ? 1 : 0);
}

inline double resize_weight(const ResizeRules& rules, double distance) {
  const double x = std::fabs(distance);
  if (rules.mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  const double a = rules.cubic_coeff_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The elements of x that the outputs of one dimension take: `taps` entries for each.
struct ResizeTable {
  int64_t taps = 1;
  std::vector<int32_t> index;
  std::vector<double> weight;
  std::vector<uint8_t> outside;  // 1: that output is the extrapolation value; empty: none is
};

/// Throws Refusal where the axis has 2^31 elements or more, or the table some millions of entries.
inline ResizeTable make_resize_table(const ResizeRules& rules, const ResizeAxis& axis) {
  constexpr int64_t kMostEntries = int64_t{1} << 22;
  if (saturating_product({axis.out, axis.tap_count(rules)}) > kMostEntries ||
      axis.in > std::numeric_limits<int32_t>::max()) {
    throw Refusal{"a table of places that is too large"};
  }
  ResizeTable table;
  table.taps = axis.tap_count(rules);
  for (int64_t o = 0; o < axis.out; ++o) {
    const size_t start = table.index.size();
    const auto put = [&](int64_t index, double weight) {
      table.index.push_back(static_cast<int32_t>(index));
      table.weight.push_back(weight);
    };
    if (axis.is_identity()) {
      put(o, 1);
      continue;
    }
    const double place = axis.place(rules, o);
    if (axis.is_outside(rules, place)) {
      table.outside.resize(static_cast<size_t>(axis.out));
      table.outside[static_cast<size_t>(o)] = 1;
      put(0, 1);
    } else if (rules.mode == ResizeMode::kNearest) {
      put(axis.nearest(rules, place), 1);
    } else {
      axis.for_each_tap(rules, place, put);
      if (table.index.size() == start) put(0, 0);
    }
    // An entry of weight 0 would make NaN of an infinity, so an entry is halved instead.
    while (table.index.size() < start + static_cast<size_t>(table.taps)) {
      const size_t from = start + (table.index.size() - start) / 2;
      table.weight[from] /= 2;
      put(table.index[from], table.weight[from]);
    }
  }
  return table;
}

/// The dimensions that sizes, scales and roi speak of.
inline std::vector<size_t> resized_axes(const bp_attrs_resize& attrs, size_t rank) {
  std::vector<size_t> dims;
  for (const int64_t axis : std::span(attrs.axes.ptr, attrs.axes.count)) {
    const int64_t from_front = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
    if (from_front < 0 || std::cmp_greater_equal(from_front, rank)) {
      refuse("resize: axis ", axis, " of rank ", rank);
    }
    dims.push_back(static_cast<size_t>(from_front));
  }
  for (size_t i = 0; dims.size() < rank && attrs.axes.count == 0; ++i) dims.push_back(i);
  return dims;
}

/// A host argument of `count` values. Throws Failure if it is anything else.
template <class T>
std::span<const T> host_list(const bp_kernel_query& query, uint32_t index, size_t count) {
  const bp_arg_info& info = arg_info(query, index);
  if (info.host_data == nullptr || info.rank != 1 || !std::cmp_equal(info.sizes[0], count)) {
    refuse("resize: input ", index, " is no list of ", count, " values on the host");
  }
  const void* const values = info.host_data;
  return {static_cast<const T*>(values), count};
}

/// One scale for all axes, if the policy says so; else those that the sizes ask for.
inline void scale_by_sizes(const bp_attrs_resize& attrs, const std::vector<size_t>& dims,
                           std::span<const int64_t> sizes, std::vector<ResizeAxis>* axes) {
  const std::string_view policy(attrs.keep_aspect_ratio_policy.ptr,
                                attrs.keep_aspect_ratio_policy.len);
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    ResizeAxis& axis = (*axes)[dims[i]];
    axis.scale = static_cast<double>(sizes[i]) / static_cast<double>(axis.in);
    least = std::min(least, axis.scale);
    most = std::max(most, axis.scale);
  }
  if (policy == "stretch") return;
  for (const size_t dim : dims) (*axes)[dim].scale = policy == "not_larger" ? least : most;
}

/// Of a plan whose inputs sizes, scales and roi are on the host, each dimension of x.
inline std::vector<ResizeAxis> read_resize_axes(const bp_kernel_query& query,
                                                const bp_attrs_resize& attrs) {
  constexpr uint32_t kSizes = 1;
  constexpr uint32_t kScales = 2;
  constexpr uint32_t kRoi = 3;
  const bp_arg_info& x = arg_info(query, 0);
  const bp_arg_info& y = output_info(query);
  if (x.rank != y.rank) refuse("resize: an output of rank ", y.rank, " of an input of ", x.rank);
  std::vector<ResizeAxis> axes(x.rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i].in = x.sizes[i];
    axes[i].out = y.sizes[i];
  }
  const std::vector<size_t> dims = resized_axes(attrs, axes.size());
  if (has_input(query, kSizes)) {
    scale_by_sizes(attrs, dims, host_list<int64_t>(query, kSizes, dims.size()), &axes);
  } else {
    const auto scales = host_list<float>(query, kScales, dims.size());
    for (size_t i = 0; i < dims.size(); ++i) axes[dims[i]].scale = double{scales[i]};
  }
  const std::string_view coordinates(attrs.coordinates.ptr, attrs.coordinates.len);
  if (coordinates == "tf_crop_and_resize") {
    const auto roi = host_list<float>(query, kRoi, 2 * dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      axes[dims[i]].begin = double{roi[i]};
      axes[dims[i]].end = double{roi[dims.size() + i]};
    }
  }
  return axes;
}

}  // namespace bp::sdk

#endif
