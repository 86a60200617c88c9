// SPDX-License-Identifier: Apache-2.0
//
// See copy_rows.hpp. Where x runs along another dimension than y, as in a transpose, both go by
// tiles.
#include "copy_rows.hpp"

#include <algorithm>
#include <cstring>

#include "large.hpp"
#include "math/copies.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

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

// For elements of 1, 2, 4, 8 or 16 bytes.
CopyRow copy_row_of(int64_t element_bytes) {
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

// Tiles of the plane of dimension `crossing` and the last one; rows of tiles are divided among the
// threads, for each place in the other dimensions.
void copy_by_tiles(Workers& workers, std::byte* y, const std::byte* x, const Nest& nest,
                   int crossing, int64_t bytes, bool past_cache) {
  constexpr int64_t kColumns = 64;
  const int last = nest.rank - 1;
  const int64_t blocks = (nest.sizes[last] - 1) / kColumns + 1;
  const int64_t rows = nest.sizes[crossing];
  const int64_t planes = nest.count / (nest.sizes[last] * rows);
  workers.for_ranges(planes * blocks, kColumns * rows, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t column = unit % blocks * kColumns;
      int64_t offsets[] = {column, column * nest.strides[1][last]};
      add_place(nest, 2, 1u << crossing, unit / blocks, offsets);
      copy_across({.y = y + offsets[0] * bytes,
                   .x = x + offsets[1] * bytes,
                   .y_row = nest.strides[0][crossing],
                   .x_row = nest.strides[1][last],
                   .rows = rows,
                   .columns = std::min(kColumns, nest.sizes[last] - column),
                   .element_bytes = bytes,
                   .past_cache = past_cache});
    }
    finish_stream();
  });
}

// Of the dimensions before the last, the one along which x goes on behind a row.
int next_dimension_of_x(const Nest& nest) {
  int found = nest.rank - 2;
  for (int d = found - 1; d >= 0; --d) {
    if (nest.strides[1][d] > 0 && nest.strides[1][d] < nest.strides[1][found]) found = d;
  }
  return found;
}

// Rows that go past the caches, by blocks: a few along the dimension before the last, and behind
// them a few along which x goes on, so that both sides come in long runs.
void stream_by_blocks(Workers& workers, std::byte* y, const std::byte* x, const Nest& nest,
                      int64_t bytes) {
  constexpr int64_t kRunBytes = 1024;
  constexpr int64_t kRepeats = 16;
  const int last = nest.rank - 1;
  const int64_t block_rows = std::max<int64_t>(kRunBytes / (nest.sizes[last] * bytes), 1);
  const int along_y = last - 1;
  const int along_x = next_dimension_of_x(nest);
  const int64_t row_blocks = (nest.sizes[along_y] - 1) / block_rows + 1;
  const int64_t repeats = along_x == along_y ? 1 : nest.sizes[along_x];
  const int64_t blocks = row_blocks * ((repeats - 1) / kRepeats + 1);
  const int64_t planes = nest.count / (nest.sizes[last] * nest.sizes[along_y] * repeats);
  const int64_t block_cost = nest.sizes[last] * block_rows * std::min(kRepeats, repeats);
  workers.for_ranges(planes * blocks, block_cost, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % row_blocks * block_rows;
      const int64_t first_repeat = unit % blocks / row_blocks * kRepeats;
      int64_t offsets[] = {first * nest.strides[0][along_y], first * nest.strides[1][along_y]};
      add_place(nest, 2, 1u << along_y | 1u << along_x, unit / blocks, offsets);
      for (int64_t i = first_repeat; i < std::min(first_repeat + kRepeats, repeats); ++i) {
        stream_rows({.y = y + (offsets[0] + i * nest.strides[0][along_x]) * bytes,
                     .x = x + (offsets[1] + i * nest.strides[1][along_x]) * bytes,
                     .y_row = nest.strides[0][along_y] * bytes,
                     .x_row = nest.strides[1][along_y] * bytes,
                     .rows = std::min(block_rows, nest.sizes[along_y] - first),
                     .row_bytes = nest.sizes[last] * bytes});
      }
    }
    finish_stream();
  });
}

void copy_by_rows(Workers& workers, std::byte* y, const std::byte* x, const Nest& nest,
                  int64_t bytes, bool past_cache) {
  const int64_t x_stride = nest.strides[1][nest.rank - 1];
  const CopyRow row = copy_row_of(bytes);
  const int64_t y_stride = nest.strides[0][nest.rank - 1];
  // A line of y that is not written whole would be read after all.
  const bool streams =
      past_cache && y_stride == 1 && x_stride == 1 && nest.sizes[nest.rank - 1] * bytes % 64 == 0;
  constexpr int64_t kShortRow = 4096;
  if (streams && nest.rank > 1 && nest.sizes[nest.rank - 1] * bytes <= kShortRow) {
    return stream_by_blocks(workers, y, x, nest, bytes);
  }
  // The processor does not guess where short rows go on. In a core's own cache that matters little.
  constexpr int64_t kNearBytes = int64_t{1} << 20;
  constexpr int64_t kRowsAhead = 8;
  const int64_t next = nest.rank > 1 ? nest.strides[1][nest.rank - 2] * bytes * kRowsAhead : 0;
  const bool looks_ahead =
      x_stride == 1 && nest.sizes[nest.rank - 1] * bytes <= 1024 && nest.count > kNearBytes / bytes;
  workers.for_ranges(nest.count, 1, [&](int64_t begin, int64_t end) noexcept {
    walk_rows(nest, 2, begin, end, [&](const int64_t* offsets, int64_t row_count) {
      std::byte* const to = y + offsets[0] * bytes;
      const std::byte* const from = x + offsets[1] * bytes;
      if (looks_ahead) {
        for (int64_t at = 0; at < row_count * bytes; at += 64) {
          __builtin_prefetch(from + next + at);
        }
      }
      if (streams) {
        stream_copy(to, from, row_count * bytes);
      } else if (y_stride == 1) {
        row(to, from, x_stride, row_count);
      } else {
        for (int64_t i = 0; i < row_count; ++i) {
          row(to + i * y_stride * bytes, from + i * x_stride * bytes, 1, 1);
        }
      }
    });
    finish_stream();
  });
}

}  // namespace

void copy_strided(Workers& workers, const bp_tensor& y, std::byte* y_data, const bp_tensor& x,
                  const std::byte* x_data, int64_t element_bytes) {
  const bp_tensor* const inputs[] = {&x};
  const Nest nest = broadcast_nest(y, inputs, 1);
  const bool has_rows = element_bytes <= 8 && nest.strides[0][nest.rank - 1] == 1;
  const int crossing = has_rows ? crossing_dimension(nest, 1) : -1;
  if (crossing >= 0) {
    copy_by_tiles(workers, y_data, x_data, nest, crossing, element_bytes, is_past_cache(y));
  } else {
    copy_by_rows(workers, y_data, x_data, nest, element_bytes, is_past_cache(y));
  }
}

}  // namespace bp::cpu
