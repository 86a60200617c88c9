// SPDX-License-Identifier: Apache-2.0
//
// conv in f32 along one dimension where each channel has weights of its own, as models of speech
// do: oneDNN would unroll the image for each channel, which takes longer than the products. Here
// vectors of outputs stay in registers while the window passes, and outputs beside the ends leave
// the padding out. Vector code by Highway, compiled for each instruction set and chosen when it
// runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_lines.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "activation.hpp"
#include "backplane/ops/nn.h"
#include "conv_shape.hpp"
#include "kernel_support.hpp"
#include "order.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_CONV_LINES_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_CONV_LINES_ONCE
namespace bp::cpu {

/// One channel of one image.
struct Line {
  const float* x;
  const float* weights;
  float bias;
  float* y;
  int64_t in;
  int64_t out;
  int64_t kernel;
  int64_t dilation;
  int64_t pad;
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Outputs [begin, end), some of whose elements of the window lie on padding.
void convolve_end(const Line& line, int64_t begin, int64_t end) {
  std::fill(line.y + begin, line.y + end, line.bias);
  for (int64_t k = 0; k < line.kernel; ++k) {
    const int64_t offset = k * line.dilation - line.pad;
    const int64_t first = std::max(begin, -offset);
    const int64_t last = std::min(end, line.in - offset);
    const float weight = line.weights[k];
    for (int64_t o = first; o < last; ++o) line.y[o] += weight * line.x[o + offset];
  }
}

// Four vectors of outputs whose window begins at x.
void convolve_four(const Line& line, const float* x, float* y) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Set(d, line.bias), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t k = 0; k < line.kernel; ++k, x += line.dilation) {
    const auto weight = hn::Set(d, line.weights[k]);
    sum0 = hn::MulAdd(weight, hn::LoadU(d, x), sum0);
    sum1 = hn::MulAdd(weight, hn::LoadU(d, x + lanes), sum1);
    sum2 = hn::MulAdd(weight, hn::LoadU(d, x + 2 * lanes), sum2);
    sum3 = hn::MulAdd(weight, hn::LoadU(d, x + 3 * lanes), sum3);
  }
  hn::StoreU(sum0, d, y);
  hn::StoreU(sum1, d, y + lanes);
  hn::StoreU(sum2, d, y + 2 * lanes);
  hn::StoreU(sum3, d, y + 3 * lanes);
}

void convolve_one(const Line& line, const float* x, float* y) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Set(d, line.bias);
  for (int64_t k = 0; k < line.kernel; ++k, x += line.dilation) {
    sum = hn::MulAdd(hn::Set(d, line.weights[k]), hn::LoadU(d, x), sum);
  }
  hn::StoreU(sum, d, y);
}

void convolve_line(const Line& line) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t reach = (line.kernel - 1) * line.dilation;
  int64_t begin = std::min(line.pad, line.out);
  int64_t end = std::clamp(line.in + line.pad - reach, begin, line.out);
  if (end - begin < lanes) begin = end = line.out;
  convolve_end(line, 0, begin);
  int64_t o = begin;
  for (; o + 4 * lanes <= end; o += 4 * lanes) {
    convolve_four(line, line.x + o - line.pad, line.y + o);
  }
  // The last vector may compute some outputs again.
  for (; o < end; o += lanes) {
    const int64_t at = std::min(o, end - lanes);
    convolve_one(line, line.x + at - line.pad, line.y + at);
  }
  convolve_end(line, end, line.out);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(convolve_line);

constexpr int64_t kMostStep = 1 << 20;
// Sums of more terms, one after another, would be far from exact.
constexpr int64_t kWidestWindow = 4096;
constexpr int64_t kMultiplyAddsPerUnit = 4;

struct LinesPlan : bp_kernel_plan {
  ConvShape shape;
  Activation activation;
};

void refuse_unfit(const ConvShape& shape) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no vectors"};
  if (shape.group_in() != 1) throw Refusal{"takes channels with weights of their own"};
  if (shape.has_addend) throw Refusal{"takes no addend"};
  const Window& w = shape.window;
  if (w.crops()) throw Refusal{"takes no negative pads"};
  for (uint32_t d = 0; d < 2; ++d) {
    const bool is_flat = w.in[d] == 1 && w.out[d] == 1 && w.kernel[d] == 1;
    if (!is_flat || w.pad_begin[d] != 0) throw Refusal{"takes lines"};
  }
  if (w.stride[2] != 1) throw Refusal{"takes windows that move by one element"};
  if (w.kernel[2] > kWidestWindow) throw Refusal{"takes windows of up to 4,096 elements"};
  if (w.dilation[2] > kMostStep || w.pad_begin[2] > kMostStep) {
    throw Refusal{"takes no steps of a million and more"};
  }
}

std::unique_ptr<LinesPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                     bp_plan_info*) {
  auto plan = std::make_unique<LinesPlan>();
  plan->shape = make_conv_shape(query);
  if (!is_row_major(arg_info(query, 0))) throw Refusal{"takes row-major images"};
  refuse_unfit(plan->shape);
  plan->activation =
      Activation(*device, read_attributes(query.attributes, bp_attrs_conv_defaults()));
  return plan;
}

Line line_of(const ConvShape& shape, const bp_launch_args& args, int64_t index) {
  const Window& w = shape.window;
  const int64_t channel = index % shape.out_channels;
  const int64_t in_line =
      index / shape.out_channels * shape.in_channels + channel / shape.group_out();
  return {.x = address_of<const float>(input_of(args, 0)) + in_line * w.in[2],
          .weights = address_of<const float>(input_of(args, 1)) + channel * w.kernel[2],
          .bias = shape.has_bias ? address_of<const float>(input_of(args, 2))[channel] : 0.0F,
          .y = address_of<float>(output_of(args)) + index * w.out[2],
          .in = w.in[2],
          .out = w.out[2],
          .kernel = w.kernel[2],
          .dilation = w.dilation[2],
          .pad = w.pad_begin[2]};
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const LinesPlan*>(args.plan);
  const ConvShape& shape = plan.shape;
  const int64_t line_cost = shape.window.step_cost() / kMultiplyAddsPerUnit + 1;
  args.device->workers.for_ranges(shape.batch * shape.out_channels, line_cost,
                                  [&](int64_t begin, int64_t end) noexcept {
                                    for (int64_t i = begin; i < end; ++i) {
                                      HWY_DYNAMIC_DISPATCH(convolve_line)(line_of(shape, args, i));
                                    }
                                  });
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "conv_f32_lines",
                   .op = "conv",
                   .dtypes = kMasks,
                   .arg_rules = kFirstDense,
                   .priority = 20,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .version_max = 3,
                   .op_since = 3,
                   .supports = supports_slot<refused_conv>,
                   .plan = plan_slot<LinesPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(conv_lines, kKernels);

}  // namespace bp::cpu
#endif
