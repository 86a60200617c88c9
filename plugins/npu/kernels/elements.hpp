// SPDX-License-Identifier: Apache-2.0
//
// Element types: lists of them, the choice of one by its dtype, and in which type a kernel computes
// with each.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_ELEMENTS_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_ELEMENTS_HPP

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backplane/sdk/expression/loops.h"
#include "kernels/launch.hpp"

namespace bp::npu {

/// The half types, as the emitted kernels convert them.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;
template <class T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;

/// The type to compute in: f32 for the half types, else the type itself.
template <class T>
using Compute = std::conditional_t<kIsHalf<T>, float, T>;

/// What sums and products are kept in. Integers wrap, which C++ defines for unsigned types only,
/// and not for those narrower than int.
template <class T>
using Running = std::conditional_t<kIsFloat<T>, Compute<T>,
                                   std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>>;

template <class T>
Compute<T> load(T element) {
  if constexpr (std::is_same_v<T, F16>) {
    return bp_f32_of_f16(element.bits);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return bp_f32_of_bf16(element.bits);
  } else {
    return element;
  }
}

template <class T>
T store(Compute<T> value) {
  if constexpr (std::is_same_v<T, F16>) {
    return {bp_f16_of_f32(value)};
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return {bp_bf16_of_f32(value)};
  } else {
    return value;
  }
}

/// Rounded once. To a half type by way of f32: an inexact result there gets an odd last bit, so
/// that the second rounding gives what one alone would.
template <class T>
T store_double(double value) {
  if constexpr (!kIsHalf<T>) {
    return static_cast<T>(value);
  } else {
    const auto nearest = static_cast<float>(value);
    const double back = nearest;
    auto bits = std::bit_cast<uint32_t>(nearest);
    if (back != value && !std::isnan(value) && (bits & 1) == 0) {
      bits = std::fabs(back) > std::fabs(value) ? bits - 1 : bits + 1;
    }
    return store<T>(std::bit_cast<float>(bits));
  }
}

/// An element in the type that sums are kept in, and back.
template <class T>
Running<T> load_running(T element) {
  return static_cast<Running<T>>(load(element));
}
template <class T>
T store_running(Running<T> value) {
  return store<T>(static_cast<Compute<T>>(value));
}

/// What a maximum over nothing is.
template <class C>
constexpr C lowest() {
  using Limits = std::numeric_limits<C>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <class T>
constexpr uint32_t dtype_of() {
  constexpr bool kWide = sizeof(T) > 4;
  if constexpr (std::is_same_v<T, bool>) {
    return BP_DTYPE_BOOL;
  } else if constexpr (kIsHalf<T>) {
    return std::is_same_v<T, F16> ? BP_DTYPE_F16 : BP_DTYPE_BF16;
  } else if constexpr (kIsFloat<T>) {
    return kWide ? BP_DTYPE_F64 : BP_DTYPE_F32;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 1   ? BP_DTYPE_I8
           : sizeof(T) == 2 ? BP_DTYPE_I16
           : kWide          ? BP_DTYPE_I64
                            : BP_DTYPE_I32;
  } else {
    return sizeof(T) == 1   ? BP_DTYPE_U8
           : sizeof(T) == 2 ? BP_DTYPE_U16
           : kWide          ? BP_DTYPE_U64
                            : BP_DTYPE_U32;
  }
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

using Floats = TypeList<float, double, F16, Bf16>;
using Numbers = TypeList<float, double, F16, Bf16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                         uint16_t, uint32_t, uint64_t>;
using Elements = TypeList<float, double, F16, Bf16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                          uint16_t, uint32_t, uint64_t, bool>;
using Indices = TypeList<int32_t, int64_t>;

}  // namespace bp::npu

#endif
