// SPDX-License-Identifier: Apache-2.0
//
// Loops over strided tensors, shared by the kernels: a nest of sizes that is walked in row-major
// order with one offset per operand, broadcasting as stride 0, and the choice of an element type.
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

template <class T>
constexpr uint32_t dtype_of();
template <>
constexpr uint32_t dtype_of<bool>() {
  return BP_DTYPE_BOOL;
}
template <>
constexpr uint32_t dtype_of<uint8_t>() {
  return BP_DTYPE_U8;
}
template <>
constexpr uint32_t dtype_of<int32_t>() {
  return BP_DTYPE_I32;
}
template <>
constexpr uint32_t dtype_of<int64_t>() {
  return BP_DTYPE_I64;
}
template <>
constexpr uint32_t dtype_of<float>() {
  return BP_DTYPE_F32;
}

/// Element types as a list: its dtype set for a descriptor, and the one that a dtype names.
template <class... Types>
struct TypeList {
  static constexpr uint64_t kMask = sdk::dtypes({dtype_of<Types>()...});
  static constexpr uint64_t kDtypes[1] = {kMask};

  /// Calls call(T{}) with the T of `dtype`.
  template <class Call>
  static void with_type(uint32_t dtype, const Call& call) {
    const bool found = ((dtype == dtype_of<Types>() && (call(Types{}), true)) || ...);
    if (!found) refuse("dtype ", dtype, " is not one of this kernel's");
  }
};

using Numbers = TypeList<float, int32_t, int64_t>;
using CastTypes = TypeList<float, int32_t, int64_t, uint8_t, bool>;

}  // namespace bp::npu

#endif
