// SPDX-License-Identifier: Apache-2.0
//
// Neural-network operators of the oracle.
#include <cassert>
#include <cmath>
#include <utility>

#include "backplane/ops/nn.h"
#include "ops/nn/col2im.hpp"
#include "ops/nn/conv_transpose.hpp"
#include "ops/nn/oracle_window.hpp"
#include "ops/oracle/epilogue.hpp"
#include "ops/oracle/lines.hpp"

namespace bp::ops {
namespace {

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
  const Window window = accepted_window(resolve_window(kernel, "kernel",
                                                       {.strides = attributes.strides,
                                                        .pads = attributes.pads,
                                                        .dilations = attributes.dilations,
                                                        .auto_pad = attributes.auto_pad}),
                                        x_sizes);
  const auto x = numbers<double>(call.inputs[0]);
  const auto w = numbers<double>(call.inputs[1]);
  const auto b = call.has_input(2) ? numbers<double>(call.inputs[2]) : std::vector<double>();
  const int64_t out_channels_per_group = w_sizes[0] / attributes.group;
  std::vector<double> values;
  for (Positions at(y.sizes); !at.done(); at.next()) {
    const int64_t out_channel = at.at()[1];
    values.push_back(
        convolve(window, x_sizes, x, w, w_sizes[1], out_channel / out_channels_per_group, at.at()));
    if (!b.empty()) values.back() += b[static_cast<size_t>(out_channel)];
  }
  put_with_epilogue(y, std::move(values), call.has_input(3) ? &call.inputs[3] : nullptr,
                    activation_of(attributes));
}

void evaluate_conv_transpose(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_conv_transpose>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const Dims& x_sizes = call.inputs[0].sizes;
  const Dims& w_sizes = call.inputs[1].sizes;
  const auto transposed = resolve_transposed(attributes, x_sizes, w_sizes);
  const Window& window = transposed->window;
  const auto x = numbers<double>(call.inputs[0]);
  const auto w = numbers<double>(call.inputs[1]);
  std::vector<double> sums(static_cast<size_t>(y.count()), 0);
  const int64_t group_in = x_sizes[1] / attributes.group;
  size_t index = 0;
  for (Positions at(x_sizes); !at.done(); at.next(), ++index) {
    const int64_t group = at.at()[1] / group_in;
    Dims taps = w_sizes;
    taps[0] = 1;
    for (Positions tap(taps); !tap.done(); tap.next()) {
      Dims to = y.sizes;
      to[0] = at.at()[0];
      to[1] = group * w_sizes[1] + tap.at()[1];
      bool inside = true;
      for (size_t i = 2; i < to.size(); ++i) {
        to[i] = at.at()[i] * window.strides[i - 2] + tap.at()[i] * window.dilations[i - 2] -
                transposed->begin[i - 2];
        inside = inside && to[i] >= 0 && to[i] < y.sizes[i];
      }
      if (!inside) continue;
      Dims from = tap.at();
      from[0] = at.at()[1];
      sums[static_cast<size_t>(broadcast_index(y.sizes, to))] +=
          x[index] * w[static_cast<size_t>(broadcast_index(w_sizes, from))];
    }
  }
  const auto b = call.has_input(2) ? numbers<double>(call.inputs[2]) : std::vector<double>();
  index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const double bias = b.empty() ? 0 : b[static_cast<size_t>(at.at()[1])];
    put<double>(y, static_cast<int64_t>(index), sums[index] + bias);
  }
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
  each_line(call, attrs<bp_attrs_softmax>(call.attributes).axis,
            [](const std::vector<double>& x, std::vector<double>* y) {
              double highest = -std::numeric_limits<double>::infinity();
              for (const double value : x) highest = larger(highest, value);
              double sum = 0;
              for (const double value : x) sum += std::exp(value - highest);
              for (size_t k = 0; k < x.size(); ++k) (*y)[k] = std::exp(x[k] - highest) / sum;
            });
}

void evaluate_col2im(const OracleCall& call) {
  const auto resolved = resolve_blocks(CallContext(call.inputs, call.attributes).get());
  assert(resolved.ok() && resolved->has_value() && (*resolved)->is_known);
  const Blocks& blocks = **resolved;
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    std::vector<N> sums(static_cast<size_t>(y.count()));
    size_t next = 0;  // of x, in its order
    const int64_t planes = element_count(std::span(y.sizes.data(), size_t{2}));
    for (int64_t plane = 0; plane < planes; ++plane) {
      for (Positions tap(blocks.window.kernel); !tap.done(); tap.next()) {
        for (Positions at(blocks.counts); !at.done(); at.next(), ++next) {
          int64_t place = plane;
          bool is_inside = true;
          for (size_t d = 0; d < blocks.image.size(); ++d) {
            const int64_t along = at.at()[d] * blocks.window.strides[d] +
                                  tap.at()[d] * blocks.window.dilations[d] -
                                  blocks.window.pads_begin[d];
            is_inside = is_inside && along >= 0 && along < blocks.image[d];
            place = place * blocks.image[d] + along;
          }
          if (!is_inside) continue;
          sums[static_cast<size_t>(place)] = plus(sums[static_cast<size_t>(place)], x[next]);
        }
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) put<N>(y, static_cast<int64_t>(i), sums[i]);
  });
}

}  // namespace bp::ops
