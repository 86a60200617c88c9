// SPDX-License-Identifier: Apache-2.0
//
// Neural-network operators of the oracle.
#include <cassert>
#include <cmath>

#include "backplane/ops/nn.h"
#include "ops/nn/window.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// The window that inference accepted before.
Window accepted_window(const Dims& kernel, bp_i64_span strides, bp_i64_span pads,
                       bp_i64_span dilations) {
  auto window = resolve_window(kernel, "kernel", strides, pads, dilations);
  assert(window.ok());
  return std::move(window).value();
}

/// The row-major index, within one channel of x, that kernel position `tap` of window `at` (a whole
/// output position: N, C, spatial...) touches; -1 in the padding.
int64_t tap_index(const Window& window, const Dims& x_sizes, const Dims& at, const Dims& tap) {
  int64_t index = 0;
  for (size_t i = 0; i < tap.size(); ++i) {
    const int64_t place =
        at[i + 2] * window.strides[i] - window.pads_begin[i] + tap[i] * window.dilations[i];
    if (place < 0 || place >= x_sizes[i + 2]) return -1;
    index = index * x_sizes[i + 2] + place;
  }
  return index;
}

int64_t spatial_count(const Dims& sizes) {
  int64_t count = 1;
  for (size_t i = 2; i < sizes.size(); ++i) count *= sizes[i];
  return count;
}

/// One output element of a convolution, without the bias.
double convolve(const Window& window, const Dims& x_sizes, const std::vector<double>& x,
                const std::vector<double>& w, int64_t channels_per_group, int64_t group_index,
                const Dims& at) {
  const int64_t x_channel = spatial_count(x_sizes);
  int64_t w_index = at[1] * channels_per_group;
  for (int64_t size : window.kernel) w_index *= size;
  double sum = 0;
  for (int64_t c = 0; c < channels_per_group; ++c) {
    const int64_t channel = group_index * channels_per_group + c;
    const int64_t start = (at[0] * x_sizes[1] + channel) * x_channel;
    for (Positions tap(window.kernel); !tap.done(); tap.next(), ++w_index) {
      const int64_t index = tap_index(window, x_sizes, at, tap.at());
      if (index < 0) continue;
      sum += x[static_cast<size_t>(start + index)] * w[static_cast<size_t>(w_index)];
    }
  }
  return sum;
}

}  // namespace

void evaluate_conv(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_conv>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const Dims& w_sizes = call.inputs[1].sizes;
  const Dims kernel(std::span<const int64_t>(w_sizes.data() + 2, w_sizes.size() - 2));
  const Window window =
      accepted_window(kernel, attributes.strides, attributes.pads, attributes.dilations);
  const auto x = numbers<double>(call.inputs[0]);
  const auto w = numbers<double>(call.inputs[1]);
  const auto b = call.has_input(2) ? numbers<double>(call.inputs[2]) : std::vector<double>();
  const int64_t out_channels_per_group = w_sizes[0] / attributes.group;
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const int64_t out_channel = at.at()[1];
    double value =
        convolve(window, x_sizes, x, w, w_sizes[1], out_channel / out_channels_per_group, at.at());
    if (!b.empty()) value += b[static_cast<size_t>(out_channel)];
    put<double>(y, index, value);
  }
}

void evaluate_max_pool(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_max_pool>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const Window window = accepted_window(Dims(values(attributes.kernel_shape)), attributes.strides,
                                        attributes.pads, attributes.dilations);
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

void evaluate_batch_norm(const OracleCall& call) {
  const double epsilon = attrs<bp_attrs_batch_norm>(call.attributes).epsilon;
  OracleTensor& y = call.outputs[0];
  const auto x = numbers<double>(call.inputs[0]);
  const auto scale = numbers<double>(call.inputs[1]);
  const auto bias = numbers<double>(call.inputs[2]);
  const auto mean = numbers<double>(call.inputs[3]);
  const auto var = numbers<double>(call.inputs[4]);
  size_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const auto channel = static_cast<size_t>(at.at()[1]);
    const double normal = (x[index] - mean[channel]) / std::sqrt(var[channel] + epsilon);
    put<double>(y, static_cast<int64_t>(index), normal * scale[channel] + bias[channel]);
  }
}

void evaluate_softmax(const OracleCall& call) {
  const Dims& sizes = call.inputs[0].sizes;
  int64_t axis = attrs<bp_attrs_softmax>(call.attributes).axis;
  if (axis < 0) axis += static_cast<int64_t>(sizes.size());
  const auto x = numbers<double>(call.inputs[0]);
  const int64_t length = sizes[static_cast<size_t>(axis)];
  int64_t step = 1;  // between neighbours along the axis
  for (size_t i = static_cast<size_t>(axis) + 1; i < sizes.size(); ++i) step *= sizes[i];
  const auto count = static_cast<int64_t>(x.size());
  for (int64_t first = 0; first < count; ++first) {
    if (first / step % length != 0) continue;
    double highest = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < length; ++k) {
      highest = larger(highest, x[static_cast<size_t>(first + k * step)]);
    }
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) {
      sum += std::exp(x[static_cast<size_t>(first + k * step)] - highest);
    }
    for (int64_t k = 0; k < length; ++k) {
      const int64_t index = first + k * step;
      const double power = std::exp(x[static_cast<size_t>(index)] - highest);
      put<double>(call.outputs[0], index, power / sum);
    }
  }
}

}  // namespace bp::ops
