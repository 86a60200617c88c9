// SPDX-License-Identifier: Apache-2.0
//
// See copies.hpp. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/copies.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <cstring>

#include "math/copies.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Of a tile: a line of f32.
constexpr int64_t kTile = 16;

void copy_stream(std::byte* y, const std::byte* x, int64_t bytes) {
  const hn::ScalableTag<uint64_t> d;
  constexpr auto kVector = static_cast<int64_t>(hn::MaxLanes(d) * sizeof(uint64_t));
  const int64_t head = std::min(bytes, bytes_to_line(y));
  std::memcpy(y, x, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLine <= bytes; i += kLine) {
    for (int64_t at = i; at < i + kLine; at += kVector) {
      hn::Stream(hn::LoadU(d, reinterpret_cast<const uint64_t*>(x + at)), d,
                 reinterpret_cast<uint64_t*>(y + at));
    }
  }
  std::memcpy(y + i, x + i, static_cast<size_t>(bytes - i));
}

void copy_rows(const RowCopy& copy) {
  for (int64_t r = 0; r < copy.rows; ++r) {
    copy_stream(copy.y + r * copy.y_row, copy.x + r * copy.x_row, copy.row_bytes);
  }
}

// y[r * y_row + c] = x[r + c * x_row].
template <class T>
void cross_part(T* y, int64_t y_row, const T* x, int64_t x_row, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[r * y_row + c] = x[r + c * x_row];
  }
}

#if HWY_TARGET == HWY_SCALAR
void cross_tile(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row) {
  cross_part(y, y_row, x, x_row, kTile, kTile);
}
void cross_edge(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row, int64_t rows,
                int64_t columns) {
  cross_part(y, y_row, x, x_row, rows, columns);
}
#else
// 8 x 8: pairs, then pairs of pairs within blocks of 128 bits, then the blocks.
void cross_8x8(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row) {
  const hn::CappedTag<uint32_t, 8> d;
  const hn::Repartition<uint64_t, decltype(d)> dw;
  using V = hn::Vec<decltype(d)>;
  V in[8];
  V pairs[8];
  for (int64_t c = 0; c < 8; ++c) in[c] = hn::LoadU(d, x + c * x_row);
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = hn::InterleaveLower(d, in[i], in[i + 1]);
    pairs[i + 1] = hn::InterleaveUpper(d, in[i], in[i + 1]);
  }
  // fours[i]: the rows i % 4 and i % 4 + 4 of y, their first or second half.
  V fours[8];
  for (int half = 0; half < 8; half += 4) {
    for (int i = 0; i < 2; ++i) {
      const auto a = hn::BitCast(dw, pairs[half + i]);
      const auto b = hn::BitCast(dw, pairs[half + i + 2]);
      fours[half + 2 * i] = hn::BitCast(d, hn::InterleaveLower(dw, a, b));
      fours[half + 2 * i + 1] = hn::BitCast(d, hn::InterleaveUpper(dw, a, b));
    }
  }
  for (int r = 0; r < 4; ++r) {
    hn::StoreU(hn::ConcatLowerLower(d, fours[r + 4], fours[r]), d, y + r * y_row);
    hn::StoreU(hn::ConcatUpperUpper(d, fours[r + 4], fours[r]), d, y + (r + 4) * y_row);
  }
}

void cross_tile(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row) {
  // Both halves of a line of x at once: tiles further on may drive it out of the cache.
  for (int64_t c = 0; c < kTile; c += 8) {
    for (int64_t r = 0; r < kTile; r += 8) {
      cross_8x8(y + r * y_row + c, y_row, x + c * x_row + r, x_row);
    }
  }
}

void cross_4x4(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row) {
  const hn::CappedTag<uint32_t, 4> d;
  const hn::Repartition<uint64_t, decltype(d)> dw;
  const auto in0 = hn::LoadU(d, x);
  const auto in1 = hn::LoadU(d, x + x_row);
  const auto in2 = hn::LoadU(d, x + 2 * x_row);
  const auto in3 = hn::LoadU(d, x + 3 * x_row);
  const auto low01 = hn::BitCast(dw, hn::InterleaveLower(d, in0, in1));
  const auto low23 = hn::BitCast(dw, hn::InterleaveLower(d, in2, in3));
  const auto high01 = hn::BitCast(dw, hn::InterleaveUpper(d, in0, in1));
  const auto high23 = hn::BitCast(dw, hn::InterleaveUpper(d, in2, in3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, low01, low23)), d, y);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, low01, low23)), d, y + y_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, high01, high23)), d, y + 2 * y_row);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, high01, high23)), d, y + 3 * y_row);
}

