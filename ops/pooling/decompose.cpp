// SPDX-License-Identifier: Apache-2.0
//
// Pooling as small graphs of primitives. Half types are computed in f32.
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

}  // namespace

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
