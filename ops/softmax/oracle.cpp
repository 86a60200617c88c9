// SPDX-License-Identifier: Apache-2.0
//
// Softmax's relatives of the oracle: row by row along the axis.
#include <cmath>

#include "backplane/ops/softmax.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// Calls row(values, results) for every line along the axis.
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

}  // namespace

void evaluate_log_softmax(const OracleCall& call) {
  each_line(call, attrs<bp_attrs_log_softmax>(call.attributes).axis,
            [](const std::vector<double>& x, std::vector<double>* y) {
              double highest = -std::numeric_limits<double>::infinity();
              for (const double value : x) highest = larger(highest, value);
              double sum = 0;
              for (const double value : x) sum += std::exp(value - highest);
              for (size_t k = 0; k < x.size(); ++k) (*y)[k] = x[k] - highest - std::log(sum);
            });
}

void evaluate_hardmax(const OracleCall& call) {
  each_line(call, attrs<bp_attrs_hardmax>(call.attributes).axis,
            [](const std::vector<double>& x, std::vector<double>* y) {
              size_t best = 0;
              for (size_t k = 1; k < x.size(); ++k) {
                const bool first_nan = std::isnan(x[k]) && !std::isnan(x[best]);
                if (first_nan || x[k] > x[best]) best = k;
              }
              for (size_t k = 0; k < x.size(); ++k) (*y)[k] = k == best ? 1 : 0;
            });
}

}  // namespace bp::ops
