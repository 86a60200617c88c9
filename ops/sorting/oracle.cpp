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

namespace {

/// The positions of a lane, the smallest value first, or the largest; a NaN is above every number,
/// and of equal ones the first comes first. at(k): value k of the lane.
template <class At>
std::vector<int64_t> order_of(int64_t length, bool largest, const At& at) {
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const auto left = at(largest ? a : b);
    const auto right = at(largest ? b : a);
    if (left != left || right != right) return left != left && right == right;
    return left > right;
  });
  return order;
}

/// Where a lane begins, among lanes of that length.
int64_t first_of(const Lanes& lanes, int64_t length, int64_t lane) {
  return lane / lanes.inner * length * lanes.inner + lane % lanes.inner;
}

/// Calls take(lane, its order) for every lane of x.
template <class Take>
void for_each_order(const OracleTensor& x, const Lanes& lanes, bool largest, const Take& take) {
  with_number(x.dtype, [&]<class N>(N) {
    const auto values = numbers<N>(x);
    for (int64_t lane = 0; lane < lanes.outer * lanes.inner; ++lane) {
      const int64_t first = first_of(lanes, lanes.length, lane);
      take(lane, order_of(lanes.length, largest, [&](int64_t k) {
             return values[static_cast<size_t>(first + k * lanes.inner)];
           }));
    }
  });
}

/// Whether a is before b, with NaN behind every number.
template <class N>
bool is_below(N a, N b) {
  return a < b || (b != b && a == a);
}

}  // namespace

void evaluate_sort(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<bp_attrs_sort>(call.attributes);
  const Lanes lanes = lanes_along(x.sizes, attributes.axis);
  for_each_order(x, lanes, attributes.descending != 0,
                 [&](int64_t lane, const std::vector<int64_t>& order) {
                   const int64_t first = first_of(lanes, lanes.length, lane);
                   int64_t to = first;
                   for (const int64_t place : order) {
                     copy_element(x, first + place * lanes.inner, &call.outputs[0], to);
                     to += lanes.inner;
                   }
                 });
}

void evaluate_argsort(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<bp_attrs_argsort>(call.attributes);
  const Lanes lanes = lanes_along(x.sizes, attributes.axis);
  for_each_order(x, lanes, attributes.descending != 0,
                 [&](int64_t lane, const std::vector<int64_t>& order) {
                   int64_t to = first_of(lanes, lanes.length, lane);
                   for (const int64_t place : order) {
                     put<int64_t>(call.outputs[0], to, place);
                     to += lanes.inner;
                   }
                 });
}

/// By counting, which is right for a list that rises.
void evaluate_searchsorted(const OracleCall& call) {
  const bool right = attrs<bp_attrs_searchsorted>(call.attributes).right != 0;
  with_number(call.inputs[0].dtype, [&]<class N>(N) {
    const auto sorted = numbers<N>(call.inputs[0]);
    const auto wanted = numbers<N>(call.inputs[1]);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto count = std::count_if(sorted.begin(), sorted.end(), [&](N element) {
        return right ? !is_below(wanted[i], element) : is_below(element, wanted[i]);
      });
      put<int64_t>(call.outputs[0], static_cast<int64_t>(i), count);
    }
  });
}

void evaluate_top_k(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto& attributes = attrs<bp_attrs_top_k>(call.attributes);
  const Lanes lanes = lanes_along(x.sizes, attributes.axis);
  const Lanes chosen = lanes_along(call.outputs[0].sizes, attributes.axis);
  for_each_order(x, lanes, attributes.largest != 0,
                 [&](int64_t lane, const std::vector<int64_t>& order) {
                   const int64_t from = first_of(lanes, lanes.length, lane);
                   int64_t to = first_of(lanes, chosen.length, lane);
                   for (int64_t k = 0; k < chosen.length; ++k) {
                     const int64_t place = order[static_cast<size_t>(k)];
                     copy_element(x, from + place * lanes.inner, &call.outputs[0], to);
                     put<int64_t>(call.outputs[1], to, place);
                     to += lanes.inner;
                   }
                 });
}

}  // namespace bp::ops
