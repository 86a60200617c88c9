// SPDX-License-Identifier: Apache-2.0
//
// The vector functions as functions on arrays, for the test of their accuracy.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_ULP_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_ULP_ROWS_HPP

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/half.hpp"

namespace bp::cpu {

inline constexpr const char* kUnaryNames[] = {
    "exp",  "expm1", "log",  "log1p", "sqrt",       "rsqrt", "sin",   "cos",   "tan",
    "asin", "acos",  "atan", "sinh",  "cosh",       "tanh",  "asinh", "acosh", "atanh",
    "erf",  "floor", "ceil", "trunc", "round_even", "log2",  "log10"};
inline constexpr size_t kUnaryCount = sizeof(kUnaryNames) / sizeof(*kUnaryNames);
inline constexpr const char* kBinaryNames[] = {"pow", "fmod", "atan2", "hypot", "nextafter"};

/// y[i] = the function of x[i]. By the instruction set that Highway has chosen.
void apply_unary(size_t function, const float* x, float* y, size_t count);
void apply_unary(size_t function, const double* x, double* y, size_t count);
void apply_unary(size_t function, const F16* x, F16* y, size_t count);
void apply_unary(size_t function, const Bf16* x, Bf16* y, size_t count);
void apply_binary(size_t function, const float* a, const float* b, float* y, size_t count);
void apply_binary(size_t function, const double* a, const double* b, double* y, size_t count);

/// The instruction sets that this processor has and that the rows are compiled for, as Highway's
/// bits; `use_target` makes one the chosen one, 0 the best again.
int64_t supported_targets();
/// All that the rows are compiled for.
int64_t compiled_targets();
void use_target(int64_t target);
const char* name_of_target(int64_t target);

}  // namespace bp::cpu

#endif
