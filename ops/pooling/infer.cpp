// SPDX-License-Identifier: Apache-2.0
//
// Inference of pooling over [N, C, spatial...].
#include "backplane/ops/pooling.h"
#include "ops/infer/common.hpp"
#include "ops/pooling/window.hpp"

namespace bp::ops {
namespace {

Status infer_windows(const InferContext& context, Result<Window> resolved,
                     std::span<TensorType> out_types) {
  BP_TRY_ASSIGN(const Window window, std::move(resolved));
  const TensorType& type = context.inputs[0];
  const size_t rank = window.kernel.size() + 2;
  if (type.has_rank && type.sizes.size() != rank) {
    return input_error("x", expected_found("rank " + std::to_string(rank) +
                                               ", two more than kernel_shape has values",
                                           type.sizes));
  }
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", type, rank));
  for (TensorType& out_type : out_types) {
    out_type.sizes = Dims{x[0], x[1]};
    BP_TRY(push_window_counts(window, x, &out_type.sizes));
  }
  return {};
}

Status check_p(int64_t p) {
  if (p >= 1) return {};
  return attribute_error("p", expected_found("1 or more", p));
}

/// One value per channel.
Status infer_global(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  same_sizes(x, &out_types[0]);
  if (!x.has_rank) return {};
  if (x.sizes.size() < 3) return input_error("x", expected_found("rank 3 or more", x.sizes));
  for (size_t i = 2; i < x.sizes.size(); ++i) out_types[0].sizes[i] = 1;
  return {};
}

}  // namespace

Status infer_max_pool(const InferContext& context, std::span<TensorType> out_types) {
  return infer_windows(context, pool_window(attrs<bp_attrs_max_pool>(context.attributes)),
                       out_types);
}

Status infer_average_pool(const InferContext& context, std::span<TensorType> out_types) {
  return infer_windows(context, pool_window(attrs<bp_attrs_average_pool>(context.attributes)),
                       out_types);
}

Status infer_lp_pool(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_lp_pool>(context.attributes);
  BP_TRY(check_p(attributes.p));
  return infer_windows(context, pool_window(attributes), out_types);
}

Status infer_max_pool_indices(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_max_pool_indices>(context.attributes);
  if (attributes.storage_order != 0 && attributes.storage_order != 1) {
    return attribute_error("storage_order", expected_found("0 or 1", attributes.storage_order));
  }
  return infer_windows(context, pool_window(attributes), out_types);
}

Status infer_global_lp_pool(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY(check_p(attrs<bp_attrs_global_lp_pool>(context.attributes).p));
  return infer_global(context, out_types);
}

Status infer_global_average_pool(const InferContext& context, std::span<TensorType> out_types) {
  return infer_global(context, out_types);
}

Status infer_global_max_pool(const InferContext& context, std::span<TensorType> out_types) {
  return infer_global(context, out_types);
}

}  // namespace bp::ops
