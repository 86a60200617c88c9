// SPDX-License-Identifier: Apache-2.0
//
// The words of emitted code (ops/expr/emit.hpp) for V = one number: what bp-exprgen writes calls
// these and nothing else, so that other widths of V need only their own overloads. Integers wrap in
// their own width; a mask is a bool.
#ifndef BACKPLANE_PLUGINS_CPU_VOCABULARY_HPP
#define BACKPLANE_PLUGINS_CPU_VOCABULARY_HPP

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bp::cpu {

template <class V>
inline constexpr bool kIsFloat = std::is_floating_point_v<V>;

/// An unsigned type in which the integer can be computed without overflow: those narrower than int
/// would be promoted to it.
template <class V>
using Modular = std::conditional_t<(sizeof(V) > 4), uint64_t, uint32_t>;
template <class V>
constexpr Modular<V> modular(V value) {
  return static_cast<Modular<V>>(value);
}

// ---- constants ----

template <class V, class Number>
constexpr V vset(Number value) {
  return static_cast<V>(value);
}
template <class V>
constexpr V vtrue() {
  return true;
}
template <class V>
constexpr V vfalse() {
  return false;
}
template <class V>
constexpr V vpi() {
  return static_cast<V>(3.14159265358979323846);
}
template <class V>
constexpr V vnan() {
  return std::numeric_limits<V>::quiet_NaN();
}
template <class V>
constexpr V vinf() {
  return std::numeric_limits<V>::infinity();
}
template <class V>
constexpr V vlowest() {
  if constexpr (kIsFloat<V>) return -vinf<V>();
  return std::numeric_limits<V>::lowest();
}
template <class V>
constexpr V vhighest() {
  if constexpr (kIsFloat<V>) return vinf<V>();
  return std::numeric_limits<V>::max();
}
template <class V>
constexpr V vbits() {
  return static_cast<V>(sizeof(V) * 8);
}

// ---- numbers ----

template <class V>
V vadd(V a, V b) {
  if constexpr (kIsFloat<V>) return a + b;
  return static_cast<V>(modular(a) + modular(b));
}
template <class V>
V vsub(V a, V b) {
  if constexpr (kIsFloat<V>) return a - b;
  return static_cast<V>(modular(a) - modular(b));
}
template <class V>
V vmul(V a, V b) {
  if constexpr (kIsFloat<V>) return a * b;
  return static_cast<V>(modular(a) * modular(b));
}
template <class V>
V vneg(V a) {
  if constexpr (kIsFloat<V>) return -a;
  return static_cast<V>(Modular<V>{0} - modular(a));
}
/// By zero: 0. The smallest integer by -1 wraps.
template <class V>
V vdiv(V a, V b) {
  if constexpr (kIsFloat<V>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<V>) {
      if (b == -1) return vneg(a);
    }
    return static_cast<V>(a / b);
  }
}
template <class V>
V vfmod(V a, V b) {
  if constexpr (kIsFloat<V>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<V>) {
      if (b == -1) return 0;
    }
    return static_cast<V>(a % b);
  }
}
/// NaN wins.
template <class V>
V vmax(V a, V b) {
  return (a > b || a != a) ? a : b;
}
template <class V>
V vmin(V a, V b) {
  return (a < b || a != a) ? a : b;
}
template <class V>
V vabs(V a) {
  if constexpr (kIsFloat<V>) return std::fabs(a);
  return a < 0 ? vneg(a) : a;
}
/// NaN stays.
template <class V>
V vsign(V a) {
  if constexpr (kIsFloat<V>) {
    return a > 0 ? V{1} : a < 0 ? V{-1} : a != a ? a : V{0};
  } else {
    return static_cast<V>((a > 0 ? 1 : 0) - (a < 0 ? 1 : 0));
  }
}
/// Of integers by squaring; by a negative number the truncated quotient 1 / a^n.
template <class V>
V vpow(V a, V n) {
  if constexpr (kIsFloat<V>) {
    return std::pow(a, n);
  } else {
    if constexpr (std::is_signed_v<V>) {
      if (n < 0 && a != 1 && a != -1) return 0;
      if (n < 0) return (n & 1) != 0 ? a : V{1};
    }
    V result = 1;
    for (; n != 0; n = static_cast<V>(n >> 1)) {
      if ((n & 1) != 0) result = vmul(result, a);
      a = vmul(a, a);
    }
    return result;
  }
}

// ---- floats ----

