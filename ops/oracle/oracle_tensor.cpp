// SPDX-License-Identifier: Apache-2.0
//
// Number formats of the oracle; see oracle_tensor.hpp.
#include "ops/oracle/oracle_tensor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/dtype.hpp"

namespace bp {
namespace ops {
namespace {

/// A binary format with a sign bit, in the manner of IEEE 754.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};
constexpr FloatFormat kF16{5, 10};
constexpr FloatFormat kBf16{8, 7};

double decode(const FloatFormat& format, uint32_t bits) {
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent =
      static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const bool negative = (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0;
  double value = 0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias() - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << format.mantissa_bits),
                       exponent - format.bias() - format.mantissa_bits);
  }
  return negative ? -value : value;
}

uint32_t encode(const FloatFormat& format, long double value) {
  const uint32_t sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0u;
  if (std::isnan(value)) return sign | format.infinity() | 1u << (format.mantissa_bits - 1);
  const long double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | format.infinity();
  if (magnitude == 0) return sign;
  // Count in units of the last place; below the smallest normal the unit stays the same.
  const int least_exponent = 1 - format.bias();
  const int exponent = std::max(std::ilogb(magnitude), least_exponent);
  const int unit = exponent - format.mantissa_bits;
  // Rounds half to even, as nobody changes the rounding mode in this process.
  auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  const uint32_t hidden = 1u << format.mantissa_bits;
  // A subnormal's units are its bits; a normal's exponent field counts on from 1, and rounding up
  // to twice the hidden bit carries into the exponent by itself.
  const auto field = static_cast<uint32_t>(exponent - least_exponent);
  const uint32_t bits = units + field * hidden;
  return sign | (bits < format.infinity() ? bits : format.infinity());
}

template <class T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  const long double whole = std::trunc(static_cast<long double>(value));
  if (whole <= static_cast<long double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  if (whole >= static_cast<long double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  return static_cast<T>(whole);
}

}  // namespace

bool is_signed_dtype(uint32_t dtype) { return dtype >= BP_DTYPE_I8 && dtype <= BP_DTYPE_I64; }

double load_float(uint32_t dtype, const std::byte* data, int64_t index) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return decode(kF16, load<uint16_t>(data, index));
    case BP_DTYPE_BF16:
      return decode(kBf16, load<uint16_t>(data, index));
    case BP_DTYPE_F32:
      return load<float>(data, index);
    default:
      assert(dtype == BP_DTYPE_F64);
      return load<double>(data, index);
  }
}

uint64_t load_integer(uint32_t dtype, const std::byte* data, int64_t index) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
      return load<uint8_t>(data, index) != 0 ? 1 : 0;
    case BP_DTYPE_I8:
      return static_cast<uint64_t>(int64_t{load<int8_t>(data, index)});
    case BP_DTYPE_I16:
      return static_cast<uint64_t>(int64_t{load<int16_t>(data, index)});
    case BP_DTYPE_I32:
      return static_cast<uint64_t>(int64_t{load<int32_t>(data, index)});
    case BP_DTYPE_U8:
      return load<uint8_t>(data, index);
    case BP_DTYPE_U16:
      return load<uint16_t>(data, index);
    case BP_DTYPE_U32:
      return load<uint32_t>(data, index);
    default:
      assert(dtype == BP_DTYPE_I64 || dtype == BP_DTYPE_U64);
      return load<uint64_t>(data, index);
  }
}

void store_float(uint32_t dtype, std::byte* data, int64_t index, long double value) {
  switch (dtype) {
    case BP_DTYPE_F16:
      store(data, index, static_cast<uint16_t>(encode(kF16, value)));
      return;
    case BP_DTYPE_BF16:
      store(data, index, static_cast<uint16_t>(encode(kBf16, value)));
      return;
    case BP_DTYPE_F32:
      store(data, index, static_cast<float>(value));
      return;
    default:
      assert(dtype == BP_DTYPE_F64);
      store(data, index, static_cast<double>(value));
      return;
  }
}

