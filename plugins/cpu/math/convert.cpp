// SPDX-License-Identifier: Apache-2.0
//
// See convert.hpp. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/convert.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "math/convert.hpp"
#include "math/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class To, class From>
void convert(const From* x, To* y, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_lanes(load_lanes(d, x + i), d, y + i);
  if (i == count) return;
  const auto rest = static_cast<size_t>(count - i);
  store_part(load_part(d, x + i, rest), d, y + i, rest);
}

void widen_row(bool is_f16, const void* x, float* y, int64_t count) {
  if (is_f16) return convert(static_cast<const F16*>(x), y, count);
  convert(static_cast<const Bf16*>(x), y, count);
}

void narrow_row(bool is_f16, const float* x, void* y, int64_t count) {
  if (is_f16) return convert(x, static_cast<F16*>(y), count);
  convert(x, static_cast<Bf16*>(y), count);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(widen_row);
HWY_EXPORT(narrow_row);

void widen_halves(uint32_t dtype, const void* halves, float* out_values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(widen_row)(dtype == BP_DTYPE_F16, halves, out_values, count);
}
void narrow_halves(uint32_t dtype, const float* values, void* out_halves, int64_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_row)(dtype == BP_DTYPE_F16, values, out_halves, count);
}

}  // namespace bp::cpu
#endif
