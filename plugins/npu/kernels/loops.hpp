// SPDX-License-Identifier: Apache-2.0
//
// Loops over strided tensors, shared by the kernels: a nest of sizes that is walked in row-major
// order with one offset per operand, and broadcasting as stride 0.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_LOOPS_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_LOOPS_HPP

#include <array>
#include <cstdint>

#include "kernels/launch.hpp"

namespace bp::npu {

/// Sizes to walk, and the strides of N operands along them, in elements.
template <size_t N>
struct Nest {
  uint32_t rank = 0;
  Dims sizes{};
  std::array<Dims, N> strides{};
};

/// Calls row(offsets, count, steps) for each innermost row, in row-major order: operand i's
/// elements are at offsets[i], offsets[i] + steps[i], ... A nest of rank 0 is one row of one.
template <size_t N, class Row>
void for_each_row(const Nest<N>& nest, const Row& row) {
  const uint32_t outer_rank = nest.rank > 0 ? nest.rank - 1 : 0;
  const int64_t count = nest.rank > 0 ? nest.sizes[outer_rank] : 1;
  std::array<int64_t, N> offsets{};
  std::array<int64_t, N> steps{};
  for (size_t i = 0; i < N; ++i) steps[i] = nest.strides[i][outer_rank];
  for (uint32_t d = 0; d < nest.rank; ++d) {
    if (nest.sizes[d] == 0) return;
  }
  Dims index{};
  for (;;) {
    row(offsets, count, steps);
    uint32_t d = outer_rank;
    while (d > 0 && ++index[d - 1] == nest.sizes[d - 1]) {
      --d;
      index[d] = 0;
      for (size_t i = 0; i < N; ++i) offsets[i] -= nest.strides[i][d] * (nest.sizes[d] - 1);
    }
    if (d == 0) return;
    for (size_t i = 0; i < N; ++i) offsets[i] += nest.strides[i][d - 1];
  }
}

/// Calls visit(offsets) for each element, in row-major order.
template <size_t N, class Visit>
void for_each_element(const Nest<N>& nest, const Visit& visit) {
  for_each_row(nest, [&](std::array<int64_t, N> offsets, int64_t count,
                         const std::array<int64_t, N>& steps) {
    for (int64_t k = 0; k < count; ++k) {
      visit(offsets);
      for (size_t i = 0; i < N; ++i) offsets[i] += steps[i];
    }
  });
}

/// The strides of x along the dimensions of y, to which x broadcasts.
inline Dims broadcast_strides(const Tensor& x, const Tensor& y) {
  if (x.rank > y.rank) refuse("rank ", x.rank, " does not broadcast to rank ", y.rank);
  Dims strides{};
  const uint32_t lead = y.rank - x.rank;
  for (uint32_t i = 0; i < x.rank; ++i) {
    if (x.sizes[i] == y.sizes[lead + i]) {
      strides[lead + i] = x.strides[i];
    } else if (x.sizes[i] != 1) {
      refuse("size ", x.sizes[i], " does not broadcast to ", y.sizes[lead + i]);
    }
  }
  return strides;
}

/// The nest of an output and the inputs that broadcast to it: offsets[0] is the output's.
template <class... Inputs>
Nest<1 + sizeof...(Inputs)> broadcast_nest(const Tensor& y, const Inputs&... inputs) {
  return {y.rank, y.sizes, {y.strides, broadcast_strides(inputs, y)...}};
}

inline uint32_t axis_from_front(int64_t axis, uint32_t rank) {
  const int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front < 0 || from_front >= rank) refuse("axis ", axis, " of a tensor of rank ", rank);
  return static_cast<uint32_t>(from_front);
}

/// The dimensions of x but for the axis, with the strides of both tensors. y has another size
/// there, or has lost the axis.
inline Nest<2> lanes_of(const Tensor& x, const Tensor& y, uint32_t axis) {
  Nest<2> nest;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d == axis) continue;
    nest.sizes[nest.rank] = x.sizes[d];
    nest.strides[0][nest.rank] = x.strides[d];
    nest.strides[1][nest.rank] = y.strides[y.rank == x.rank || d < axis ? d : d - 1];
    ++nest.rank;
  }
  return nest;
}

}  // namespace bp::npu

#endif
