// SPDX-License-Identifier: Apache-2.0
//
// Half types to f32 and back by whole vectors.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_CONVERT_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_CONVERT_HPP

#include <cstdint>

namespace bp::cpu {

/// dtype: BP_DTYPE_F16 or BP_DTYPE_BF16. With `past_cache` what is written is left in no cache, and
/// other threads may read it once finish_stream() of copies.hpp has returned on this one.
void widen_halves(uint32_t dtype, const void* halves, float* out_values, int64_t count,
                  bool past_cache = false);
/// Rounds to nearest even; a NaN stays one.
void narrow_halves(uint32_t dtype, const float* values, void* out_halves, int64_t count,
                   bool past_cache = false);

}  // namespace bp::cpu

#endif
