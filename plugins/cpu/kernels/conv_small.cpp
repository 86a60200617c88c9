// SPDX-License-Identifier: Apache-2.0
//
// conv in f32 of one small image, where a library spends most of its time on bringing the weights
// into a layout of its own. Here the weights are read as they lie:
// as the left matrix of a product whose right matrix, the image unrolled, is made in the launch's
// workspace, and whose result is already y. Vector code by Highway, compiled for each instruction
// set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_small.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>

#include "activation.hpp"
#include "backplane/ops/nn.h"
#include "conv_shape.hpp"
#include "kernel_support.hpp"
#include "math/lanes-inl.hpp"
#include "order.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_CONV_SMALL_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_CONV_SMALL_ONCE
namespace bp::cpu {

struct SmallConvPlan : bp_kernel_plan {
  explicit SmallConvPlan(const ConvShape& plan_shape) : shape(plan_shape), loop(plan_shape) {}

  ConvShape shape;
  ConvLoopPlan loop;  // for weights that may not be multiplied by padding
  Activation activation;
  bool has_padding = false;
  int64_t padded[kMaxSpatialRank];  // sizes of a plane of the image with its padding
  int64_t row_used;                 // floats of a row of the unrolled image, in widest vectors
  int64_t row_stride;               // from one row to the next

  int64_t padded_count() const { return padded[0] * padded[1] * padded[2]; }
  /// Rows of the unrolled image: one per weight of an output channel.
  int64_t depth() const { return shape.in_channels * shape.window.kernel_count(); }
  /// With room for a vector that is meant for the last element.
  int64_t image_floats() const { return shape.in_channels * padded_count() + kWidestVector; }
  int64_t unrolled_floats() const { return depth() * row_stride + kWidestVector; }
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Weights that are not have to skip the padding: zero times infinity is no number.
bool are_finite(const float* weights, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  // They stay zero while all are finite. Four, since each addition waits for the one before.
  auto a = zero, b = zero, c = zero, e = zero;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, weights + i), zero, a);
    b = hn::MulAdd(hn::LoadU(d, weights + i + lanes), zero, b);
    c = hn::MulAdd(hn::LoadU(d, weights + i + 2 * lanes), zero, c);
    e = hn::MulAdd(hn::LoadU(d, weights + i + 3 * lanes), zero, e);
  }
  const auto sums = hn::Add(hn::Add(a, b), hn::Add(c, e));
  float rest = 0;
  for (; i < count; ++i) rest += weights[i] * 0.0F;
  return hn::AllTrue(d, hn::Eq(sums, zero)) && rest == 0;
}

// The planes of one image among their padding, which is zero. Lines are a few floats, so that a
// call of memcpy for each would cost more.
void pad(const SmallConvPlan& plan, const float* x, float* image) {
  const hn::CappedTag<float, 4> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Window& w = plan.shape.window;
  const int64_t count = w.in[2];
  std::fill_n(image, plan.image_floats(), 0.0F);
  for (int64_t channel = 0; channel < plan.shape.in_channels; ++channel) {
    for (int64_t depth = 0; depth < w.in[0]; ++depth) {
      const int64_t plane = channel * plan.padded[0] + depth + w.pad_begin[0];
      float* to =
          image + (plane * plan.padded[1] + w.pad_begin[1]) * plan.padded[2] + w.pad_begin[2];
      for (int64_t line = 0; line < w.in[1]; ++line, x += count, to += plan.padded[2]) {
        int64_t i = 0;
        for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, x + i), d, to + i);
        for (; i < count; ++i) to[i] = x[i];
      }
    }
  }
}

// A plane of the image as one weight meets it.
struct Lines {
  int64_t count;
  int64_t distance;  // from one line to the next
  int64_t length;
  int64_t stride;  // within a line
};

