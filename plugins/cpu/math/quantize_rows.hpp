// SPDX-License-Identifier: Apache-2.0
//
// Quantization of rows of f32 with one scale and one zero point, and the arithmetic of any row.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_QUANTIZE_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_QUANTIZE_ROWS_HPP

#include <cstdint>
#include <limits>
#include <type_traits>

namespace bp::cpu {

/// x / scale, rounded to nearest even, plus zero; saturates, and NaN is 0. Whole numbers of 16 bits
/// at most, and zero points within them: what is further away saturates.
template <class Q, class C>
inline Q quantized(C x, C scale, C zero) {
  constexpr C kFar = 1 << 20;
  // Adding a number whose last digit is 1 rounds to nearest even.
  constexpr C kUnit = std::is_same_v<C, float> ? C(0x1.8p23) : C(0x1.8p52);
  constexpr C kLeast = std::numeric_limits<Q>::min();
  constexpr C kMost = std::numeric_limits<Q>::max();
  const C quotient = x / scale;
  const C near = quotient < -kFar ? -kFar : quotient > kFar ? kFar : quotient;
  const C sum = ((near + kUnit) - kUnit) + zero;
  const C number = sum == sum ? sum : C{0};
  const C limited = number < kLeast ? kLeast : number > kMost ? kMost : number;
  return static_cast<Q>(static_cast<int32_t>(limited));
}

using QuantizeRow = void (*)(const float* x, float scale, float zero, int64_t count, void* y);

/// to: i8, u8, i16 or u16.
QuantizeRow quantize_row_of(uint32_t to);

}  // namespace bp::cpu

#endif
