// SPDX-License-Identifier: Apache-2.0
//
// The values of operators that look at sizes alone, as constants.
#include "core/base/dims.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"
#include "ops/shape/dimension_range.hpp"

namespace bp::ops {
namespace {

Status check_known(const TensorType& x) {
  if (x.has_rank && all_known(x.sizes)) return {};
  return {BP_UNSUPPORTED, "the sizes of x are not known"};
}

}  // namespace

Status decompose_shape(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  BP_TRY(check_known(x));
  const auto [begin, end] = dimension_range(attrs<bp_attrs_shape>(context.attributes),
                                            static_cast<int64_t>(x.sizes.size()));
  Builder builder(context, {"x"}, graph);
  return builder.finish(builder.list({x.sizes.data() + begin, static_cast<size_t>(end - begin)}));
}

Status decompose_size(const InferContext& context, GraphBuilder* graph) {
  BP_TRY(check_known(context.inputs[0]));
  Builder builder(context, {"x"}, graph);
  return builder.finish(builder.integer(element_count(context.inputs[0].sizes)));
}

}  // namespace bp::ops
