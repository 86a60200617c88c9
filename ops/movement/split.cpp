// SPDX-License-Identifier: Apache-2.0
//
// Split: the sizes of its parts, and its parts as slices.
#include <limits>

#include "backplane/ops/movement.h"
#include "core/base/checked.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// Sizes that are given; `whole` is the dimension's, which may be unknown.
Status check_part_sizes(std::span<const int64_t> sizes, size_t count, int64_t whole) {
  if (sizes.size() != count) {
    return attribute_error(
        "sizes", expected_found("one size for each of " + std::to_string(count) + " outputs",
                                static_cast<int64_t>(sizes.size())));
  }
  const int64_t most = is_known(whole) ? whole : std::numeric_limits<int64_t>::max();
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > most - sum) {
      const std::string all = is_known(whole) ? ", " + std::to_string(whole) : std::string();
      return attribute_error(
          "sizes", expected_found("sizes from 0 that together are the dimension's" + all, size));
    }
    sum += size;
  }
  if (!is_known(whole) || sum == whole) return {};
  return attribute_error("sizes",
                         expected_found("sizes that together are " + std::to_string(whole), sum));
}

/// The size of part `index`; kUnknownDim where it depends on a dimension that is not known. What is
/// asked for has been checked.
int64_t part_size(const bp_attrs_split& attributes, int64_t index, int64_t whole) {
  if (attributes.sizes.count > 0) return attributes.sizes.ptr[index];
  if (!is_known(whole)) return attributes.num_outputs == 1 ? whole : kUnknownDim;
  const int64_t count = attributes.num_outputs;
  const int64_t part = whole / count + (whole % count != 0 ? 1 : 0);
  return index + 1 < count ? part : whole - part * (count - 1);
}

Status check_parts(const bp_attrs_split& attributes, int64_t whole) {
  const int64_t count = attributes.num_outputs;
  if (attributes.sizes.count > 0) {
    return check_part_sizes({attributes.sizes.ptr, static_cast<size_t>(attributes.sizes.count)},
                            static_cast<size_t>(count), whole);
  }
  if (!is_known(whole) || part_size(attributes, count - 1, whole) >= 0) return {};
  return attribute_error("num_outputs", expected_found("as many parts as a dimension of size " +
                                                           std::to_string(whole) + " has",
                                                       count));
}

}  // namespace

Status infer_split(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_split>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    BP_TRY(check_parts(attributes, kUnknownDim));
    for (TensorType& out : out_types) unknown_rank(&out);
    return {};
  }
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", attributes.axis, x.sizes.size()));
  BP_TRY(check_parts(attributes, x.sizes[axis]));
  for (size_t i = 0; i < out_types.size(); ++i) {
    out_types[i].sizes = x.sizes;
    out_types[i].sizes[axis] = part_size(attributes, static_cast<int64_t>(i), x.sizes[axis]);
  }
  return {};
}

/// Slices, which are views.
Status decompose_split(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_split>(context.attributes);
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", attributes.axis, x.sizes.size()));
  Builder builder(context, {"x"}, graph);
  const auto dimension = static_cast<int64_t>(axis);
  const ValueId axes = builder.list({&dimension, 1});
  std::vector<ValueId> parts;
  int64_t start = 0;
  ValueId from = builder.list({&start, 1});
  for (int64_t i = 0; i < attributes.num_outputs; ++i) {
    start += part_size(attributes, i, x.sizes[axis]);
    const ValueId to = builder.list({&start, 1});
    parts.push_back(builder.op("slice", {builder.input(0), from, to, axes}));
    from = to;
  }
  return builder.finish(parts);
}

}  // namespace bp::ops
