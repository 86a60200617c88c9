// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes that a plugin, a model or a caller gave: what overflows is nullopt and never
// a small number. A lint keeps bare + and * away from such sizes where memory is laid out.
#ifndef BACKPLANE_CORE_BASE_CHECKED_HPP
#define BACKPLANE_CORE_BASE_CHECKED_HPP

#include <concepts>
#include <cstdint>
#include <optional>

namespace bp {

/// More than any device has (64 TiB). One request beyond it is refused before anything is computed
/// from it.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 46;

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The next multiple of `granule`, which is a power of two.
constexpr std::optional<uint64_t> checked_align_up(uint64_t value, uint64_t granule) {
  const auto sum = checked_add(value, granule - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(granule - 1);
}

}  // namespace bp

#endif
