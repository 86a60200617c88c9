// SPDX-License-Identifier: Apache-2.0
//
// Copies of elements between strided tensors, by the size of the elements.
#ifndef BACKPLANE_PLUGINS_CPU_COPY_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_COPY_ROWS_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nest.hpp"
#include "parallel.hpp"

namespace bp::cpu {

struct Element16 {
  uint64_t words[2];
};

template <class T>
void copy_row(void* y_data, const void* x_data, int64_t x_stride, int64_t count) {
  T* const y = static_cast<T*>(y_data);
  const T* const x = static_cast<const T*>(x_data);
  if (x_stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i] = x[i * x_stride];
}

using CopyRow = void (*)(void*, const void*, int64_t, int64_t);

/// For elements of 1, 2, 4, 8 or 16 bytes.
inline CopyRow copy_row_of(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_row<uint8_t>;
    case 2:
      return copy_row<uint16_t>;
    case 4:
      return copy_row<uint32_t>;
    case 8:
      return copy_row<uint64_t>;
    default:
      return copy_row<Element16>;
  }
}

/// Copies x to y, of the same sizes or broadcast.
inline void copy_strided(Workers& workers, const bp_tensor& y, std::byte* y_data,
                         const bp_tensor& x, const std::byte* x_data, int64_t element_bytes) {
  const bp_tensor* const inputs[] = {&x};
  const Nest nest = broadcast_nest(y, inputs, 1);
  const int64_t y_stride = nest.strides[0][nest.rank - 1];
  const int64_t x_stride = nest.strides[1][nest.rank - 1];
  const CopyRow row = copy_row_of(element_bytes);
  workers.for_ranges(nest.count, 1, [&](int64_t begin, int64_t end) noexcept {
    walk_rows(nest, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
      std::byte* to = y_data + offsets[0] * element_bytes;
      const std::byte* from = x_data + offsets[1] * element_bytes;
      if (y_stride == 1) {
        row(to, from, x_stride, count);
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        row(to + i * y_stride * element_bytes, from + i * x_stride * element_bytes, 1, 1);
      }
    });
  });
}

}  // namespace bp::cpu

#endif
