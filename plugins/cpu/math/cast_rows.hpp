// SPDX-License-Identifier: Apache-2.0
//
// Casts of rows without gaps between the types that models are full of.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_CAST_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_CAST_ROWS_HPP

#include <cstdint>

namespace bp::cpu {

using CastRow = void (*)(const void* x, void* y, int64_t count);

/// Between bool, i8, u8, i32, i64, f32 and f64. nullptr for other types.
CastRow cast_row_of(uint32_t from, uint32_t to);

}  // namespace bp::cpu

#endif
