// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that look for extreme values.
#include "backplane/ops/sorting.h"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// x without the axis, or with size 1 there.
Status infer_position(const TensorType& x, int64_t axis_value, bool keepdims,
                      TensorType* out_type) {
  if (!x.has_rank) {
    unknown_rank(out_type);
    return {};
  }
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, x.sizes.size()));
  if (x.sizes[axis] == 0) {
    return input_error("x", "dimension " + std::to_string(axis) + " of " + to_string(x.sizes) +
                                " has no elements to choose from");
  }
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (i != axis) {
      out_type->sizes.push_back(x.sizes[i]);
    } else if (keepdims) {
      out_type->sizes.push_back(1);
    }
  }
  return {};
}

}  // namespace

Status infer_argmax(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_argmax>(context.attributes);
  return infer_position(context.inputs[0], attributes.axis, attributes.keepdims != 0,
                        &out_types[0]);
}

Status infer_argmin(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_argmin>(context.attributes);
  return infer_position(context.inputs[0], attributes.axis, attributes.keepdims != 0,
                        &out_types[0]);
}

}  // namespace bp::ops
