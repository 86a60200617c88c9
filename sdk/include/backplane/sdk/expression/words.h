/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of emitted C and OpenCL C: what bp-exprgen writes calls these and nothing else. A
 * family of words is made for a type by one line: BP_FLOAT_WORDS(f32, float) gives bp_add_f32 and
 * so on. Integers wrap in their own width, which U computes; nothing is contracted; a NaN wins in
 * bp_min and bp_max.
 */
#ifndef BACKPLANE_SDK_EXPRESSION_WORDS_H
#define BACKPLANE_SDK_EXPRESSION_WORDS_H

#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define BP_WORD static inline
#define BP_MATH_f32(name) name
#define BP_MATH_f64(name) name
#define BP_RSQRT(S, a) rsqrt(a)
#else
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif
#define BP_WORD static inline __attribute__((unused))
#define BP_MATH_f32(name) name##f
#define BP_MATH_f64(name) name
#define BP_RSQRT(S, a) (1 / BP_MATH_##S(sqrt)(a))
#endif

#define BP_MAP_WORD(word, S, T) \
  BP_WORD T bp_##word##_##S(T a) { return BP_MATH_##S(word)(a); }

#define BP_ORDER_WORDS(S, T)                                         \
  BP_WORD T bp_min_##S(T a, T b) { return a < b || a != a ? a : b; } \
  BP_WORD T bp_max_##S(T a, T b) { return a > b || a != a ? a : b; } \
  BP_WORD bool bp_eq_##S(T a, T b) { return a == b; }                \
  BP_WORD bool bp_ne_##S(T a, T b) { return a != b; }                \
  BP_WORD bool bp_lt_##S(T a, T b) { return a < b; }                 \
  BP_WORD bool bp_le_##S(T a, T b) { return a <= b; }                \
  BP_WORD bool bp_gt_##S(T a, T b) { return a > b; }                 \
  BP_WORD bool bp_ge_##S(T a, T b) { return a >= b; }                \
  BP_WORD T bp_select_##S(bool condition, T a, T b) { return condition ? a : b; }

#define BP_FLOAT_WORDS(S, T)                                                              \
  BP_ORDER_WORDS(S, T)                                                                    \
  BP_WORD T bp_add_##S(T a, T b) { return a + b; }                                        \
  BP_WORD T bp_sub_##S(T a, T b) { return a - b; }                                        \
  BP_WORD T bp_mul_##S(T a, T b) { return a * b; }                                        \
  BP_WORD T bp_div_##S(T a, T b) { return a / b; }                                        \
  BP_WORD T bp_neg_##S(T a) { return -a; }                                                \
  BP_WORD T bp_abs_##S(T a) { return BP_MATH_##S(fabs)(a); }                              \
  BP_WORD T bp_sign_##S(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a != a ? a : (T)0; } \
  BP_WORD T bp_fmod_##S(T a, T b) { return BP_MATH_##S(fmod)(a, b); }                     \
  BP_WORD T bp_pow_##S(T a, T b) { return BP_MATH_##S(pow)(a, b); }                       \
  BP_WORD T bp_round_even_##S(T a) { return BP_MATH_##S(rint)(a); }                       \
  BP_WORD T bp_rsqrt_##S(T a) { return BP_RSQRT(S, a); }                                  \
  BP_WORD T bp_atan2_##S(T a, T b) { return BP_MATH_##S(atan2)(a, b); }                   \
  BP_WORD T bp_hypot_##S(T a, T b) { return BP_MATH_##S(hypot)(a, b); }                   \
  BP_WORD T bp_copysign_##S(T a, T b) { return BP_MATH_##S(copysign)(a, b); }             \
  BP_WORD T bp_nextafter_##S(T a, T b) { return BP_MATH_##S(nextafter)(a, b); }           \
  BP_WORD T bp_fma_##S(T a, T b, T c) { return BP_MATH_##S(fma)(a, b, c); }               \
  BP_WORD bool bp_is_nan_##S(T a) { return a != a; }                                      \
  BP_WORD bool bp_is_inf_##S(T a) { return BP_MATH_##S(fabs)(a) == (T)INFINITY; }         \
  BP_WORD bool bp_is_finite_##S(T a) { return BP_MATH_##S(fabs)(a) < (T)INFINITY; }       \
  BP_MAP_WORD(floor, S, T)                                                                \
  BP_MAP_WORD(ceil, S, T)                                                                 \
  BP_MAP_WORD(trunc, S, T)                                                                \
  BP_MAP_WORD(sqrt, S, T)                                                                 \
  BP_MAP_WORD(exp, S, T)                                                                  \
  BP_MAP_WORD(expm1, S, T)                                                                \
  BP_MAP_WORD(log, S, T)                                                                  \
  BP_MAP_WORD(log1p, S, T)                                                                \
  BP_MAP_WORD(log2, S, T)                                                                 \
  BP_MAP_WORD(log10, S, T)                                                                \
  BP_MAP_WORD(sin, S, T)                                                                  \
  BP_MAP_WORD(cos, S, T)                                                                  \
  BP_MAP_WORD(tan, S, T)                                                                  \
  BP_MAP_WORD(asin, S, T)                                                                 \
  BP_MAP_WORD(acos, S, T)                                                                 \
  BP_MAP_WORD(atan, S, T)                                                                 \
  BP_MAP_WORD(sinh, S, T)                                                                 \
  BP_MAP_WORD(cosh, S, T)                                                                 \
  BP_MAP_WORD(tanh, S, T)                                                                 \
  BP_MAP_WORD(asinh, S, T)                                                                \
  BP_MAP_WORD(acosh, S, T)                                                                \
  BP_MAP_WORD(atanh, S, T)                                                                \
  BP_MAP_WORD(erf, S, T)

