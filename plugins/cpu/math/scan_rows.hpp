// SPDX-License-Identifier: Apache-2.0
//
// Running sums along a row.
#ifndef BACKPLANE_PLUGINS_CPU_MATH_SCAN_ROWS_HPP
#define BACKPLANE_PLUGINS_CPU_MATH_SCAN_ROWS_HPP

#include <cstdint>

namespace bp::cpu {

/// y[i * step] is `running` plus x[0] to x[i * step], without the last of them where the sum is
/// exclusive. step: 1 or -1. Gives the sum of `running` and all `count` elements. The sums of every
/// eight elements are worked out by themselves, so that rounding errors grow by an eighth of the
/// length.
float running_sums(float* y, const float* x, int64_t count, int64_t step, bool exclusive,
                   float running);

}  // namespace bp::cpu

#endif
