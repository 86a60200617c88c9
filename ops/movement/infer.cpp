// SPDX-License-Identifier: Apache-2.0
//
// Inference of operators that move elements without changing them.
#include <algorithm>
#include <limits>

#include "backplane/ops/movement.h"
#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"
#include "ops/infer/common.hpp"
#include "ops/movement/blocks.hpp"

namespace bp::ops {
namespace {

/// The requested shape of a reshape, with copied sizes put in.
struct ReshapePlan {
  Dims sizes;           // the unknown wildcard stays kUnknownDim
  int wildcard = -1;    // its dimension; -1: there is none
  uint32_t copied = 0;  // dimensions whose size is x's of the same number
};

Status take_shape_entry(const TensorType& x, int64_t entry, bool allow_zero, ReshapePlan* plan) {
  const size_t dim = plan->sizes.size();
  if (entry < -1) {
    return input_error("shape", expected_found("sizes from -1", entry));
  }
  if (entry == -1) {
    if (plan->wildcard >= 0)
      return input_error("shape", expected_found("-1 at most once", "it twice"));
    plan->wildcard = static_cast<int>(dim);
  }
  if (entry != 0 || allow_zero) {
    plan->sizes.push_back(entry);
    return {};
  }
  if (x.has_rank && dim >= x.sizes.size()) {
    return input_error("shape", "0 in dimension " + std::to_string(dim) +
                                    " copies a size that x, " + to_string(x.sizes) +
                                    ", does not have");
  }
  plan->copied |= uint32_t{1} << dim;
  plan->sizes.push_back(x.has_rank ? x.sizes[dim] : kUnknownDim);
  return {};
}

Result<ReshapePlan> read_shape(const TensorType& x, std::span<const int64_t> shape,
                               bool allow_zero) {
  ReshapePlan plan;
  for (int64_t entry : shape) BP_TRY(take_shape_entry(x, entry, allow_zero, &plan));
  const bool zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (allow_zero && zero && plan.wildcard >= 0) {
    return input_error("shape",
                       "0 and -1 exclude each other with allow_zero: -1 could be anything");
  }
  return plan;
}

Status element_mismatch(const TensorType& x, const ReshapePlan& plan) {
  return input_error(
      "shape",
      expected_found("as many elements as x of sizes " + to_string(x.sizes) + " has", plan.sizes));
}

/// Works the wildcard out, or checks the element counts. Copied dimensions are the same on both
/// sides, so they are left out of both products: that is what lets symbols and zeros through.
Status settle_shape(const TensorType& x, ReshapePlan* plan) {
  Dims rest_x;
  Dims rest_y;
  const size_t rank = std::max(x.sizes.size(), plan->sizes.size());
  for (size_t i = 0; i < rank; ++i) {
    if ((plan->copied >> i & 1) != 0) continue;
    if (i < x.sizes.size()) rest_x.push_back(x.sizes[i]);
    const bool is_wildcard = static_cast<int>(i) == plan->wildcard;
    if (i < plan->sizes.size() && !is_wildcard) rest_y.push_back(plan->sizes[i]);
  }
  const auto count_x = size_product(rest_x);
  const auto count_y = size_product(rest_y);
  if (!count_x || !count_y) return element_mismatch(x, *plan);
  // count_y has no unknowns: entries are numbers, and copies were left out.
  if (plan->wildcard < 0) {
    const bool fits = !is_known(*count_x) || *count_x == *count_y;
    return fits ? Status() : element_mismatch(x, *plan);
  }
  int64_t& wildcard = plan->sizes[static_cast<size_t>(plan->wildcard)];
  if (is_known(*count_x)) {
    if (*count_y == 0 || *count_x % *count_y != 0) return element_mismatch(x, *plan);
    wildcard = *count_x / *count_y;
    return {};
  }
  // One unknown size times known ones: it is the wildcard if the known ones cancel.
  Dims known_x;
  int64_t unknown = kUnknownDim;
  size_t unknown_count = 0;
  for (int64_t size : rest_x) {
    if (is_known(size)) {
      known_x.push_back(size);
    } else {
      unknown = size;
      ++unknown_count;
    }
  }
  if (unknown_count == 1 && size_product(known_x) == count_y) wildcard = unknown;
  return {};
}

Status concat_mismatch(std::span<const TensorType> parts, size_t first, size_t other, size_t axis) {
  return input_error("x", "number " + std::to_string(other + 1) + ": " +
                              expected_found("sizes like number " + std::to_string(first + 1) +
                                                 ", " + to_string(parts[first].sizes) +
                                                 ", but for dimension " + std::to_string(axis),
                                             parts[other].sizes));
}

/// What a dimension has when a further part is put behind what is there.
int64_t joined_size(int64_t size, int64_t more) {
  if (size == 0) return more;
  if (more == 0) return size;
  if (!is_known(size) || !is_known(more)) return kUnknownDim;
  // An overflow is found when the sizes are checked.
  return checked_add(size, more).value_or(std::numeric_limits<int64_t>::max());
}

Status check_blocks(int64_t block_size, std::string_view mode) {
  constexpr int64_t kMost = 1 << 15;  // its square is a number
  if (block_size < 1 || block_size > kMost) {
    return attribute_error("block_size",
                           expected_found("1 to " + std::to_string(kMost), block_size));
  }
  if (mode == kDepthLast || mode == kDepthFirst) return {};
  return attribute_error("mode", expected_found("DCR or CRD", "'" + std::string(mode) + "'"));
}

}  // namespace

Status infer_reshape(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const Dims shape_sizes, sizes_of_rank("shape", context.inputs[1], 1));
  const int64_t rank = shape_sizes[0];
  if (!is_known(rank)) {
    unknown_rank(&out_types[0]);
    return {};
  }
  if (rank > BP_MAX_RANK) {
    return input_error("shape",
                       expected_found("up to " + std::to_string(BP_MAX_RANK) + " sizes", rank));
  }
  const auto count = static_cast<size_t>(rank);
  const void* data = context.host_data.size() > 1 ? context.host_data[1] : nullptr;
  if (data == nullptr && count > 0) {
    out_types[0].sizes.resize(count, kUnknownDim);
    return {};
  }
  const bool allow_zero = attrs<bp_attrs_reshape>(context.attributes).allow_zero != 0;
  const std::span shape(static_cast<const int64_t*>(data), count);
  BP_TRY_ASSIGN(ReshapePlan plan, read_shape(x, shape, allow_zero));
  if (x.has_rank) BP_TRY(settle_shape(x, &plan));
  out_types[0].sizes = plan.sizes;
  return {};
}

