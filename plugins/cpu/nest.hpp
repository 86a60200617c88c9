// SPDX-License-Identifier: Apache-2.0
//
// Loop nests over strided tensors. Dimensions that are adjacent in every operand's memory are
// merged first, so that most tensors become one or two loops; kernels then work on rows, the
// innermost loop.
#ifndef BACKPLANE_PLUGINS_CPU_NEST_HPP
#define BACKPLANE_PLUGINS_CPU_NEST_HPP

#include <cstdint>

#include "backplane/types.h"

namespace bp::cpu {

inline constexpr int kMaxOperands = 4;

/// Sizes and, for each operand, strides in elements; outermost dimension first.
struct Nest {
  int rank = 0;
  int64_t count = 1;  // of elements, the product of sizes
  int64_t sizes[BP_MAX_RANK] = {};
  int64_t strides[kMaxOperands][BP_MAX_RANK] = {};

  void add_dimension(int64_t size) { sizes[rank++] = size; }
};

/// Drops dimensions of size 1, merges what can be merged, works out `count`, and leaves a rank of
/// at least 1. Order is kept, so that the flat index of an element stays the same.
void simplify(Nest* nest, int operand_count);

/// The nest of an operator that maps broadcast inputs to an output: operand 0 is the output, the
/// others are the inputs, with stride 0 where they repeat. Dimensions lie in the order of the
/// output's memory, so that one without gaps is written along its rows.
Nest broadcast_nest(const bp_tensor& output, const bp_tensor* const* inputs, int input_count);

/// The dimension along which the operand is contiguous, if it is another one than the last, along
/// which rows run; else -1.
int crossing_dimension(const Nest& nest, int operand);

/// Adds to each operand's offset that of place `index` in the dimensions before the last,
/// row-major, without those of `left_out` (bit d: dimension d).
void add_place(const Nest& nest, int operand_count, uint32_t left_out, int64_t index,
               int64_t* offsets);

/// Calls row(offsets, count) for the rows that cover the elements [begin, end) in row-major order.
/// offsets: of the row's first element, in elements, per operand; strides along a row are
/// nest.strides[operand][nest.rank - 1].
template <class Row>
void walk_rows(const Nest& nest, int operand_count, int64_t begin, int64_t end, const Row& row) {
  if (begin >= end) return;
  const int last = nest.rank - 1;
  int64_t position[BP_MAX_RANK];
  int64_t offsets[kMaxOperands] = {};
  int64_t rest = begin;
  for (int d = last; d >= 0; --d) {
    position[d] = rest % nest.sizes[d];
    rest /= nest.sizes[d];
    for (int k = 0; k < operand_count; ++k) offsets[k] += position[d] * nest.strides[k][d];
  }
  for (int64_t at = begin;;) {
    const int64_t in_row = nest.sizes[last] - position[last];
    const int64_t count = in_row < end - at ? in_row : end - at;
    row(static_cast<const int64_t*>(offsets), count);
    at += count;
    if (at >= end) return;
    // To the start of the next row: back along this one, then the odometer.
    for (int k = 0; k < operand_count; ++k) offsets[k] -= position[last] * nest.strides[k][last];
    position[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      for (int k = 0; k < operand_count; ++k) offsets[k] += nest.strides[k][d];
      if (++position[d] < nest.sizes[d]) break;
      for (int k = 0; k < operand_count; ++k) offsets[k] -= nest.sizes[d] * nest.strides[k][d];
      position[d] = 0;
    }
  }
}

}  // namespace bp::cpu

#endif
