// SPDX-License-Identifier: Apache-2.0
//
// Results whose steps each round once, against those of the oracle.
#ifndef BACKPLANE_TESTS_EXPECT_NEAR_HPP
#define BACKPLANE_TESTS_EXPECT_NEAR_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/dtype.hpp"
#include "ops/oracle/oracle.hpp"

namespace bp::tests {

/// How far floats may differ, as shares of the largest finite value that is expected. Whole numbers
/// are the same.
struct NearShares {
  double single;  // of f32 and f64
  double half;    // of f16 and bf16
};

inline void expect_near(const OracleTensor& found, const OracleTensor& expected, NearShares shares,
                        const std::string& what) {
  ASSERT_EQ(found.dtype, expected.dtype) << what;
  ASSERT_EQ(found.sizes, expected.sizes) << what;
  const auto values = found.to_f64();
  const auto wanted = expected.to_f64();
  double largest = 0;
  for (const double value : wanted) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  const bool is_half = found.dtype == BP_DTYPE_F16 || found.dtype == BP_DTYPE_BF16;
  const double of_float = is_half ? shares.half : shares.single;
  const double share = is_float_dtype(found.dtype) ? of_float : 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool same = values[i] == wanted[i] || (std::isnan(values[i]) && std::isnan(wanted[i]));
    if (same || std::fabs(values[i] - wanted[i]) <= share * largest) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << values[i] << ", expected " << wanted[i];
    return;
  }
}

}  // namespace bp::tests

#endif
