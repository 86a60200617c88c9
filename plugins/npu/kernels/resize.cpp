// SPDX-License-Identifier: Apache-2.0
//
// resize. Along each axis an output mixes a few elements of x, its taps; an output of the whole is
// the sum over the products of taps, in double. Sizes, scales and the region are host arguments.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "backplane/ops/resizing.h"
#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

constexpr uint32_t kSizes = 1;
constexpr uint32_t kScales = 2;
constexpr uint32_t kRegion = 3;

enum class Mode { kNearest, kLinear, kCubic };
enum class Coordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCropAndResize
};
enum class Nearest { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct Axis {
  int64_t in = 1;
  int64_t out = 1;
  double scale = 1;
  double begin = 0;  // the part that kCropAndResize takes
  double end = 1;

  bool is_identity() const { return in == out && scale == 1 && begin == 0 && end == 1; }
};

struct Resize {
  Mode mode;
  Coordinates coordinates;
  Nearest nearest;
  double cubic_coeff_a;
  bool exclude_outside;
  bool antialias;
  double extrapolation_value;
  std::vector<Axis> axes;  // one per dimension of x
};

/// What one output takes of x along one axis: elements and their weights.
struct Taps {
  std::vector<std::pair<int64_t, double>> elements;
  bool is_outside = false;  // it takes the extrapolation value instead
};

/// Where in x, in elements, output `o` lies.
double place_of(const Resize& resize, const Axis& axis, double o) {
  const auto in = static_cast<double>(axis.in);
  const double length = axis.scale * in;  // may be no whole number
  const double centred = (o + 0.5) / axis.scale - 0.5;
  switch (resize.coordinates) {
    case Coordinates::kHalfPixel:
      break;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - static_cast<double>(axis.out) / length) + centred;
    case Coordinates::kPytorchHalfPixel:
      return axis.out > 1 ? centred : 0;
    case Coordinates::kAlignCorners:
      return length == 1 ? 0 : o * (in - 1) / (length - 1);
    case Coordinates::kAsymmetric:
      return o / axis.scale;
    case Coordinates::kCropAndResize: {
      const double part = (axis.end - axis.begin) * (in - 1);
      return (length == 1 ? part / 2 : o * part / (length - 1)) + axis.begin * (in - 1);
    }
  }
  return centred;
}

double nearest_to(Nearest nearest, double place) {
  const double below = std::floor(place);
  const double rest = place - below;
  switch (nearest) {
    case Nearest::kFloor:
      return below;
    case Nearest::kCeil:
      return std::ceil(place);
    case Nearest::kRoundPreferCeil:
      return rest < 0.5 ? below : below + 1;
    case Nearest::kRoundPreferFloor:
      break;
  }
  return rest <= 0.5 ? below : below + 1;
}

