// SPDX-License-Identifier: Apache-2.0
//
// conv in f32 of many small images with few channels, where a library spends more on the edges of
// the images than on their insides. One place of four images is computed side by side: padding
// leaves out the same weights for all of them, and each weight that is read serves four products.
// The weights are brought into the order of this walk in the launch's workspace; there are few.
// Which of them meet the image is worked out once, in the plan.
// Vector code by Highway, compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_batch.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "activation.hpp"
#include "backplane/ops/nn.h"
#include "conv_shape.hpp"
#include "kernel_support.hpp"
#include "math/lanes-inl.hpp"
#include "order.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_CONV_BATCH_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_CONV_BATCH_ONCE
namespace bp::cpu {

// Images that are computed side by side.
inline constexpr int64_t kImages = 4;
// Positions of a window.
inline constexpr int64_t kMostTaps = 64;

// A position of the window: where it lies, from the first element of an image and from that of the
// packed weights on.
struct ConvTap {
  int64_t x_offset;
  int64_t weight_offset;
};

struct BatchConvPlan : OrderedPlan {
  explicit BatchConvPlan(const ConvShape& plan_shape) : shape(plan_shape) {}

  /// Of y, with the channels that fill the last vector, whatever its width.
  int64_t padded_channels() const {
    return (shape.out_channels + kWidestVector - 1) / kWidestVector * kWidestVector;
  }
  /// Weights of one output channel.
  int64_t depth() const { return shape.in_channels * shape.window.kernel_count(); }
  int64_t packed_floats() const { return padded_channels() * depth(); }
  /// Floats of one image of y.
  int64_t image_floats() const { return shape.out_channels * shape.window.out_count(); }