Status infer_flatten(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    out_types[0].sizes = Dims{kUnknownDim, kUnknownDim};
    return {};
  }
  const auto rank = static_cast<int64_t>(x.sizes.size());
  int64_t axis = attrs<bp_attrs_flatten>(context.attributes).axis;
  // Unlike other axes this one names a place between dimensions, so rank itself is one.
  if (axis < -rank || axis > rank) {
    return attribute_error(
        "axis", expected_found(std::to_string(-rank) + " to " + std::to_string(rank), axis));
  }
  if (axis < 0) axis += rank;
  const std::span all(x.sizes.data(), x.sizes.size());
  const auto outer = size_product(Dims(all.first(static_cast<size_t>(axis))));
  const auto inner = size_product(Dims(all.subspan(static_cast<size_t>(axis))));
  if (!outer || !inner) {
    return input_error("x", "sizes " + to_string(x.sizes) + " have too many elements to count");
  }
  out_types[0].sizes = Dims{*outer, *inner};
  return {};
}

Status infer_transpose(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const auto perm = values(attrs<bp_attrs_transpose>(context.attributes).perm);
  if (perm.empty()) {
    same_sizes(x, &out_types[0]);
    std::reverse(out_types[0].sizes.begin(), out_types[0].sizes.end());
    return {};
  }
  if (perm.size() > BP_MAX_RANK || (x.has_rank && perm.size() != x.sizes.size())) {
    const size_t rank = x.has_rank ? x.sizes.size() : BP_MAX_RANK;
    return attribute_error(
        "perm", expected_found(std::to_string(rank) + " values", std::to_string(perm.size())));
  }
  BP_TRY_ASSIGN(const Dims sizes, sizes_of_rank("x", x, perm.size()));
  uint32_t seen = 0;
  for (int64_t dim : perm) {
    const bool in_range = dim >= 0 && dim < static_cast<int64_t>(perm.size());
    if (!in_range || (seen >> dim & 1) != 0) {
      return attribute_error(
          "perm", expected_found("each of 0 to " + std::to_string(perm.size() - 1) + " once",
                                 numbers_text(perm)));
    }
    seen |= uint32_t{1} << dim;
    out_types[0].sizes.push_back(sizes[static_cast<size_t>(dim)]);
  }
  return {};
}

