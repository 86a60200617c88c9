// SPDX-License-Identifier: Apache-2.0
//
// Inference of `reduce`, whose axes are an input. That of the other reductions is a rule.
#include <algorithm>
#include <string>

#include "ops/infer/common.hpp"
#include "ops/reduction/axes_input.hpp"

namespace bp::ops {
namespace {

Status check_kind(bp_str kind) {
  const std::string_view name(kind.ptr, kind.len);
  if (std::find(std::begin(kReductions), std::end(kReductions), name) != std::end(kReductions)) {
    return {};
  }
  return attribute_error("kind",
                         expected_found("the name of a reduction", "'" + std::string(name) + "'"));
}

}  // namespace

Result<AxesInput> axes_input(const InferContext& context) {
  AxesInput axes;
  if (context.inputs.size() < 2 || context.inputs[1].dtype == BP_DTYPE_NONE) {
    axes.is_known = true;
    return axes;
  }
  BP_TRY_ASSIGN(const Dims sizes, sizes_of_rank("axes", context.inputs[1], 1));
  axes.count = sizes[0];
  if (axes.count > BP_MAX_RANK) {
    return input_error(
        "axes", expected_found("up to " + std::to_string(BP_MAX_RANK) + " values", axes.count));
  }
  const void* data = context.host_data.size() > 1 ? context.host_data[1] : nullptr;
  axes.is_known = axes.count == 0 || (axes.count > 0 && data != nullptr);
  if (axes.is_known) {
    axes.values = {static_cast<const int64_t*>(data), static_cast<size_t>(axes.count)};
  }
  return axes;
}

Result<uint32_t> reduced_dimensions(const AxesInput& axes, size_t rank) {
  if (axes.values.empty()) return (uint32_t{1} << rank) - 1;
  const auto signed_rank = static_cast<int64_t>(rank);
  uint32_t mask = 0;
  for (const int64_t axis : axes.values) {
    if (axis < -signed_rank || axis >= signed_rank) {
      return input_error("axes", expected_found(std::to_string(-signed_rank) + " to " +
                                                    std::to_string(signed_rank - 1),
                                                axis));
    }
    const uint32_t bit = uint32_t{1} << (axis < 0 ? axis + signed_rank : axis);
    if ((mask & bit) != 0) {
      return input_error("axes", expected_found("each axis once", std::to_string(axis) + " again"));
    }
    mask |= bit;
  }
  return mask;
}

Status infer_reduce(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_reduce>(context.attributes);
  const TensorType& x = context.inputs[0];
  TensorType& y = out_types[0];
  BP_TRY(check_kind(attributes.kind));
  BP_TRY_ASSIGN(const AxesInput axes, axes_input(context));
  const bool keep_dims = attributes.keepdims != 0;
  if (axes.is_noop(attributes)) {
    same_sizes(x, &y);
    return {};
  }
  if (!x.has_rank) {
    unknown_rank(&y);
    return {};
  }
  if (!axes.is_known) {
    const auto rank = static_cast<int64_t>(x.sizes.size());
    if (axes.count > rank) {
      return input_error("axes",
                         expected_found("up to " + std::to_string(rank) + " values", axes.count));
    }
    y.sizes.resize(x.sizes.size(), kUnknownDim);
    if (!keep_dims && axes.count <= 0) unknown_rank(&y);
    if (!keep_dims && axes.count > 0) y.sizes.resize(static_cast<size_t>(rank - axes.count));
    return {};
  }
  BP_TRY_ASSIGN(const uint32_t mask, reduced_dimensions(axes, x.sizes.size()));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    const bool reduced = (mask >> i & 1) != 0;
    if (!reduced) y.sizes.push_back(x.sizes[i]);
    if (reduced && keep_dims) y.sizes.push_back(1);
  }
  return {};
}

}  // namespace bp::ops
