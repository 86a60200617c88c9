// SPDX-License-Identifier: Apache-2.0
//
// f16 and bf16 are rounded from the double itself: by way of f32 some values would round twice.
#include "core/op/scalar.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backplane/types.h"
#include "core/base/dtype.hpp"

namespace bp {
namespace {

/// An IEEE-like binary float of 16 bits with so many exponent and mantissa bits.
uint16_t round_to_half(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) {
    return static_cast<uint16_t>(sign | infinity | (1u << (mantissa_bits - 1)));
  }
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (value == 0) return static_cast<uint16_t>(sign);
  // Below the smallest normal exponent the spacing stays the same: those are the subnormals.
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const double in_units = std::ldexp(std::fabs(value), mantissa_bits - exponent);
  const auto rounded = static_cast<uint32_t>(std::nearbyint(in_units));
  // A normal number's leading bit adds one to the exponent field; so does a carry from rounding.
  const int64_t bits = (static_cast<int64_t>(exponent + bias - 1) << mantissa_bits) + rounded;
  return static_cast<uint16_t>(sign | std::min<int64_t>(bits, infinity));
}

template <class T>
void write(T value, void* out_element) {
  std::memcpy(out_element, &value, sizeof(T));
}

template <class T>
void write_integer(double value, void* out_element) {
  T result = 0;
  // The largest value may round up as a double, so only what is below it may be converted.
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    result = std::numeric_limits<T>::max();
  } else if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    result = std::numeric_limits<T>::min();
  } else if (!std::isnan(value)) {
    result = static_cast<T>(value);
  }
  write(result, out_element);
}

}  // namespace

Status write_scalar(uint32_t dtype, double value, void* out) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
      write<uint8_t>(value != 0 ? 1 : 0, out);
      return {};
    case BP_DTYPE_I8:
      write_integer<int8_t>(value, out);
      return {};
    case BP_DTYPE_I16:
      write_integer<int16_t>(value, out);
      return {};
    case BP_DTYPE_I32:
      write_integer<int32_t>(value, out);
      return {};
    case BP_DTYPE_I64:
      write_integer<int64_t>(value, out);
      return {};
    case BP_DTYPE_U8:
      write_integer<uint8_t>(value, out);
      return {};
    case BP_DTYPE_U16:
      write_integer<uint16_t>(value, out);
      return {};
    case BP_DTYPE_U32:
      write_integer<uint32_t>(value, out);
      return {};
    case BP_DTYPE_U64:
      write_integer<uint64_t>(value, out);
      return {};
    case BP_DTYPE_F16:
      write(round_to_half(value, 5, 10), out);
      return {};
    case BP_DTYPE_BF16:
      write(round_to_half(value, 8, 7), out);
      return {};
    case BP_DTYPE_F32:
      write(static_cast<float>(value), out);
      return {};
    case BP_DTYPE_F64:
      write(value, out);
      return {};
    case BP_DTYPE_C64: {
      const float parts[2] = {static_cast<float>(value), 0};
      std::memcpy(out, parts, sizeof(parts));
      return {};
    }
    case BP_DTYPE_C128: {
      const double parts[2] = {value, 0};
      std::memcpy(out, parts, sizeof(parts));
      return {};
    }
    default:
      return {BP_UNSUPPORTED,
              "no constant can be written as dtype " + std::string(dtype_name(dtype))};
  }
}

}  // namespace bp
