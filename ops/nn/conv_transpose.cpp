// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose: inference; see conv_transpose.hpp.
#include "ops/nn/conv_transpose.hpp"

#include <algorithm>
#include <cstdint>

#include "core/base/checked.hpp"

namespace bp::ops {
namespace {

Dims kernel_of(const Dims& w) { return Dims(std::span(w.data(), w.size()).subspan(2)); }

/// One entry for each spatial dimension; empty stands for `filler`.
Result<Dims> spatial_list(std::string_view attribute, bp_i64_span list, size_t rank, int64_t least,
                          int64_t filler) {
  Dims result;
  if (list.count == 0) {
    result.resize(rank, filler);
    return result;
  }
  if (list.count != rank) {
    return attribute_error(
        attribute, expected_found(std::to_string(rank) + " values", std::to_string(list.count)));
  }
  for (int64_t value : values(list)) {
    if (value >= least && value <= INT32_MAX) {
      result.push_back(value);
      continue;
    }
    return attribute_error(
        attribute,
        expected_found("values from " + std::to_string(least) + " to 2147483647", value));
  }
  return result;
}

Status too_large(size_t dim) {
  return input_error(
      "x", "spatial dimension " + std::to_string(dim) + " makes an output that is too large");
}

/// The output's size without pads. Errors: it overflows.
Result<int64_t> full_size(const Window& window, size_t dim, int64_t in, int64_t output_padding) {
  const auto steps = checked_mul(window.strides[dim], std::max<int64_t>(in - 1, 0));
  const auto padded = steps ? checked_add(*steps, output_padding) : std::nullopt;
  const auto size = padded ? checked_add(*padded, window.extent(dim)) : std::nullopt;
  if (!size) return too_large(dim);
  return *size;
}

/// Fills `begin` and `out` of one dimension.
Status resolve_dim(size_t i, int64_t in, int64_t output_padding, int64_t wanted,
                   Transposed* result) {
  const Window& window = result->window;
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  int64_t out = wanted;
  if (!is_known(out) && same && is_known(in)) {
    const auto size = checked_mul(in, window.strides[i]);
    if (!size) return too_large(i);
    out = *size;
  }
  result->begin[i] = window.pads_begin[i];
  result->out[i] = out;
  if (!is_known(in) || !is_known(window.kernel[i])) {
    if (same || is_known(wanted)) result->begin[i] = kUnknownDim;
    return {};
  }
  BP_TRY_ASSIGN(const int64_t full, full_size(window, i, in, output_padding));
  if (!is_known(out)) {
    out = full - window.pads_begin[i] - window.pads_end[i];
    if (out < 1) {
      return attribute_error("pads", "spatial dimension " + std::to_string(i) +
                                         " of the output would have size " + std::to_string(out));
    }
    result->out[i] = out;
    return {};
  }
  const int64_t total = std::max<int64_t>(full - out, 0);
  result->begin[i] = window.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  return {};
}

Status check_output_padding(const Window& window, const Dims& output_padding) {
  for (size_t i = 0; i < output_padding.size(); ++i) {
    const int64_t limit = std::max(window.strides[i], window.dilations[i]);
    if (output_padding[i] < limit) continue;
    return attribute_error(
        "output_padding",
        expected_found("values below stride or dilation, " + std::to_string(limit) +
                           " in spatial dimension " + std::to_string(i),
                       output_padding[i]));
  }
  return {};
}

Status check_channels(const Dims& x, const Dims& w, int64_t group) {
  if (group < 1) return attribute_error("group", expected_found("1 or more", group));
  if (is_known(x[1]) && x[1] % group != 0) {
    return input_error("x", expected_found("channels (dimension 1) that are a multiple of " +
                                               std::to_string(group) + " groups",
                                           x));
  }
  int64_t channels = x[1];
  if (!unify(w[0], &channels)) {
    return input_error(
        "w", expected_found("size " + std::to_string(x[1]) + " in dimension 0 (channels of x)", w));
  }
  return {};
}

}  // namespace

Result<Transposed> resolve_transposed(const bp_attrs_conv_transpose& attributes, const Dims& x,
                                      const Dims& w) {
  const size_t rank = x.size() - 2;
  Transposed result;
  BP_TRY_ASSIGN(result.window, resolve_window(kernel_of(w), "input 'w'",
                                              {.strides = attributes.strides,
                                               .pads = attributes.pads,
                                               .dilations = attributes.dilations,
                                               .auto_pad = attributes.auto_pad}));
  BP_TRY_ASSIGN(const Dims output_padding,
                spatial_list("output_padding", attributes.output_padding, rank, 0, 0));
  BP_TRY(check_output_padding(result.window, output_padding));
  BP_TRY_ASSIGN(const Dims wanted,
                spatial_list("output_shape", attributes.output_shape, rank, 1, kUnknownDim));
  result.begin.resize(rank, 0);
  result.out.resize(rank, kUnknownDim);
  for (size_t i = 0; i < rank; ++i) {
    BP_TRY(resolve_dim(i, x[i + 2], output_padding[i], wanted[i], &result));
  }
  return result;
}

Status infer_conv_transpose(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_conv_transpose>(context.attributes);
  const TensorType& x_type = context.inputs[0];
  const TensorType& w_type = context.inputs[1];
  if (!x_type.has_rank && !w_type.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const size_t rank = x_type.has_rank ? x_type.sizes.size() : w_type.sizes.size();
  if (rank < 3) {
    return input_error(
        x_type.has_rank ? "x" : "w",
        expected_found("rank 3 or more", x_type.has_rank ? x_type.sizes : w_type.sizes));
  }
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", x_type, rank));
  BP_TRY_ASSIGN(const Dims w, sizes_of_rank("w", w_type, rank));
  BP_TRY(check_channels(x, w, attributes.group));
  int64_t out_channels = kUnknownDim;
  if (is_known(w[1])) {
    const auto channels = checked_mul(w[1], attributes.group);
    if (!channels) return attribute_error("group", "times the channels of w it overflows");
    out_channels = *channels;
  }
  const int64_t of_w = out_channels;
  if (context.inputs.size() > 2 && context.inputs[2].dtype != BP_DTYPE_NONE) {
    BP_TRY_ASSIGN(const Dims b, sizes_of_rank("b", context.inputs[2], 1));
    if (!unify(b[0], &out_channels)) {
      return input_error("b", expected_found("size " + std::to_string(of_w), b));
    }
  }
  BP_TRY_ASSIGN(const Transposed transposed, resolve_transposed(attributes, x, w));
  out_types[0].sizes = Dims{x[0], out_channels};
  for (int64_t size : transposed.out) out_types[0].sizes.push_back(size);
  return {};
}

}  // namespace bp::ops
