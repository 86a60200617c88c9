// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose in plain loops, for all floats; half types are summed in f32. Each output row is
// made piece by piece from the rows of the input that reach it.
#include <algorithm>

#include "backplane/ops/nn.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "window.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kTile = 256;  // outputs of one row that are worked on together

struct TransposePlan : bp_kernel_plan {
  Window window;  // in and out are those of x and y; pad_begin is the one that holds
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t group_in = 0;
  int64_t group_out = 0;
  bool has_bias = false;
  int64_t row_cost = 1;

  // The input position that reaches output `out` with this weight; -1: none.
  int64_t source(int dimension, int64_t out, int64_t tap) const {
    const int64_t at = out + window.pad_begin[dimension] - tap * window.dilation[dimension];
    if (at < 0 || at % window.stride[dimension] != 0) return -1;
    const int64_t in = at / window.stride[dimension];
    return in < window.in[dimension] ? in : -1;
  }
};

// Pads that follow from the output's size, as the operator says.
int64_t pad_begin(const Window& w, uint32_t d, int64_t output_padding, bool upper) {
  const int64_t full =
      (w.in[d] - 1) * w.stride[d] + output_padding + (w.kernel[d] - 1) * w.dilation[d] + 1;
  const int64_t total = std::max<int64_t>(0, full - w.out[d]);
  return upper ? total / 2 : total - total / 2;
}

void settle_pads(const bp_attrs_conv_transpose& attrs, Window* window) {
  const std::string_view mode(attrs.auto_pad.ptr, attrs.auto_pad.len);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && attrs.output_shape.count == 0) return;
  const auto paddings = values_of(attrs.output_padding);
  for (uint32_t i = 0; i < window->spatial_rank; ++i) {
    const uint32_t d = kMaxSpatialRank - window->spatial_rank + i;
    window->pad_begin[d] =
        pad_begin(*window, d, paddings.empty() ? 0 : paddings[i], mode == "SAME_UPPER");
  }
}

std::unique_ptr<TransposePlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_conv_transpose_defaults());
  const std::span<const int64_t> x = sizes_of(arg_info(query, 0));
  const std::span<const int64_t> w = sizes_of(arg_info(query, 1));
  const std::span<const int64_t> y = sizes_of(output_info(query));
  const bool fits = x.size() >= 3 && w.size() == x.size() && y.size() == x.size() &&
                    attrs.group >= 1 && w[0] == x[1] && x[1] % attrs.group == 0 &&
                    y[1] / attrs.group == w[1];
  if (!fits) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "conv_transpose: x, w, y and group do not fit"};
  }
  auto plan = std::make_unique<TransposePlan>();
  plan->window = make_window(x.subspan(2), y.subspan(2), w.subspan(2),
                             {.strides = values_of(attrs.strides),
                              .pads = values_of(attrs.pads),
                              .dilations = values_of(attrs.dilations)});
  settle_pads(attrs, &plan->window);
  plan->batch = x[0];
  plan->groups = attrs.group;
  plan->group_in = x[1] / attrs.group;
  plan->group_out = w[1];
  plan->has_bias = has_input(query, 2);
  const Window& window = plan->window;
  plan->row_cost = std::max<int64_t>(
      1, sdk::saturating_product({window.out[2], window.kernel_count(), plan->group_in}));
  return plan;
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
    const Window& window = plan.window;
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
    const Window& window = plan.window;
    const T* const bias = plan.has_bias ? address_of<const T>(input_of(args, 2)) : nullptr;
    const int64_t plane_rows = window.out[0] * window.out[1];
    const int64_t out_channels = plan.groups * plan.group_out;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t image = r / plane_rows / out_channels;
      const int64_t channel = r / plane_rows % out_channels;
      const int64_t first_in = channel / plan.group_out * plan.group_in;
      const T* const x = address_of<const T>(input_of(args, 0)) +
                         (image * plan.groups * plan.group_in + first_in) * window.in_count();
      const T* const w =
          address_of<const T>(input_of(args, 1)) +
          (first_in * plan.group_out + channel % plan.group_out) * window.kernel_count();
      T* const y = address_of<T>(output_of(args)) + r * window.out[2];
      const int64_t row = r % plane_rows;
      for (int64_t o = 0; o < window.out[2]; o += kTile) {
        const Tile here{o, std::min(kTile, window.out[2] - o)};
        Compute<T> sums[kTile];
        std::fill_n(sums, here.count, bias == nullptr ? Compute<T>{0} : load(bias[channel]));
        for (int64_t c = 0; c < plan.group_in; ++c) {
          tile(plan, x + c * window.in_count(), w + c * plan.group_out * window.kernel_count(),
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
  const Window& window = plan.window;
  const int64_t planes = plan.batch * plan.groups * plan.group_out;
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
