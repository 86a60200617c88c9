// SPDX-License-Identifier: Apache-2.0
//
// Normalizations as small graphs of primitives: mean, deviation from it, mean of its square. The
// variance is worked out from the deviations, since a mean of squares less the square of a mean
// loses all digits where the mean is large. Half types are computed in f32.
#include <algorithm>
#include <array>
#include <vector>

#include "backplane/ops/normalization.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// The dimensions that a mean is taken over, which are kept with size 1.
struct Axes {
  std::vector<int64_t> list;
  int64_t count = 1;  // of the elements of one mean
};

/// Dimensions [first, rank). Errors: UNSUPPORTED for sizes that are not known.
Result<Axes> axes_from(size_t first, const Dims& sizes) {
  Axes axes;
  const auto reduced = std::span(sizes.data(), sizes.size()).subspan(first);
  if (!std::all_of(reduced.begin(), reduced.end(), is_known)) {
    return Status(BP_UNSUPPORTED, "the sizes that it averages over are not known");
  }
  axes.count = element_count(reduced);
  for (size_t i = first; i < sizes.size(); ++i) axes.list.push_back(static_cast<int64_t>(i));
  return axes;
}

ValueId mean(Builder& builder, ValueId value, const Axes& axes, uint32_t dtype) {
  Attributes attributes = builder.attributes("reduce_sum");
  builder.check(attributes.set_i64s("axes", axes.list));
  builder.check(attributes.set_i64("keepdims", 1));
  const ValueId sum = builder.op("reduce_sum", {value}, std::move(attributes));
  // Of nothing there is no mean, and nothing that it would be taken from.
  const double share = axes.count == 0 ? 0.0 : 1.0 / static_cast<double>(axes.count);
  return builder.op("mul", {sum, builder.scalar(dtype, share)});
}

/// value / sqrt(mean of its square + epsilon)
ValueId over_root_mean_square(Builder& builder, ValueId value, const Axes& axes, double epsilon,
                              uint32_t dtype) {
  const ValueId square = mean(builder, builder.op("mul", {value, value}), axes, dtype);
  const ValueId shifted = builder.op("add", {square, builder.scalar(dtype, epsilon)});
  const ValueId inverse = builder.op("reciprocal", {builder.op("sqrt", {shifted})});
  return builder.op("mul", {value, inverse});
}

/// value - mean. The mean is taken off twice: it is rounded, and where all values are equal what
/// that leaves, over a variance of next to nothing, would be all of the result.
ValueId deviation_from_mean(Builder& builder, ValueId value, const Axes& axes, uint32_t dtype) {
  const ValueId once = builder.op("sub", {value, mean(builder, value, axes, dtype)});
  return builder.op("sub", {once, mean(builder, once, axes, dtype)});
}

/// (value - mean) / sqrt(variance + epsilon)
ValueId normalized(Builder& builder, ValueId value, const Axes& axes, double epsilon,
                   uint32_t dtype) {
  const ValueId deviation = deviation_from_mean(builder, value, axes, dtype);
  return over_root_mean_square(builder, deviation, axes, epsilon, dtype);
}

/// value * scale + bias, one of each per channel, dimension 1 of `rank`.
ValueId scaled_channels(Builder& builder, ValueId value, size_t rank, uint32_t dtype) {
  std::vector<int64_t> shape(rank - 1, 1);
  shape[0] = -1;
  const ValueId scale = builder.reshape(builder.cast(builder.input(1), dtype), shape);
  const ValueId bias = builder.reshape(builder.cast(builder.input(2), dtype), shape);
  return builder.op("add", {builder.op("mul", {value, scale}), bias});
}

}  // namespace

