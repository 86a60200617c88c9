// SPDX-License-Identifier: Apache-2.0
//
// Inference of the neural-network operators that work on [N, C, spatial...].
#include <cmath>

#include "backplane/ops/nn.h"
#include "ops/infer/common.hpp"
#include "ops/infer/epilogue.hpp"
#include "ops/nn/window.hpp"

namespace bp::ops {
namespace {

Dims tail(const Dims& sizes, size_t from) {
  return Dims(std::span(sizes.data(), sizes.size()).subspan(from));
}

/// The sizes of x and w, where one of the two may have to lend its rank to the other.
Status conv_sizes(const InferContext& context, Dims* out_x, Dims* out_w) {
  const TensorType& x = context.inputs[0];
  const TensorType& w = context.inputs[1];
  const size_t rank = x.has_rank ? x.sizes.size() : w.sizes.size();
  if (rank < 3) {
    return input_error(x.has_rank ? "x" : "w",
                       expected_found("rank 3 or more", x.has_rank ? x.sizes : w.sizes));
  }
  BP_TRY_ASSIGN(*out_x, sizes_of_rank("x", x, rank));
  BP_TRY_ASSIGN(*out_w, sizes_of_rank("w", w, rank));
  return {};
}

Status check_conv_channels(const Dims& x, const Dims& w, int64_t group) {
  if (group < 1) return attribute_error("group", expected_found("1 or more", group));
  const int64_t in_channels = x[1];
  const int64_t out_channels = w[0];
  if (is_known(out_channels) && out_channels % group != 0) {
    return input_error("w", expected_found("output channels (dimension 0) that are a multiple of " +
                                               std::to_string(group) + " groups",
                                           w));
  }
  if (!is_known(in_channels)) return {};
  if (in_channels % group != 0) {
    return input_error("x", expected_found("channels (dimension 1) that are a multiple of " +
                                               std::to_string(group) + " groups",
                                           x));
  }
  if (is_known(w[1]) && w[1] != in_channels / group) {
    return input_error("w", expected_found("size " + std::to_string(in_channels / group) +
                                               " in dimension 1 (channels of x per group)",
                                           w));
  }
  return {};
}

}  // namespace

Status infer_conv(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_conv>(context.attributes);
  if (!context.inputs[0].has_rank && !context.inputs[1].has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  Dims x;
  Dims w;
  BP_TRY(conv_sizes(context, &x, &w));
  BP_TRY(check_conv_channels(x, w, attributes.group));
  int64_t out_channels = w[0];
  if (context.inputs.size() > 2 && context.inputs[2].dtype != BP_DTYPE_NONE) {
    BP_TRY_ASSIGN(const Dims b, sizes_of_rank("b", context.inputs[2], 1));
    if (!unify(b[0], &out_channels)) {
      return input_error("b", expected_found("size " + std::to_string(w[0]), b));
    }
  }
  BP_TRY_ASSIGN(const Window window, resolve_window(tail(w, 2), "input 'w'",
                                                    {.strides = attributes.strides,
                                                     .pads = attributes.pads,
                                                     .dilations = attributes.dilations,
                                                     .auto_pad = attributes.auto_pad}));
  out_types[0].sizes = Dims{x[0], out_channels};
  BP_TRY(push_window_counts(window, x, &out_types[0].sizes));
  BP_TRY(check_activation(activation_of(attributes), out_types[0].dtype));
  if (context.inputs.size() <= 3 || context.inputs[3].dtype == BP_DTYPE_NONE) return {};
  return check_equal_addend(context.inputs[3], &out_types[0].sizes);
}

Status infer_batch_norm(const InferContext& context, std::span<TensorType> out_types) {
  static constexpr std::string_view kNames[] = {"x", "scale", "bias", "mean", "var"};
  const double epsilon = attrs<bp_attrs_batch_norm>(context.attributes).epsilon;
  if (!std::isfinite(epsilon) || epsilon < 0) {
    return attribute_error("epsilon",
                           expected_found("a finite number from 0", std::to_string(epsilon)));
  }
  const TensorType& x = context.inputs[0];
  same_sizes(x, &out_types[0]);
  if (x.has_rank && x.sizes.size() < 2) {
    return input_error("x", expected_found("rank 2 or more", x.sizes));
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
  if (x.has_rank) out_types[0].sizes[1] = channels;
  return {};
}

Status infer_softmax(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const int64_t axis = attrs<bp_attrs_softmax>(context.attributes).axis;
  if (x.has_rank) BP_TRY(resolve_axis("axis", axis, x.sizes.size()));
  same_sizes(x, &out_types[0]);
  return {};
}

}  // namespace bp::ops