template <class V>
V vfloor(V a) {
  return std::floor(a);
}
template <class V>
V vceil(V a) {
  return std::ceil(a);
}
template <class V>
V vtrunc(V a) {
  return std::trunc(a);
}
template <class V>
V vround_even(V a) {
  return std::nearbyint(a);
}
template <class V>
V vsqrt(V a) {
  return std::sqrt(a);
}
template <class V>
V vrsqrt(V a) {
  return V{1} / std::sqrt(a);
}
template <class V>
V vexp(V a) {
  return std::exp(a);
}
template <class V>
V vexpm1(V a) {
  return std::expm1(a);
}
template <class V>
V vlog(V a) {
  return std::log(a);
}
template <class V>
V vlog1p(V a) {
  return std::log1p(a);
}
template <class V>
V vlog2(V a) {
  return std::log2(a);
}
template <class V>
V vlog10(V a) {
  return std::log10(a);
}
template <class V>
V vsin(V a) {
  return std::sin(a);
}
template <class V>
V vcos(V a) {
  return std::cos(a);
}
template <class V>
V vtan(V a) {
  return std::tan(a);
}
template <class V>
V vasin(V a) {
  return std::asin(a);
}
template <class V>
V vacos(V a) {
  return std::acos(a);
}
template <class V>
V vatan(V a) {
  return std::atan(a);
}
template <class V>
V vsinh(V a) {
  return std::sinh(a);
}
template <class V>
V vcosh(V a) {
  return std::cosh(a);
}
template <class V>
V vtanh(V a) {
  return std::tanh(a);
}
template <class V>
V vasinh(V a) {
  return std::asinh(a);
}
template <class V>
V vacosh(V a) {
  return std::acosh(a);
}
template <class V>
V vatanh(V a) {
  return std::atanh(a);
}
template <class V>
V verf(V a) {
  return std::erf(a);
}
template <class V>
V vatan2(V a, V b) {
  return std::atan2(a, b);
}
template <class V>
V vhypot(V a, V b) {
  return std::hypot(a, b);
}
template <class V>
V vcopysign(V a, V b) {
  return std::copysign(a, b);
}
template <class V>
V vnextafter(V a, V b) {
  return std::nextafter(a, b);
}
template <class V>
V vfma(V a, V b, V c) {
  return std::fma(a, b, c);
}

// ---- questions ----

template <class V>
bool vis_nan(V a) {
  return a != a;
}
template <class V>
bool vis_inf(V a) {
  return std::fabs(a) == vinf<V>();
}
template <class V>
bool vis_finite(V a) {
  return std::fabs(a) < vinf<V>();
}
template <class V>
bool veq(V a, V b) {
  return a == b;
}
template <class V>
bool vne(V a, V b) {
  return a != b;
}
template <class V>
bool vlt(V a, V b) {
  return a < b;
}
template <class V>
bool vle(V a, V b) {
  return a <= b;
}
template <class V>
bool vgt(V a, V b) {
  return a > b;
}
template <class V>
bool vge(V a, V b) {
  return a >= b;
}

// ---- bools and integers ----

// Both sides are computed: a jump would keep the loop from being vector code.
inline bool vand(bool a, bool b) { return (static_cast<int>(a) & static_cast<int>(b)) != 0; }
inline bool vor(bool a, bool b) { return (static_cast<int>(a) | static_cast<int>(b)) != 0; }
inline bool vnot(bool a) { return !a; }
template <class V>
V vbit_and(V a, V b) {
  return static_cast<V>(a & b);
}
template <class V>
V vbit_or(V a, V b) {
  return static_cast<V>(a | b);
}
template <class V>
V vbit_xor(V a, V b) {
  return static_cast<V>(a ^ b);
}
template <class V>
V vbit_not(V a) {
  return static_cast<V>(~a);
}
/// Amounts from the width on, and negative ones, leave nothing but the sign.
template <class V>
V vshl(V a, V amount) {
  const auto by = modular(amount);
  return by < sizeof(V) * 8 ? static_cast<V>(modular(a) << by) : V{0};
}
template <class V>
V vshr(V a, V amount) {
  const auto by = modular(amount);
  if (by < sizeof(V) * 8) return static_cast<V>(a >> by);
  return a < 0 ? static_cast<V>(-1) : V{0};
}
/// Floats to integers: toward zero, the nearest value where it is out of range, NaN to 0.
template <class To, class V>
To vcast(V value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (kIsFloat<V> && !kIsFloat<To>) {
    using Limits = std::numeric_limits<To>;
    // Both ends are powers of two, or 0: exact. One above the largest integer is one too.
    if (value != value) return 0;
    if (value < static_cast<V>(Limits::min())) return Limits::min();
    if (value >= std::ldexp(V{1}, Limits::digits)) return Limits::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}
template <class V>
V vselect(bool condition, V a, V b) {
  return condition ? a : b;
}

}  // namespace bp::cpu

#endif
