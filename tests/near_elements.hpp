// SPDX-License-Identifier: Apache-2.0
//
// Results of several steps against the oracle's, element by element: of a tensor's largest value
// alone, a tolerance would hide whatever happens to small ones beside it.
#ifndef BACKPLANE_TESTS_NEAR_ELEMENTS_HPP
#define BACKPLANE_TESTS_NEAR_ELEMENTS_HPP

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "ops/oracle/oracle.hpp"
#include "sdk/conform/kernels/fill.hpp"

namespace bp::tests {

/// How far a float may be from what is expected: a share of that, and one of what the tensor's
/// values are like, since large terms may add up to a small result. Half types round at each step.
struct NearBound {
  double relative;
  double of_scale;
};
inline NearBound near_bound(uint32_t dtype) {
  if (dtype == BP_DTYPE_F64) return {1e-9, 1e-12};
  if (dtype == BP_DTYPE_F32) return {1e-4, 1e-5};
  const double rounding = std::ldexp(1.0, -conform::float_digits(dtype));
  return {4 * rounding, 2 * rounding};
}

/// The largest that is finite.
inline double largest_size(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

/// Twice the median of those that are finite and not 0: of values with the largest numbers of the
/// dtype among them.
inline double usual_size(const std::vector<double>& values) {
  std::vector<double> sizes;
  for (const double value : values) {
    if (std::isfinite(value) && value != 0) sizes.push_back(std::fabs(value));
  }
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return 2 * std::min(*middle, std::numeric_limits<double>::max() / 2);
}

/// Compares, and notes for each dtype how near to its bound an error came.
class NearElements {
 public:
  using SizeOf = double (*)(const std::vector<double>& values);
  explicit NearElements(SizeOf size_of) : size_of_(size_of) {}

  /// Whole numbers are the same, NaN and infinities in the same places.
  void expect(const OracleTensor& found, const OracleTensor& expected, const std::string& what) {
    ASSERT_EQ(found.dtype, expected.dtype) << what;
    ASSERT_EQ(found.sizes, expected.sizes) << what;
    const std::vector<double> values = found.to_f64();
    const std::vector<double> wanted = expected.to_f64();
    if (!is_float_dtype(expected.dtype)) {
      ASSERT_EQ(values, wanted) << what;
      ASSERT_TRUE(found.bytes == expected.bytes) << what;  // large ones, which are equal as doubles
      return;
    }
    const NearBound bound = near_bound(expected.dtype);
    // Below the smallest normal number neighbours are no nearer to each other.
    const double least =
        bound.of_scale * size_of_(wanted) + conform::float_min_normal(expected.dtype);
    double& widest = widest_[expected.dtype];
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (values[i] == wanted[i] || (std::isnan(values[i]) && std::isnan(wanted[i]))) continue;
      ASSERT_TRUE(std::isfinite(values[i]) && std::isfinite(wanted[i]))
          << what << ", element " << i << " is " << values[i] << ", expected " << wanted[i];
      const double allowed = least + bound.relative * std::fabs(wanted[i]);
      widest = std::max(widest, std::fabs(values[i] - wanted[i]) / allowed);
      ASSERT_NEAR(values[i], wanted[i], allowed) << what << ", element " << i;
    }
  }

  void print(const std::string& title) const {
    std::printf("%s: widest errors in bounds:", title.c_str());
    for (const auto& [dtype, widest] : widest_) {
      std::printf(" %s %.2g", std::string(dtype_name(dtype)).c_str(), widest);
    }
    std::printf("\n");
  }

 private:
  SizeOf size_of_;
  std::map<uint32_t, double> widest_;
};

}  // namespace bp::tests

#endif
