// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes for inference; see common.hpp.
#include "ops/infer/common.hpp"

#include <algorithm>

#include "core/base/checked.hpp"

namespace bp::ops {

Status input_error(std::string_view input, std::string_view words) {
  return {BP_INVALID_ARGUMENT, "input '" + std::string(input) + "': " + std::string(words)};
}

Status attribute_error(std::string_view attribute, std::string_view words) {
  return {BP_INVALID_ARGUMENT, "attribute '" + std::string(attribute) + "': " + std::string(words)};
}

std::string expected_found(std::string_view expected, std::string_view found) {
  return "expected " + std::string(expected) + ", found " + std::string(found);
}

std::string expected_found(std::string_view expected, int64_t found) {
  return expected_found(expected, std::to_string(found));
}

std::string expected_found(std::string_view expected, const Dims& found) {
  return expected_found(expected, to_string(found));
}

bool unify(int64_t other, int64_t* size) {
  if (*size == other) return true;
  if (is_known(*size)) return !is_known(other);
  // Known beats symbol beats unknown; of two symbols the first stays, as their sizes are equal.
  if (is_known(other) || *size == kUnknownDim) *size = other;
  return true;
}

std::optional<int64_t> broadcast_size(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (is_known(a) && is_known(b)) return std::nullopt;
  if (is_known(a)) return a;
  if (is_known(b)) return b;
  return kUnknownDim;
}

Result<Dims> broadcast(const Dims& a, const Dims& b, std::string_view what) {
  const size_t rank = std::max(a.size(), b.size());
  Dims result;
  result.resize(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size_a = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t size_b = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    const auto size = broadcast_size(size_a, size_b);
    if (!size) {
      return Status(BP_INVALID_ARGUMENT, std::string(what) +
                                             ": expected sizes that broadcast (each pair, counted "
                                             "from the end, equal or with a 1), found " +
                                             to_string(a) + " and " + to_string(b));
    }
    result[i] = *size;
  }
  return result;
}

std::optional<int64_t> size_product(const Dims& sizes) {
  std::optional<int64_t> product = 1;
  int64_t unknown = 0;
  size_t unknown_count = 0;
  bool zero = false;
  for (int64_t size : sizes) {
    if (!is_known(size)) {
      unknown = size;
      ++unknown_count;
    } else if (size == 0) {
      zero = true;
    } else {
      product = checked_mul(*product, size);
      if (!product) return std::nullopt;
    }
  }
  if (zero) return 0;
  if (unknown_count == 0) return product;
  return unknown_count == 1 && *product == 1 ? unknown : kUnknownDim;
}

namespace {

/// nullopt: it is none of the dimensions.
std::optional<size_t> find_axis(int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::string no_axis_words(int64_t axis, size_t rank) {
  if (rank == 0) {
    return "expected none, as the input has rank 0, found " + std::to_string(axis);
  }
  const auto signed_rank = static_cast<int64_t>(rank);
  return expected_found(std::to_string(-signed_rank) + " to " + std::to_string(signed_rank - 1),
                        axis);
}

/// Error: the words of one.
Status collect_axes(std::span<const int64_t> axes, size_t rank, uint32_t* out_mask) {
  for (int64_t axis : axes) {
    const auto index = find_axis(axis, rank);
    if (!index) return {BP_INVALID_ARGUMENT, no_axis_words(axis, rank)};
    if ((*out_mask >> *index & 1) != 0) {
      return {BP_INVALID_ARGUMENT,
              "expected each axis once, found " + std::to_string(axis) + " again"};
    }
    *out_mask |= uint32_t{1} << *index;
  }
  return {};
}

}  // namespace

Result<size_t> resolve_axis(std::string_view attribute, int64_t axis, size_t rank) {
  const auto index = find_axis(axis, rank);
  if (!index) return attribute_error(attribute, no_axis_words(axis, rank));
  return *index;
}

Result<uint32_t> resolve_axes(std::string_view attribute, std::span<const int64_t> axes,
                              size_t rank) {
  if (axes.empty()) return (uint32_t{1} << rank) - 1;
  uint32_t mask = 0;
  const Status fit = collect_axes(axes, rank, &mask);
  if (!fit.ok()) return attribute_error(attribute, fit.message());
  return mask;
}

Result<uint32_t> resolve_axes_of_input(std::string_view input, std::span<const int64_t> axes,
                                       size_t rank) {
  uint32_t mask = 0;
  const Status fit = collect_axes(axes, rank, &mask);
  if (!fit.ok()) return input_error(input, fit.message());
  return mask;
}

Result<HostList> host_list(const InferContext& context, size_t index, std::string_view input,
                           int64_t most) {
  HostList list;
  list.is_given = index < context.inputs.size() && context.inputs[index].dtype != BP_DTYPE_NONE;
  if (!list.is_given) return list;
  BP_TRY_ASSIGN(const Dims sizes, sizes_of_rank(input, context.inputs[index], 1));
  list.count = sizes[0];
  if (list.count > most) {
    return input_error(input,
                       expected_found("up to " + std::to_string(most) + " values", list.count));
  }
  const void* data = index < context.host_data.size() ? context.host_data[index] : nullptr;
  list.is_known = list.count == 0 || (list.count > 0 && data != nullptr);
  if (list.is_known) {
    list.values = {static_cast<const int64_t*>(data), static_cast<size_t>(list.count)};
  }
  return list;
}

void same_sizes(const TensorType& input, TensorType* out_type) {
  out_type->has_rank = input.has_rank;
  out_type->sizes = input.sizes;
}

void unknown_rank(TensorType* out_type) {
  out_type->has_rank = false;
  out_type->sizes.clear();
}

Result<Dims> sizes_of_rank(std::string_view input, const TensorType& type, size_t rank) {
  if (type.has_rank && type.sizes.size() != rank) {
    return input_error(input, expected_found("rank " + std::to_string(rank), type.sizes));
  }
  if (type.has_rank) return type.sizes;
  Dims sizes;
  sizes.resize(rank, kUnknownDim);
  return sizes;
}

}  // namespace bp::ops