/// Of an element at this distance.
double weight_of(const Resize& resize, double distance) {
  const double x = std::fabs(distance);
  if (resize.mode == Mode::kLinear) return std::max(0.0, 1 - x);
  const double a = resize.cubic_coeff_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps mix_round(const Resize& resize, const Axis& axis, double place) {
  const auto last = static_cast<double>(axis.in - 1);
  const double shrink = resize.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = (resize.mode == Mode::kLinear ? 1 : 2) / shrink;
  Taps taps;
  double sum = 0;
  for (double at = std::floor(place - reach); at <= place + reach; ++at) {
    const double weight = weight_of(resize, (at - place) * shrink);
    const bool is_outside = at < 0 || at > last;
    if (weight == 0 || (is_outside && resize.exclude_outside)) continue;
    taps.elements.emplace_back(static_cast<int64_t>(std::clamp(at, 0.0, last)), weight);
    sum += weight;
  }
  if ((resize.antialias || resize.exclude_outside) && sum != 0) {
    for (auto& [element, weight] : taps.elements) weight /= sum;
  }
  return taps;
}

Taps taps_of(const Resize& resize, const Axis& axis, int64_t o) {
  if (axis.is_identity()) return {{{o, 1.0}}};
  const double place = place_of(resize, axis, static_cast<double>(o));
  const auto last = static_cast<double>(axis.in - 1);
  if (resize.coordinates == Coordinates::kCropAndResize && (place < 0 || place > last)) {
    return {{{0, 1.0}}, true};
  }
  if (resize.mode != Mode::kNearest) return mix_round(resize, axis, place);
  const double nearest = std::clamp(nearest_to(resize.nearest, place), 0.0, last);
  return {{{static_cast<int64_t>(nearest), 1.0}}};
}

template <class T>
T rounded(double value) {
  if constexpr (kIsFloat<T>) {
    return store_double<T>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return std::nearbyint(value) != 0;
  } else {
    using Limits = std::numeric_limits<T>;
    const double whole = std::nearbyint(value);
    if (std::isnan(whole)) return 0;
    if (whole <= static_cast<double>(Limits::min())) return Limits::min();
    return whole >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(whole);
  }
}

/// The taps of one output, axis by axis.
using Place = std::vector<const Taps*>;

template <class T>
double mixture(const Tensor& x, const Place& place, uint32_t axis, int64_t offset) {
  if (axis == x.rank) return static_cast<double>(load(x.as<T>()[offset]));
  double sum = 0;
  for (const auto& [element, weight] : place[axis]->elements) {
    sum += weight * mixture<T>(x, place, axis + 1, offset + element * x.strides[axis]);
  }
  return sum;
}

/// In mode nearest the element itself, whatever its type.
template <class T>
T value_at(const Resize& resize, const Tensor& x, const Place& place) {
  const auto is_outside = [](const Taps* taps) { return taps->is_outside; };
  if (std::any_of(place.begin(), place.end(), is_outside)) {
    return rounded<T>(resize.extrapolation_value);
  }
  if (resize.mode != Mode::kNearest) return rounded<T>(mixture<T>(x, place, 0, 0));
  int64_t offset = 0;
  for (uint32_t d = 0; d < x.rank; ++d) offset += place[d]->elements[0].first * x.strides[d];
  return x.as<T>()[offset];
}

void run(const Resize& resize, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  if (y.element_count() == 0) return;
  if (x.element_count() == 0) refuse("resize: an input without elements");
  std::vector<std::vector<Taps>> taps(x.rank);
  for (uint32_t d = 0; d < x.rank; ++d) {
    for (int64_t o = 0; o < y.sizes[d]; ++o) taps[d].push_back(taps_of(resize, resize.axes[d], o));
  }
  Elements::with_type(x.dtype, [&]<class T>(T) {
    Place place(x.rank);
    for (int64_t i = 0; i < y.element_count(); ++i) {
      int64_t rest = i;
      for (uint32_t d = x.rank; d-- > 0; rest /= y.sizes[d]) {
        place[d] = &taps[d][static_cast<size_t>(rest % y.sizes[d])];
      }
      y.as<T>()[i] = value_at<T>(resize, x, place);
    }
  });
}

/// The place of a text in a list of enumerators' names. Throws Failure where it has none.
template <class Enum, size_t N>
Enum enumerator(std::string_view attribute, bp_str text, const std::string_view (&names)[N]) {
  const auto* const found = std::find(std::begin(names), std::end(names), sdk::view(text));
  if (found == std::end(names)) refuse("resize: ", attribute, " '", sdk::view(text), "'");
  return static_cast<Enum>(found - std::begin(names));
}

Resize read_rules(const bp_attrs_resize& attributes) {
  return {
      .mode = enumerator<Mode>("mode", attributes.mode, {"nearest", "linear", "cubic"}),
      .coordinates =
          enumerator<Coordinates>("coordinates", attributes.coordinates,
                                  {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                   "align_corners", "asymmetric", "tf_crop_and_resize"}),
      .nearest = enumerator<Nearest>("nearest_mode", attributes.nearest_mode,
                                     {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
      .cubic_coeff_a = attributes.cubic_coeff_a,
      .exclude_outside = attributes.exclude_outside != 0,
      .antialias = attributes.antialias != 0,
      .extrapolation_value = attributes.extrapolation_value,
      .axes = {}};
}

/// The dimensions that sizes, scales and region speak of, in their order.
std::vector<uint32_t> resized_axes(const bp_attrs_resize& attributes, uint32_t rank) {
  std::vector<uint32_t> dims;
  for (const int64_t axis : std::span(attributes.axes.ptr, attributes.axes.count)) {
    dims.push_back(axis_from_front(axis, rank));
  }
  for (uint32_t d = 0; attributes.axes.count == 0 && d < rank; ++d) dims.push_back(d);
  return dims;
}

/// The values of a host argument of `count` elements.
template <class T>
std::span<const T> host_values(const bp_launch_args& args, uint32_t input, size_t count) {
  const bp_tensor& tensor = args.tensors[input];
  if (tensor.dtype != dtype_of<T>() || tensor.rank != 1 ||
      tensor.sizes[0] != static_cast<int64_t>(count)) {
    refuse("resize: input ", input, " is no list of ", count, " values of dtype ", dtype_of<T>());
  }
  return {reinterpret_cast<const T*>(tensor.handle + tensor.offset_bytes), count};
}

/// One scale for all axes, if the policy says so; else those that the sizes ask for.
void scale_by_sizes(const bp_attrs_resize& attributes, const std::vector<uint32_t>& dims,
                    std::span<const int64_t> sizes, std::vector<Axis>* axes) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis& axis = (*axes)[dims[i]];
    axis.scale = static_cast<double>(sizes[i]) / static_cast<double>(axis.in);
    least = std::min(least, axis.scale);
    most = std::max(most, axis.scale);
  }
  const std::string_view policy = sdk::view(attributes.keep_aspect_ratio_policy);
  if (policy == "stretch") return;
  for (const uint32_t dim : dims) (*axes)[dim].scale = policy == "not_larger" ? least : most;
}

KernelBody prepare(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_resize_defaults());
  const bp_tensor& x = args.tensors[0];
  const bp_tensor& y = args.tensors[args.input_count];
  const auto has_input = [&](uint32_t index) {
    return index < args.input_count && args.tensors[index].dtype != BP_DTYPE_NONE;
  };
  if (x.rank != y.rank) refuse("resize: an output of rank ", y.rank, " for an input of ", x.rank);
  Resize resize = read_rules(attributes);
  for (uint32_t d = 0; d < x.rank; ++d) resize.axes.push_back({x.sizes[d], y.sizes[d]});
  const std::vector<uint32_t> dims = resized_axes(attributes, x.rank);
  if (has_input(kSizes)) {
    scale_by_sizes(attributes, dims, host_values<int64_t>(args, kSizes, dims.size()), &resize.axes);
  } else if (has_input(kScales)) {
    const auto scales = host_values<float>(args, kScales, dims.size());
    for (size_t i = 0; i < dims.size(); ++i) resize.axes[dims[i]].scale = double{scales[i]};
  } else {
    refuse("resize: neither sizes nor scales");
  }
  if (resize.coordinates == Coordinates::kCropAndResize) {
    if (!has_input(kRegion)) refuse("resize: no region");
    const auto region = host_values<float>(args, kRegion, 2 * dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      resize.axes[dims[i]].begin = double{region[i]};
      resize.axes[dims[i]].end = double{region[dims.size() + i]};
    }
  }
  return [resize = std::move(resize)](const Launch& launch) { run(resize, launch); };
}

constexpr const bp_arg_rule* kRules[] = {&sdk::kAnyStridesRule, &kHostAtLaunchRule};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "resize_any",
                                                 .op = "resize",
                                                 .dtypes = Elements::kDtypes,
                                                 .arg_rules = kRules,
                                                 .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(resize, kKernels);

}  // namespace bp::npu
