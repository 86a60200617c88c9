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

/// The sizes of x; the axis is one of its dimensions.
Status infer_order(const TensorType& x, int64_t axis, TensorType* out_type) {
  same_sizes(x, out_type);
  if (!x.has_rank) return {};
  return resolve_axis("axis", axis, x.sizes.size()).status();
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

Status infer_top_k(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& k = context.inputs[1];
  const auto* const known = static_cast<const int64_t*>(context.host_data[1]);
  if (k.has_rank &&
      (k.sizes.size() > 1 || (k.sizes.size() == 1 && is_known(k.sizes[0]) && k.sizes[0] != 1))) {
    return input_error("k", expected_found("one value", k.sizes));
  }
  if (known != nullptr && *known < 0) return input_error("k", expected_found("0 or more", *known));
  for (TensorType& type : out_types) same_sizes(x, &type);
  if (!x.has_rank) return {};
  BP_TRY_ASSIGN(
      const size_t axis,
      resolve_axis("axis", attrs<bp_attrs_top_k>(context.attributes).axis, x.sizes.size()));
  const int64_t size = x.sizes[axis];
  if (known != nullptr && is_known(size) && *known > size) {
    return input_error("k", expected_found("at most " + std::to_string(size) + ", as dimension " +
                                               std::to_string(axis) + " of x has",
                                           *known));
  }
  for (TensorType& type : out_types) type.sizes[axis] = known != nullptr ? *known : kUnknownDim;
  return {};
}

Status infer_sort(const InferContext& context, std::span<TensorType> out_types) {
  return infer_order(context.inputs[0], attrs<bp_attrs_sort>(context.attributes).axis,
                     &out_types[0]);
}

Status infer_argsort(const InferContext& context, std::span<TensorType> out_types) {
  return infer_order(context.inputs[0], attrs<bp_attrs_argsort>(context.attributes).axis,
                     &out_types[0]);
}

Status infer_searchsorted(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY(sizes_of_rank("sorted", context.inputs[0], 1));
  same_sizes(context.inputs[1], &out_types[0]);
  return {};
}

}  // namespace bp::ops