Status infer_squeeze(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const HostList axes, host_list(context, 1, "axes"));
  const bool is_settled = axes.is_given ? axes.is_known : all_known(x.sizes);
  const auto rank = static_cast<int64_t>(x.sizes.size());
  if (!x.has_rank || (!is_settled && !is_known(axes.count))) {
    unknown_rank(&out_types[0]);
    return {};
  }
  if (axes.is_given && axes.count > rank) {
    return input_error("axes",
                       expected_found("up to " + std::to_string(rank) + " values", axes.count));
  }
  if (!is_settled) {
    out_types[0].sizes.resize(static_cast<size_t>(rank - axes.count), kUnknownDim);
    return {};
  }
  BP_TRY_ASSIGN(const uint32_t mask, resolve_axes_of_input("axes", axes.values, x.sizes.size()));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    const bool is_named = (mask >> i & 1) != 0;
    if (is_named && is_known(x.sizes[i]) && x.sizes[i] != 1) {
      return input_error("axes", "dimension " + std::to_string(i) + " of " + to_string(x.sizes) +
                                     ": " + expected_found("size 1", x.sizes[i]));
    }
    const bool is_dropped = axes.is_given ? is_named : x.sizes[i] == 1;
    if (!is_dropped) out_types[0].sizes.push_back(x.sizes[i]);
  }
  return {};
}

Status infer_unsqueeze(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const HostList axes, host_list(context, 1, "axes"));
  if (!x.has_rank || !is_known(axes.count)) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const size_t rank = x.sizes.size() + static_cast<size_t>(axes.count);
  if (rank > BP_MAX_RANK) {
    return input_error("axes", "the output would have rank " + std::to_string(rank) + ", above " +
                                   std::to_string(BP_MAX_RANK));
  }
  if (!axes.is_known) {
    out_types[0].sizes.resize(rank, kUnknownDim);
    return {};
  }
  BP_TRY_ASSIGN(const uint32_t mask, resolve_axes_of_input("axes", axes.values, rank));
  const int64_t* next = x.sizes.begin();
  for (size_t i = 0; i < rank; ++i) {
    out_types[0].sizes.push_back((mask >> i & 1) != 0 ? 1 : *next++);
  }
  return {};
}

Status infer_expand(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const HostList shape, host_list(context, 1, "shape"));
  if (!x.has_rank || !is_known(shape.count)) {
    unknown_rank(&out_types[0]);
    return {};
  }
  Dims wanted(shape.values);
  for (int64_t size : wanted) {
    if (size < 0) return input_error("shape", expected_found("sizes from 0", size));
  }
  wanted.resize(static_cast<size_t>(shape.count), kUnknownDim);
  auto sizes = broadcast(x.sizes, wanted, "input 'shape'");
  if (!sizes.ok()) return sizes.status();
  out_types[0].sizes = *sizes;
  return {};
}

Status infer_concat(const InferContext& context, std::span<TensorType> out_types) {
  const auto ranked = std::find_if(context.inputs.begin(), context.inputs.end(),
                                   [](const TensorType& type) { return type.has_rank; });
  if (ranked == context.inputs.end()) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const auto first = static_cast<size_t>(ranked - context.inputs.begin());
  const size_t rank = ranked->sizes.size();
  const int64_t axis_value = attrs<bp_attrs_concat>(context.attributes).axis;
  BP_TRY_ASSIGN(const size_t axis, resolve_axis("axis", axis_value, rank));
  Dims sizes;
  sizes.resize(rank, kUnknownDim);
  sizes[axis] = 0;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorType& x = context.inputs[i];
    if (x.has_rank && x.sizes.size() != rank) {
      return concat_mismatch(context.inputs, first, i, axis);
    }
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t size = x.has_rank ? x.sizes[dim] : kUnknownDim;
      if (dim == axis) {
        sizes[dim] = joined_size(sizes[dim], size);
      } else if (!unify(size, &sizes[dim])) {
        return concat_mismatch(context.inputs, first, i, axis);
      }
    }
  }
  out_types[0].sizes = sizes;
  return {};
}

