// SPDX-License-Identifier: Apache-2.0
//
// The functions of the expression language on whole vectors of f32 and f64. A lane's result depends
// on that lane alone, so that a value has the same bits wherever it stands in a tensor. Between
// instruction sets the last bits may differ, for scalar code has no fused multiply-add.
//
// exp, tanh and erf of f32 are ours, because they are what models spend their time in and a call
// per vector costs as much as the polynomial: coefficients are minimax fits, rounded to f32 one by
// one from the lowest power on, with those left fitted again. The rest is SLEEF's, with its ranges
// mended where it answers infinity or NaN too early.
#if defined(BACKPLANE_PLUGINS_CPU_MATH_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_MATH_VECTOR_MATH_INL
#undef BACKPLANE_PLUGINS_CPU_MATH_VECTOR_MATH_INL
#else
#define BACKPLANE_PLUGINS_CPU_MATH_VECTOR_MATH_INL
#endif

#include <cmath>
#include <type_traits>

#include "math/sleef-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class V>
using LaneOf = hn::TFromD<hn::DFromV<V>>;

template <class V>
V vset(double value) {
  return hn::Set(hn::DFromV<V>(), static_cast<LaneOf<V>>(value));
}

// c[0] + c[1] x + c[2] x^2 ...
template <class V, size_t N>
V polynomial(V x, const float (&c)[N]) {
  V sum = vset<V>(static_cast<double>(c[N - 1]));
  for (size_t i = N - 1; i-- > 0;) sum = hn::MulAdd(sum, x, vset<V>(static_cast<double>(c[i])));
  return sum;
}

// ---- f32 of our own ----

inline constexpr float kExpTail[] = {0.49999994040F, 0.16666516662F, 0.04166828096F, 0.00836924929F,
                                     0.00138207746F};
inline constexpr float kTanhTail[] = {-0.33333331347F, 0.13333228230F,  -0.05394969508F,
                                      0.02171747200F,  -0.00822065491F, 0.00218423619F};
inline constexpr float kErfTail[] = {0.12837916613F,  -0.37612628937F, 0.11283625662F,
                                     -0.02685573138F, 0.00519240508F,  -0.00080497697F,
                                     0.00007996650F};
inline constexpr float kErfcLog[] = {-0.00017468454F, 1.12951493263F,  0.63334691525F,
                                     0.10828004032F,  -0.02511935122F, 0.00417100964F,
                                     -0.00043444513F, 0.00002109288F};

// NaN stays NaN: of x86's instructions it is the second operand that is given then.
template <class V>
V clamp_number(V x, V low, V high) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Min(high, hn::Max(low, x));
#else
  x = hn::IfThenElse(hn::Gt(x, high), high, x);
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

// x * 2^n for a whole n, in steps: results below the normal range are rounded once.
inline F32 scale_by_power(F32 x, F32 n, F32 n_shifted) {
#if HWY_TARGET == HWY_AVX3
  (void)n_shifted;
  return F32{_mm512_scalef_ps(x.raw, n.raw)};
#else
  (void)n;
  const hn::DFromV<F32> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto bias = hn::Set(di, 127);
  const auto whole = hn::Sub(hn::BitCast(di, n_shifted), hn::Set(di, 0x4b400000));
  const auto half = hn::ShiftRight<1>(whole);
  const F32 scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const F32 rest = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(x, scale), rest);
#endif
}

// e^x = 2^n e^r with |r| <= ln 2 / 2.
struct ExpParts {
  F32 fraction;  // e^r
  F32 n;
  F32 n_shifted;  // 1.5 * 2^23 + n
};

inline ExpParts exp_parts(F32 x) {
  const hn::DFromV<F32> d;
  // A sum with 1.5 * 2^23 has no digits after the point: it is rounded, and its last bits are n.
  const F32 shift = hn::Set(d, 12582912.0F);
  const F32 n_shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), shift);
  const F32 n = hn::Sub(n_shifted, shift);
  // ln 2 in two parts; the first has few enough bits for n times it to be exact without a fused
  // multiply-add.
  F32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  const F32 tail = hn::MulAdd(hn::Mul(r, r), polynomial(r, kExpTail), r);
  return {hn::Add(hn::Set(d, 1.0F), tail), n, n_shifted};
}

