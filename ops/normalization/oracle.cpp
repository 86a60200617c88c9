// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of the oracle: each set of elements that is normalised together is contiguous.
#include <algorithm>
#include <cmath>

#include "backplane/ops/normalization.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// What is taken off each element, and what it is divided by then.
struct Moments {
  double mean = 0;
  double deviation = 1;
};

Moments moments_of(std::span<const double> values, double epsilon, bool centred) {
  const auto count = static_cast<double>(values.size());
  Moments moments;
  if (centred) {
    double sum = 0;
    for (double value : values) sum += value;
    moments.mean = sum / count;
  }
  double squares = 0;
  for (double value : values) squares += (value - moments.mean) * (value - moments.mean);
  moments.deviation = std::sqrt(squares / count + epsilon);
  return moments;
}

/// Normalises every `length` elements of input 0.
std::vector<double> normalize(const OracleCall& call, size_t length, double epsilon, bool centred) {
  std::vector<double> values = numbers<double>(call.inputs[0]);
  for (size_t first = 0; first < values.size(); first += length) {
    const std::span set(values.data() + first, length);
    const Moments moments = moments_of(set, epsilon, centred);
    for (double& value : set) value = (value - moments.mean) / moments.deviation;
  }
  return values;
}

/// Elements of the dimensions from `axis` on.
size_t trailing_count(const Dims& sizes, int64_t axis) {
  if (axis < 0) axis += static_cast<int64_t>(sizes.size());
  const auto trailing = std::span(sizes.data(), sizes.size()).subspan(static_cast<size_t>(axis));
  return static_cast<size_t>(element_count(trailing));
}

/// Times input 1, plus input 2 where it is there; `index_of` gives the place in each.
template <class IndexOf>
void put_scaled(const OracleCall& call, const std::vector<double>& values, IndexOf index_of) {
  OracleTensor& y = call.outputs[0];
  const auto scale = numbers<double>(call.inputs[1]);
  const auto bias = call.has_input(2) ? numbers<double>(call.inputs[2]) : std::vector<double>();
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    double value = values[static_cast<size_t>(index)] * scale[index_of(1, at.at())];
    if (!bias.empty()) value += bias[index_of(2, at.at())];
    put<double>(y, index, value);
  }
}

void evaluate_trailing(const OracleCall& call, int64_t axis, double epsilon, bool centred) {
  const size_t length = trailing_count(call.inputs[0].sizes, axis);
  const auto values = normalize(call, length, epsilon, centred);
  put_scaled(call, values, [&](size_t input, const Dims& at) {
    return static_cast<size_t>(broadcast_index(call.inputs[input].sizes, at));
  });
}

void evaluate_channels(const OracleCall& call, int64_t channels_per_set, double epsilon) {
  const Dims& sizes = call.inputs[0].sizes;
  const size_t length = trailing_count(sizes, 2) * static_cast<size_t>(channels_per_set);
  const auto values = normalize(call, length, epsilon, true);
  put_scaled(call, values, [](size_t, const Dims& at) { return static_cast<size_t>(at[1]); });
}

}  // namespace

void evaluate_layer_norm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_layer_norm>(call.attributes);
  evaluate_trailing(call, attributes.axis, attributes.epsilon, true);
}

void evaluate_rms_norm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_rms_norm>(call.attributes);
  evaluate_trailing(call, attributes.axis, attributes.epsilon, false);
}

void evaluate_instance_norm(const OracleCall& call) {
  evaluate_channels(call, 1, attrs<bp_attrs_instance_norm>(call.attributes).epsilon);
}

void evaluate_group_norm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_group_norm>(call.attributes);
  evaluate_channels(call, call.inputs[0].sizes[1] / attributes.num_groups, attributes.epsilon);
}

void evaluate_mean_variance_norm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_mean_variance_norm>(call.attributes);
  OracleTensor& y = call.outputs[0];
  Dims kept = y.sizes;  // those that are reduced have size 1, and so repeat
  for (size_t i = 0; i < kept.size(); ++i) {
    bool reduced = attributes.axes.count == 0;
    for (int64_t axis : values(attributes.axes)) {
      reduced = reduced || axis == static_cast<int64_t>(i) ||
                axis + static_cast<int64_t>(kept.size()) == static_cast<int64_t>(i);
    }
    if (reduced) kept[i] = 1;
  }
  const auto x = numbers<double>(call.inputs[0]);
  std::vector<std::vector<double>> sets(
      static_cast<size_t>(element_count({kept.data(), kept.size()})));
  std::vector<size_t> set_of;
  for (Positions at(y.sizes); !at.done(); at.next()) {
    set_of.push_back(static_cast<size_t>(broadcast_index(kept, at.at())));
    sets[set_of.back()].push_back(x[set_of.size() - 1]);
  }
  std::vector<Moments> moments;
  for (const auto& set : sets) moments.push_back(moments_of(set, 0, true));
  for (size_t i = 0; i < x.size(); ++i) {
    const Moments& of_set = moments[set_of[i]];
    put<double>(y, static_cast<int64_t>(i), (x[i] - of_set.mean) / (of_set.deviation + 1e-9));
  }
}

void evaluate_lp_norm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_lp_norm>(call.attributes);
  OracleTensor& y = call.outputs[0];
  Dims kept = y.sizes;
  const int64_t axis = attributes.axis;
  kept[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(kept.size()) : axis)] = 1;
  const auto x = numbers<double>(call.inputs[0]);
  std::vector<double> norms(static_cast<size_t>(element_count({kept.data(), kept.size()})));
  std::vector<size_t> place;
  for (Positions at(y.sizes); !at.done(); at.next()) {
    place.push_back(static_cast<size_t>(broadcast_index(kept, at.at())));
    const double value = x[place.size() - 1];
    norms[place.back()] += attributes.p == 1 ? std::fabs(value) : value * value;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double norm = attributes.p == 1 ? norms[place[i]] : std::sqrt(norms[place[i]]);
    put<double>(y, static_cast<int64_t>(i), norm == 0 ? 0 : x[i] / norm);
  }
}

void evaluate_lrn(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_lrn>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const auto x = numbers<double>(call.inputs[0]);
  const int64_t channels = y.sizes[1];
  // From one channel to the next.
  const int64_t inner = element_count(std::span(y.sizes.data(), y.sizes.size()).subspan(2));
  const int64_t before = (attributes.size - 1) / 2;
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const int64_t channel = at.at()[1];
    const int64_t first = std::max<int64_t>(channel - before, 0);
    const int64_t last = std::min(channel + attributes.size - 1 - before, channels - 1);
    double sum = 0;
    for (int64_t c = first; c <= last; ++c) {
      const double value = x[static_cast<size_t>(index + (c - channel) * inner)];
      sum += value * value;
    }
    const double base =
        attributes.bias + attributes.alpha / static_cast<double>(attributes.size) * sum;
    put<double>(y, index, x[static_cast<size_t>(index)] / std::pow(base, attributes.beta));
  }
}

}  // namespace bp::ops
