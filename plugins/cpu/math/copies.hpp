// SPDX-License-Identifier: Apache-2.0
//
// Copies that plain loops are slow at: past the caches, and across rows.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_COPIES_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_COPIES_HPP

#include <cstddef>
#include <cstdint>

namespace bp::cpu {

inline constexpr int64_t kLine = 64;  // bytes of a cache line

/// What is stored past the caches goes by whole lines: bytes before the first that begins there.
inline int64_t bytes_to_line(const void* address) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(address) % kLine);
}

/// memcpy that leaves y in no cache. Other threads may read y once finish_stream() has returned on
/// this one.
void stream_copy(std::byte* y, const std::byte* x, int64_t bytes);
void finish_stream();

/// Rows that are contiguous on both sides; distances between rows in bytes.
struct RowCopy {
  std::byte* y;
  const std::byte* x;
  int64_t y_row;
  int64_t x_row;
  int64_t rows;
  int64_t row_bytes;
};
/// stream_copy of each row.
void stream_rows(const RowCopy& copy);

/// A matrix whose rows in y are its columns in x; distances in elements of 1, 2, 4 or 8 bytes.
struct Crossing {
  std::byte* y;
  const std::byte* x;
  int64_t y_row;    // between rows of y, which are contiguous
  int64_t x_row;    // between elements of y's rows in x; its columns are contiguous
  int64_t rows;     // of y
  int64_t columns;  // of y
  int64_t element_bytes;
  bool past_cache;  // as stream_copy
};
void copy_across(const Crossing& crossing);

}  // namespace bp::cpu

#endif
