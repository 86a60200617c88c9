// SPDX-License-Identifier: Apache-2.0
//
// For the oracle's operators that take a tensor line by line along an axis. Private to ops.
#ifndef BACKPLANE_OPS_ORACLE_LINES_HPP
#define BACKPLANE_OPS_ORACLE_LINES_HPP

#include <vector>

#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

/// Calls row(values, results) for every line of input 0 along the axis; the results are output 0.
template <class Row>
void each_line(const OracleCall& call, int64_t axis, Row row) {
  const Dims& sizes = call.inputs[0].sizes;
  if (axis < 0) axis += static_cast<int64_t>(sizes.size());
  const auto x = numbers<double>(call.inputs[0]);
  const int64_t length = sizes[static_cast<size_t>(axis)];
  int64_t step = 1;  // between neighbours along the axis
  for (size_t i = static_cast<size_t>(axis) + 1; i < sizes.size(); ++i) step *= sizes[i];
  const auto count = static_cast<int64_t>(x.size());
  std::vector<double> values(static_cast<size_t>(length));
  std::vector<double> results(values.size());
  for (int64_t first = 0; first < count; ++first) {
    if (first / step % length != 0) continue;
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = x[static_cast<size_t>(first + static_cast<int64_t>(k) * step)];
    }
    row(values, &results);
    for (size_t k = 0; k < values.size(); ++k) {
      put<double>(call.outputs[0], first + static_cast<int64_t>(k) * step, results[k]);
    }
  }
}

}  // namespace bp::ops

#endif
