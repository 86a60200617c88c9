// SPDX-License-Identifier: Apache-2.0
//
// Order by top_k of all elements; places in a list by counting what is below.
#include <utility>
#include <vector>

#include "backplane/ops/sorting.h"
#include "core/base/dtype.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

// Comparisons of a search: beyond, their results take more memory than a device should be asked
// for.
constexpr int64_t kMostComparisons = int64_t{1} << 22;

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
  const TensorType& values = context.inputs[1];
  if (!sorted.has_rank || !all_known(sorted.sizes) || !values.has_rank ||
      !all_known(values.sizes) || values.sizes.size() >= BP_MAX_RANK) {
    return {BP_UNSUPPORTED, "the sizes are not known, or the rank of values is the highest"};
  }
  Dims compared = values.sizes;
  compared.push_back(sorted.sizes[0]);
  const auto comparisons = size_product(compared);
  if (!comparisons || *comparisons > kMostComparisons) {
    return {BP_UNSUPPORTED, "sorted and values are too large to compare each with each"};
  }
  const bool right = attrs<bp_attrs_searchsorted>(context.attributes).right != 0;
  Builder builder(context, {"sorted", "values"}, graph);
  const ValueId element = builder.input(0);
  const std::vector<int64_t> last = {-1};
  const ValueId value = builder.op("unsqueeze", {builder.input(1), builder.list(last)});
  ValueId counts = builder.op(right ? "less_or_equal" : "less", {element, value});
  if (is_float_dtype(builder.dtype(0))) {
    // All elements are at most NaN, and the numbers among them are below it.
    ValueId beside_nan = builder.op("is_nan", {value});
    if (!right) {
      const ValueId number = builder.op("logical_not", {builder.op("is_nan", {element})});
      beside_nan = builder.op("logical_and", {beside_nan, number});
    }
    counts = builder.op("logical_or", {counts, beside_nan});
  }
  Attributes over_last = builder.attributes("reduce_sum");
  builder.check(over_last.set_i64s("axes", last));
  builder.check(over_last.set_i64("keepdims", 0));
  return builder.finish(
      builder.op("reduce_sum", {builder.cast(counts, BP_DTYPE_I64)}, std::move(over_last)));
}

}  // namespace bp::ops
