// SPDX-License-Identifier: Apache-2.0
//
// Operators of the oracle that look for extreme values.
#include <algorithm>
#include <numeric>

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

void evaluate_top_k(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<bp_attrs_top_k>(call.attributes);
  const bool largest = attributes.largest != 0;
  const Lanes lanes = lanes_along(x.sizes, attributes.axis);
  const Lanes chosen = lanes_along(call.outputs[0].sizes, attributes.axis);
  with_number(x.dtype, [&]<class N>(N) {
    const auto values = numbers<N>(x);
    for (int64_t lane = 0; lane < lanes.outer * lanes.inner; ++lane) {
      const int64_t outer = lane / lanes.inner;
      const int64_t first = outer * lanes.length * lanes.inner + lane % lanes.inner;
      const auto at = [&](int64_t k) {
        return values[static_cast<size_t>(first + k * lanes.inner)];
      };
      std::vector<int64_t> order(static_cast<size_t>(lanes.length));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const N left = at(largest ? a : b);
        const N right = at(largest ? b : a);
        if (left != left || right != right) return left != left && right == right;
        return left > right;
      });
      for (int64_t k = 0; k < chosen.length; ++k) {
        const int64_t place = order[static_cast<size_t>(k)];
        const int64_t to = (outer * chosen.length + k) * lanes.inner + lane % lanes.inner;
        copy_element(x, first + place * lanes.inner, &call.outputs[0], to);
        put<int64_t>(call.outputs[1], to, place);
      }
    }
  });
}

}  // namespace bp::ops