inline F32 vexp(F32 x) {
  const hn::DFromV<F32> d;
  const ExpParts parts = exp_parts(clamp_number(x, hn::Set(d, -104.0F), hn::Set(d, 89.0F)));
  return scale_by_power(parts.fraction, parts.n, parts.n_shifted);
}

// e^x for x from -80 to 80, whose exponent takes n as it is. Of NaN anything.
inline F32 exp_within(F32 x) {
  const hn::DFromV<F32> d;
  const hn::RebindToSigned<decltype(d)> di;
  const ExpParts parts = exp_parts(x);
  const auto power = hn::ShiftLeft<23>(hn::BitCast(di, parts.n_shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, parts.fraction), power));
}

inline F32 vtanh(F32 x) {
  const hn::DFromV<F32> d;
  const F32 magnitude = hn::Abs(x);
  const F32 one = hn::Set(d, 1.0F);
  const F32 square = hn::Mul(x, x);
  const F32 small = hn::MulAdd(hn::Mul(x, square), polynomial(square, kTanhTail), x);
  // From 10 on the result rounds to 1.
  const F32 inside = hn::Min(magnitude, hn::Set(d, 10.0F));
  const F32 power = exp_within(hn::Add(inside, inside));
  const F32 large = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(power, one)));
  // The sign goes on at the end: the sum of -0 and +0 is +0.
  // NaN is not large.
  return hn::CopySign(hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 0.6F)), large, small), x);
}

inline F32 verf(F32 x) {
  const hn::DFromV<F32> d;
  const F32 magnitude = hn::Abs(x);
  const F32 square = hn::Mul(x, x);
  const F32 small = hn::MulAdd(x, polynomial(square, kErfTail), x);
  // From 4 on the result rounds to 1, and the fit ends there.
  const F32 top = hn::Set(d, 4.0F);
  const F32 power = exp_within(hn::Neg(polynomial(hn::Min(magnitude, top), kErfcLog)));
  const F32 large = hn::Sub(hn::Set(d, 1.0F), power);
  // NaN is not large.
  return hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 0.93F)), hn::CopySign(large, x), small);
}

// ---- as SLEEF has them ----

inline F64 vexp(F64 x) { return sleef_exp(x); }
inline F64 vtanh(F64 x) { return sleef_tanh(x); }
inline F64 verf(F64 x) { return sleef_erf(x); }

template <class V>
V vexpm1(V x) {
  return sleef_expm1(x);
}
template <class V>
V vlog(V x) {
  return sleef_log(x);
}
template <class V>
V vlog2(V x) {
  return sleef_log2(x);
}
template <class V>
V vlog10(V x) {
  return sleef_log10(x);
}
template <class V>
V vsin(V x) {
  return sleef_sin(x);
}
template <class V>
V vcos(V x) {
  return sleef_cos(x);
}
template <class V>
V vtan(V x) {
  return sleef_tan(x);
}
template <class V>
V vasin(V x) {
  return sleef_asin(x);
}
template <class V>
V vacos(V x) {
  return sleef_acos(x);
}
template <class V>
V vatan(V x) {
  return sleef_atan(x);
}
template <class V>
V vatanh(V x) {
  return sleef_atanh(x);
}
template <class V>
V vatan2(V a, V b) {
  return sleef_atan2(a, b);
}
template <class V>
V vhypot(V a, V b) {
  return sleef_hypot(a, b);
}

// ---- with ranges of our own ----

// From here on 1 + x and x have the same logarithm in every digit.
template <class V>
V huge() {
  return vset<V>(std::is_same_v<LaneOf<V>, float> ? 0x1p27 : 0x1p56);
}