// What is left of a tile, as in small images whose channels lie last.
void cross_edge(uint32_t* y, int64_t y_row, const uint32_t* x, int64_t x_row, int64_t rows,
                int64_t columns) {
  const int64_t whole_rows = rows / 4 * 4;
  const int64_t whole_columns = columns / 4 * 4;
  for (int64_t c = 0; c < whole_columns; c += 4) {
    for (int64_t r = 0; r < whole_rows; r += 4) {
      cross_4x4(y + r * y_row + c, y_row, x + c * x_row + r, x_row);
    }
  }
  cross_part(y + whole_rows * y_row, y_row, x + whole_rows, x_row, rows - whole_rows,
             whole_columns);
  cross_part(y + whole_columns, y_row, x + whole_columns * x_row, x_row, rows,
             columns - whole_columns);
}
#endif

template <class T>
void cross_tile(T* y, int64_t y_row, const T* x, int64_t x_row) {
  cross_part(y, y_row, x, x_row, kTile, kTile);
}

template <class T>
void cross_edge(T* y, int64_t y_row, const T* x, int64_t x_row, int64_t rows, int64_t columns) {
  cross_part(y, y_row, x, x_row, rows, columns);
}

// A square by tiles. The next square's lines of x are asked for meanwhile.
template <class T>
void cross_square(T* y, int64_t y_row, const T* x, int64_t x_row, int64_t rows, int64_t columns,
                  int64_t next) {
  for (int64_t c = 0; c < columns; c += kTile) {
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t width = std::min(kTile, columns - c);
      const int64_t height = std::min(kTile, rows - r);
      T* const to = y + r * y_row + c;
      const T* const from = x + c * x_row + r;
      for (int64_t i = 0; i < width; ++i) hwy::Prefetch(from + i * x_row + next);
      if (height < kTile || width < kTile) {
        cross_edge(to, y_row, from, x_row, height, width);
      } else {
        cross_tile(to, y_row, from, x_row);
      }
    }
  }
}

// By squares, so that neighbouring lines of both sides come soon after each other. What is stored
// past the caches goes by way of a buffer, from which long runs of y's rows are streamed.
template <class T>
void cross(const Crossing& crossing) {
  constexpr int64_t kSquare = sizeof(T) == 8 ? 32 : 64;
  HWY_ALIGN T buffer[kSquare * kSquare];
  const bool streams = crossing.past_cache && bytes_to_line(crossing.y) == 0 &&
                       crossing.y_row * static_cast<int64_t>(sizeof(T)) % kLine == 0;
  for (int64_t r = 0; r < crossing.rows; r += kSquare) {
    for (int64_t c = 0; c < crossing.columns; c += kSquare) {
      const int64_t rows = std::min(kSquare, crossing.rows - r);
      const int64_t columns = std::min(kSquare, crossing.columns - c);
      T* const to = reinterpret_cast<T*>(crossing.y) + r * crossing.y_row + c;
      const T* const from = reinterpret_cast<const T*>(crossing.x) + c * crossing.x_row + r;
      if (!streams || columns < kSquare) {
        cross_square(to, crossing.y_row, from, crossing.x_row, rows, columns, kSquare);
        continue;
      }
      cross_square(buffer, kSquare, from, crossing.x_row, rows, columns, kSquare);
      for (int64_t row = 0; row < rows; ++row) {
        copy_stream(reinterpret_cast<std::byte*>(to + row * crossing.y_row),
                    reinterpret_cast<const std::byte*>(buffer + row * kSquare),
                    kSquare * sizeof(T));
      }
    }
  }
}

void cross_any(const Crossing& crossing) {
  if (crossing.element_bytes == 4) return cross<uint32_t>(crossing);
  if (crossing.element_bytes == 8) return cross<uint64_t>(crossing);
  if (crossing.element_bytes == 2) return cross<uint16_t>(crossing);
  cross<uint8_t>(crossing);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(copy_stream);
HWY_EXPORT(copy_rows);
HWY_EXPORT(cross_any);

void stream_copy(std::byte* y, const std::byte* x, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_stream)(y, x, bytes);
}
void stream_rows(const RowCopy& copy) { HWY_DYNAMIC_DISPATCH(copy_rows)(copy); }
void finish_stream() { hwy::FlushStream(); }
void copy_across(const Crossing& crossing) { HWY_DYNAMIC_DISPATCH(cross_any)(crossing); }

}  // namespace bp::cpu
#endif
