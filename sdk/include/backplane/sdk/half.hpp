// SPDX-License-Identifier: Apache-2.0
//
// The two 16-bit float formats in plain integer code: compilers and processors disagree on which of
// them they know. Widening is exact; narrowing rounds to nearest even and overflows to infinity.
#ifndef BACKPLANE_SDK_HALF_HPP
#define BACKPLANE_SDK_HALF_HPP

#include <bit>
#include <cmath>
#include <cstdint>

namespace bp::sdk {

/// IEEE binary16: 5 bits of exponent, 10 of fraction.
struct F16 {
  uint16_t bits;
};

/// The upper half of an f32.
struct Bf16 {
  uint16_t bits;
};

inline float widen(F16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude >= 0x0400) {
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  }
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

inline float widen(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

inline F16 narrow_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};   // NaN
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // from 65520
  if (magnitude < 0x38800000u) {
    // Below 2^-14. In [0.5, 1) the last place of an f32 is 2^-24, the smallest f16, so that the
    // addition itself rounds to the subnormal.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
}

inline Bf16 narrow_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40u)};  // a NaN stays one
  }
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// f64 to f32, so that a second rounding to a format with fewer bits gives what one rounding would:
/// an inexact result gets an odd last bit.
inline float narrow_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  return std::bit_cast<float>(std::fabs(back) > std::fabs(value) ? bits - 1 : bits + 1);
}

}  // namespace bp::sdk

#endif