template <class V>
V vlog1p(V x) {
  const auto is_huge = hn::Gt(x, huge<V>());
  return hn::IfThenElse(is_huge, sleef_log(x), sleef_log1p(hn::IfThenZeroElse(is_huge, x)));
}

// Where e^-x is nothing beside e^x, half of e^x: e^(x-1) does not overflow before the result does.
template <class V>
V half_exp(V magnitude) {
  return hn::Mul(vexp(hn::Sub(magnitude, vset<V>(1.0))), vset<V>(1.3591409142295226177));
}

template <class V>
V vsinh(V x) {
  const V magnitude = hn::Abs(x);
  const auto is_large = hn::Gt(magnitude, vset<V>(20.0));
  const V large = hn::CopySign(half_exp(magnitude), x);
  return hn::IfThenElse(is_large, large, sleef_sinh(hn::IfThenZeroElse(is_large, x)));
}

template <class V>
V vcosh(V x) {
  const V magnitude = hn::Abs(x);
  const auto is_large = hn::Gt(magnitude, vset<V>(20.0));
  return hn::IfThenElse(is_large, half_exp(magnitude), sleef_cosh(hn::IfThenZeroElse(is_large, x)));
}

// log 2x where x^2 is so large that 1 beside it is nothing.
template <class V>
V log_of_double(V magnitude) {
  return hn::Add(sleef_log(magnitude), vset<V>(0.69314718055994530942));
}

template <class V>
V vasinh(V x) {
  const V magnitude = hn::Abs(x);
  const auto is_huge = hn::Gt(magnitude, huge<V>());
  const V large = hn::CopySign(log_of_double(magnitude), x);
  return hn::IfThenElse(is_huge, large, sleef_asinh(hn::IfThenZeroElse(is_huge, x)));
}

template <class V>
V vacosh(V x) {
  const auto is_huge = hn::Gt(x, huge<V>());
  return hn::IfThenElse(is_huge, log_of_double(x),
                        sleef_acosh(hn::IfThenElse(is_huge, vset<V>(1.0), x)));
}

// SLEEF's overflows some hundred units before the largest value, which the C library's does not.
template <class V>
V vpow(V a, V b) {
  const hn::DFromV<V> d;
  const V power = sleef_pow(a, b);
  const auto is_early = hn::And(hn::IsInf(power), hn::And(hn::IsFinite(a), hn::IsFinite(b)));
  if (HWY_LIKELY(hn::AllFalse(d, is_early))) return power;
  return by_lanes2(a, b, [](auto base, auto exponent) { return std::pow(base, exponent); });
}

// ---- exact, or rounded once ----

template <class V>
V vsqrt(V x) {
  return hn::Sqrt(x);
}
template <class V>
V vrsqrt(V x) {
  return hn::Div(vset<V>(1.0), hn::Sqrt(x));
}
// With the sign of x, which Highway's scalar code loses where the result is 0.
template <class V>
V vfloor(V x) {
  return hn::CopySign(hn::Floor(x), x);
}
template <class V>
V vceil(V x) {
  return hn::CopySign(hn::Ceil(x), x);
}
template <class V>
V vtrunc(V x) {
  return hn::CopySign(hn::Trunc(x), x);
}
template <class V>
V vround_even(V x) {
  return hn::CopySign(hn::Round(x), x);
}
template <class V>
V vabs(V x) {
  return hn::Abs(x);
}
template <class V>
V vcopysign(V magnitude, V sign) {
  return hn::CopySign(magnitude, sign);
}
template <class V>
V vnextafter(V a, V b) {
  return by_lanes2(a, b, [](auto left, auto right) { return std::nextafter(left, right); });
}

// The remainder has the sign of a. By lanes: no vector form is exact for every quotient.
template <class V>
V vfmod(V a, V b) {
  return by_lanes2(a, b, [](auto left, auto right) { return std::fmod(left, right); });
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
