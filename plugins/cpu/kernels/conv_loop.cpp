// SPDX-License-Identifier: Apache-2.0
//
// conv in plain loops, for the dtypes and shapes that the oneDNN kernel leaves: f16 and bf16
// (summed in f32), f64, empty tensors and cropping pads; and weights that the small kernel leaves.
#include <algorithm>

#include "conv_shape.hpp"
#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

// Outputs of one row that are worked on together.
constexpr int64_t kTile = 64;

struct Position {
  int64_t d;
  int64_t h;
  int64_t first;  // of the tile, along the row
  int64_t count;
};

// Adds one input channel's part to a tile of one output row. w: this channel's kernel.
template <class T>
void add_channel(const ConvLoopPlan& plan, const Position& at, const T* plane, const T* w,
                 Compute<T>* sums) {
  const Window& window = plan.shape.window;
  const Range range_d = plan.ranges.depth(at.d);
  const Range range_h = plan.ranges.row(at.h);
  for (int64_t kd = range_d.begin; kd < range_d.end; ++kd) {
    const int64_t d = at.d * window.stride[0] - window.pad_begin[0] + kd * window.dilation[0];
    for (int64_t kh = range_h.begin; kh < range_h.end; ++kh) {
      const int64_t h = at.h * window.stride[1] - window.pad_begin[1] + kh * window.dilation[1];
      const T* const row = plane + (d * window.in[1] + h) * window.in[2];
      const T* const w_row = w + (kd * window.kernel[1] + kh) * window.kernel[2];
      for (int64_t kw = 0; kw < window.kernel[2]; ++kw) {
        const Range valid = plan.ranges.column(kw);
        const int64_t begin = std::max(valid.begin, at.first);
        const int64_t end = std::min(valid.end, at.first + at.count);
        const int64_t shift = kw * window.dilation[2] - window.pad_begin[2];
        const Compute<T> factor = load(w_row[kw]);
        for (int64_t o = begin; o < end; ++o) {
          sums[o - at.first] += factor * load(row[o * window.stride[2] + shift]);
        }
      }
    }
  }
}

template <class T>
struct ConvLoop {
  struct Data {
    const T* x;
    const T* w;
    const T* bias;
    T* y;
  };

  static void plane(const ConvLoopPlan& plan, const Data& data, int64_t image, int64_t channel) {
    const ConvShape& shape = plan.shape;
    const Window& window = shape.window;
    const int64_t group_in = shape.group_in();
    const int64_t first_in = channel / shape.group_out() * group_in;
    const T* const x = data.x + (image * shape.in_channels + first_in) * window.in_count();
    const T* const w = data.w + channel * group_in * window.kernel_count();
    T* const y = data.y + (image * shape.out_channels + channel) * window.out_count();
    const Compute<T> start = data.bias == nullptr ? Compute<T>{0} : load(data.bias[channel]);
    for (int64_t row = 0; row < window.out[0] * window.out[1]; ++row) {
      for (int64_t first = 0; first < window.out[2]; first += kTile) {
        const Position at{.d = row / window.out[1],
                          .h = row % window.out[1],
                          .first = first,
                          .count = std::min(kTile, window.out[2] - first)};
        Compute<T> sums[kTile];
        std::fill_n(sums, at.count, start);
        for (int64_t c = 0; c < group_in; ++c) {
          add_channel(plan, at, x + c * window.in_count(), w + c * window.kernel_count(), sums);
        }
        T* const to = y + row * window.out[2] + first;
        for (int64_t i = 0; i < at.count; ++i) to[i] = store<T>(sums[i]);
      }
    }
  }

  // Output planes [begin, end): one per image and output channel.
  static void run(const ConvLoopPlan& plan, const bp_launch_args& args, int64_t begin,
                  int64_t end) {
    const ConvShape& shape = plan.shape;
    const Data data{.x = address_of<const T>(input_of(args, 0)),
                    .w = address_of<const T>(input_of(args, 1)),
                    .bias = shape.has_bias ? address_of<const T>(input_of(args, 2)) : nullptr,
                    .y = address_of<T>(output_of(args))};
    for (int64_t p = begin; p < end; ++p) {
      plane(plan, data, p / shape.out_channels, p % shape.out_channels);
    }
  }
};

constexpr auto kTable = float_table<ConvLoop>();

std::unique_ptr<ConvLoopPlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  return std::make_unique<ConvLoopPlan>(make_conv_shape(query));
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ConvLoopPlan*>(args.plan);
  const ConvShape& shape = plan.shape;
  const auto run = kTable[output_of(args).dtype];
  args.device->workers.for_ranges(
      shape.batch * shape.out_channels, plan.plane_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, args, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "conv_loop",
                                                 .op = "conv",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<ConvLoopPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

void convolve_in_loops(const ConvLoopPlan& plan, const bp_launch_args& args) {
  ConvLoop<float>::run(plan, args, 0, plan.shape.batch * plan.shape.out_channels);
}

BP_SDK_KERNELS(conv_loop, kKernels);

}  // namespace bp::cpu
