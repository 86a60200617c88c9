// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that look for extreme values.
#include "backplane/ops/sorting.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// Elements along one axis: element k of lane (outer, inner) is at (outer * length + k) * inner
/// count + inner.
struct Lanes {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

Lanes lanes_along(const Dims& sizes, int64_t axis_value) {
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto axis = static_cast<size_t>(axis_value < 0 ? axis_value + rank : axis_value);
  const std::span<const int64_t> all(sizes.data(), sizes.size());
  return {.outer = element_count(all.first(axis)),
          .length = sizes[axis],
          .inner = element_count(all.subspan(axis + 1))};
}

/// Where the value is before which no other comes; the first or the last of equal ones.
template <class N, class Before>
int64_t best_place(const std::vector<N>& x, const Lanes& lanes, int64_t first, bool last_of_equal,
                   const Before& before) {
  int64_t best = 0;
  for (int64_t k = 1; k < lanes.length; ++k) {
    const N challenger = x[static_cast<size_t>(first + k * lanes.inner)];
    const N holder = x[static_cast<size_t>(first + best * lanes.inner)];
    if (before(challenger, holder) || (last_of_equal && !before(holder, challenger))) best = k;
  }
  return best;
}

template <class Attributes>
void evaluate_position(const OracleCall& call, bool largest) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<Attributes>(call.attributes);
  const Lanes lanes = lanes_along(x.sizes, attributes.axis);
  with_number(x.dtype, [&]<class N>(N) {
    const auto values = numbers<N>(x);
    const auto before = [largest](N a, N b) {
      if (a != a || b != b) return a != a && b == b;
      return largest ? a > b : a < b;
    };
    for (int64_t outer = 0; outer < lanes.outer; ++outer) {
      for (int64_t inner = 0; inner < lanes.inner; ++inner) {
        put<int64_t>(call.outputs[0], outer * lanes.inner + inner,
                     best_place(values, lanes, outer * lanes.length * lanes.inner + inner,
                                attributes.select_last_index != 0, before));
      }
    }
  });
}

}  // namespace

void evaluate_argmax(const OracleCall& call) { evaluate_position<bp_attrs_argmax>(call, true); }

void evaluate_argmin(const OracleCall& call) { evaluate_position<bp_attrs_argmin>(call, false); }

}  // namespace bp::ops