// Lines behind each other, in whole vectors: what lies behind the last one is overwritten too.
// Returns the end of the last one.
template <class D>
float* copy_lines(D d, const Lines& lines, const float* from, float* to) {
  const int64_t length = lines.length;
  const int64_t distance = lines.distance;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (lines.stride != 1) {
    for (int64_t line = 0; line < lines.count; ++line, from += distance, to += length) {
      for (int64_t i = 0; i < length; ++i) to[i] = from[i * lines.stride];
    }
  } else if (length <= lanes) {
    for (int64_t line = 0; line < lines.count; ++line, from += distance, to += length) {
      hn::StoreU(hn::LoadU(d, from), d, to);
    }
  } else {
    for (int64_t line = 0; line < lines.count; ++line, from += distance, to += length) {
      for (int64_t i = 0; i < length; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    }
  }
  return to;
}

// What one weight of each output channel meets: one row of the unrolled image. from: what it meets
// first.
template <class D>
void unroll_row(D d, const SmallConvPlan& plan, const Lines& lines, const float* from, float* row) {
  const Window& w = plan.shape.window;
  const int64_t plane = w.stride[0] * plan.padded[1] * plan.padded[2];
  float* to = row;
  for (int64_t od = 0; od < w.out[0]; ++od, from += plane) to = copy_lines(d, lines, from, to);
  for (; to != row + plan.row_used; ++to) *to = 0;
}

template <class D>
void unroll_in(D d, const SmallConvPlan& plan, const float* image, float* unrolled) {
  const Window& w = plan.shape.window;
  const Lines lines{.count = w.out[1],
                    .distance = w.stride[1] * plan.padded[2],
                    .length = w.out[2],
                    .stride = w.stride[2]};
  const int64_t down = w.dilation[1] * plan.padded[2];
  const int64_t deep = w.dilation[0] * plan.padded[1] * plan.padded[2];
  float* const end = unrolled + plan.depth() * plan.row_stride;
  for (float* row = unrolled; row != end; image += plan.padded_count()) {
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw, row += plan.row_stride) {
          const float* const from = image + kd * deep + kh * down + kw * w.dilation[2];
          unroll_row(d, plan, lines, from, row);
        }
      }
    }
  }
}

// unrolled [weight, position]: in vectors no wider than needed, since those of short lines overlap.
void unroll(const SmallConvPlan& plan, const float* image, float* unrolled) {
  if (plan.shape.window.out[2] <= 4) {
    unroll_in(hn::CappedTag<float, 4>(), plan, image, unrolled);
  } else {
    unroll_in(hn::CappedTag<float, 8>(), plan, image, unrolled);
  }
}

// A product and where its result goes: y [channel, position] of one image.
struct Product {
  const SmallConvPlan& plan;
  const float* weights;
  const float* bias;  // nullptr: none
  const float* unrolled;
  float* y;

  // Where fewer channels are left than a block has, the last one is computed again.
  int64_t channel(int64_t i) const { return std::min(i, plan.shape.out_channels - 1); }
  const float* weights_of(int64_t i) const { return weights + channel(i) * plan.depth(); }
  float bias_of(int64_t i) const { return bias == nullptr ? 0.0F : bias[channel(i)]; }

  template <class V>
  void store(V sums, int64_t i, int64_t position) const {
    const int64_t positions = plan.shape.window.out_count();
    store_some(sums, hn::ScalableTag<float>(), y + channel(i) * positions + position,
               positions - position);
  }
};

// Four channels over two vectors of positions: each value that is read serves two products.
void multiply_4_by_2(const Product& p, int64_t first, int64_t position) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* const w0 = p.weights_of(first);
  const float* const w1 = p.weights_of(first + 1);
  const float* const w2 = p.weights_of(first + 2);
  const float* const w3 = p.weights_of(first + 3);
  auto sum0 = hn::Set(d, p.bias_of(first));
  auto sum1 = hn::Set(d, p.bias_of(first + 1));
  auto sum2 = hn::Set(d, p.bias_of(first + 2));
  auto sum3 = hn::Set(d, p.bias_of(first + 3));
  auto next0 = sum0;
  auto next1 = sum1;
  auto next2 = sum2;
  auto next3 = sum3;
  const int64_t depth = p.plan.depth();
  const float* row = p.unrolled + position;
  for (int64_t i = 0; i < depth; ++i, row += p.plan.row_stride) {
    const auto values = hn::LoadU(d, row);
    const auto next = hn::LoadU(d, row + lanes);
    const auto factor0 = hn::Set(d, w0[i]);
    const auto factor1 = hn::Set(d, w1[i]);
    const auto factor2 = hn::Set(d, w2[i]);
    const auto factor3 = hn::Set(d, w3[i]);
    sum0 = hn::MulAdd(factor0, values, sum0);
    sum1 = hn::MulAdd(factor1, values, sum1);
    sum2 = hn::MulAdd(factor2, values, sum2);
    sum3 = hn::MulAdd(factor3, values, sum3);
    next0 = hn::MulAdd(factor0, next, next0);
    next1 = hn::MulAdd(factor1, next, next1);
    next2 = hn::MulAdd(factor2, next, next2);
    next3 = hn::MulAdd(factor3, next, next3);
  }
  p.store(sum0, first, position);
  p.store(sum1, first + 1, position);
  p.store(sum2, first + 2, position);
  p.store(sum3, first + 3, position);
  p.store(next0, first, position + lanes);
  p.store(next1, first + 1, position + lanes);
  p.store(next2, first + 2, position + lanes);
  p.store(next3, first + 3, position + lanes);
}

