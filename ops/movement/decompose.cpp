// SPDX-License-Identifier: Apache-2.0
//
// Operators that are others' views, one after the other.
#include <array>
#include <utility>
#include <vector>

#include "backplane/ops/movement.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"
#include "ops/movement/blocks.hpp"

namespace bp::ops {
namespace {

ValueId expanded(Builder& builder, ValueId x, std::span<const int64_t> sizes) {
  return builder.op("expand", {x, builder.list(sizes)});
}

/// A 0 is a size, and copies none.
ValueId reshape_to(Builder& builder, ValueId x, std::span<const int64_t> sizes) {
  Attributes as_given = builder.attributes("reshape");
  builder.check(as_given.set_i64("allow_zero", 1));
  return builder.op("reshape", {x, builder.list(sizes)}, std::move(as_given));
}

/// x with one dimension repeated as a whole.
ValueId repeated(Builder& builder, ValueId x, const Dims& sizes, size_t axis, int64_t times) {
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < sizes.size(); ++i) (i < axis ? outer : inner) *= sizes[i];
  const std::array<int64_t, 3> block = {outer, 1, inner};
  const std::array<int64_t, 3> blocks = {outer, times, inner};
  return expanded(builder, reshape_to(builder, x, block), blocks);
}

ValueId transposed(Builder& builder, ValueId x, std::span<const int64_t> perm) {
  Attributes order = builder.attributes("transpose");
  builder.check(order.set_i64s("perm", perm));
  return builder.op("transpose", {x}, std::move(order));
}

}  // namespace

/// All repeated dimensions at once, each behind a new one; one by one where that would be too many.
Status decompose_tile(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const HostList repeats, host_list(context, 1, "repeats"));
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  if (!repeats.is_known) return {BP_UNSUPPORTED, "repeats is not known"};
  Builder builder(context, {"x", "repeats"}, graph);
  std::vector<int64_t> spread;
  std::vector<int64_t> wide;
  Dims sizes = x.sizes;
  ValueId y = builder.input(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (repeats.values[i] != 1) {
      spread.push_back(1);
      wide.push_back(repeats.values[i]);
    }
    spread.push_back(sizes[i]);
    wide.push_back(sizes[i]);
  }
  const bool fits = spread.size() <= BP_MAX_RANK;
  if (spread.size() == sizes.size()) return builder.finish(builder.op("identity", {y}));
  if (fits) y = expanded(builder, reshape_to(builder, y, spread), wide);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!fits && repeats.values[i] != 1) {
      y = repeated(builder, y, sizes, i, repeats.values[i]);
    }
    sizes[i] *= repeats.values[i];
  }
  return builder.finish(reshape_to(builder, y, {sizes.data(), sizes.size()}));
}

/// Beyond the edges of the matrix k is cut to them, so that no sum with it wraps.
Status decompose_trilu(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  const int64_t rows = x.sizes[x.sizes.size() - 2];
  const int64_t columns = x.sizes[x.sizes.size() - 1];
  Builder builder(context, {"x", "k"}, graph);
  ValueId first = builder.integers({rows, 1}, builder.counted(rows));
  if (builder.input(1) != kNoValue) {
    const ValueId k = builder.reshape(builder.input(1), {});
    const ValueId least = builder.op("max", {k, builder.integer(-rows)});
    first = builder.op("add", {first, builder.op("min", {least, builder.integer(columns)})});
  }
  const ValueId column = builder.list(builder.counted(columns));
  const bool upper = attrs<bp_attrs_trilu>(context.attributes).upper != 0;
  const ValueId kept = builder.op(upper ? "greater_or_equal" : "less_or_equal", {column, first});
  const ValueId zero = builder.scalar(x.dtype, 0);
  return builder.finish(builder.op("where", {kept, builder.input(0), zero}));
}

Status decompose_depth_to_space(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  const auto& attributes = attrs<bp_attrs_depth_to_space>(context.attributes);
  const int64_t b = attributes.block_size;
  const Dims& n = x.sizes;
  const int64_t depth = n[1] / b / b;
  Builder builder(context, {"x"}, graph);
  const bool depth_last = text(attributes.mode) == kDepthLast;
  const std::array<int64_t, 6> split = depth_last
                                           ? std::array<int64_t, 6>{n[0], b, b, depth, n[2], n[3]}
                                           : std::array<int64_t, 6>{n[0], depth, b, b, n[2], n[3]};
  const std::array<int64_t, 6> perm = depth_last ? std::array<int64_t, 6>{0, 3, 4, 1, 5, 2}
                                                 : std::array<int64_t, 6>{0, 1, 4, 2, 5, 3};
  const std::array<int64_t, 4> merged = {n[0], depth, n[2] * b, n[3] * b};
  const ValueId apart = reshape_to(builder, builder.input(0), split);
  return builder.finish(reshape_to(builder, transposed(builder, apart, perm), merged));
}

Status decompose_space_to_depth(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  const auto& attributes = attrs<bp_attrs_space_to_depth>(context.attributes);
  const int64_t b = attributes.block_size;
  const Dims& n = x.sizes;
  Builder builder(context, {"x"}, graph);
  const std::array<int64_t, 6> split = {n[0], n[1], n[2] / b, b, n[3] / b, b};
  const std::array<int64_t, 6> perm = text(attributes.mode) == kDepthLast
                                          ? std::array<int64_t, 6>{0, 3, 5, 1, 2, 4}
                                          : std::array<int64_t, 6>{0, 1, 3, 5, 2, 4};
  const std::array<int64_t, 4> merged = {n[0], n[1] * b * b, n[2] / b, n[3] / b};
  const ValueId apart = reshape_to(builder, builder.input(0), split);
  return builder.finish(reshape_to(builder, transposed(builder, apart, perm), merged));
}

}  // namespace bp::ops
