// SPDX-License-Identifier: Apache-2.0
//
// Inference of normalizations: the output has the sizes of x, and the parameters must fit them.
#include <cmath>
#include <utility>

#include "backplane/ops/normalization.h"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

Status check_epsilon(double epsilon) {
  if (std::isfinite(epsilon) && epsilon >= 0) return {};
  return attribute_error("epsilon",
                         expected_found("a finite number from 0", std::to_string(epsilon)));
}

/// Parameters repeat along dimensions of size 1 and missing ones; they never make x larger.
Status check_repeats(std::string_view name, const TensorType& parameter, const TensorType& x) {
  if (parameter.dtype == BP_DTYPE_NONE || !parameter.has_rank || !x.has_rank) return {};
  const size_t rank = parameter.sizes.size();
  bool fits = rank <= x.sizes.size();
  for (size_t i = 0; fits && i < rank; ++i) {
    int64_t target = x.sizes[i + x.sizes.size() - rank];
    fits = parameter.sizes[i] == 1 || unify(parameter.sizes[i], &target);
  }
  if (fits) return {};
  return input_error(
      name, expected_found("sizes that broadcast to " + to_string(x.sizes), parameter.sizes));
}

/// Of layer_norm and rms_norm.
Status infer_trailing(const InferContext& context, int64_t axis, double epsilon,
                      TensorType* out_type) {
  static constexpr std::string_view kNames[] = {"x", "scale", "bias"};
  BP_TRY(check_epsilon(epsilon));
  const TensorType& x = context.inputs[0];
  if (x.has_rank) BP_TRY(resolve_axis("axis", axis, x.sizes.size()));
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    BP_TRY(check_repeats(kNames[i], context.inputs[i], x));
  }
  same_sizes(x, out_type);
  return {};
}

/// Of instance_norm and group_norm: x is [N, C, spatial...], scale and bias [C].
Status infer_channels(const InferContext& context, double epsilon, TensorType* out_type) {
  static constexpr std::string_view kNames[] = {"x", "scale", "bias"};
  BP_TRY(check_epsilon(epsilon));
  const TensorType& x = context.inputs[0];
  same_sizes(x, out_type);
  if (x.has_rank && x.sizes.size() < 3) {
    return input_error("x", expected_found("rank 3 or more", x.sizes));
  }
  int64_t channels = x.has_rank ? x.sizes[1] : kUnknownDim;
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    BP_TRY_ASSIGN(const Dims sizes, sizes_of_rank(kNames[i], context.inputs[i], 1));
    if (!unify(sizes[0], &channels)) {
      return input_error(
          kNames[i],
          expected_found("size " + std::to_string(channels) + ", one per channel of x", sizes));
    }
  }
  if (x.has_rank) out_type->sizes[1] = channels;
  return {};
}

}  // namespace

Status infer_layer_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_layer_norm>(context.attributes);
  return infer_trailing(context, attributes.axis, attributes.epsilon, &out_types[0]);
}

Status infer_rms_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_rms_norm>(context.attributes);
  return infer_trailing(context, attributes.axis, attributes.epsilon, &out_types[0]);
}

Status infer_instance_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_instance_norm>(context.attributes);
  return infer_channels(context, attributes.epsilon, &out_types[0]);
}

Status infer_group_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_group_norm>(context.attributes);
  const int64_t groups = attributes.num_groups;
  if (groups < 1) return attribute_error("num_groups", expected_found("1 or more", groups));
  BP_TRY(infer_channels(context, attributes.epsilon, &out_types[0]));
  const TensorType& y = out_types[0];
  if (y.has_rank && is_known(y.sizes[1]) && y.sizes[1] % groups != 0) {
    return input_error("x", expected_found("channels (dimension 1) that are a multiple of " +
                                               std::to_string(groups) + " groups",
                                           y.sizes));
  }
  return {};
}

Status infer_mean_variance_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_mean_variance_norm>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (x.has_rank) BP_TRY(resolve_axes("axes", values(attributes.axes), x.sizes.size()));
  same_sizes(x, &out_types[0]);
  return {};
}

Status infer_lp_norm(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_lp_norm>(context.attributes);
  if (attributes.p != 1 && attributes.p != 2) {
    return attribute_error("p", expected_found("1 or 2", attributes.p));
  }
  const TensorType& x = context.inputs[0];
  if (x.has_rank) BP_TRY(resolve_axis("axis", attributes.axis, x.sizes.size()));
  same_sizes(x, &out_types[0]);
  return {};
}

Status infer_lrn(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_lrn>(context.attributes);
  if (attributes.size < 1)
    return attribute_error("size", expected_found("1 or more", attributes.size));
  const std::pair<std::string_view, double> numbers[] = {
      {"alpha", attributes.alpha}, {"beta", attributes.beta}, {"bias", attributes.bias}};
  for (const auto& [name, value] : numbers) {
    if (std::isfinite(value)) continue;
    return attribute_error(name, expected_found("a finite number", std::to_string(value)));
  }
  const TensorType& x = context.inputs[0];
  if (x.has_rank && x.sizes.size() < 2) {
    return input_error("x", expected_found("rank 2 or more", x.sizes));
  }
  same_sizes(x, &out_types[0]);
  return {};
}

}  // namespace bp::ops
