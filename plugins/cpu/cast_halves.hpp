// SPDX-License-Identifier: Apache-2.0
//
// Whole tensors between half types and f32.
#ifndef BACKPLANE_PLUGINS_CPU_CAST_HALVES_HPP
#define BACKPLANE_PLUGINS_CPU_CAST_HALVES_HPP

#include "backplane/types.h"
#include "parallel.hpp"

namespace bp::cpu {

/// f16 or bf16.
constexpr bool is_half(uint32_t dtype) { return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16; }

/// From a half type to f32, or the other way with one rounding. Both tensors have no gaps and lie
/// alike.
void cast_halves(Workers& workers, const bp_tensor& x, const bp_tensor& y);

}  // namespace bp::cpu

#endif
