// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose: inference, and its decomposition into a convolution of x with zeros between its
// elements and weights the other way round.
#include "ops/nn/conv_transpose.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/base/checked.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

/// With zeros between its elements x would have more than these, and a stride may be of any size.
constexpr int64_t kMostSpread = int64_t{1} << 31;

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

/// Sizes of 0 are meant as they are.
ValueId reshaped(Builder& builder, ValueId x, std::span<const int64_t> shape) {
  Attributes attributes = builder.attributes("reshape");
  builder.check(attributes.set_i64("allow_zero", 1));
  return builder.op("reshape", {x, builder.list(shape)}, std::move(attributes));
}

/// Puts step - 1 zeros behind each element along a spatial dimension of x.
ValueId spread(Builder& builder, ValueId x, uint32_t dtype, size_t dim, int64_t step, Dims* sizes) {
  if (step == 1) return x;
  int64_t before = 1;
  int64_t behind = 1;
  for (size_t i = 0; i <= dim; ++i) before *= (*sizes)[i];
  for (size_t i = dim + 1; i < sizes->size(); ++i) behind *= (*sizes)[i];
  const std::array<int64_t, 3> rows{before, 1, behind};
  const std::array<int64_t, 3> gaps{before, step - 1, behind};
  const ValueId zeros = builder.op("expand", {builder.scalar(dtype, 0), builder.list(gaps)});
  Attributes along = builder.attributes("concat");
  builder.check(along.set_i64("axis", 1));
  const ValueId both = builder.op("concat", {reshaped(builder, x, rows), zeros}, std::move(along));
  (*sizes)[dim] *= step;
  return reshaped(builder, both, {sizes->data(), sizes->size()});
}

/// w [C, M/group, kernel...] as the weights [M, C/group, kernel...] of a convolution.
ValueId turned_weights(Builder& builder, const Dims& w, int64_t group) {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  for (size_t i = 2; i < w.size(); ++i) {
    starts.push_back(-1);
    ends.push_back(INT64_MIN);
    axes.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> steps(axes.size(), -1);
  const ValueId turned =
      builder.op("slice", {builder.input(1), builder.list(starts), builder.list(ends),
                           builder.list(axes), builder.list(steps)});
  std::vector<int64_t> split{group, w[0] / group, w[1]};
  std::vector<int64_t> joined{w[1] * group, w[0] / group};
  std::vector<int64_t> order{0, 2, 1};
  for (size_t i = 2; i < w.size(); ++i) {
    split.push_back(w[i]);
    joined.push_back(w[i]);
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  Attributes swap = builder.attributes("transpose");
  builder.check(swap.set_i64s("perm", order));
  const ValueId swapped =
      builder.op("transpose", {reshaped(builder, turned, split)}, std::move(swap));
  return reshaped(builder, swapped, joined);
}

/// Leaves out what pads below 0 cut off at both ends of the spatial dimensions.
ValueId cropped(Builder& builder, ValueId x, const Dims& sizes, std::vector<int64_t>* pads) {
  const size_t rank = sizes.size() - 2;
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    int64_t& begin = (*pads)[i];
    int64_t& end = (*pads)[i + rank];
    if (begin >= 0 && end >= 0) continue;
    starts.push_back(std::max<int64_t>(-begin, 0));
    ends.push_back(sizes[i + 2] + std::min<int64_t>(end, 0));
    axes.push_back(static_cast<int64_t>(i) + 2);
    begin = std::max<int64_t>(begin, 0);
    end = std::max<int64_t>(end, 0);
  }
  if (axes.empty()) return x;
  return builder.op("slice", {x, builder.list(starts), builder.list(ends), builder.list(axes)});
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

Status decompose_conv_transpose(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_conv_transpose>(context.attributes);
  const Dims& x = context.inputs[0].sizes;
  const Dims& w = context.inputs[1].sizes;
  const bool known =
      context.inputs[0].has_rank && context.inputs[1].has_rank && all_known(x) && all_known(w);
  if (!known) return {BP_UNSUPPORTED, "the sizes of x and w are not known"};
  BP_TRY_ASSIGN(const Transposed transposed, resolve_transposed(attributes, x, w));
  const Window& window = transposed.window;
  const size_t rank = window.kernel.size();
  Dims steps(window.strides);
  int64_t count = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    // One element needs no distance to the next.
    if (i >= 2 && x[i] == 1) steps[i - 2] = 1;
    const auto size = checked_mul(x[i], i < 2 ? 1 : steps[i - 2]);
    const auto all = size ? checked_mul(count, *size) : std::nullopt;
    if (!all || *all == 0 || *all > kMostSpread) {
      return {BP_UNSUPPORTED, "x is empty, or too large with zeros between its elements"};
    }
    count = *all;
  }
  Builder builder(context, {"x", "w", "b"}, graph);
  Dims sizes = x;
  ValueId wide = builder.input(0);
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    wide = spread(builder, wide, context.inputs[0].dtype, i + 2, steps[i], &sizes);
    pads[i] = window.extent(i) - 1 - transposed.begin[i];
    pads[i + rank] = transposed.out[i] - sizes[i + 2] - pads[i] + window.extent(i) - 1;
    if (-std::min<int64_t>(pads[i], 0) - std::min<int64_t>(pads[i + rank], 0) >= sizes[i + 2]) {
      return {BP_UNSUPPORTED, "the pads leave nothing of x"};
    }
  }
  wide = cropped(builder, wide, sizes, &pads);
  Attributes conv = builder.attributes("conv");
  builder.check(conv.set_i64s("pads", pads));
  builder.check(conv.set_i64s("dilations", values(attributes.dilations)));
  builder.check(conv.set_i64("group", attributes.group));
  const ValueId weights = turned_weights(builder, w, attributes.group);
  return builder.finish(builder.op("conv", {wide, weights, builder.input(2)}, std::move(conv)));
}

}  // namespace bp::ops
