// SPDX-License-Identifier: Apache-2.0
//
// resize of the oracle: each output from the weighted elements round its place in x, in double.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "backplane/ops/resizing.h"
#include "ops/oracle/evaluators.hpp"
#include "ops/resizing/axes.hpp"

namespace bp::ops {
namespace {

/// Where one output lies along one axis: elements of x with their weights. None: outside of x.
struct Places {
  std::vector<std::pair<int64_t, double>> taps;
  bool outside = false;
};

double place_of(const Resizing& resizing, const ResizeAxis& axis, double o) {
  const auto in = static_cast<double>(axis.in);
  const double length = axis.scale * in;  // may be no whole number
  switch (resizing.coordinates) {
    case Coordinates::kHalfPixel:
      return (o + 0.5) / axis.scale - 0.5;
    case Coordinates::kHalfPixelSymmetric: {
      const double adjustment = static_cast<double>(axis.out) / length;
      return in / 2 * (1 - adjustment) + (o + 0.5) / axis.scale - 0.5;
    }
    case Coordinates::kPytorchHalfPixel:
      return axis.out > 1 ? (o + 0.5) / axis.scale - 0.5 : 0;
    case Coordinates::kAlignCorners:
      return length == 1 ? 0 : o * (in - 1) / (length - 1);
    case Coordinates::kAsymmetric:
      return o / axis.scale;
    case Coordinates::kCropAndResize:
      break;
  }
  const double part = axis.end - axis.begin;
  const double within = length == 1 ? part * (in - 1) / 2 : o * part * (in - 1) / (length - 1);
  return within + axis.begin * (in - 1);
}

double nearest_of(NearestMode mode, double place) {
  const double below = std::floor(place);
  const double rest = place - below;
  switch (mode) {
    case NearestMode::kFloor:
      return below;
    case NearestMode::kCeil:
      return std::ceil(place);
    case NearestMode::kRoundPreferCeil:
      return rest < 0.5 ? below : below + 1;
    case NearestMode::kRoundPreferFloor:
      break;
  }
  return rest <= 0.5 ? below : below + 1;
}

/// Of an element at this distance.
double weight_of(ResizeMode mode, double distance, double a) {
  const double x = std::fabs(distance);
  if (mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

Places places_of(const Resizing& resizing, const bp_attrs_resize& attributes,
                 const ResizeAxis& axis, int64_t o) {
  Places places;
  if (axis.in == axis.out && axis.scale == 1 && axis.begin == 0 && axis.end == 1) {
    places.taps = {{o, 1}};
    return places;
  }
  const double place = place_of(resizing, axis, static_cast<double>(o));
  const auto last = static_cast<double>(axis.in - 1);
  if (resizing.coordinates == Coordinates::kCropAndResize && (place < 0 || place > last)) {
    places.outside = true;
    return places;
  }
  const auto element = [&](double index) {
    return static_cast<int64_t>(std::clamp(index, 0.0, last));
  };
  if (resizing.mode == ResizeMode::kNearest) {
    places.taps = {{element(nearest_of(resizing.nearest, place)), 1}};
    return places;
  }
  const double shrink = attributes.antialias != 0 ? std::min(axis.scale, 1.0) : 1;
  const double reach = (resizing.mode == ResizeMode::kLinear ? 1 : 2) / shrink;
  double sum = 0;
  for (double index = std::floor(place - reach); index <= place + reach; ++index) {
    const double weight =
        weight_of(resizing.mode, (index - place) * shrink, attributes.cubic_coeff_a);
    const bool outside = index < 0 || index > last;
    if (weight == 0 || (outside && attributes.exclude_outside != 0)) continue;
    places.taps.emplace_back(element(index), weight);
    sum += weight;
  }
  const bool normal = attributes.antialias != 0 || attributes.exclude_outside != 0;
  for (auto& tap : places.taps) tap.second /= normal && sum != 0 ? sum : 1;
  return places;
}

/// The weighted sum over all axes from `axis` on.
double mixture(const std::vector<double>& x, const std::vector<const Places*>& at,
               const Dims& x_sizes, size_t axis, int64_t index) {
  if (axis == at.size()) return x[static_cast<size_t>(index)];
  double sum = 0;
  for (const auto& [place, weight] : at[axis]->taps) {
    sum += weight * mixture(x, at, x_sizes, axis + 1, index * x_sizes[axis] + place);
  }
  return sum;
}

Resizing accepted_resize(const OracleCall& call) {
  auto resizing = resolve_resize(CallContext(call.inputs, call.attributes).get());
  assert(resizing.ok());
  return std::move(resizing).value();
}

void put_rounded(OracleTensor& y, int64_t index, double value) {
  if (is_float_dtype(y.dtype)) {
    put(y, index, value);
  } else {
    store_integer_from_float(y.dtype, y.bytes.data(), index, std::nearbyint(value));
  }
}

}  // namespace

void evaluate_resize(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_resize>(call.attributes);
  const Resizing resizing = accepted_resize(call);
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  std::vector<std::vector<Places>> places(resizing.axes.size());
  for (size_t i = 0; i < places.size(); ++i) {
    for (int64_t o = 0; o < y.sizes[i] && y.count() > 0; ++o) {
      places[i].push_back(places_of(resizing, attributes, resizing.axes[i], o));
    }
  }
  const bool moves = resizing.mode == ResizeMode::kNearest;
  const auto values = moves && !is_float_dtype(x.dtype) ? std::vector<double>() : x.to_f64();
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    std::vector<const Places*> here;
    Dims from;
    bool outside = false;
    for (size_t i = 0; i < places.size(); ++i) {
      here.push_back(&places[i][static_cast<size_t>(at.at()[i])]);
      outside = outside || here.back()->outside;
      if (moves) from.push_back(outside ? 0 : here.back()->taps[0].first);
    }
    if (outside) {
      put_rounded(y, index, attributes.extrapolation_value);
    } else if (moves) {
      copy_element(x, broadcast_index(x.sizes, from), &y, index);
    } else {
      put_rounded(y, index, mixture(values, here, x.sizes, 0, 0));
    }
  }
}

}  // namespace bp::ops
