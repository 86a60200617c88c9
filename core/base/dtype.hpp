// SPDX-License-Identifier: Apache-2.0
//
// Names and sizes of the ABI's dtype codes.
#ifndef BACKPLANE_CORE_BASE_DTYPE_HPP
#define BACKPLANE_CORE_BASE_DTYPE_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "backplane/types.h"

namespace bp {

/// Bits of the codes that this core knows: all but NONE.
inline constexpr uint64_t kKnownDtypes = (BP_DTYPE_BIT(BP_DTYPE_F8E8M0) << 1) - 2;
/// True for a code that this core knows (BP_DTYPE_NONE is not one).
bool is_dtype(uint32_t dtype);
/// A floating-point number of 16, 32 or 64 bits.
inline bool is_float_dtype(uint32_t dtype) {
  return dtype >= BP_DTYPE_F16 && dtype <= BP_DTYPE_F64;
}
/// "f32", "i64", "bool"...; "dtype 77" has no name and answers "unknown".
std::string_view dtype_name(uint32_t dtype);
/// Bits of one element: 4 for i4; 0 for an unknown code.
uint32_t dtype_bits(uint32_t dtype);
/// Bytes of `count` elements stored contiguously (sub-byte dtypes rounded up). The caller has
/// checked that count times 16 fits.
uint64_t dtype_storage_bytes(uint32_t dtype, int64_t count);
/// Bytes from one element to another; below one byte from whole byte to whole byte.
inline int64_t dtype_step_bytes(uint32_t dtype, int64_t elements) {
  const auto bits = static_cast<int64_t>(dtype_bits(dtype));
  return bits >= 8 ? elements * (bits / 8) : elements * bits / 8;
}
/// "{f16, f32}" for messages about dtype sets.
std::string dtype_set_name(uint64_t mask);

}  // namespace bp

#endif
