// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that read or make indices.
#include <algorithm>

#include "backplane/ops/indexing.h"
#include "core/base/quoted.hpp"
#include "ops/indexing/reduction.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

/// Whether something may be read from, or written to, where a dimension of x has no elements: no.
/// `count` is of the indices; unknown ones are told when they are known.
bool has_target(int64_t extent, std::optional<int64_t> index_count) {
  return extent != 0 || !index_count || !is_known(*index_count) || *index_count == 0;
}

/// indices of gather_elements and scatter_elements: as many dimensions as x, none larger but along
/// axis.
Status check_places(const Dims& x, const Dims& indices, int64_t axis_value) {
  if (x.size() != indices.size()) {
    return input_error("indices",
                       expected_found("rank " + std::to_string(x.size()) + ", as x has", indices));
  }
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    if (i == axis || !is_known(x[i]) || !is_known(indices[i]) || indices[i] <= x[i]) continue;
    return input_error("indices", "dimension " + std::to_string(i) + ": " +
                                      expected_found("at most the " + std::to_string(x[i]) +
                                                         " of x " + to_string(x),
                                                     indices));
  }
  if (has_target(x[axis], size_product(indices))) return {};
  return input_error("x", "dimension " + std::to_string(axis) + " of " + to_string(x) +
                              " has no elements to index");
}

/// How many dimensions each row of indices gives a position in; kUnknownDim: not known yet.
Result<int64_t> point_size(const Dims& x, const Dims& indices, size_t batch_dims) {
  if (x.empty()) return input_error("x", "expected rank 1 or more, found rank 0");
  if (indices.empty()) return input_error("indices", "expected rank 1 or more, found rank 0");
  const int64_t count = indices.back();
  if (!is_known(count)) return kUnknownDim;
  const auto most = static_cast<int64_t>(x.size() - batch_dims);
  if (count < 1 || count > most) {
    return input_error(
        "indices", "last dimension: " + expected_found("1 to " + std::to_string(most), indices));
  }
  Dims points = indices;
  points.resize(points.size() - 1);
  for (size_t i = batch_dims; i < batch_dims + static_cast<size_t>(count); ++i) {
    if (has_target(x[i], size_product(points))) continue;
    return input_error("x", "dimension " + std::to_string(i) + " of " + to_string(x) +
                                " has no elements to index");
  }
  return count;
}

/// What the rows of indices choose: the sizes of indices but for the last, then those of x behind
/// the indexed dimensions.
Result<Dims> chosen_sizes(const Dims& x, const Dims& indices, size_t first_kept) {
  const size_t rank = indices.size() - 1 + x.size() - first_kept;
  if (rank > BP_MAX_RANK) {
    return input_error("indices", "the output would have rank " + std::to_string(rank) +
                                      ", above " + std::to_string(BP_MAX_RANK));
  }
  Dims sizes = indices;
  sizes.resize(indices.size() - 1);
  for (size_t i = first_kept; i < x.size(); ++i) sizes.push_back(x[i]);
  return sizes;
}

/// updates against the sizes that they must have.
Status check_updates(const TensorType& updates, const Dims& expected) {
  if (!updates.has_rank) return {};
  bool same = updates.sizes.size() == expected.size();
  for (size_t i = 0; same && i < expected.size(); ++i) {
    int64_t size = expected[i];
    same = unify(updates.sizes[i], &size);
  }
  return same ? Status()
              : input_error("updates",
                            expected_found("sizes " + to_string(expected), updates.sizes));
}

Status check_reduction(bp_str name) {
  const std::string_view text(name.ptr, name.len);
  if (scatter_reduction(text)) return {};
  return attribute_error("reduction", expected_found("none, add, mul, max or min", quoted(text)));
}

}  // namespace

Status infer_gather(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  if (!x.has_rank || !indices.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const int64_t axis_value = attrs<bp_attrs_gather>(context.attributes).axis;
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, x.sizes.size()));
  const size_t rank = x.sizes.size() + indices.sizes.size() - 1;
  if (rank > BP_MAX_RANK) {
    return input_error("indices", "the output would have rank " + std::to_string(rank) +
                                      ", above " + std::to_string(BP_MAX_RANK));
  }
  const auto index_count = size_product(indices.sizes);
  if (x.sizes[axis] == 0 && index_count && is_known(*index_count) && *index_count > 0) {
    return input_error("x", "dimension " + std::to_string(axis) + " of " + to_string(x.sizes) +
                                " has nothing to gather from");
  }
  Dims& out_sizes = out_types[0].sizes;
  for (size_t i = 0; i < axis; ++i) out_sizes.push_back(x.sizes[i]);
  for (int64_t size : indices.sizes) out_sizes.push_back(size);
  for (size_t i = axis + 1; i < x.sizes.size(); ++i) out_sizes.push_back(x.sizes[i]);
  return {};
}

Status infer_gather_elements(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  same_sizes(indices, &out_types[0]);
  if (!x.has_rank || !indices.has_rank) return {};
  return check_places(x.sizes, indices.sizes,
                      attrs<bp_attrs_gather_elements>(context.attributes).axis);
}