Status decompose_layer_norm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_layer_norm>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const size_t first, resolve_axis("axis", attributes.axis, x.sizes.size()));
  BP_TRY_ASSIGN(const Axes axes, axes_from(first, x.sizes));
  Builder builder(context, {"x", "scale", "bias"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const auto input = [&](size_t i) { return builder.cast(builder.input(i), work); };
  ValueId y = normalized(builder, input(0), axes, attributes.epsilon, work);
  y = builder.op("mul", {y, input(1)});
  if (builder.input(2) != kNoValue) y = builder.op("add", {y, input(2)});
  return builder.finish(builder.cast(y, x.dtype));
}

Status decompose_rms_norm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_rms_norm>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const size_t first, resolve_axis("axis", attributes.axis, x.sizes.size()));
  BP_TRY_ASSIGN(const Axes axes, axes_from(first, x.sizes));
  Builder builder(context, {"x", "scale"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const auto input = [&](size_t i) { return builder.cast(builder.input(i), work); };
  const ValueId y = over_root_mean_square(builder, input(0), axes, attributes.epsilon, work);
  return builder.finish(builder.cast(builder.op("mul", {y, input(1)}), x.dtype));
}

Status decompose_instance_norm(const InferContext& context, GraphBuilder* graph) {
  const double epsilon = attrs<bp_attrs_instance_norm>(context.attributes).epsilon;
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const Axes axes, axes_from(2, x.sizes));
  Builder builder(context, {"x", "scale", "bias"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  ValueId y = normalized(builder, builder.cast(builder.input(0), work), axes, epsilon, work);
  y = scaled_channels(builder, y, x.sizes.size(), work);
  return builder.finish(builder.cast(y, x.dtype));
}

// Through [N, groups, elements of a group], and back to the sizes of x. A 0 in front copies N.
Status decompose_group_norm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_group_norm>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(Axes axes, axes_from(1, x.sizes));
  axes.list = {2};
  axes.count /= attributes.num_groups;
  Builder builder(context, {"x", "scale", "bias"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  ValueId y = builder.cast(builder.input(0), work);
  if (axes.count > 0) {  // another 0 in a shape would copy a size too
    const std::vector<int64_t> grouped = {0, attributes.num_groups, axes.count};
    std::vector<int64_t> whole(x.sizes.begin(), x.sizes.end());
    whole[0] = 0;
    y = builder.reshape(y, grouped);
    y = builder.reshape(normalized(builder, y, axes, attributes.epsilon, work), whole);
  }
  y = scaled_channels(builder, y, x.sizes.size(), work);
  return builder.finish(builder.cast(y, x.dtype));
}

Status decompose_mean_variance_norm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_mean_variance_norm>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const uint32_t mask, resolve_axes("axes", values(attributes.axes), x.sizes.size()));
  Axes axes;
  Dims reduced;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if ((mask >> i & 1) == 0) continue;
    axes.list.push_back(static_cast<int64_t>(i));
    reduced.push_back(x.sizes[i]);
  }
  if (!std::all_of(reduced.begin(), reduced.end(), is_known)) {
    return {BP_UNSUPPORTED, "the sizes that it averages over are not known"};
  }
  axes.count = element_count({reduced.data(), reduced.size()});
  Builder builder(context, {"x"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const ValueId value = builder.cast(builder.input(0), work);
  // Over no dimensions each element is its own mean; an empty list would mean all of them.
  const ValueId deviation = axes.list.empty() ? builder.op("sub", {value, value})
                                              : deviation_from_mean(builder, value, axes, work);
  const ValueId square = builder.op("mul", {deviation, deviation});
  const ValueId variance = axes.list.empty() ? square : mean(builder, square, axes, work);
  const ValueId divisor =
      builder.op("add", {builder.op("sqrt", {variance}), builder.scalar(work, 1e-9)});
  return builder.finish(builder.cast(builder.op("div", {deviation, divisor}), x.dtype));
}

Status decompose_lp_norm(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_lp_norm>(context.attributes);
  Builder builder(context, {"x"}, graph);
  const uint32_t dtype = builder.dtype(0);
  const uint32_t work = working_dtype(dtype);
  const ValueId x = builder.cast(builder.input(0), work);
  const bool is_first = attributes.p == 1;
  Attributes along = builder.attributes("reduce_sum");
  builder.check(along.set_i64s("axes", std::array<int64_t, 1>{attributes.axis}));
  ValueId norm =
      builder.op("reduce_sum", {is_first ? builder.op("abs", {x}) : builder.op("mul", {x, x})},
                 std::move(along));
  if (!is_first) norm = builder.op("sqrt", {norm});
  const ValueId zero = builder.scalar(work, 0);
  const ValueId is_zero = builder.op("equal", {norm, zero});
  const ValueId y = builder.op("where", {is_zero, zero, builder.op("div", {x, norm})});
  return builder.finish(builder.cast(y, dtype));
}

/// The sum over channels is a mean over windows of [N, 1, C, the rest], in which padding counts
/// too.
Status decompose_lrn(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_lrn>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !std::all_of(x.sizes.begin(), x.sizes.end(), is_known)) {
    return {BP_UNSUPPORTED, "the sizes of x are not known"};
  }
  Builder builder(context, {"x"}, graph);
  if (element_count(x.sizes) == 0)
    return builder.finish(builder.op("identity", {builder.input(0)}));
  const uint32_t work = working_dtype(x.dtype);
  const ValueId value = builder.cast(builder.input(0), work);
  const ValueId images = builder.reshape(builder.op("mul", {value, value}),
                                         std::array<int64_t, 4>{x.sizes[0], 1, x.sizes[1], -1});
  const int64_t before = (attributes.size - 1) / 2;
  Attributes windows = builder.attributes("average_pool");
  builder.check(windows.set_i64s("kernel_shape", std::array<int64_t, 2>{attributes.size, 1}));
  builder.check(
      windows.set_i64s("pads", std::array<int64_t, 4>{before, 0, attributes.size - 1 - before, 0}));
  builder.check(windows.set_i64("count_include_pad", 1));
  const ValueId means = builder.reshape(builder.op("average_pool", {images}, std::move(windows)),
                                        std::vector<int64_t>(x.sizes.begin(), x.sizes.end()));
  const ValueId scaled = builder.op("mul", {means, builder.scalar(work, attributes.alpha)});
  const ValueId base = builder.op("add", {scaled, builder.scalar(work, attributes.bias)});
  const ValueId divisor = builder.op("pow", {base, builder.scalar(work, attributes.beta)});
  return builder.finish(builder.cast(builder.op("div", {value, divisor}), x.dtype));
}

}  // namespace bp::ops
