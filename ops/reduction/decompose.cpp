// SPDX-License-Identifier: Apache-2.0
//
// `reduce` as the reduction that it names, once its axes are known; reduce_log_sum_exp.
#include <vector>

#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"
#include "ops/reduction/axes_input.hpp"

namespace bp::ops {

Status decompose_reduce(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_reduce>(context.attributes);
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const AxesInput axes, axes_input(context));
  if (!axes.is_known) return {BP_UNSUPPORTED, "the values of axes are not known"};
  const std::string_view kind(attributes.kind.ptr, attributes.kind.len);
  Builder builder(context, {"x", "axes"}, graph);
  Attributes set = builder.attributes(kind);
  ValueId data = builder.input(0);
  std::vector<int64_t> list(axes.values.begin(), axes.values.end());
  bool keep_dims = attributes.keepdims != 0;
  if (axes.is_noop(attributes)) {
    // A reduction cannot be over no dimension: over one more of size 1 it is the same.
    if (!x.has_rank || !all_known(x.sizes) || x.sizes.size() >= BP_MAX_RANK) {
      return {BP_UNSUPPORTED, "the sizes of x are not known, or its rank is the highest"};
    }
    std::vector<int64_t> sizes(x.sizes.begin(), x.sizes.end());
    sizes.push_back(1);
    Attributes reshape = builder.attributes("reshape");
    builder.check(reshape.set_i64("allow_zero", 1));
    data = builder.op("reshape", {data, builder.list(sizes)}, std::move(reshape));
    list = {-1};
    keep_dims = false;
  }
  builder.check(set.set_i64s("axes", list));
  builder.check(set.set_i64("keepdims", keep_dims ? 1 : 0));
  return builder.finish(builder.op(kind, {data}, std::move(set)));
}

// An infinity is not taken away from itself: by that of which all are -inf, 0 is.
Status decompose_reduce_log_sum_exp(const InferContext& context, GraphBuilder* graph) {
  const auto& given = attrs<bp_attrs_reduce_log_sum_exp>(context.attributes);
  Builder builder(context, {"x"}, graph);
  const uint32_t dtype = builder.dtype(0);
  const uint32_t working = working_dtype(dtype);
  const auto reduced = [&](std::string_view op, ValueId value, bool keep_dims) {
    Attributes attributes = builder.attributes(op);
    builder.check(attributes.set_i64s("axes", values(given.axes)));
    builder.check(attributes.set_i64("keepdims", keep_dims ? 1 : 0));
    return builder.op(op, {value}, std::move(attributes));
  };
  const bool keep_dims = given.keepdims != 0;
  const ValueId x = builder.cast(builder.input(0), working);
  const ValueId zero = builder.scalar(working, 0);
  const auto finite = [&](ValueId value) {
    return builder.op("where", {builder.op("is_inf", {value}), zero, value});
  };
  const ValueId powers =
      builder.op("exp", {builder.op("sub", {x, finite(reduced("reduce_max", x, true))})});
  const ValueId sum = builder.op("log", {reduced("reduce_sum", powers, keep_dims)});
  const ValueId largest = finite(reduced("reduce_max", x, keep_dims));
  return builder.finish(builder.cast(builder.op("add", {sum, largest}), dtype));
}

}  // namespace bp::ops
