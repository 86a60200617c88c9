// SPDX-License-Identifier: Apache-2.0
//
// See quantize_rows.hpp. Loops without branches, which the compiler makes vectors of, compiled for
// each instruction set that Highway knows and chosen when they run.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/quantize_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backplane/types.h"
#include "math/quantize_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class Q>
void quantize_row(const float* HWY_RESTRICT x, float scale, float zero, int64_t count,
                  void* y_data) {
  Q* HWY_RESTRICT y = static_cast<Q*>(y_data);
  for (int64_t i = 0; i < count; ++i) y[i] = quantized<Q>(x[i], scale, zero);
}

QuantizeRow row_to(uint32_t to) {
  if (to == BP_DTYPE_I8) return quantize_row<int8_t>;
  if (to == BP_DTYPE_U8) return quantize_row<uint8_t>;
  return to == BP_DTYPE_I16 ? quantize_row<int16_t> : quantize_row<uint16_t>;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(row_to);

QuantizeRow quantize_row_of(uint32_t to) { return HWY_DYNAMIC_DISPATCH(row_to)(to); }

}  // namespace bp::cpu
#endif