// Eight channels over one vector of positions: as many sums, for the last vector of an odd number.
void multiply_8_by_1(const Product& p, int64_t first, int64_t position) {
  const hn::ScalableTag<float> d;
  const float* const w0 = p.weights_of(first);
  const float* const w1 = p.weights_of(first + 1);
  const float* const w2 = p.weights_of(first + 2);
  const float* const w3 = p.weights_of(first + 3);
  const float* const w4 = p.weights_of(first + 4);
  const float* const w5 = p.weights_of(first + 5);
  const float* const w6 = p.weights_of(first + 6);
  const float* const w7 = p.weights_of(first + 7);
  auto sum0 = hn::Set(d, p.bias_of(first));
  auto sum1 = hn::Set(d, p.bias_of(first + 1));
  auto sum2 = hn::Set(d, p.bias_of(first + 2));
  auto sum3 = hn::Set(d, p.bias_of(first + 3));
  auto sum4 = hn::Set(d, p.bias_of(first + 4));
  auto sum5 = hn::Set(d, p.bias_of(first + 5));
  auto sum6 = hn::Set(d, p.bias_of(first + 6));
  auto sum7 = hn::Set(d, p.bias_of(first + 7));
  const int64_t depth = p.plan.depth();
  const float* row = p.unrolled + position;
  for (int64_t i = 0; i < depth; ++i, row += p.plan.row_stride) {
    const auto values = hn::LoadU(d, row);
    sum0 = hn::MulAdd(hn::Set(d, w0[i]), values, sum0);
    sum1 = hn::MulAdd(hn::Set(d, w1[i]), values, sum1);
    sum2 = hn::MulAdd(hn::Set(d, w2[i]), values, sum2);
    sum3 = hn::MulAdd(hn::Set(d, w3[i]), values, sum3);
    sum4 = hn::MulAdd(hn::Set(d, w4[i]), values, sum4);
    sum5 = hn::MulAdd(hn::Set(d, w5[i]), values, sum5);
    sum6 = hn::MulAdd(hn::Set(d, w6[i]), values, sum6);
    sum7 = hn::MulAdd(hn::Set(d, w7[i]), values, sum7);
  }
  p.store(sum0, first, position);
  p.store(sum1, first + 1, position);
  p.store(sum2, first + 2, position);
  p.store(sum3, first + 3, position);
  p.store(sum4, first + 4, position);
  p.store(sum5, first + 5, position);
  p.store(sum6, first + 6, position);
  p.store(sum7, first + 7, position);
}

void multiply(const SmallConvPlan& plan, const float* weights, const float* bias,
              const float* unrolled, float* y) {
  const Product product{
      .plan = plan, .weights = weights, .bias = bias, .unrolled = unrolled, .y = y};
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t positions = plan.shape.window.out_count();
  const int64_t channels = plan.shape.out_channels;
  int64_t position = 0;
  for (; position + lanes < positions; position += 2 * lanes) {
    for (int64_t i = 0; i < channels; i += 4) multiply_4_by_2(product, i, position);
  }
  if (position >= positions) return;
  for (int64_t i = 0; i < channels; i += 8) multiply_8_by_1(product, i, position);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(are_finite);
HWY_EXPORT(pad);
HWY_EXPORT(unroll);
HWY_EXPORT(multiply);

// Above these, each weight is used so often that oneDNN's layouts pay, and it has threads.
constexpr int64_t kMostPositions = 64;
constexpr double kMostMultiplyAdds = 1 << 20;
constexpr double kMostWorkspaceFloats = 1 << 16;  // what a second-level cache holds
constexpr const char* kTooLarge = "the unrolled image is too large";

void refuse_unfit(const ConvShape& shape) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no vectors"};
  if (shape.batch != 1) throw Refusal{"takes one image"};
  if (shape.groups != 1) throw Refusal{"takes one group"};
  if (shape.window.out_count() > kMostPositions) throw Refusal{"takes up to 64 positions"};
  if (shape.multiply_add_count() > kMostMultiplyAdds) throw Refusal{"too large for one thread"};
  if (shape.window.crops()) throw Refusal{"takes no negative pads"};
  if (shape.has_addend) throw Refusal{"takes no addend"};
}

