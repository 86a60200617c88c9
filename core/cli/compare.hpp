// SPDX-License-Identifier: Apache-2.0
//
// What `backplane run` says about values: whether they are as expected, and a summary.
#ifndef BACKPLANE_CORE_CLI_COMPARE_HPP
#define BACKPLANE_CORE_CLI_COMPARE_HPP

#include <cstdint>
#include <string>
#include <variant>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"

namespace bp::cli {

/// A value of a tensor; 64-bit integers stay what they are, which double does not hold.
using Number = std::variant<double, int64_t, uint64_t>;

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

struct Comparison {
  bool passed = false;
  int64_t value_count = 0;
  int64_t mismatch_count = 0;
  // Of the first mismatch.
  std::string index;  // "[3, 7]"
  Number found;
  Number expected;
  std::string words;  // the whole answer, for people
};

/// |found - expected| <= atol + rtol |expected| for each value; NaN equals NaN. Another dtype
/// or other sizes are a failed comparison. Errors: UNSUPPORTED for dtypes without plain values.
Result<Comparison> compare(const HostTensor& found, const HostTensor& expected,
                           const Tolerance& tolerance);

struct Summary {
  bool has_values = false;  // false: no plain values, or none but NaN
  Number min;
  Number max;
  double mean = 0;
  int64_t nan_count = 0;
  std::string first;  // the first few values: "0.1 0.9 ..."
};

Summary summarise(const HostTensor& tensor);

}  // namespace bp::cli

#endif