/* Shifts by the width and more, and by negative amounts, leave nothing but the sign. */
#define BP_INTEGER_WORDS(S, T, U)                                                               \
  BP_ORDER_WORDS(S, T)                                                                          \
  BP_WORD T bp_add_##S(T a, T b) { return (T)((U)a + (U)b); }                                   \
  BP_WORD T bp_sub_##S(T a, T b) { return (T)((U)a - (U)b); }                                   \
  BP_WORD T bp_mul_##S(T a, T b) { return (T)((U)a * (U)b); }                                   \
  BP_WORD T bp_neg_##S(T a) { return (T)((U)0 - (U)a); }                                        \
  BP_WORD T bp_bit_and_##S(T a, T b) { return (T)(a & b); }                                     \
  BP_WORD T bp_bit_or_##S(T a, T b) { return (T)(a | b); }                                      \
  BP_WORD T bp_bit_xor_##S(T a, T b) { return (T)(a ^ b); }                                     \
  BP_WORD T bp_bit_not_##S(T a) { return (T)~a; }                                               \
  BP_WORD T bp_shl_##S(T a, T by) { return (U)by < sizeof(T) * 8 ? (T)((U)a << (U)by) : (T)0; } \
  BP_WORD T bp_shr_##S(T a, T by) {                                                             \
    if ((U)by < sizeof(T) * 8) return (T)(a >> by);                                             \
    return a < (T)1 && a != 0 ? (T)-1 : (T)0;                                                   \
  }                                                                                             \
  BP_WORD T bp_power_##S(T a, T n) {                                                            \
    T result = 1;                                                                               \
    for (; n != 0; n = (T)(n >> 1)) {                                                           \
      if ((n & 1) != 0) result = bp_mul_##S(result, a);                                         \
      a = bp_mul_##S(a, a);                                                                     \
    }                                                                                           \
    return result;                                                                              \
  }

/* By zero: 0. The smallest integer by -1 wraps. A power with a negative exponent is the truncated
 * 1 / a^n. */
#define BP_SIGNED_WORDS(S, T, U)                                                    \
  BP_INTEGER_WORDS(S, T, U)                                                         \
  BP_WORD T bp_abs_##S(T a) { return a < 0 ? bp_neg_##S(a) : a; }                   \
  BP_WORD T bp_sign_##S(T a) { return (T)((a > 0 ? 1 : 0) - (a < 0 ? 1 : 0)); }     \
  BP_WORD T bp_div_##S(T a, T b) {                                                  \
    if (b == 0) return 0;                                                           \
    return b == -1 ? bp_neg_##S(a) : (T)(a / b);                                    \
  }                                                                                 \
  BP_WORD T bp_fmod_##S(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); } \
  BP_WORD T bp_pow_##S(T a, T n) {                                                  \
    if (n >= 0) return bp_power_##S(a, n);                                          \
    if (a != 1 && a != -1) return 0;                                                \
    return (n & 1) != 0 ? a : (T)1;                                                 \
  }

#define BP_UNSIGNED_WORDS(S, T, U)                                       \
  BP_INTEGER_WORDS(S, T, U)                                              \
  BP_WORD T bp_abs_##S(T a) { return a; }                                \
  BP_WORD T bp_sign_##S(T a) { return (T)(a > 0 ? 1 : 0); }              \
  BP_WORD T bp_div_##S(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }  \
  BP_WORD T bp_fmod_##S(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); } \
  BP_WORD T bp_pow_##S(T a, T n) { return bp_power_##S(a, n); }

#define BP_BOOL_WORDS(S, T)                                   \
  BP_WORD bool bp_eq_bool(bool a, bool b) { return a == b; }  \
  BP_WORD bool bp_ne_bool(bool a, bool b) { return a != b; }  \
  BP_WORD bool bp_and_bool(bool a, bool b) { return a && b; } \
  BP_WORD bool bp_or_bool(bool a, bool b) { return a || b; }  \
  BP_WORD bool bp_not_bool(bool a) { return !a; }             \
  BP_WORD bool bp_select_bool(bool condition, bool a, bool b) { return condition ? a : b; }

/* Conversions. Integers wrap, floats round to nearest even, what is not 0 is true. */
#define BP_CAST_WORD(FROM, A, TO, T) \
  BP_WORD T bp_cast_##FROM##_##TO(A a) { return (T)a; }
#define BP_CAST_BOOL_WORD(FROM, A) \
  BP_WORD bool bp_cast_##FROM##_bool(A a) { return a != 0; }
/* A float to an integer: toward zero, the nearest one where it is out of range, NaN to 0. ABOVE is
 * one more than the highest, which the float can tell. */
#define BP_CAST_SATURATED_WORD(FROM, A, TO, T, LOWEST, HIGHEST, ABOVE) \
  BP_WORD T bp_cast_##FROM##_##TO(A a) {                               \
    if (a != a) return (T)0;                                           \
    if (a <= (A)LOWEST) return LOWEST;                                 \
    return a >= (A)ABOVE ? HIGHEST : (T)a;                             \
  }

#endif