std::unique_ptr<SmallConvPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                         bp_plan_info* info) {
  const ConvShape shape = make_conv_shape(query);
  if (!is_row_major(arg_info(query, 0))) throw Refusal{"takes row-major images"};
  refuse_unfit(shape);
  auto plan = std::make_unique<SmallConvPlan>(shape);
  plan->activation =
      Activation(*device, read_attributes(query.attributes, bp_attrs_conv_defaults()));
  Window& w = plan->shape.window;
  // In f64, since attributes of this query are not checked yet for what their products come to.
  double floats = static_cast<double>(plan->shape.in_channels);
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    const double reached =
        static_cast<double>(w.out[d] - 1) * static_cast<double>(w.stride[d]) +
        static_cast<double>(w.kernel[d] - 1) * static_cast<double>(w.dilation[d]);
    const double size =
        std::max(static_cast<double>(w.in[d]) + static_cast<double>(w.pad_begin[d]) +
                     static_cast<double>(w.pad_end[d]),
                 reached + 1);
    floats *= size;
    if (floats > kMostWorkspaceFloats) throw Refusal{kTooLarge};
    plan->padded[d] = static_cast<int64_t>(size);
    plan->has_padding = plan->has_padding || plan->padded[d] > w.in[d];
    // Steps that are never taken may be of any size.
    if (w.out[d] == 1) w.stride[d] = 1;
    if (w.kernel[d] == 1) w.dilation[d] = 1;
  }
  plan->row_used = (w.out_count() + kWidestVector - 1) / kWidestVector * kWidestVector;
  // An odd number of cache lines, since the vectors of one position must not share a few sets.
  plan->row_stride = plan->row_used + (plan->row_used / kWidestVector % 2 == 0 ? kWidestVector : 0);
  floats += static_cast<double>(plan->depth()) * static_cast<double>(plan->row_stride);
  if (floats > kMostWorkspaceFloats) throw Refusal{kTooLarge};
  info->workspace_bytes =
      static_cast<uint64_t>(plan->image_floats() + plan->unrolled_floats()) * sizeof(float);
  info->workspace_alignment_bytes = 64;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const SmallConvPlan*>(args.plan);
  const ConvShape& shape = plan.shape;
  const float* const x = address_of<const float>(input_of(args, 0));
  const float* const weights = address_of<const float>(input_of(args, 1));
  if (plan.has_padding &&
      !HWY_DYNAMIC_DISPATCH(are_finite)(weights, shape.out_channels * plan.depth())) {
    convolve_in_loops(plan.loop, args);
    return plan.activation.apply(args);
  }
  const float* const bias = shape.has_bias ? address_of<const float>(input_of(args, 2)) : nullptr;
  float* const y = address_of<float>(output_of(args));
  float* const image = address_of<float>(args.workspace);
  float* const unrolled = image + plan.image_floats();
  HWY_DYNAMIC_DISPATCH(pad)(plan, x, image);
  HWY_DYNAMIC_DISPATCH(unroll)(plan, image, unrolled);
  HWY_DYNAMIC_DISPATCH(multiply)(plan, weights, bias, unrolled, y);
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "conv_f32_small",
                   .op = "conv",
                   .dtypes = kMasks,
                   .arg_rules = kFirstDense,
                   .priority = 20,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .version_max = 3,
                   .op_since = 3,
                   .supports = supports_slot<refused_conv>,
                   .plan = plan_slot<SmallConvPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(conv_small, kKernels);

}  // namespace bp::cpu
#endif
