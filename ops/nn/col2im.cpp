// SPDX-License-Identifier: Apache-2.0
//
// col2im: inference, and its decomposition into a scatter that adds. What falls outside of the
// image goes to one place more, which is cut off.
#include "ops/nn/col2im.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/checked.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

constexpr size_t kImage = 1;
constexpr size_t kBlock = 2;
constexpr int64_t kMostSpatial = BP_MAX_RANK - 2;

Status check_sizes(std::string_view input, std::span<const int64_t> sizes) {
  for (const int64_t size : sizes) {
    if (size >= 1 && size <= INT32_MAX) continue;
    return input_error(input, expected_found("sizes from 1 to 2147483647", size));
  }
  return {};
}

Dims sizes_of(const HostList& list, int64_t rank) {
  if (list.is_known) return Dims(list.values);
  Dims sizes;
  sizes.resize(static_cast<size_t>(rank), kUnknownDim);
  return sizes;
}

Result<int64_t> product_of(std::string_view input, const Dims& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    const auto next = checked_mul(product, size);
    if (!next) return input_error(input, "its sizes " + to_string(sizes) + " are too large");
    product = *next;
  }
  return product;
}

}  // namespace

Result<std::optional<Blocks>> resolve_blocks(const InferContext& context) {
  const auto& attributes = attrs<bp_attrs_col2im>(context.attributes);
  BP_TRY_ASSIGN(const HostList image, host_list(context, kImage, "image_shape", kMostSpatial));
  BP_TRY_ASSIGN(const HostList block, host_list(context, kBlock, "block_shape", kMostSpatial));
  int64_t rank = image.count;
  if (!unify(block.count, &rank) || rank == 0) {
    return input_error("block_shape",
                       expected_found("1 or more sizes, as many as the " +
                                          std::to_string(image.count) + " of image_shape",
                                      block.count));
  }
  BP_TRY(check_sizes("image_shape", image.values));
  BP_TRY(check_sizes("block_shape", block.values));
  if (!is_known(rank)) return std::optional<Blocks>();
  Blocks blocks;
  blocks.image = sizes_of(image, rank);
  BP_TRY_ASSIGN(blocks.window, resolve_window(sizes_of(block, rank), "input 'block_shape'",
                                              {.strides = attributes.strides,
                                               .pads = attributes.pads,
                                               .dilations = attributes.dilations,
                                               .auto_pad = {"NOTSET", 6}}));
  blocks.is_known = image.is_known && block.is_known;
  if (!blocks.is_known) return std::optional(std::move(blocks));
  for (size_t i = 0; i < blocks.image.size(); ++i) {
    BP_TRY_ASSIGN(const int64_t count, window_count(blocks.window, i, blocks.image[i]));
    blocks.counts.push_back(count);
  }
  BP_TRY_ASSIGN(blocks.block_size, product_of("block_shape", blocks.window.kernel));
  BP_TRY_ASSIGN(blocks.position_count, product_of("image_shape", blocks.counts));
  BP_TRY(product_of("image_shape", blocks.image));
  return std::optional(std::move(blocks));
}

Status infer_col2im(const InferContext& context, std::span<TensorType> out_types) {
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 3));
  BP_TRY_ASSIGN(const std::optional<Blocks> blocks, resolve_blocks(context));
  if (!blocks) {
    unknown_rank(&out_types[0]);
    return {};
  }
  Dims& y = out_types[0].sizes;
  y = Dims{x[0], kUnknownDim};
  for (const int64_t size : blocks->image) y.push_back(size);
  if (!blocks->is_known) return {};
  const bool channels_fit = !is_known(x[1]) || x[1] % blocks->block_size == 0;
  int64_t positions = blocks->position_count;
  if (!channels_fit || !unify(x[2], &positions)) {
    return input_error("x", expected_found("[N, C * " + std::to_string(blocks->block_size) + ", " +
                                               std::to_string(blocks->position_count) + "]",
                                           x));
  }
  if (is_known(x[1])) y[1] = x[1] / blocks->block_size;
  return {};
}

namespace {

/// Of each element of a column and position, where in the image it goes; `outside` for those that
/// fall out of it.
void fill_places(const Blocks& blocks, int64_t outside, std::vector<int64_t>* places) {
  for (size_t i = 0; i < places->size(); ++i) {
    int64_t element = static_cast<int64_t>(i) / blocks.position_count;
    int64_t position = static_cast<int64_t>(i) % blocks.position_count;
    int64_t place = 0;
    int64_t step = 1;
    bool is_inside = true;
    for (size_t d = blocks.image.size(); d-- > 0;) {
      const int64_t at = position % blocks.counts[d] * blocks.window.strides[d] +
                         element % blocks.window.kernel[d] * blocks.window.dilations[d] -
                         blocks.window.pads_begin[d];
      is_inside = is_inside && at >= 0 && at < blocks.image[d];
      place += at * step;
      step *= blocks.image[d];
      position /= blocks.counts[d];
      element /= blocks.window.kernel[d];
    }
    (*places)[i] = is_inside ? place : outside;
  }
}

}  // namespace

Status decompose_col2im(const InferContext& context, GraphBuilder* graph) {
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 3));
  BP_TRY_ASSIGN(const std::optional<Blocks> blocks, resolve_blocks(context));
  if (!blocks || !blocks->is_known || !is_known(x[0]) || !is_known(x[1])) {
    return {BP_UNSUPPORTED, "sizes of x, image_shape and block_shape are not all known"};
  }
  Builder builder(context, {"x", "image_shape", "block_shape"}, graph);
  BP_TRY_ASSIGN(const int64_t image_size, product_of("image_shape", blocks->image));
  const auto added = checked_mul(blocks->block_size, blocks->position_count);
  const int64_t channels = x[1] / blocks->block_size;
  std::vector<int64_t> places = builder.counted(added.value_or(INT64_MAX));
  fill_places(*blocks, image_size, &places);
  const auto shape = [&](int64_t last) {
    return builder.list(std::array<int64_t, 3>{x[0], channels, last});
  };
  Attributes keeps_zero = builder.attributes("reshape");
  builder.check(keeps_zero.set_i64("allow_zero", 1));
  const ValueId updates =
      builder.op("reshape", {builder.input(0), shape(added.value_or(0))}, keeps_zero);
  const ValueId indices =
      builder.op("expand", {builder.list(places), shape(static_cast<int64_t>(places.size()))});
  const ValueId zeros =
      builder.op("expand", {builder.scalar(builder.dtype(0), 0), shape(image_size + 1)});
  Attributes add = builder.attributes("scatter_elements");
  builder.check(add.set_i64("axis", 2));
  builder.check(add.set_str("reduction", "add"));
  const ValueId sums = builder.op("scatter_elements", {zeros, indices, updates}, std::move(add));
  const auto one = [&](int64_t value) { return builder.list(std::array<int64_t, 1>{value}); };
  const ValueId image = builder.op("slice", {sums, one(0), one(image_size), one(2)});
  std::vector<int64_t> sizes{x[0], channels};
  sizes.insert(sizes.end(), blocks->image.begin(), blocks->image.end());
  return builder.finish(builder.op("reshape", {image, builder.list(sizes)}, std::move(keeps_zero)));
}

}  // namespace bp::ops
