// SPDX-License-Identifier: Apache-2.0
//
// Reductions of the oracle.
#include <cassert>

#include "backplane/ops/reduction.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// y[reduced position] = combine(y, x), starting from start(N{}).
template <class Start, class Combine>
void evaluate_reduce(const OracleCall& call, bp_i64_span axes, Start start, Combine combine) {
  const Dims& sizes = call.inputs[0].sizes;
  OracleTensor& y = call.outputs[0];
  const auto mask = resolve_axes("axes", values(axes), sizes.size());
  assert(mask.ok());
  Dims kept = sizes;  // with reduced dimensions kept as 1, whatever keepdims says
  for (size_t i = 0; i < kept.size(); ++i) {
    if ((*mask >> i & 1) != 0) kept[i] = 1;
  }
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    std::vector<N> result(static_cast<size_t>(y.count()), start(N{}));
    size_t index = 0;
    for (Positions at(sizes); !at.done(); at.next(), ++index) {
      N& cell = result[static_cast<size_t>(broadcast_index(kept, at.at()))];
      cell = combine(cell, x[index]);
    }
    for (size_t i = 0; i < result.size(); ++i) put<N>(y, static_cast<int64_t>(i), result[i]);
  });
}

}  // namespace

void evaluate_reduce_max(const OracleCall& call) {
  const uint32_t dtype = call.outputs[0].dtype;
  evaluate_reduce(
      call, attrs<bp_attrs_reduce_max>(call.attributes).axes,
      [dtype]<class N>(N) { return lowest<N>(dtype); },
      []<class N>(N a, N b) { return larger(a, b); });
}

void evaluate_reduce_sum(const OracleCall& call) {
  evaluate_reduce(
      call, attrs<bp_attrs_reduce_sum>(call.attributes).axes, []<class N>(N) { return N{0}; },
      []<class N>(N a, N b) { return plus(a, b); });
}

}  // namespace bp::ops