  ConvShape shape;
  Activation activation;  // none where `floor` says it
  // Sums below this become it: relu, which costs nothing here.
  float floor = -std::numeric_limits<float>::infinity();
  // From one image or channel of x to the next.
  int64_t x_image = 0;
  int64_t x_channel = 0;
  // The window's positions that lie in the image, for one place of y after another; those of place
  // p are [tap_begins[p], tap_begins[p + 1]).
  std::vector<ConvTap> taps;
  std::vector<size_t> tap_begins;
};

// The taps of one place.
struct ConvTaps {
  const ConvTap* first;
  const ConvTap* end;
};

// What all places of all images share.
struct BatchConv {
  const BatchConvPlan& plan;
  const float* weights;  // [place in the window, input channel, padded output channel]
  const float* bias;     // [padded output channel]
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A NaN stays one.
template <class D, class V>
HWY_INLINE V raise_to(D d, float floor, V value) {
  const auto least = hn::Set(d, floor);
  return hn::IfThenElse(hn::Lt(value, least), least, value);
}

// Two vectors, of which `count` values are wanted.
template <class D, class V>
HWY_INLINE void store_pair(D d, V first, V second, float floor, int64_t count, float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  first = raise_to(d, floor, first);
  second = raise_to(d, floor, second);
  if (count >= 2 * lanes) {
    hn::StoreU(first, d, to);
    hn::StoreU(second, d, to + lanes);
    return;
  }
  store_some(first, d, to, count);
  if (count > lanes) store_some(second, d, to + lanes, count - lanes);
}

// Four images, from x and y on, over two vectors of output channels from `channel` on.
void convolve_4_by_2(const BatchConv& conv, const ConvTaps& taps, int64_t channel, const float* x,
                     float* y) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const BatchConvPlan& plan = conv.plan;
  auto sum0 = hn::LoadU(d, conv.bias + channel);
  auto next0 = hn::LoadU(d, conv.bias + channel + lanes);
  auto sum1 = sum0, sum2 = sum0, sum3 = sum0;
  auto next1 = next0, next2 = next0, next3 = next0;
  const int64_t row = plan.padded_channels();
  const int64_t step = plan.x_channel;
  for (const ConvTap* tap = taps.first; tap != taps.end; ++tap) {
    const float* x0 = x + tap->x_offset;
    const float* x1 = x0 + plan.x_image;
    const float* x2 = x1 + plan.x_image;
    const float* x3 = x2 + plan.x_image;
    const float* w = conv.weights + tap->weight_offset + channel;
    const float* const end = w + plan.shape.in_channels * row;
    for (; w != end; w += row) {
      const auto w0 = hn::LoadU(d, w);
      const auto w1 = hn::LoadU(d, w + lanes);
      const auto value0 = hn::Set(d, *x0);
      const auto value1 = hn::Set(d, *x1);
      const auto value2 = hn::Set(d, *x2);
      const auto value3 = hn::Set(d, *x3);
      sum0 = hn::MulAdd(value0, w0, sum0);
      next0 = hn::MulAdd(value0, w1, next0);
      sum1 = hn::MulAdd(value1, w0, sum1);
      next1 = hn::MulAdd(value1, w1, next1);
      sum2 = hn::MulAdd(value2, w0, sum2);
      next2 = hn::MulAdd(value2, w1, next2);
      sum3 = hn::MulAdd(value3, w0, sum3);
      next3 = hn::MulAdd(value3, w1, next3);
      x0 += step;
      x1 += step;
      x2 += step;
      x3 += step;
    }
  }
  const int64_t image = plan.image_floats();
  const int64_t left = plan.shape.out_channels - channel;
  float* const to = y + channel;
  store_pair(d, sum0, next0, plan.floor, left, to);
  store_pair(d, sum1, next1, plan.floor, left, to + image);
  store_pair(d, sum2, next2, plan.floor, left, to + 2 * image);
  store_pair(d, sum3, next3, plan.floor, left, to + 3 * image);
}

// One image over one vector: what the blocks above leave.
void convolve_1_by_1(const BatchConv& conv, const ConvTaps& taps, int64_t channel, const float* x,
                     float* y) {
  const hn::ScalableTag<float> d;
  const BatchConvPlan& plan = conv.plan;
  auto sum = hn::LoadU(d, conv.bias + channel);
  const int64_t row = plan.padded_channels();
  for (const ConvTap* tap = taps.first; tap != taps.end; ++tap) {
    const float* at = x + tap->x_offset;
    const float* w = conv.weights + tap->weight_offset + channel;
    for (int64_t c = 0; c < plan.shape.in_channels; ++c, at += plan.x_channel, w += row) {
      sum = hn::MulAdd(hn::Set(d, *at), hn::LoadU(d, w), sum);
    }
  }
  store_some(raise_to(d, plan.floor, sum), d, y + channel, plan.shape.out_channels - channel);
}

// One place of up to four images.
void convolve_place(const BatchConv& conv, const ConvTaps& taps, int64_t images, const float* x,
                    float* y) {
  const BatchConvPlan& plan = conv.plan;
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t channel = 0;
  if (images == kImages) {
    // Vectors may be shorter than what the channels are padded to: none is all padding.
    const int64_t end = plan.shape.out_channels;
    for (; channel < end && channel + 2 * lanes <= plan.padded_channels(); channel += 2 * lanes) {
      convolve_4_by_2(conv, taps, channel, x, y);
    }
  }
  for (; channel < plan.shape.out_channels; channel += lanes) {
    for (int64_t i = 0; i < images; ++i) {
      convolve_1_by_1(conv, taps, channel, x + i * plan.x_image, y + i * plan.image_floats());
    }
  }
}

// Up to four images, from x and y on.
void convolve_images(const BatchConv& conv, int64_t images, const float* x, float* y) {
  const BatchConvPlan& plan = conv.plan;
  const ConvTap* const taps = plan.taps.data();
  for (size_t place = 0; place + 1 < plan.tap_begins.size(); ++place) {
    convolve_place(conv, {taps + plan.tap_begins[place], taps + plan.tap_begins[place + 1]}, images,
                   x, y);
    y += plan.shape.out_channels;
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(convolve_images);

// Beyond these a library is as fast: windows that mostly lie inside, and weights that a first-level
// cache does not hold. The sums of one output are added one after another.
constexpr int64_t kMostPlaces = 64;
constexpr int64_t kMostPackedFloats = 1 << 13;
constexpr int64_t kMostDepth = 1024;
constexpr int64_t kMostStep = 1 << 20;  // attributes may say anything, and their products overflow
constexpr double kMultiplyAddsPerUnit = 16;

void refuse_unfit(const ConvShape& shape) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no vectors"};
  if (shape.batch < kImages) throw Refusal{"takes four images or more"};
  if (shape.groups != 1) throw Refusal{"takes one group"};
  const Window& w = shape.window;
  if (w.out_count() > kMostPlaces) throw Refusal{"takes up to 64 positions"};
  if (w.crops()) throw Refusal{"takes no negative pads"};
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    if (std::max({w.stride[d], w.dilation[d], w.pad_begin[d], w.pad_end[d]}) > kMostStep) {
      throw Refusal{"takes no steps of a million and more"};
    }
  }
  if (shape.has_addend) throw Refusal{"takes no addend"};
  if (!w.has_padding()) throw Refusal{"takes images with padding"};
}

// The taps of the place `out` of y, of images whose spatial dimensions have the strides x_spatial.
void add_taps(const WindowRanges& ranges, const int64_t (&out)[kMaxSpatialRank],
              const int64_t (&x_spatial)[kMaxSpatialRank], BatchConvPlan& plan) {
  const Window& w = plan.shape.window;
  const int64_t tap_floats = plan.shape.in_channels * plan.padded_channels();
  const Range depth = ranges.depth(out[0]);
  const Range row = ranges.row(out[1]);
  const Range column = ranges.column_of(out[2]);
  int64_t x_first = 0;  // of the window, which may lie on padding
  int64_t step[kMaxSpatialRank];
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    x_first += (out[d] * w.stride[d] - w.pad_begin[d]) * x_spatial[d];
    step[d] = w.dilation[d] * x_spatial[d];
  }
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    for (int64_t kh = row.begin; kh < row.end; ++kh) {
      const int64_t x_line = x_first + kd * step[0] + kh * step[1];
      const int64_t line = (kd * w.kernel[1] + kh) * w.kernel[2];
      for (int64_t kw = column.begin; kw < column.end; ++kw) {
        plan.taps.push_back({x_line + kw * step[2], (line + kw) * tap_floats});
      }
    }
  }
}

