// SPDX-License-Identifier: Apache-2.0
//
// Inference of what is computed along one axis and keeps the sizes.
#include "backplane/ops/softmax.h"
#include "ops/infer/common.hpp"

namespace bp::ops {

Status infer_log_softmax(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const int64_t axis = attrs<bp_attrs_log_softmax>(context.attributes).axis;
  if (x.has_rank) BP_TRY(resolve_axis("axis", axis, x.sizes.size()));
  same_sizes(x, &out_types[0]);
  return {};
}

Status infer_hardmax(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const int64_t given = attrs<bp_attrs_hardmax>(context.attributes).axis;
  if (x.has_rank) {
    BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", given, x.sizes.size()));
    if (x.sizes[axis] == 0) {
      return attribute_error("axis", expected_found("a dimension with elements", x.sizes));
    }
  }
  same_sizes(x, &out_types[0]);
  return {};
}

}  // namespace bp::ops
