// SPDX-License-Identifier: Apache-2.0
//
// Order by top_k of all elements; places in a list by halving what is left of it.
#include <limits>
#include <utility>
#include <vector>

#include "backplane/ops/sorting.h"
#include "core/base/dtype.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// The outputs of top_k for all elements along the axis.
Status in_order(const InferContext& context, int64_t axis_value, bool descending, size_t output,
                GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) return {BP_UNSUPPORTED, "the rank of x is not known"};
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, x.sizes.size()));
  if (!is_known(x.sizes[axis])) return {BP_UNSUPPORTED, "the size of the axis is not known"};
  Builder builder(context, {"x"}, graph);
  Attributes attributes = builder.attributes("top_k");
  builder.check(attributes.set_i64("axis", static_cast<int64_t>(axis)));
  builder.check(attributes.set_i64("largest", descending ? 1 : 0));
  const std::vector<int64_t> all = {x.sizes[axis]};
  const std::vector<ValueId> outputs =
      builder.op_outputs("top_k", {builder.input(0), builder.list(all)}, std::move(attributes));
  return builder.finish(outputs[output]);
}

}  // namespace

Status decompose_sort(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_sort>(context.attributes);
  return in_order(context, attributes.axis, attributes.descending != 0, 0, graph);
}

Status decompose_argsort(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_argsort>(context.attributes);
  return in_order(context, attributes.axis, attributes.descending != 0, 1, graph);
}

Status decompose_searchsorted(const InferContext& context, GraphBuilder* graph) {
  const TensorType& sorted = context.inputs[0];
  if (!sorted.has_rank || !is_known(sorted.sizes[0])) {
    return {BP_UNSUPPORTED, "the size of sorted is not known"};
  }
  const int64_t size = sorted.sizes[0];
  const bool right = attrs<bp_attrs_searchsorted>(context.attributes).right != 0;
  const bool is_float = is_float_dtype(context.inputs[0].dtype);
  Builder builder(context, {"sorted", "values"}, graph);
  const ValueId value = builder.input(1);
  if (size == 0)
    return builder.finish(builder.cast(builder.op("less", {value, value}), BP_DTYPE_I64));
  // NaN compares with nothing: at the end of sorted it becomes infinity, and is not counted.
  ValueId elements = builder.input(0);
  ValueId number_count = kNoValue;
  if (is_float) {
    const ValueId is_number = builder.op("logical_not", {builder.op("is_nan", {elements})});
    const ValueId infinity =
        builder.scalar(builder.dtype(0), std::numeric_limits<double>::infinity());
    elements = builder.op("where", {is_number, elements, infinity});
    Attributes to_scalar = builder.attributes("reduce_sum");
    builder.check(to_scalar.set_i64("keepdims", 0));
    number_count =
        builder.op("reduce_sum", {builder.cast(is_number, BP_DTYPE_I64)}, std::move(to_scalar));
  }
  ValueId before = builder.integer(-1);  // the last position that is known to be before the value
  for (int64_t left = size; left > 0; left /= 2) {
    const ValueId at = builder.op("add", {before, builder.integer((left + 1) / 2)});
    const ValueId element = builder.op("gather", {elements, at});
    const ValueId is_before = builder.op(right ? "less_or_equal" : "less", {element, value});
    before = builder.op("where", {is_before, at, before});
  }
  ValueId count = builder.op("add", {before, builder.integer(1)});
  if (is_float) {
    if (right) count = builder.op("min", {count, number_count});
    const ValueId beside_nan = right ? builder.integer(size) : number_count;
    count = builder.op("where", {builder.op("is_nan", {value}), beside_nan, count});
  }
  return builder.finish(count);
}

}  // namespace bp::ops