// strides: of x.
void find_taps(std::span<const int64_t> strides, BatchConvPlan& plan) {
  const Window& w = plan.shape.window;
  int64_t x_spatial[kMaxSpatialRank] = {};
  for (uint32_t d = 0; d < w.spatial_rank; ++d) {
    x_spatial[kMaxSpatialRank - w.spatial_rank + d] = strides[2 + d];
  }
  const WindowRanges ranges(w);
  plan.tap_begins.push_back(0);
  for (int64_t od = 0; od < w.out[0]; ++od) {
    for (int64_t oh = 0; oh < w.out[1]; ++oh) {
      for (int64_t ow = 0; ow < w.out[2]; ++ow) {
        add_taps(ranges, {od, oh, ow}, x_spatial, plan);
        plan.tap_begins.push_back(plan.taps.size());
      }
    }
  }
}

std::unique_ptr<BatchConvPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                         bp_plan_info* info) {
  const ConvShape shape = make_conv_shape(query);
  refuse_unfit(shape);
  const int64_t channels = shape.out_channels;
  if (sdk::saturating_product({channels, shape.in_channels, shape.window.kernel[0],
                               shape.window.kernel[1], shape.window.kernel[2]}) >
      kMostPackedFloats) {
    throw Refusal{"takes few weights"};
  }
  auto plan = std::make_unique<BatchConvPlan>(shape);
  if (plan->depth() > kMostDepth) throw Refusal{"takes short sums"};
  if (shape.window.kernel_count() > kMostTaps) throw Refusal{"takes windows of up to 64 elements"};
  const bp_arg_info& x = arg_info(query, 0);
  const bp_arg_info& y = output_info(query);
  const auto strides = dense_strides(sizes_of(x), strides_of(x));
  if (!strides) throw Refusal{"takes images without gaps"};
  if (!may_choose_order(y)) throw Refusal{"makes images whose channels lie last"};
  plan->out_strides = channels_last_strides(sizes_of(y));
  info->out_strides = plan->out_strides.data();
  plan->x_image = (*strides)[0];
  plan->x_channel = (*strides)[1];
  find_taps(*strides, *plan);
  const Activation activation(*device, read_attributes(query.attributes, bp_attrs_conv_defaults()));
  if (activation.is_relu()) {
    plan->floor = 0;
  } else {
    plan->activation = activation;
  }
  info->workspace_bytes =
      static_cast<uint64_t>(plan->padded_channels() + plan->packed_floats()) * sizeof(float);
  info->workspace_alignment_bytes = 64;
  return plan;
}