void store_integer(uint32_t dtype, std::byte* data, int64_t index, uint64_t value) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
      store<uint8_t>(data, index, value != 0 ? 1 : 0);
      return;
    case BP_DTYPE_I8:
    case BP_DTYPE_U8:
      store(data, index, static_cast<uint8_t>(value));
      return;
    case BP_DTYPE_I16:
    case BP_DTYPE_U16:
      store(data, index, static_cast<uint16_t>(value));
      return;
    case BP_DTYPE_I32:
    case BP_DTYPE_U32:
      store(data, index, static_cast<uint32_t>(value));
      return;
    default:
      assert(dtype == BP_DTYPE_I64 || dtype == BP_DTYPE_U64);
      store(data, index, value);
      return;
  }
}

void store_integer_from_float(uint32_t dtype, std::byte* data, int64_t index, double value) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
      store<uint8_t>(data, index, value != 0 ? 1 : 0);
      return;
    case BP_DTYPE_I8:
      store(data, index, saturate<int8_t>(value));
      return;
    case BP_DTYPE_I16:
      store(data, index, saturate<int16_t>(value));
      return;
    case BP_DTYPE_I32:
      store(data, index, saturate<int32_t>(value));
      return;
    case BP_DTYPE_I64:
      store(data, index, saturate<int64_t>(value));
      return;
    case BP_DTYPE_U8:
      store(data, index, saturate<uint8_t>(value));
      return;
    case BP_DTYPE_U16:
      store(data, index, saturate<uint16_t>(value));
      return;
    case BP_DTYPE_U32:
      store(data, index, saturate<uint32_t>(value));
      return;
    default:
      assert(dtype == BP_DTYPE_U64);
      store(data, index, saturate<uint64_t>(value));
      return;
  }
}

}  // namespace ops

OracleTensor OracleTensor::zeros(uint32_t dtype, const Dims& sizes) {
  OracleTensor tensor{.dtype = dtype, .sizes = sizes, .bytes = {}};
  tensor.bytes.resize(static_cast<size_t>(dtype_storage_bytes(dtype, tensor.count())));
  return tensor;
}

OracleTensor OracleTensor::from_f64(uint32_t dtype, const Dims& sizes,
                                    std::span<const double> values) {
  OracleTensor tensor = zeros(dtype, sizes);
  assert(static_cast<int64_t>(values.size()) == tensor.count());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (is_float_dtype(dtype)) {
      ops::store_float(dtype, tensor.bytes.data(), index, values[i]);
    } else {
      ops::store_integer_from_float(dtype, tensor.bytes.data(), index, values[i]);
    }
  }
  return tensor;
}

OracleTensor OracleTensor::from_i64(uint32_t dtype, const Dims& sizes,
                                    std::span<const int64_t> values) {
  OracleTensor tensor = zeros(dtype, sizes);
  assert(static_cast<int64_t>(values.size()) == tensor.count());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (is_float_dtype(dtype)) {
      ops::store_float(dtype, tensor.bytes.data(), index, static_cast<long double>(values[i]));
    } else {
      ops::store_integer(dtype, tensor.bytes.data(), index, static_cast<uint64_t>(values[i]));
    }
  }
  return tensor;
}

std::vector<double> OracleTensor::to_f64() const {
  std::vector<double> values;
  for (int64_t i = 0; i < count(); ++i) {
    if (is_float_dtype(dtype)) {
      values.push_back(ops::load_float(dtype, bytes.data(), i));
      continue;
    }
    const uint64_t bits = ops::load_integer(dtype, bytes.data(), i);
    values.push_back(ops::is_signed_dtype(dtype) ? static_cast<double>(static_cast<int64_t>(bits))
                                                 : static_cast<double>(bits));
  }
  return values;
}

std::vector<int64_t> OracleTensor::to_i64() const {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count(); ++i) {
    values.push_back(static_cast<int64_t>(ops::load_integer(dtype, bytes.data(), i)));
  }
  return values;
}

}  // namespace bp