Status infer_gather_nd(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  if (!x.has_rank || !indices.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const int64_t given = attrs<bp_attrs_gather_nd>(context.attributes).batch_dims;
  const size_t least_rank = std::min(x.sizes.size(), indices.sizes.size());
  const auto most = static_cast<int64_t>(least_rank == 0 ? 0 : least_rank - 1);
  if (given < 0 || given > most) {
    return attribute_error(
        "batch_dims", expected_found("0 to " + std::to_string(most) + ", below both ranks", given));
  }
  const auto batch_dims = static_cast<size_t>(given);
  Dims batch = indices.sizes;
  for (size_t i = 0; i < batch_dims; ++i) {
    if (unify(x.sizes[i], &batch[i])) continue;
    return input_error("indices",
                       "batch dimension " + std::to_string(i) + ": " +
                           expected_found(std::to_string(x.sizes[i]) + ", as in x", indices.sizes));
  }
  BP_TRY_ASSIGN(const int64_t points, point_size(x.sizes, batch, batch_dims));
  if (points == kUnknownDim) {
    unknown_rank(&out_types[0]);
    return {};
  }
  BP_TRY_ASSIGN(out_types[0].sizes,
                chosen_sizes(x.sizes, batch, batch_dims + static_cast<size_t>(points)));
  return {};
}

Status infer_scatter_elements(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  const auto& attributes = attrs<bp_attrs_scatter_elements>(context.attributes);
  BP_TRY(check_reduction(attributes.reduction));
  same_sizes(x, &out_types[0]);
  if (!indices.has_rank) return {};
  BP_TRY(check_updates(context.inputs[2], indices.sizes));
  if (!x.has_rank) return {};
  return check_places(x.sizes, indices.sizes, attributes.axis);
}

Status infer_scatter_nd(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const TensorType& indices = context.inputs[1];
  BP_TRY(check_reduction(attrs<bp_attrs_scatter_nd>(context.attributes).reduction));
  same_sizes(x, &out_types[0]);
  if (!x.has_rank || !indices.has_rank) return {};
  BP_TRY_ASSIGN(const int64_t points, point_size(x.sizes, indices.sizes, 0));
  if (points == kUnknownDim) return {};
  BP_TRY_ASSIGN(const Dims expected,
                chosen_sizes(x.sizes, indices.sizes, static_cast<size_t>(points)));
  return check_updates(context.inputs[2], expected);
}

Status infer_compress(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const Dims condition, sizes_of_rank("condition", context.inputs[1], 1));
  same_sizes(x, &out_types[0]);
  if (!x.has_rank) return {};
  BP_TRY_ASSIGN(
      const size_t axis,
      resolve_axis("axis", attrs<bp_attrs_compress>(context.attributes).axis, x.sizes.size()));
  // At most as many slices as both have; either alone bounds them.
  int64_t& size = out_types[0].sizes[axis];
  if (is_known(size) && is_known(condition[0]) && condition[0] > size) {
    return input_error(
        "condition", expected_found("at most " + std::to_string(size) + " elements, as dimension " +
                                        std::to_string(axis) + " of x has",
                                    condition));
  }
  if (is_known(condition[0])) size = condition[0];
  return {};
}

Status infer_one_hot(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& indices = context.inputs[0];
  const TensorType& depth = context.inputs[1];
  BP_TRY_ASSIGN(const Dims values, sizes_of_rank("values", context.inputs[2], 1));
  if (is_known(values[0]) && values[0] != 2) {
    return input_error("values", expected_found("two values", values));
  }
  const bool is_list = depth.has_rank && depth.sizes.size() == 1;
  if (depth.has_rank &&
      (depth.sizes.size() > 1 || (is_list && is_known(depth.sizes[0]) && depth.sizes[0] != 1))) {
    return input_error("depth", expected_found("one value", depth.sizes));
  }
  const auto* const known = static_cast<const int64_t*>(context.host_data[1]);
  if (known != nullptr && *known < 0) {
    return input_error("depth", expected_found("0 or more", *known));
  }
  if (!indices.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const size_t rank = indices.sizes.size() + 1;
  if (rank > BP_MAX_RANK) {
    return input_error("indices", "the output would have rank " + std::to_string(rank) +
                                      ", above " + std::to_string(BP_MAX_RANK));
  }
  BP_TRY_ASSIGN(const size_t axis,
                resolve_axis("axis", attrs<bp_attrs_one_hot>(context.attributes).axis, rank));
  Dims& sizes = out_types[0].sizes;
  for (size_t i = 0; i < axis; ++i) sizes.push_back(indices.sizes[i]);
  sizes.push_back(known != nullptr ? *known : kUnknownDim);
  for (size_t i = axis; i < indices.sizes.size(); ++i) sizes.push_back(indices.sizes[i]);
  return {};
}

Status infer_non_zero(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    out_types[0].sizes = Dims{kUnknownDim, kUnknownDim};
    return {};
  }
  // Every element may be nonzero. A scalar has no index, only a count.
  const auto count = size_product(x.sizes);
  if (!count) {
    return input_error("x", "sizes " + to_string(x.sizes) + " have too many elements to count");
  }
  out_types[0].sizes = Dims{static_cast<int64_t>(x.sizes.size()), *count};
  return {};
}

}  // namespace bp::ops
