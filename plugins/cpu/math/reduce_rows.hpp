// SPDX-License-Identifier: Apache-2.0
//
// Sums and maxima of neighbouring f32 by whole vectors. Each adds in an order that the count alone
// decides, so that reruns give the same bits.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_REDUCE_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_REDUCE_ROWS_HPP

#include <cstdint>

namespace bp::cpu {

/// The sum, kept in f64.
double sum_of_row(const float* x, int64_t count);
/// NaN if there is one; -inf for nothing.
float largest_of_row(const float* x, int64_t count);
/// Where the value comes first; any NaN is the same as another. `count`: nowhere.
int64_t first_of_row(const float* x, int64_t count, float value);

/// How many elements at the front are no larger (largest: true) or no smaller than the threshold,
/// in whole blocks of so many; a NaN is neither.
inline constexpr int64_t kBeatenBlock = 32;
int64_t count_beaten(const float* x, int64_t count, float threshold, bool largest);

/// sums[i] += x[r * row_stride + i] for all rows r.
void add_rows(double* sums, int64_t count, const float* x, int64_t row_count, int64_t row_stride);
/// best[i] = the larger of best[i] and x[r * row_stride + i] for all rows r; NaN wins.
void keep_largest_of_rows(float* best, int64_t count, const float* x, int64_t row_count,
                          int64_t row_stride);

}  // namespace bp::cpu

#endif
