// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that make tensors.
#include "backplane/ops/creation.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

void evaluate_range(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    const N start = numbers<N>(call.inputs[0])[0];
    const N delta = numbers<N>(call.inputs[2])[0];
    for (int64_t i = 0; i < y.count(); ++i)
      put<N>(y, i, plus(start, times(static_cast<N>(i), delta)));
  });
}

void evaluate_eye_like(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  const int64_t k = attrs<bp_attrs_eye_like>(call.attributes).k;
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const bool is_one = at.at()[1] - at.at()[0] == k;
    with_number(y.dtype, [&]<class N>(N) { put<N>(y, index, is_one ? N{1} : N{0}); });
  }
}

}  // namespace bp::ops
