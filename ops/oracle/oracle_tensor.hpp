// SPDX-License-Identifier: Apache-2.0
//
// A tensor as the oracle sees it: contiguous bytes on the host, and exact ways in and out. Its
// number formats are its own code, so that a conversion that is wrong in a plugin is not wrong here
// in the same way.
#ifndef BACKPLANE_OPS_ORACLE_ORACLE_TENSOR_HPP
#define BACKPLANE_OPS_ORACLE_ORACLE_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/dtype.hpp"

namespace bp {

struct OracleTensor {
  uint32_t dtype = BP_DTYPE_NONE;  // NONE: an absent optional argument
  Dims sizes;
  std::vector<std::byte> bytes;

  /// Sizes are known and their count was checked.
  static OracleTensor zeros(uint32_t dtype, const Dims& sizes);
  /// As many values as the sizes say, converted as `cast` does. Dtypes: bool to f64.
  static OracleTensor from_f64(uint32_t dtype, const Dims& sizes, std::span<const double> values);
  static OracleTensor from_i64(uint32_t dtype, const Dims& sizes, std::span<const int64_t> values);

  int64_t count() const {
    return element_count(std::span<const int64_t>(sizes.data(), sizes.size()));
  }
  /// Every element; 64-bit integers beyond 2^53 are rounded.
  std::vector<double> to_f64() const;
  /// Every element of an integer or bool tensor; u64 wraps.
  std::vector<int64_t> to_i64() const;
};

namespace ops {

bool is_signed_dtype(uint32_t dtype);

// One element of a contiguous array. Floats: double holds each of them exactly.
double load_float(uint32_t dtype, const std::byte* data, int64_t index);
/// Sign-extended, as 64 bits; bool is 0 or 1.
uint64_t load_integer(uint32_t dtype, const std::byte* data, int64_t index);
/// Rounds to nearest even, overflows to infinity. long double, so that a 64-bit integer arrives
/// without having been rounded once before.
void store_float(uint32_t dtype, std::byte* data, int64_t index, long double value);
/// Keeps the low bits; bool: anything but 0 is true.
void store_integer(uint32_t dtype, std::byte* data, int64_t index, uint64_t value);
/// Truncates, saturates, NaN gives 0; bool: anything but 0 is true.
void store_integer_from_float(uint32_t dtype, std::byte* data, int64_t index, double value);

}  // namespace ops
}  // namespace bp

#endif
