// SPDX-License-Identifier: Apache-2.0
//
// Convolution over one to three spatial dimensions. Fewer than three are seen as three, the first
// ones of size 1. Each output plane starts as the bias; then, channel by channel and tap by tap (a
// tap is one weight), rows of input times the tap are added to rows of output: long loops over
// contiguous memory, and one fixed order of every sum.
#include <algorithm>
#include <array>
#include <span>

#include "backplane/ops/nn.h"
#include "kernels/launch.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

constexpr uint32_t kMaxSpatial = 3;
using Spatial = std::array<int64_t, kMaxSpatial>;

int64_t volume(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// The attributes, per spatial dimension.
struct Window {
  Spatial strides{1, 1, 1};
  Spatial pads{};  // at the beginning; those at the end are in the output's size
  Spatial dilations{1, 1, 1};
  int64_t group = 1;
};

/// Sizes of the spatial dimensions of x, w and y.
struct Planes {
  Spatial x, w, y;
};

Spatial spatial_sizes(const Tensor& tensor) {
  Spatial sizes{1, 1, 1};
  std::copy(tensor.sizes.begin() + 2, tensor.sizes.begin() + tensor.rank,
            sizes.end() - (tensor.rank - 2));
  return sizes;
}

/// Puts the first `count` values of an attribute at the end of `out`; an empty one changes nothing.
void read_spatial(std::string_view name, bp_i64_span values, uint64_t expected_count,
                  uint32_t count, Spatial* out) {
  if (values.count == 0) return;
  if (values.count != expected_count) {
    refuse("conv: ", name, " has ", values.count, " values; expected ", expected_count);
  }
  std::copy_n(values.ptr, count, out->end() - count);
}

Window read_window(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_conv_defaults());
  const uint32_t count = args.tensors[0].rank - 2;
  if (count < 1 || count > kMaxSpatial) refuse("conv: an input of rank ", args.tensors[0].rank);
  Window window;
  window.group = attributes.group;
  read_spatial("strides", attributes.strides, count, count, &window.strides);
  read_spatial("pads", attributes.pads, uint64_t{2} * count, count, &window.pads);
  read_spatial("dilations", attributes.dilations, count, count, &window.dilations);
  if (*std::min_element(window.strides.begin(), window.strides.end()) < 1) {
    refuse("conv: a stride below 1");
  }
  return window;
}

/// y[i] += weight * x[i * stride + start] wherever that is inside x.
void add_row(float weight, std::span<const float> x, int64_t start, int64_t stride,
             std::span<float> y) {
  const auto x_size = static_cast<int64_t>(x.size());
  const auto y_size = static_cast<int64_t>(y.size());
  const int64_t first = start >= 0 ? 0 : (-start + stride - 1) / stride;
  const int64_t last = start >= x_size ? 0 : std::min(y_size, (x_size - 1 - start) / stride + 1);
  if (first >= last) return;
  float* const out = y.data();
  const float* const in = x.data() + first * stride + start;
  for (int64_t i = first; i < last; ++i) out[i] += weight * in[(i - first) * stride];
}

/// Adds one tap of one input channel to an output plane. `start` is where in x the tap meets y's
/// first element.
void add_tap(float weight, const Planes& planes, const Spatial& start, const Spatial& strides,
             const float* x, float* y) {
  const auto [x_depth, x_height, x_width] = planes.x;
  const auto [y_depth, y_height, y_width] = planes.y;
  for (int64_t d = 0; d < y_depth; ++d) {
    const int64_t x_d = d * strides[0] + start[0];
    if (x_d < 0 || x_d >= x_depth) continue;
    for (int64_t h = 0; h < y_height; ++h) {
      const int64_t x_h = h * strides[1] + start[1];
      if (x_h < 0 || x_h >= x_height) continue;
      const float* const x_row = x + (x_d * x_height + x_h) * x_width;
      float* const y_row = y + (d * y_height + h) * y_width;
      add_row(weight, {x_row, static_cast<size_t>(x_width)}, start[2], strides[2],
              {y_row, static_cast<size_t>(y_width)});
    }
  }
}

/// Adds one input channel to an output plane.
void add_channel(const Window& window, const Planes& planes, const float* x, const float* w,
                 float* y) {
  for (int64_t d = 0; d < planes.w[0]; ++d) {
    for (int64_t h = 0; h < planes.w[1]; ++h) {
      for (int64_t k = 0; k < planes.w[2]; ++k, ++w) {
        const Spatial start{d * window.dilations[0] - window.pads[0],
                            h * window.dilations[1] - window.pads[1],
                            k * window.dilations[2] - window.pads[2]};
        add_tap(*w, planes, start, window.strides, x, y);
      }
    }
  }
}

void conv(const Window& window, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& w = launch.input(1);
  const Tensor& y = launch.output();
  const float* const bias = launch.has_input(2) ? launch.input(2).as<float>() : nullptr;
  const int64_t x_channels = x.sizes[1];
  const int64_t y_channels = w.sizes[0];
  const int64_t group_channels = w.sizes[1];
  if (window.group < 1 || group_channels * window.group != x_channels ||
      y_channels % window.group != 0) {
    refuse("conv: ", window.group, " groups of ", group_channels, " channels for ", x_channels,
           " channels in, ", y_channels, " out");
  }
  const Planes planes{spatial_sizes(x), spatial_sizes(w), spatial_sizes(y)};
  for (int64_t plane = 0; plane < y.sizes[0] * y_channels; ++plane) {
    const int64_t image = plane / y_channels;
    const int64_t channel = plane % y_channels;
    const int64_t group = channel / (y_channels / window.group);
    float* const y_plane = y.as<float>() + plane * volume(planes.y);
    std::fill_n(y_plane, volume(planes.y), bias == nullptr ? 0.0f : bias[channel]);
    for (int64_t c = 0; c < group_channels; ++c) {
      const int64_t x_plane = image * x_channels + group * group_channels + c;
      const int64_t w_plane = channel * group_channels + c;
      add_channel(window, planes, x.as<float>() + x_plane * volume(planes.x),
                  w.as<float>() + w_plane * volume(planes.w), y_plane);
    }
  }
}

const char* why_not(const bp_kernel_query& query) {
  const uint32_t rank = sdk::arg_info(query, 0).rank;
  return rank >= 3 && rank <= 2 + kMaxSpatial ? nullptr : "only 1 to 3 spatial dimensions";
}

KernelBody prepare(const bp_launch_args& args) {
  return [window = read_window(args)](const Launch& launch) { conv(window, launch); };
}

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "conv_f32",
                                                 .op = "conv",
                                                 .dtypes = kFloat32,
                                                 .supports = sdk::supports_slot<why_not>,
                                                 .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(conv, kKernels);

}  // namespace bp::npu
