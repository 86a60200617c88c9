// SPDX-License-Identifier: Apache-2.0
//
// The dtypes of cases, and what their bits are worth: written down here once more, so that the
// oracle shares nothing with what it judges.
#ifndef BACKPLANE_TESTS_CCL_FORMATS_HPP
#define BACKPLANE_TESTS_CCL_FORMATS_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "backplane/types.h"

namespace bp::ccl::cases {

enum class Class : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex, kScale };

struct Format {
  uint32_t dtype;
  std::string_view name;
  Class of;
  uint32_t bytes;          // of an element; a complex one has two parts
  uint32_t exponent_bits;  // of floating point: of a part
  uint32_t mantissa_bits;
  int bias;
  bool has_infinity;
  bool has_negative_zero;  // without one its bits are the only NaN

  uint32_t part_bytes() const { return of == Class::kComplex ? bytes / 2 : bytes; }
  bool is_floating() const { return of == Class::kFloat || of == Class::kComplex; }
  /// The largest error of one rounding, relative to the result.
  long double unit_roundoff() const {
    return std::ldexp(1.0L, -static_cast<int>(mantissa_bits) - 1);
  }
  /// ... and where results are below the normal numbers: half the smallest step.
  long double least_error() const {
    return std::ldexp(1.0L, -bias - static_cast<int>(mantissa_bits));
  }
};

inline const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {BP_DTYPE_F32, "f32", Class::kFloat, 4, 8, 23, 127, true, true},
      {BP_DTYPE_F64, "f64", Class::kFloat, 8, 11, 52, 1023, true, true},
      {BP_DTYPE_F16, "f16", Class::kFloat, 2, 5, 10, 15, true, true},
      {BP_DTYPE_BF16, "bf16", Class::kFloat, 2, 8, 7, 127, true, true},
      {BP_DTYPE_F8E4M3FN, "f8e4m3fn", Class::kFloat, 1, 4, 3, 7, false, true},
      {BP_DTYPE_F8E5M2, "f8e5m2", Class::kFloat, 1, 5, 2, 15, true, true},
      {BP_DTYPE_F8E4M3FNUZ, "f8e4m3fnuz", Class::kFloat, 1, 4, 3, 8, false, false},
      {BP_DTYPE_F8E5M2FNUZ, "f8e5m2fnuz", Class::kFloat, 1, 5, 2, 16, false, false},
      {BP_DTYPE_C64, "c64", Class::kComplex, 8, 8, 23, 127, true, true},
      {BP_DTYPE_C128, "c128", Class::kComplex, 16, 11, 52, 1023, true, true},
      {BP_DTYPE_I8, "i8", Class::kSigned, 1, 0, 0, 0, false, false},
      {BP_DTYPE_I16, "i16", Class::kSigned, 2, 0, 0, 0, false, false},
      {BP_DTYPE_I32, "i32", Class::kSigned, 4, 0, 0, 0, false, false},
      {BP_DTYPE_I64, "i64", Class::kSigned, 8, 0, 0, 0, false, false},
      {BP_DTYPE_U8, "u8", Class::kUnsigned, 1, 0, 0, 0, false, false},
      {BP_DTYPE_U16, "u16", Class::kUnsigned, 2, 0, 0, 0, false, false},
      {BP_DTYPE_U32, "u32", Class::kUnsigned, 4, 0, 0, 0, false, false},
      {BP_DTYPE_U64, "u64", Class::kUnsigned, 8, 0, 0, 0, false, false},
      {BP_DTYPE_BOOL, "bool", Class::kBool, 1, 0, 0, 0, false, false},
      {BP_DTYPE_F8E8M0, "f8e8m0", Class::kScale, 1, 0, 0, 0, false, false}};
  return all;
}

inline uint64_t read_bits(const std::byte* from, uint32_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);  // both are little-endian
  return bits;
}

inline void write_bits(uint64_t bits, uint32_t bytes, std::byte* to) {
  std::memcpy(to, &bits, bytes);
}

/// The bits of an integer as a number of 64 bits.
inline uint64_t widened(const Format& format, uint64_t bits) {
  if (format.of != Class::kSigned || format.bytes == 8) return bits;
  const uint32_t unused = 64 - 8 * format.bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

/// What a floating-point number is worth. NaN and infinity alike are NaN: no case makes either.
inline long double worth(const Format& format, uint64_t bits) {
  const uint32_t width = 8 * format.part_bytes();
  const auto exponent = static_cast<int>((bits >> format.mantissa_bits) &
                                         ((uint64_t{1} << format.exponent_bits) - 1));
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const bool is_negative = (bits >> (width - 1)) != 0;
  const bool is_last = exponent == (1 << format.exponent_bits) - 1;
  const bool is_full = mantissa == (uint64_t{1} << format.mantissa_bits) - 1;
  const bool is_zero = exponent == 0 && mantissa == 0;
  const bool is_special = format.has_infinity        ? is_last
                          : format.has_negative_zero ? is_last && is_full
                                                     : is_zero && is_negative;
  if (is_special) return std::nanl("");
  const auto fraction = static_cast<long double>(mantissa);
  const int shift = -format.bias - static_cast<int>(format.mantissa_bits);
  const long double size =
      exponent == 0
          ? std::ldexp(fraction, shift + 1)
          : std::ldexp(fraction + std::ldexp(1.0L, static_cast<int>(format.mantissa_bits)),
                       shift + exponent);
  return is_negative ? -size : size;
}

/// The bits of (1 + mantissa / 2^mantissa_bits) * 2^exponent.
inline uint64_t float_bits(const Format& format, bool is_negative, int exponent,
                           uint64_t mantissa) {
  const auto sign = static_cast<uint64_t>(is_negative) << (8 * format.part_bytes() - 1);
  return sign | static_cast<uint64_t>(exponent + format.bias) << format.mantissa_bits | mantissa;
}

}  // namespace bp::ccl::cases

#endif
