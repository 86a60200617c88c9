// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose in plain loops, for all floats; half types are summed in f32. Each output row is
// made piece by piece from the rows of the input that reach it.
#include <algorithm>

#include "conv_transpose_shape.hpp"
#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kTile = 256;  // outputs of one row that are worked on together

struct TransposePlan : bp_kernel_plan {
  explicit TransposePlan(const TransposeShape& plan_shape)
      : shape(plan_shape),
        row_cost(std::max<int64_t>(
            1, sdk::saturating_product({plan_shape.window.out[2], plan_shape.window.kernel_count(),
                                        plan_shape.group_in}))) {}

  // The input position that reaches output `out` with this weight; -1: none.
  int64_t source(int dimension, int64_t out, int64_t tap) const {
    const Window& window = shape.window;
    const int64_t at = out + window.pad_begin[dimension] - tap * window.dilation[dimension];
    if (at < 0 || at % window.stride[dimension] != 0) return -1;
    const int64_t in = at / window.stride[dimension];
    return in < window.in[dimension] ? in : -1;
  }

  TransposeShape shape;
  int64_t row_cost;
};

std::unique_ptr<TransposePlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  return std::make_unique<TransposePlan>(make_transpose_shape(query));
}

struct Tile {
  int64_t first;
  int64_t count;
};

// Adds one row of the input times one row of weights to a tile of an output row.
template <class T>
void add_row(const Window& window, const T* x, const T* w, Tile tile, Compute<T>* sums) {
  const int64_t stride = window.stride[2];
  for (int64_t kw = 0; kw < window.kernel[2]; ++kw) {
    const int64_t shift = kw * window.dilation[2] - window.pad_begin[2];
    // Input i is added to output i * stride + shift.
    const int64_t from = tile.first - shift;
    const int64_t begin = from <= 0 ? 0 : (from + stride - 1) / stride;
    const int64_t to = tile.first + tile.count - shift;
    const int64_t end = to <= 0 ? 0 : std::min(window.in[2], (to + stride - 1) / stride);
    const Compute<T> factor = load(w[kw]);
    Compute<T>* const out = sums + shift - tile.first;
    for (int64_t i = begin; i < end; ++i) out[i * stride] += factor * load(x[i]);
  }
}

template <class T>
struct TransposeLoop {
  static void tile(const TransposePlan& plan, const T* x, const T* w, int64_t out_d, int64_t out_h,
                   Tile tile, Compute<T>* sums) {
    const Window& window = plan.shape.window;
    for (int64_t kd = 0; kd < window.kernel[0]; ++kd) {
      const int64_t d = plan.source(0, out_d, kd);
      if (d < 0) continue;
      for (int64_t kh = 0; kh < window.kernel[1]; ++kh) {
        const int64_t h = plan.source(1, out_h, kh);
        if (h < 0) continue;
        add_row(window, x + (d * window.in[1] + h) * window.in[2],
                w + (kd * window.kernel[1] + kh) * window.kernel[2], tile, sums);
      }
    }
  }

  // Output rows [begin, end) of all planes.
  static void run(const TransposePlan& plan, const bp_launch_args& args, int64_t begin,
                  int64_t end) {
    const TransposeShape& shape = plan.shape;
    const Window& window = shape.window;
    const T* const bias = shape.has_bias ? address_of<const T>(input_of(args, 2)) : nullptr;
    const int64_t plane_rows = window.out[0] * window.out[1];
    for (int64_t r = begin; r < end; ++r) {
      const int64_t image = r / plane_rows / shape.out_channels();
      const int64_t channel = r / plane_rows % shape.out_channels();
      const int64_t first_in = channel / shape.group_out * shape.group_in;
      const T* const x = address_of<const T>(input_of(args, 0)) +
                         (image * shape.in_channels() + first_in) * window.in_count();
      const T* const w =
          address_of<const T>(input_of(args, 1)) +
          (first_in * shape.group_out + channel % shape.group_out) * window.kernel_count();
      T* const y = address_of<T>(output_of(args)) + r * window.out[2];
      const int64_t row = r % plane_rows;
      for (int64_t o = 0; o < window.out[2]; o += kTile) {
        const Tile here{o, std::min(kTile, window.out[2] - o)};
        Compute<T> sums[kTile];
        std::fill_n(sums, here.count, bias == nullptr ? Compute<T>{0} : load(bias[channel]));
        for (int64_t c = 0; c < shape.group_in; ++c) {
          tile(plan, x + c * window.in_count(), w + c * shape.group_out * window.kernel_count(),
               row / window.out[1], row % window.out[1], here, sums);
        }
        for (int64_t i = 0; i < here.count; ++i) y[o + i] = store<T>(sums[i]);
      }
    }
  }
};

constexpr auto kTable = float_table<TransposeLoop>();

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const TransposePlan*>(args.plan);
  const Window& window = plan.shape.window;
  const int64_t planes = plan.shape.batch * plan.shape.out_channels();
  if (planes == 0 || window.out_count() == 0) return BP_OK;
  const auto run = kTable[output_of(args).dtype];
  args.device->workers.for_ranges(
      planes * window.out[0] * window.out[1], plan.row_cost,
      [&](int64_t begin, int64_t end) noexcept { run(plan, args, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "conv_transpose_loop",
                                                 .op = "conv_transpose",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .supports = supports_slot<refused_spatial_rank>,
                                                 .plan = plan_slot<TransposePlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(conv_transpose, kKernels);

}  // namespace bp::cpu
