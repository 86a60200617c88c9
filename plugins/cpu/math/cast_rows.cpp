// SPDX-License-Identifier: Apache-2.0
//
// See cast_rows.hpp. Loops without branches, which the compiler makes vectors of, compiled for each
// instruction set that Highway knows and chosen when they run.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/cast_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backplane/types.h"
#include "math/cast_rows.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_MATH_CAST_ROWS_ONCE
#define BACKPLANE_PLUGINS_CPU_MATH_CAST_ROWS_ONCE
namespace bp::cpu {

struct BoolByte {
  uint8_t byte;
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Toward zero; out of range the nearest value, NaN to 0.
template <class To, class From>
HWY_INLINE To saturated(From value) {
  using Limits = std::numeric_limits<To>;
  const From number = value == value ? value : From{0};
  constexpr From kLeast = static_cast<From>(Limits::min());
  const From not_below = number > kLeast ? number : kLeast;
  if constexpr (sizeof(To) < 4) {
    constexpr From kMost = Limits::max();
    return static_cast<To>(static_cast<int32_t>(not_below < kMost ? not_below : kMost));
  } else {
    constexpr From kAbove = -kLeast;  // one above the largest, which the float may not hold
    const bool is_above = number >= kAbove;
    const To whole = static_cast<To>(is_above ? From{0} : not_below);
    return is_above ? Limits::max() : whole;
  }
}

template <class To, class From>
HWY_INLINE To cast_one(From value) {
  if constexpr (std::is_same_v<From, BoolByte>) {
    return static_cast<To>(std::min<uint8_t>(value.byte, 1));
  } else if constexpr (std::is_same_v<To, BoolByte>) {
    return {static_cast<uint8_t>(value != From{0})};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturated<To>(value);
  } else {
    return static_cast<To>(value);  // integers wrap
  }
}

template <class To, class From>
void cast_row(const void* x_data, void* y_data, int64_t count) {
  const From* HWY_RESTRICT x = static_cast<const From*>(x_data);
  To* HWY_RESTRICT y = static_cast<To*>(y_data);
  for (int64_t i = 0; i < count; ++i) y[i] = cast_one<To>(x[i]);
}

template <class From>
CastRow row_from(uint32_t to) {
  switch (to) {
    case BP_DTYPE_BOOL:
      if constexpr (!std::is_same_v<From, BoolByte>) return cast_row<BoolByte, From>;
      return nullptr;
    case BP_DTYPE_I8:
      return cast_row<int8_t, From>;
    case BP_DTYPE_U8:
      return cast_row<uint8_t, From>;
    case BP_DTYPE_I32:
      return cast_row<int32_t, From>;
    case BP_DTYPE_I64:
      return cast_row<int64_t, From>;
    case BP_DTYPE_F32:
      return cast_row<float, From>;
    case BP_DTYPE_F64:
      return cast_row<double, From>;
    default:
      return nullptr;
  }
}

CastRow row_of(uint32_t from, uint32_t to) {
  switch (from) {
    case BP_DTYPE_BOOL:
      return row_from<BoolByte>(to);
    case BP_DTYPE_I8:
      return row_from<int8_t>(to);
    case BP_DTYPE_U8:
      return row_from<uint8_t>(to);
    case BP_DTYPE_I32:
      return row_from<int32_t>(to);
    case BP_DTYPE_I64:
      return row_from<int64_t>(to);
    case BP_DTYPE_F32:
      return row_from<float>(to);
    case BP_DTYPE_F64:
      return row_from<double>(to);
    default:
      return nullptr;
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(row_of);

CastRow cast_row_of(uint32_t from, uint32_t to) { return HWY_DYNAMIC_DISPATCH(row_of)(from, to); }

}  // namespace bp::cpu
#endif
