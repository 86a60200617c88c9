// SPDX-License-Identifier: Apache-2.0
//
// Pooling operators of the oracle.
#include <cmath>

#include "backplane/ops/pooling.h"
#include "ops/nn/oracle_window.hpp"
#include "ops/oracle/evaluators.hpp"
#include "ops/pooling/window.hpp"

namespace bp::ops {
namespace {

/// Whether a tap lies within the input and its padding; ceil_mode has windows that reach further.
bool within_padding(const Window& window, const Dims& x_sizes, const Dims& at, const Dims& tap) {
  for (size_t i = 0; i < tap.size(); ++i) {
    const int64_t place = at[i + 2] * window.strides[i] + tap[i] * window.dilations[i];
    if (place >= window.pads_begin[i] + x_sizes[i + 2] + window.pads_end[i]) return false;
  }
  return true;
}

/// Each output element is finish(sum, count): the sum of map(x) over the taps of its window that
/// lie in x, and the count of the taps for which counts(place, at, tap).
template <class Counts, class Map, class Finish>
void pool_sums(const OracleCall& call, const Window& window, Counts counts, Map map,
               Finish finish) {
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const int64_t x_channel = spatial_count(x_sizes);
  const auto x = numbers<double>(call.inputs[0]);
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const int64_t start = (at.at()[0] * x_sizes[1] + at.at()[1]) * x_channel;
    double sum = 0;
    int64_t count = 0;
    for (Positions tap(window.kernel); !tap.done(); tap.next()) {
      const int64_t place = tap_index(window, x_sizes, at.at(), tap.at());
      if (place >= 0) sum += map(x[static_cast<size_t>(start + place)]);
      if (counts(place, at.at(), tap.at())) ++count;
    }
    put<double>(y, index, finish(sum, count));
  }
}

/// Calls take(channel, value) for each element, channels counted over the batch.
template <class N, class Take>
void for_each_in_channel(const OracleTensor& x, const Take& take) {
  const auto numbers_of_x = numbers<N>(x);
  const int64_t count = spatial_count(x.sizes);
  for (size_t i = 0; i < numbers_of_x.size(); ++i) {
    take(static_cast<int64_t>(i) / count, numbers_of_x[i]);
  }
}

}  // namespace

void evaluate_max_pool(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const Window window =
      accepted_window(pool_window(attrs<bp_attrs_max_pool>(call.attributes)), x_sizes);
  const int64_t x_channel = spatial_count(x_sizes);
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    int64_t index = 0;
    for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
      const int64_t start = (at.at()[0] * x_sizes[1] + at.at()[1]) * x_channel;
      N best = lowest<N>(y.dtype);
      for (Positions tap(window.kernel); !tap.done(); tap.next()) {
        const int64_t place = tap_index(window, x_sizes, at.at(), tap.at());
        if (place >= 0) best = larger(best, x[static_cast<size_t>(start + place)]);
      }
      put<N>(y, index, best);
    }
  });
}

void evaluate_average_pool(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_average_pool>(call.attributes);
  const Dims& x_sizes = call.inputs[0].sizes;
  const Window window = accepted_window(pool_window(attributes), x_sizes);
  pool_sums(
      call, window,
      [&](int64_t place, const Dims& at, const Dims& tap) {
        return place >= 0 ||
               (attributes.count_include_pad != 0 && within_padding(window, x_sizes, at, tap));
      },
      [](double value) { return value; },
      [](double sum, int64_t count) { return sum / static_cast<double>(count); });
}

void evaluate_lp_pool(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_lp_pool>(call.attributes);
  const Window window = accepted_window(pool_window(attributes), call.inputs[0].sizes);
  const auto p = static_cast<double>(attributes.p);
  pool_sums(
      call, window, [](int64_t, const Dims&, const Dims&) { return true; },
      [p](double value) { return std::pow(std::fabs(value), p); },
      [p](double sum, int64_t) { return std::pow(sum, 1 / p); });
}

void evaluate_max_pool_indices(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_max_pool_indices>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const Window window = accepted_window(pool_window(attributes), x_sizes);
  const int64_t x_channel = spatial_count(x_sizes);
  const auto stored_at = [&](int64_t place) {
    if (attributes.storage_order == 0) return place;
    int64_t column_major = 0;
    for (size_t i = 2, rest_count = x_sizes.size(); i < rest_count; ++i) {
      // The positions from the last dimension to the first, in the order of decreasing steps.
      int64_t below = 1;
      for (size_t k = i + 1; k < rest_count; ++k) below *= x_sizes[k];
      int64_t step = 1;
      for (size_t k = 2; k < i; ++k) step *= x_sizes[k];
      column_major += place / below % x_sizes[i] * step;
    }
    return column_major;
  };
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    int64_t index = 0;
    for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
      const int64_t start = (at.at()[0] * x_sizes[1] + at.at()[1]) * x_channel;
      N best = lowest<N>(y.dtype);
      int64_t found = -1;
      for (Positions tap(window.kernel); !tap.done(); tap.next()) {
        const int64_t place = tap_index(window, x_sizes, at.at(), tap.at());
        if (place < 0) continue;
        const N value = x[static_cast<size_t>(start + place)];
        const bool wins = value > best || (value != value && best == best);
        if (found >= 0 && !wins) continue;
        best = value;
        found = start + stored_at(place);
      }
      put<N>(y, index, best);
      put<int64_t>(call.outputs[1], index, found);
    }
  });
}

void evaluate_global_lp_pool(const OracleCall& call) {
  const auto p = static_cast<double>(attrs<bp_attrs_global_lp_pool>(call.attributes).p);
  OracleTensor& y = call.outputs[0];
  std::vector<double> sums(static_cast<size_t>(y.count()), 0);
  for_each_in_channel<double>(call.inputs[0], [&](int64_t channel, double value) {
    sums[static_cast<size_t>(channel)] += std::pow(std::fabs(value), p);
  });
  for (int64_t i = 0; i < y.count(); ++i) put(y, i, std::pow(sums[static_cast<size_t>(i)], 1 / p));
}

void evaluate_global_average_pool(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  std::vector<double> sums(static_cast<size_t>(y.count()), 0);
  for_each_in_channel<double>(call.inputs[0], [&](int64_t channel, double value) {
    sums[static_cast<size_t>(channel)] += value;
  });
  const auto count = static_cast<double>(spatial_count(call.inputs[0].sizes));
  for (int64_t i = 0; i < y.count(); ++i) put(y, i, sums[static_cast<size_t>(i)] / count);
}

void evaluate_global_max_pool(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    std::vector<N> best(static_cast<size_t>(y.count()), lowest<N>(y.dtype));
    for_each_in_channel<N>(call.inputs[0], [&](int64_t channel, N value) {
      N& highest = best[static_cast<size_t>(channel)];
      highest = larger(highest, value);
    });
    for (int64_t i = 0; i < y.count(); ++i) put<N>(y, i, best[static_cast<size_t>(i)]);
  });
}

}  // namespace bp::ops
