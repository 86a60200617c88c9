// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose as convolutions without stride. Elements of y that lie a stride apart meet the
// same weights: they are a phase, and each phase is a convolution of x. So nothing is multiplied
// but what the operator multiplies: a 0 put between elements of x, or weights, would make NaN of
// infinity.
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/checked.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/nn/conv_transpose.hpp"

namespace bp::ops {
namespace {

/// Each is a convolution, and a stride may be of any size.
constexpr int64_t kMostPhases = 1024;
/// Weights in a row that phases are looked for at.
constexpr int64_t kMostFirstTaps = 1 << 20;

/// Of one dimension: the elements of y that lie a stride apart, from one of the first on.
struct Phase {
  int64_t taps = 0;       // weights that they meet; 0: none meets an element of x
  int64_t first_tap = 0;  // of the turned weights
  int64_t pad_begin = 0;  // below 0: so many elements of x meet none of these weights
  int64_t pad_end = 0;
};

/// All of one dimension, in the order of their first elements.
struct Phases {
  int64_t size = 0;      // elements of each; the last one may lie beyond y
  int64_t tap_step = 1;  // from one weight of a phase to its next
  int64_t dilation = 1;  // between the elements of x that these two meet
  std::vector<Phase> each;

  int64_t count() const { return std::ssize(each); }
};

/// Of spatial dimension i, in which x has `in` elements.
int64_t stride_along(const Window& window, size_t i, int64_t in) {
  // One element needs no distance to the next.
  return in == 1 ? 1 : window.strides[i];
}

Phases phases_along(const Transposed& transposed, size_t i, int64_t in) {
  const Window& window = transposed.window;
  const int64_t stride = stride_along(window, i, in);
  const int64_t out = transposed.out[i];
  const int64_t common = std::gcd(stride, window.dilations[i]);
  Phases phases;
  phases.size = (out - 1) / stride + 1;
  phases.tap_step = stride / common;
  phases.dilation = window.dilations[i] / common;
  phases.each.resize(static_cast<size_t>(std::min(stride, out)));
  const int64_t kernel = window.kernel[i];
  // A phase has every tap_step-th weight, so one of the first is its first.
  for (int64_t k = 0; k < std::min(kernel, phases.tap_step); ++k) {
    const int64_t place = k * window.dilations[i] - transposed.begin[i];  // where it meets x[0]
    const int64_t first = (place % stride + stride) % stride;
    if (first >= phases.count()) continue;
    const int64_t shift = (place - first) / stride;
    const int64_t taps = (kernel - 1 - k) / phases.tap_step + 1;
    Phase& phase = phases.each[static_cast<size_t>(first)];
    phase.first_tap = (kernel - 1 - k) % phases.tap_step;
    phase.pad_begin = (taps - 1) * phases.dilation + shift;
    phase.pad_end = phases.size - shift - in;
    const int64_t left_out =
        std::max<int64_t>(-phase.pad_begin, 0) + std::max<int64_t>(-phase.pad_end, 0);
    phase.taps = left_out < in ? taps : 0;
  }
  return phases;
}

/// Errors: UNSUPPORTED for too many convolutions or weights, and where what the convolutions give
/// would overflow.
Status check_phases(const Transposed& transposed, const Dims& x, int64_t channels) {
  int64_t phases = 1;
  Dims most{x[0], channels};  // sizes of all phases together, which may be beyond y's
  for (size_t i = 0; i < transposed.out.size(); ++i) {
    const int64_t out = transposed.out[i];
    const int64_t stride = stride_along(transposed.window, i, x[i + 2]);
    const int64_t along = std::min(stride, out);
    if (std::min(stride, transposed.window.kernel[i]) > kMostFirstTaps) {
      return {BP_UNSUPPORTED, "a kernel and a stride above " + std::to_string(kMostFirstTaps)};
    }
    const auto count = checked_mul(phases, along);
    if (!count || *count > kMostPhases) {
      return {BP_UNSUPPORTED, "strides that make more than " + std::to_string(kMostPhases) +
                                  " convolutions of one"};
    }
    phases = *count;
    most.push_back(checked_add(out, along - 1).value_or(INT64_MAX));
  }
  if (checked_product({most.data(), most.size()})) return {};
  return {BP_UNSUPPORTED, "the output is too large"};
}

/// Sizes of 0 are meant as they are.
ValueId reshaped(Builder& builder, ValueId x, std::span<const int64_t> shape) {
  Attributes attributes = builder.attributes("reshape");
  builder.check(attributes.set_i64("allow_zero", 1));
  return builder.op("reshape", {x, builder.list(shape)}, std::move(attributes));
}

/// w [C, M/group, kernel...] as the weights [M, C/group, kernel...] of a convolution.
ValueId turned_weights(Builder& builder, const Dims& w, int64_t group) {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  for (size_t i = 2; i < w.size(); ++i) {
    starts.push_back(-1);
    ends.push_back(INT64_MIN);
    axes.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> steps(axes.size(), -1);
  const ValueId turned =
      builder.op("slice", {builder.input(1), builder.list(starts), builder.list(ends),
                           builder.list(axes), builder.list(steps)});
  std::vector<int64_t> split{group, w[0] / group, w[1]};
  std::vector<int64_t> joined{w[1] * group, w[0] / group};
  std::vector<int64_t> order{0, 2, 1};
  for (size_t i = 2; i < w.size(); ++i) {
    split.push_back(w[i]);
    joined.push_back(w[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  Attributes swap = builder.attributes("transpose");
  builder.check(swap.set_i64s("perm", order));
  const ValueId swapped =
      builder.op("transpose", {reshaped(builder, turned, split)}, std::move(swap));
  return reshaped(builder, swapped, joined);
}

/// Leaves out what pads below 0 cut off at both ends of the spatial dimensions.
ValueId cropped(Builder& builder, ValueId x, const Dims& sizes, std::vector<int64_t>* pads) {
  const size_t rank = sizes.size() - 2;
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    int64_t& begin = (*pads)[i];
    int64_t& end = (*pads)[i + rank];
    if (begin >= 0 && end >= 0) continue;
    starts.push_back(std::max<int64_t>(-begin, 0));
    ends.push_back(sizes[i + 2] + std::min<int64_t>(end, 0));
    axes.push_back(static_cast<int64_t>(i) + 2);
    begin = std::max<int64_t>(begin, 0);
    end = std::max<int64_t>(end, 0);
  }
  if (axes.empty()) return x;
  return builder.op("slice", {x, builder.list(starts), builder.list(ends), builder.list(axes)});
}

/// b in all elements, or 0: what none of x reaches.
ValueId bias_alone(Builder& builder, const Dims& sizes) {
  std::vector<int64_t> channels(sizes.size() - 1, 1);
  channels[0] = sizes[1];
  const ValueId b = builder.input(2);
  const ValueId from =
      b == kNoValue ? builder.scalar(builder.dtype(0), 0) : reshaped(builder, b, channels);
  return builder.op("expand", {from, builder.list({sizes.data(), sizes.size()})});
}

/// Writes the convolutions, and puts their elements in the order of y.
class Phased {
 public:
  /// x, w and y have elements.
  Phased(Builder& builder, const Transposed& transposed, const Dims& x, const Dims& w,
         int64_t group)
      : builder_(builder), x_(x), group_(group), kernel_(transposed.window.kernel) {
    piece_ = Dims{x[0], w[1] * group};
    for (size_t i = 0; i < kernel_.size(); ++i) {
      phases_.push_back(phases_along(transposed, i, x[i + 2]));
      piece_.push_back(phases_[i].size);
    }
    chosen_.resize(phases_.size());
    weights_ = turned_weights(builder, w, group);
  }

  /// y, of these sizes.
  ValueId write(const Dims& out) {
    const size_t rank = phases_.size();
    Dims sizes = piece_;
    std::vector<int64_t> beyond(2 * rank, 0);
    for (size_t i = 0; i < rank; ++i) {
      sizes[i + 2] *= phases_[i].count();
      beyond[i + rank] = out[i + 2] - sizes[i + 2];
    }
    ValueId y = woven(0);
    if (sizes != piece_) y = reshaped(builder_, y, {sizes.data(), sizes.size()});
    return cropped(builder_, y, sizes, &beyond);
  }

 private:
  /// The elements of the chosen phases of the dimensions before `dim`, all of the others; phases
  /// take turns.
  ValueId woven(size_t dim) {
    if (dim == phases_.size()) return piece();
    std::vector<ValueId> parts;
    for (const Phase& phase : phases_[dim].each) {
      chosen_[dim] = &phase;
      parts.push_back(woven(dim + 1));
    }
    if (parts.size() == 1) return parts[0];
    int64_t before = piece_[0] * piece_[1];
    int64_t behind = 1;
    for (size_t i = 0; i <= dim; ++i) before *= phases_[i].size;
    for (size_t i = dim + 1; i < phases_.size(); ++i)
      behind *= phases_[i].size * phases_[i].count();
    const std::array<int64_t, 3> rows{before, 1, behind};
    for (ValueId& part : parts) part = reshaped(builder_, part, rows);
    Attributes turns = builder_.attributes("concat");
    builder_.check(turns.set_i64("axis", 1));
    return builder_.op("concat", parts, std::move(turns));
  }

  /// The chosen phase of each dimension.
  ValueId piece() {
    const size_t rank = phases_.size();
    std::vector<int64_t> pads(2 * rank);
    std::vector<int64_t> dilations;
    for (size_t i = 0; i < rank; ++i) {
      if (chosen_[i]->taps == 0) return unreached();
      pads[i] = chosen_[i]->pad_begin;
      pads[i + rank] = chosen_[i]->pad_end;
      dilations.push_back(phases_[i].dilation);
    }
    const ValueId x = cropped(builder_, builder_.input(0), x_, &pads);
    if (*std::max_element(pads.begin(), pads.end()) > INT32_MAX) {
      builder_.check({BP_UNSUPPORTED, "pads beyond those that a convolution has"});
    }
    Attributes conv = builder_.attributes("conv");
    builder_.check(conv.set_i64s("pads", pads));
    builder_.check(conv.set_i64s("dilations", dilations));
    builder_.check(conv.set_i64("group", group_));
    return builder_.op("conv", {x, weights(), builder_.input(2)}, std::move(conv));
  }

  /// A piece that no weight brings anything of x to; one for all of them.
  ValueId unreached() {
    if (unreached_ == kNoValue) unreached_ = bias_alone(builder_, piece_);
    return unreached_;
  }

  /// Those of the chosen phases.
  ValueId weights() {
    std::vector<int64_t> starts;
    std::vector<int64_t> axes;
    std::vector<int64_t> steps;
    for (size_t i = 0; i < phases_.size(); ++i) {
      if (chosen_[i]->taps == kernel_[i]) continue;
      starts.push_back(chosen_[i]->first_tap);
      axes.push_back(static_cast<int64_t>(i) + 2);
      steps.push_back(phases_[i].tap_step);
    }
    if (axes.empty()) return weights_;
    const std::vector<int64_t> ends(axes.size(), INT64_MAX);
    return builder_.op("slice", {weights_, builder_.list(starts), builder_.list(ends),
                                 builder_.list(axes), builder_.list(steps)});
  }

  Builder& builder_;
  Dims x_;
  int64_t group_;
  Dims kernel_;
  Dims piece_;                        // sizes of one phase
  std::vector<Phases> phases_;        // of each spatial dimension
  std::vector<const Phase*> chosen_;  // of each
  ValueId weights_ = kNoValue;        // turned
  ValueId unreached_ = kNoValue;
};

}  // namespace

Status decompose_conv_transpose(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_conv_transpose>(context.attributes);
  const Dims& x = context.inputs[0].sizes;
  const Dims& w = context.inputs[1].sizes;
  const bool known =
      context.inputs[0].has_rank && context.inputs[1].has_rank && all_known(x) && all_known(w);
  if (!known) return {BP_UNSUPPORTED, "the sizes of x and w are not known"};
  BP_TRY_ASSIGN(const Transposed transposed, resolve_transposed(attributes, x, w));
  Builder builder(context, {"x", "w", "b"}, graph);
  Dims out{x[0], w[1] * attributes.group};
  for (const int64_t size : transposed.out) out.push_back(size);
  const auto is_empty = [](const Dims& sizes) {
    return std::count(sizes.begin(), sizes.end(), 0) != 0;
  };
  if (is_empty(x) || is_empty(out)) return builder.finish(bias_alone(builder, out));
  BP_TRY(check_phases(transposed, x, out[1]));
  return builder.finish(Phased(builder, transposed, x, w, attributes.group).write(out));
}

}  // namespace bp::ops