Status infer_tile(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  BP_TRY_ASSIGN(const HostList repeats, host_list(context, 1, "repeats"));
  if (!x.has_rank && !is_known(repeats.count)) {
    unknown_rank(&out_types[0]);
    return {};
  }
  const size_t rank = x.has_rank ? x.sizes.size() : static_cast<size_t>(repeats.count);
  if (is_known(repeats.count) && repeats.count != static_cast<int64_t>(rank)) {
    return input_error("repeats", expected_found(std::to_string(rank) + " values, one for each "
                                                                        "dimension of x",
                                                 repeats.count));
  }
  BP_TRY_ASSIGN(Dims sizes, sizes_of_rank("x", x, rank));
  for (size_t i = 0; i < rank; ++i) {
    const int64_t times = repeats.is_known ? repeats.values[i] : kUnknownDim;
    if (repeats.is_known && times < 0) {
      return input_error("repeats", expected_found("numbers from 0", times));
    }
    const auto product = size_product(Dims{sizes[i], times});
    if (!product) {
      return input_error("repeats", std::to_string(times) + " times a dimension of size " +
                                        std::to_string(sizes[i]) + " is more than can be counted");
    }
    sizes[i] = *product;
  }
  out_types[0].sizes = sizes;
  return {};
}

Status infer_trilu(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (x.has_rank && x.sizes.size() < 2) {
    return input_error("x", expected_found("two dimensions or more", x.sizes));
  }
  const bool has_k = context.inputs.size() > 1 && context.inputs[1].dtype != BP_DTYPE_NONE;
  if (has_k && context.inputs[1].has_rank) {
    const auto count = size_product(context.inputs[1].sizes);
    if (!count || (is_known(*count) && *count != 1)) {
      return input_error("k", expected_found("one number", context.inputs[1].sizes));
    }
  }
  same_sizes(x, &out_types[0]);
  return {};
}

Status infer_depth_to_space(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_depth_to_space>(context.attributes);
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 4));
  BP_TRY(check_blocks(attributes.block_size, text(attributes.mode)));
  const int64_t b = attributes.block_size;
  if (is_known(x[1]) && x[1] % (b * b) != 0) {
    return input_error("x",
                       expected_found("a multiple of " + std::to_string(b * b) + " channels", x));
  }
  const auto height = size_product(Dims{x[2], b});
  const auto width = size_product(Dims{x[3], b});
  if (!height || !width)
    return input_error(
        "x", "sizes " + to_string(x) + " times " + std::to_string(b) + " cannot be counted");
  const int64_t depth = is_known(x[1]) ? x[1] / (b * b) : b == 1 ? x[1] : kUnknownDim;
  out_types[0].sizes = Dims{x[0], depth, *height, *width};
  return {};
}

Status infer_space_to_depth(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_space_to_depth>(context.attributes);
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 4));
  BP_TRY(check_blocks(attributes.block_size, text(attributes.mode)));
  const int64_t b = attributes.block_size;
  Dims sizes = x;
  for (size_t i = 2; i < 4; ++i) {
    if (is_known(x[i]) && x[i] % b != 0) {
      return input_error(
          "x", expected_found(
                   "a multiple of " + std::to_string(b) + " in dimension " + std::to_string(i), x));
    }
    if (b != 1) sizes[i] = is_known(x[i]) ? x[i] / b : kUnknownDim;
  }
  const auto depth = size_product(Dims{x[1], b, b});
  if (!depth)
    return input_error(
        "x", "sizes " + to_string(x) + " times " + std::to_string(b * b) + " cannot be counted");
  sizes[1] = *depth;
  out_types[0].sizes = sizes;
  return {};
}

Status infer_bit_cast(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  const uint32_t to = out_types[0].dtype;
  if (dtype_bits(to) != dtype_bits(x.dtype) || (to == BP_DTYPE_BOOL && x.dtype != to)) {
    return attribute_error(
        "to",
        expected_found("a dtype of " + std::to_string(dtype_bits(x.dtype)) +
                           " bits other than bool, as " + std::string(dtype_name(x.dtype)) + " has",
                       dtype_name(to)));
  }
  same_sizes(x, &out_types[0]);
  return {};
}

Status infer_constant(const InferContext& context, std::span<TensorType> out_types) {
  const bp_tensor* value = attrs<bp_attrs_constant>(context.attributes).value;
  if (value == nullptr) return attribute_error("value", "expected a tensor, found none");
  out_types[0].sizes = Dims(std::span(value->sizes, value->rank));
  return {};
}

}  // namespace bp::ops
