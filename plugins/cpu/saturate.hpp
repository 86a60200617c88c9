// SPDX-License-Identifier: Apache-2.0
//
// Numbers that a whole number cannot be.
#ifndef BACKPLANE_PLUGINS_CPU_SATURATE_HPP
#define BACKPLANE_PLUGINS_CPU_SATURATE_HPP

#include <cmath>
#include <limits>

namespace bp::cpu {

/// f64 to a whole number: toward zero, the nearest representable value where it is out of range,
/// NaN to 0.
template <class T>
T saturate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  // -2^63, 0 and the like are exact in f64; one above the largest value is a power of two.
  constexpr double kBelow = static_cast<double>(Limits::min());
  const double above = std::ldexp(1.0, Limits::digits);
  if (value < kBelow) return Limits::min();
  if (value >= above) return Limits::max();
  return static_cast<T>(value);
}

}  // namespace bp::cpu

#endif
