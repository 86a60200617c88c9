// SPDX-License-Identifier: Apache-2.0
//
// Element types: in which type a kernel computes with each, and tables from dtype codes to a
// kernel's instance, so that a launch picks its loop with one load.
#ifndef BACKPLANE_PLUGINS_CPU_ELEMENT_HPP
#define BACKPLANE_PLUGINS_CPU_ELEMENT_HPP

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backplane/types.h"
#include "half.hpp"

namespace bp::cpu {

template <class T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<F16> {
  using Type = float;
};
template <>
struct ComputeOf<Bf16> {
  using Type = float;
};
/// The type to compute in: f32 for the half types, else the type itself.
template <class T>
using Compute = typename ComputeOf<T>::Type;

/// Integers wrap, which C++ defines for unsigned types only, and not for those narrower than int:
/// their products are promoted to int. Floats accumulate in themselves.
template <class T>
using Wrapping = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>,
                                    std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>>;

template <class T>
Compute<T> load(const T& element) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
    return widen(element);
  } else {
    return element;
  }
}

template <class T>
T store(Compute<T> value) {
  if constexpr (std::is_same_v<T, F16>) {
    return narrow_to_f16(value);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return narrow_to_bf16(value);
  } else {
    return value;
  }
}

/// What a maximum over nothing is.
template <class C>
constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>) {
    return -std::numeric_limits<C>::infinity();
  } else {
    return std::numeric_limits<C>::min();
  }
}

/// NaN wins over numbers.
template <class C>
C larger(C a, C b) {
  return (a > b || a != a) ? a : b;
}

template <class C>
C smaller(C a, C b) {
  return (a < b || a != a) ? a : b;
}

/// Entries are the static function `run` of a kernel's instance for the dtype. Those for dtypes
/// that a kernel does not take stay null; its dtype mask keeps them away.
template <class Function>
using DtypeTable = std::array<Function, BP_DTYPE_U4 + 1>;

template <template <class> class Kernel>
constexpr auto float_table() {
  DtypeTable<decltype(&Kernel<float>::run)> table{};
  table[BP_DTYPE_F16] = &Kernel<F16>::run;
  table[BP_DTYPE_BF16] = &Kernel<Bf16>::run;
  table[BP_DTYPE_F32] = &Kernel<float>::run;
  table[BP_DTYPE_F64] = &Kernel<double>::run;
  return table;
}

template <template <class> class Kernel>
constexpr auto signed_table() {
  auto table = float_table<Kernel>();
  table[BP_DTYPE_I8] = &Kernel<int8_t>::run;
  table[BP_DTYPE_I16] = &Kernel<int16_t>::run;
  table[BP_DTYPE_I32] = &Kernel<int32_t>::run;
  table[BP_DTYPE_I64] = &Kernel<int64_t>::run;
  return table;
}

template <template <class> class Kernel>
constexpr auto number_table() {
  auto table = signed_table<Kernel>();
  table[BP_DTYPE_U8] = &Kernel<uint8_t>::run;
  table[BP_DTYPE_U16] = &Kernel<uint16_t>::run;
  table[BP_DTYPE_U32] = &Kernel<uint32_t>::run;
  table[BP_DTYPE_U64] = &Kernel<uint64_t>::run;
  return table;
}

/// For kernels whose integer results have the same bits for signed and unsigned elements.
template <template <class> class Kernel>
constexpr auto wrapping_table() {
  auto table = float_table<Kernel>();
  table[BP_DTYPE_I8] = table[BP_DTYPE_U8] = &Kernel<uint8_t>::run;
  table[BP_DTYPE_I16] = table[BP_DTYPE_U16] = &Kernel<uint16_t>::run;
  table[BP_DTYPE_I32] = table[BP_DTYPE_U32] = &Kernel<uint32_t>::run;
  table[BP_DTYPE_I64] = table[BP_DTYPE_U64] = &Kernel<uint64_t>::run;
  return table;
}

}  // namespace bp::cpu

#endif
