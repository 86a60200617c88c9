// SPDX-License-Identifier: Apache-2.0
//
// SLEEF's functions for whole vectors of this target, as overloads for f32 and f64. They are
// declared here: its header hides those for AVX-512 behind a macro that gcc 12 does not define for
// a target pragma, and its inline functions would be compiled for whichever target comes first. On
// processors that SLEEF is not built for here, each lane calls the C library. So it does where
// clang compiles: in a file whose own target is older it passes vectors in memory, not in
// registers.
#if defined(BACKPLANE_PLUGINS_CPU_MATH_SLEEF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_MATH_SLEEF_INL
#undef BACKPLANE_PLUGINS_CPU_MATH_SLEEF_INL
#else
#define BACKPLANE_PLUGINS_CPU_MATH_SLEEF_INL
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::Vec<hn::ScalableTag<float>>;
using F64 = hn::Vec<hn::ScalableTag<double>>;

template <class V, class Function>
V by_lanes2(V a, V b, const Function& function) {
  const hn::DFromV<V> d;
  HWY_ALIGN hn::TFromD<decltype(d)> left[hn::MaxLanes(d)];
  HWY_ALIGN hn::TFromD<decltype(d)> right[hn::MaxLanes(d)];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  for (size_t i = 0; i < hn::Lanes(d); ++i) left[i] = function(left[i], right[i]);
  return hn::Load(d, left);
}

#undef BP_SLEEF_NAME32
#undef BP_SLEEF_NAME64
#undef BP_SLEEF
#undef BP_SLEEF2
#if HWY_TARGET == HWY_AVX3 && !HWY_COMPILER_CLANG
#define BP_SLEEF_NAME32(name, ulp) Sleef_##name##f16_##ulp##avx512f
#define BP_SLEEF_NAME64(name, ulp) Sleef_##name##d8_##ulp##avx512f
#elif HWY_TARGET == HWY_AVX2 && !HWY_COMPILER_CLANG
#define BP_SLEEF_NAME32(name, ulp) Sleef_##name##f8_##ulp##avx2
#define BP_SLEEF_NAME64(name, ulp) Sleef_##name##d4_##ulp##avx2
#elif HWY_TARGET == HWY_SCALAR && HWY_ARCH_X86
#define BP_SLEEF_NAME32(name, ulp) Sleef_##name##f_##ulp
#define BP_SLEEF_NAME64(name, ulp) Sleef_##name##_##ulp
#endif

#ifdef BP_SLEEF_NAME32
using F32Raw = decltype(F32::raw);
using F64Raw = decltype(F64::raw);
#define BP_SLEEF(name)                                                              \
  extern "C" F32Raw BP_SLEEF_NAME32(name, u10)(F32Raw);                             \
  extern "C" F64Raw BP_SLEEF_NAME64(name, u10)(F64Raw);                             \
  inline F32 sleef_##name(F32 x) { return F32{BP_SLEEF_NAME32(name, u10)(x.raw)}; } \
  inline F64 sleef_##name(F64 x) { return F64{BP_SLEEF_NAME64(name, u10)(x.raw)}; }
#define BP_SLEEF2(name, ulp)                                                                      \
  extern "C" F32Raw BP_SLEEF_NAME32(name, ulp)(F32Raw, F32Raw);                                   \
  extern "C" F64Raw BP_SLEEF_NAME64(name, ulp)(F64Raw, F64Raw);                                   \
  inline F32 sleef_##name(F32 a, F32 b) { return F32{BP_SLEEF_NAME32(name, ulp)(a.raw, b.raw)}; } \
  inline F64 sleef_##name(F64 a, F64 b) { return F64{BP_SLEEF_NAME64(name, ulp)(a.raw, b.raw)}; }
#else
#define BP_SLEEF(name)                                                       \
  template <class V>                                                         \
  V sleef_##name(V x) {                                                      \
    return by_lanes2(x, x, [](auto lane, auto) { return std::name(lane); }); \
  }
#define BP_SLEEF2(name, ulp)                                                              \
  template <class V>                                                                      \
  V sleef_##name(V a, V b) {                                                              \
    return by_lanes2(a, b, [](auto left, auto right) { return std::name(left, right); }); \
  }
#endif

BP_SLEEF(exp)
BP_SLEEF(expm1)
BP_SLEEF(log)
BP_SLEEF(log1p)
BP_SLEEF(log2)
BP_SLEEF(log10)
BP_SLEEF(sin)
BP_SLEEF(cos)
BP_SLEEF(tan)
BP_SLEEF(asin)
BP_SLEEF(acos)
BP_SLEEF(atan)
BP_SLEEF(sinh)
BP_SLEEF(cosh)
BP_SLEEF(tanh)
BP_SLEEF(asinh)
BP_SLEEF(acosh)
BP_SLEEF(atanh)
BP_SLEEF(erf)
BP_SLEEF2(pow, u10)
BP_SLEEF2(atan2, u10)
BP_SLEEF2(hypot, u05)

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
