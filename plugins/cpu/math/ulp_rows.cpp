// SPDX-License-Identifier: Apache-2.0
//
// See ulp_rows.hpp. Vector code by Highway, compiled for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/ulp_rows.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "math/lanes-inl.hpp"
#include "math/ulp_rows.hpp"
#include "math/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class V>
using UnaryFunction = V (*)(V);

template <class V>
constexpr UnaryFunction<V> kUnary[] = {vexp,      vexpm1<V>, vlog<V>,        vlog1p<V>, vsqrt<V>,
                                       vrsqrt<V>, vsin<V>,   vcos<V>,        vtan<V>,   vasin<V>,
                                       vacos<V>,  vatan<V>,  vsinh<V>,       vcosh<V>,  vtanh,
                                       vasinh<V>, vacosh<V>, vatanh<V>,      verf,      vfloor<V>,
                                       vceil<V>,  vtrunc<V>, vround_even<V>, vlog2<V>,  vlog10<V>};
template <class V>
constexpr V (*kBinary[])(V, V) = {vpow<V>, vfmod<V>, vatan2<V>, vhypot<V>, vnextafter<V>};

template <class T>
void unary_row(size_t function, const T* x, T* y, size_t count) {
  const hn::ScalableTag<Compute<T>> d;
  const size_t lanes = hn::Lanes(d);
  const auto apply = kUnary<hn::Vec<decltype(d)>>[function];
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) store_lanes(apply(load_lanes(d, x + i)), d, y + i);
  if (i < count) store_part(apply(load_part(d, x + i, count - i)), d, y + i, count - i);
}

template <class T>
void binary_row(size_t function, const T* a, const T* b, T* y, size_t count) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto apply = kBinary<hn::Vec<decltype(d)>>[function];
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_lanes(apply(load_lanes(d, a + i), load_lanes(d, b + i)), d, y + i);
  }
  if (i == count) return;
  const auto part = apply(load_part(d, a + i, count - i), load_part(d, b + i, count - i));
  store_part(part, d, y + i, count - i);
}

void unary_f32(size_t f, const float* x, float* y, size_t n) { unary_row(f, x, y, n); }
void unary_f64(size_t f, const double* x, double* y, size_t n) { unary_row(f, x, y, n); }
void unary_f16(size_t f, const F16* x, F16* y, size_t n) { unary_row(f, x, y, n); }
void unary_bf16(size_t f, const Bf16* x, Bf16* y, size_t n) { unary_row(f, x, y, n); }
void binary_f32(size_t f, const float* a, const float* b, float* y, size_t n) {
  binary_row(f, a, b, y, n);
}
void binary_f64(size_t f, const double* a, const double* b, double* y, size_t n) {
  binary_row(f, a, b, y, n);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(unary_f32);
HWY_EXPORT(unary_f64);
HWY_EXPORT(unary_f16);
HWY_EXPORT(unary_bf16);
HWY_EXPORT(binary_f32);
HWY_EXPORT(binary_f64);

void apply_unary(size_t function, const float* x, float* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(unary_f32)(function, x, y, count);
}
void apply_unary(size_t function, const double* x, double* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(unary_f64)(function, x, y, count);
}
void apply_unary(size_t function, const F16* x, F16* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(unary_f16)(function, x, y, count);
}
void apply_unary(size_t function, const Bf16* x, Bf16* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(unary_bf16)(function, x, y, count);
}
void apply_binary(size_t function, const float* a, const float* b, float* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(binary_f32)(function, a, b, y, count);
}
void apply_binary(size_t function, const double* a, const double* b, double* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(binary_f64)(function, a, b, y, count);
}

int64_t supported_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

int64_t compiled_targets() { return HWY_TARGETS; }

void use_target(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

const char* name_of_target(int64_t target) { return hwy::TargetName(target); }

}  // namespace bp::cpu
#endif
