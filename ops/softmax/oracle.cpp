// SPDX-License-Identifier: Apache-2.0
//
// Softmax's relatives of the oracle: row by row along the axis.
#include <cmath>

#include "backplane/ops/softmax.h"
#include "ops/oracle/lines.hpp"

namespace bp::ops {
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
