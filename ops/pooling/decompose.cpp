// SPDX-License-Identifier: Apache-2.0
//
// Pooling as small graphs of primitives. Half types are computed in f32.
#include <algorithm>

#include "backplane/ops/pooling.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"
#include "ops/pooling/window.hpp"

namespace bp::ops {
namespace {

Status check_rank(const TensorType& x) {
  if (x.has_rank) return {};
  return {BP_UNSUPPORTED, "the rank of x is not known"};
}

/// Reduces all spatial dimensions and keeps them with size 1.
ValueId reduced(Builder& builder, std::string_view op_name, ValueId value, size_t rank) {
  Attributes attributes = builder.attributes(op_name);
  std::vector<int64_t> axes;
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  builder.check(attributes.set_i64s("axes", axes));
  builder.check(attributes.set_i64("keepdims", 1));
  return builder.op(op_name, {value}, std::move(attributes));
}

/// |x|^p, and what makes a norm of a sum of those.
ValueId power(Builder& builder, ValueId x, int64_t p, uint32_t dtype) {
  const ValueId size = builder.op("abs", {x});
  if (p == 1) return size;
  if (p == 2) return builder.op("mul", {size, size});
  return builder.op("pow", {size, builder.scalar(dtype, static_cast<double>(p))});
}

ValueId root(Builder& builder, ValueId sum, int64_t p, uint32_t dtype) {
  if (p == 1) return sum;
  if (p == 2) return builder.op("sqrt", {sum});
  return builder.op("pow", {sum, builder.scalar(dtype, 1 / static_cast<double>(p))});
}

}  // namespace

// Sums as means of whole windows: the ends are padded until no window reaches beyond them.
Status decompose_lp_pool(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_lp_pool>(context.attributes);
  const TensorType& x = context.inputs[0];
  BP_TRY(check_rank(x));
  BP_TRY_ASSIGN(const Window window, pool_window(attributes));
  auto pads = explicit_pads(window, x.sizes);
  if (!pads) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  double count = 1;
  const size_t rank = window.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    BP_TRY_ASSIGN(const int64_t windows, window_count(window, i, x.sizes[i + 2]));
    if (!is_known(windows)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
    const int64_t last = (windows - 1) * window.strides[i] + window.extent(i);
    (*pads)[i + rank] = std::max<int64_t>(0, last - x.sizes[i + 2] - (*pads)[i]);
    count *= static_cast<double>(window.kernel[i]);
  }
  Builder builder(context, {"x"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  Attributes mean = builder.attributes("average_pool");
  builder.check(mean.set_i64s("kernel_shape", values(attributes.kernel_shape)));
  builder.check(mean.set_i64s("strides", values(attributes.strides)));
  builder.check(mean.set_i64s("dilations", values(attributes.dilations)));
  builder.check(mean.set_i64s("pads", *pads));
  builder.check(mean.set_i64("count_include_pad", 1));
  const ValueId powers = power(builder, builder.cast(builder.input(0), work), attributes.p, work);
  const ValueId means = builder.op("average_pool", {powers}, std::move(mean));
  const ValueId sum = builder.op("mul", {means, builder.scalar(work, count)});
  return builder.finish(builder.cast(root(builder, sum, attributes.p, work), x.dtype));
}

Status decompose_global_lp_pool(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  BP_TRY(check_rank(x));
  const int64_t p = attrs<bp_attrs_global_lp_pool>(context.attributes).p;
  Builder builder(context, {"x"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const ValueId powers = power(builder, builder.cast(builder.input(0), work), p, work);
  const ValueId sum = reduced(builder, "reduce_sum", powers, x.sizes.size());
  return builder.finish(builder.cast(root(builder, sum, p, work), x.dtype));
}

Status decompose_max_pool_indices(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const Window window,
                pool_window(attrs<bp_attrs_max_pool_indices>(context.attributes)));
  return decompose_auto_pad(context, "max_pool_indices", {"x"}, window, graph);
}

Status decompose_max_pool(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const Window window, pool_window(attrs<bp_attrs_max_pool>(context.attributes)));
  return decompose_auto_pad(context, "max_pool", {"x"}, window, graph);
}

Status decompose_average_pool(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const Window window, pool_window(attrs<bp_attrs_average_pool>(context.attributes)));
  return decompose_auto_pad(context, "average_pool", {"x"}, window, graph);
}

Status decompose_global_average_pool(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  BP_TRY(check_rank(x));
  const Dims spatial(std::span(x.sizes.data(), x.sizes.size()).subspan(2));
  const auto count = size_product(spatial);
  if (!count || !is_known(*count)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  Builder builder(context, {"x"}, graph);
  const uint32_t work = working_dtype(x.dtype);
  const ValueId sum =
      reduced(builder, "reduce_sum", builder.cast(builder.input(0), work), x.sizes.size());
  const ValueId divisor = builder.scalar(work, static_cast<double>(*count));
  return builder.finish(builder.cast(builder.op("div", {sum, divisor}), x.dtype));
}

Status decompose_global_max_pool(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  BP_TRY(check_rank(x));
  Builder builder(context, {"x"}, graph);
  return builder.finish(reduced(builder, "reduce_max", builder.input(0), x.sizes.size()));
}

}  // namespace bp::ops