// w [output channel, input channel, position of the window] as the walk reads it.
void pack(const BatchConvPlan& plan, const float* w, float* packed) {
  const int64_t positions = plan.shape.window.kernel_count();
  const int64_t row = plan.padded_channels();
  std::fill_n(packed, plan.packed_floats(), 0.0F);
  for (int64_t out = 0; out < plan.shape.out_channels; ++out) {
    for (int64_t in = 0; in < plan.shape.in_channels; ++in) {
      for (int64_t p = 0; p < positions; ++p) {
        packed[(p * plan.shape.in_channels + in) * row + out] = *w++;
      }
    }
  }
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const BatchConvPlan*>(args.plan);
  const ConvShape& shape = plan.shape;
  float* const bias = address_of<float>(args.workspace);
  float* const weights = bias + plan.padded_channels();
  std::fill_n(bias, plan.padded_channels(), 0.0F);
  if (shape.has_bias) {
    std::copy_n(address_of<const float>(input_of(args, 2)), shape.out_channels, bias);
  }
  pack(plan, address_of<const float>(input_of(args, 1)), weights);
  const BatchConv conv{.plan = plan, .weights = weights, .bias = bias};
  const float* const x = address_of<const float>(input_of(args, 0));
  float* const y = address_of<float>(output_of(args));
  const double cost = shape.multiply_add_count() / static_cast<double>(shape.batch) *
                      static_cast<double>(kImages) / kMultiplyAddsPerUnit;
  std::atomic<bp_status> failed{BP_OK};
  args.device->workers.for_ranges(
      (shape.batch + kImages - 1) / kImages, static_cast<int64_t>(cost),
      [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin * kImages; i < std::min(end * kImages, shape.batch); i += kImages) {
          const int64_t images = std::min(kImages, shape.batch - i);
          float* const to = y + i * plan.image_floats();
          HWY_DYNAMIC_DISPATCH(convolve_images)(conv, images, x + i * plan.x_image, to);
          const bp_status status =
              plan.activation.apply(args, {to, static_cast<size_t>(images * plan.image_floats())});
          if (status != BP_OK) failed.store(status, std::memory_order_relaxed);
        }
      });
  return failed.load(std::memory_order_relaxed);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "conv_f32_batch",
                   .op = "conv",
                   .dtypes = kMasks,
                   .arg_rules = kFirstDense,
                   .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                   .priority = 20,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .version_max = 3,
                   .op_since = 3,
                   .supports = supports_slot<refused_conv>,
                   .plan = plan_slot<BatchConvPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(conv_batch, kKernels);

}  // namespace bp::cpu
#endif
