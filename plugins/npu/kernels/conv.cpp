// SPDX-License-Identifier: Apache-2.0
//
// Convolution over one to three spatial dimensions. The sums of each output plane start as the
// bias; then, channel by channel and tap by tap (a tap is one weight), rows of input times the tap
// are added to rows of them: long loops over contiguous memory, and one fixed order of every sum.
#include <algorithm>
#include <span>
#include <vector>

#include "backplane/ops/nn.h"
#include "kernels/elements.hpp"
#include "kernels/window.hpp"

namespace bp::npu {
namespace {

/// Sizes of the spatial dimensions of x, w and y.
struct Planes {
  Spatial x, w, y;
};

struct Conv {
  Window window;  // without the kernel: w has it
  int64_t group = 1;
};

/// y[i] += weight * x[i * stride + start] wherever that is inside x.
template <class T>
void add_row(Compute<T> weight, std::span<const T> x, int64_t start, int64_t stride,
             std::span<Compute<T>> y) {
  const auto x_size = static_cast<int64_t>(x.size());
  const auto y_size = static_cast<int64_t>(y.size());
  const int64_t first = start >= 0 ? 0 : (-start - 1) / stride + 1;
  const int64_t last = start >= x_size ? 0 : std::min(y_size, (x_size - 1 - start) / stride + 1);
  if (first >= last) return;
  Compute<T>* const out = y.data();
  const T* const in = x.data() + first * stride + start;
  if (stride == 1) {  // a loop that compilers make vectors of
    for (int64_t i = first; i < last; ++i) out[i] += weight * load(in[i - first]);
    return;
  }
  for (int64_t i = first; i < last; ++i) out[i] += weight * load(in[(i - first) * stride]);
}

/// Adds one tap of one input channel to an output plane. `start` is where in x the tap meets y's
/// first element.
template <class T>
void add_tap(Compute<T> weight, const Planes& planes, const Spatial& start, const Spatial& strides,
             const T* x, Compute<T>* y) {
  const auto [x_depth, x_height, x_width] = planes.x;
  const auto [y_depth, y_height, y_width] = planes.y;
  for (int64_t d = 0; d < y_depth; ++d) {
    const int64_t x_d = d * strides[0] + start[0];
    if (x_d < 0 || x_d >= x_depth) continue;
    for (int64_t h = 0; h < y_height; ++h) {
      const int64_t x_h = h * strides[1] + start[1];
      if (x_h < 0 || x_h >= x_height) continue;
      const T* const x_row = x + (x_d * x_height + x_h) * x_width;
      Compute<T>* const y_row = y + (d * y_height + h) * y_width;
      add_row<T>(weight, {x_row, static_cast<size_t>(x_width)}, start[2], strides[2],
                 {y_row, static_cast<size_t>(y_width)});
    }
  }
}

/// Adds one input channel to an output plane.
template <class T>
void add_channel(const Window& window, const Planes& planes, const T* x, const T* w,
                 Compute<T>* y) {
  for (int64_t d = 0; d < planes.w[0]; ++d) {
    for (int64_t h = 0; h < planes.w[1]; ++h) {
      for (int64_t k = 0; k < planes.w[2]; ++k, ++w) {
        const Spatial start{window.place(0, 0, d), window.place(1, 0, h), window.place(2, 0, k)};
        add_tap<T>(load(*w), planes, start, window.strides, x, y);
      }
    }
  }
}

template <class T>
void conv_planes(const Conv& conv, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& w = launch.input(1);
  const Tensor& y = launch.output();
  const T* const bias = launch.has_input(2) ? launch.input(2).as<T>() : nullptr;
  const int64_t y_channels = w.sizes[0];
  const int64_t group_channels = w.sizes[1];
  const Planes planes{spatial_sizes(x), spatial_sizes(w), spatial_sizes(y)};
  if (y.element_count() == 0) return;  // a plane of no image may claim any size
  std::vector<Compute<T>> sums(static_cast<size_t>(volume(planes.y)));
  for (int64_t plane = 0; plane < y.sizes[0] * y_channels; ++plane) {
    const int64_t image = plane / y_channels;
    const int64_t channel = plane % y_channels;
    const int64_t group = channel / (y_channels / conv.group);
    std::fill(sums.begin(), sums.end(), bias == nullptr ? Compute<T>{0} : load(bias[channel]));
    for (int64_t c = 0; c < group_channels; ++c) {
      const int64_t x_plane = image * x.sizes[1] + group * group_channels + c;
      const int64_t w_plane = channel * group_channels + c;
      add_channel(conv.window, planes, x.as<T>() + x_plane * volume(planes.x),
                  w.as<T>() + w_plane * volume(planes.w), sums.data());
    }
    std::transform(sums.begin(), sums.end(), y.as<T>() + plane * volume(planes.y), store<T>);
  }
}

void conv(const Conv& conv, const Launch& launch) {
  const int64_t x_channels = launch.input(0).sizes[1];
  const Tensor& w = launch.input(1);
  if (conv.group < 1 || w.sizes[1] * conv.group != x_channels || w.sizes[0] % conv.group != 0) {
    refuse("conv: ", conv.group, " groups of ", w.sizes[1], " channels for ", x_channels,
           " channels in, ", w.sizes[0], " out");
  }
  Floats::with_type(w.dtype, [&]<class T>(T) { conv_planes<T>(conv, launch); });
}

KernelBody prepare(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_conv_defaults());
  const Conv call{read_window("conv", attributes, args.tensors[0].rank), attributes.group};
  return [call](const Launch& launch) { conv(call, launch); };
}

constexpr bp_kernel kKernels[] = {describe({.name = "conv_float",
                                            .op = "conv",
                                            .dtypes = Floats::kDtypes,
                                            .supports = sdk::supports_slot<refuse_spatial_rank>,
                                            .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(conv, kKernels);

}  // namespace bp::npu
