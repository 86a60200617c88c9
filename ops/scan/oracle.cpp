// SPDX-License-Identifier: Apache-2.0
//
// Running sums and products of the oracle.
#include "backplane/ops/scan.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// y[k] = what `combine` makes of the elements up to k, from `first` on. The running value is never
/// rounded, only what is written.
template <class Attributes, class Combine>
void evaluate_scan(const OracleCall& call, int first, const Combine& combine) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<Attributes>(call.attributes);
  const int64_t given = call.inputs[1].to_i64()[0];
  const auto axis =
      static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(x.sizes.size()) : given);
  const int64_t length = x.sizes[axis];
  const int64_t step =
      element_count(std::span(x.sizes.data() + axis + 1, x.sizes.size() - axis - 1));
  with_number(x.dtype, [&]<class N>(N) {
    const auto values = numbers<N>(x);
    int64_t index = 0;
    for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
      if (at.at()[axis] != 0) continue;  // each lane from its first element
      N running = static_cast<N>(first);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t place = index + (attributes.reverse != 0 ? length - 1 - i : i) * step;
        if (attributes.exclusive != 0) put<N>(call.outputs[0], place, running);
        running = combine(running, values[static_cast<size_t>(place)]);
        if (attributes.exclusive == 0) put<N>(call.outputs[0], place, running);
      }
    }
  });
}

}  // namespace

void evaluate_cumsum(const OracleCall& call) {
  evaluate_scan<bp_attrs_cumsum>(call, 0, []<class N>(N a, N b) { return plus(a, b); });
}

void evaluate_cumprod(const OracleCall& call) {
  evaluate_scan<bp_attrs_cumprod>(call, 1, []<class N>(N a, N b) { return times(a, b); });
}

}  // namespace bp::ops
