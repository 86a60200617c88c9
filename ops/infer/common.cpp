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
      return Status(BP_INVALID_ARGUMENT, std::string(what) + ": sizes " + to_string(a) + " and " +
                                             to_string(b) +
                                             " do not broadcast; each pair, counted from the end, "
                                             "must be equal or have a 1");
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

Result<size_t> resolve_axis(std::string_view attribute, int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis >= -signed_rank && axis < signed_rank) {
    return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
  }
  const std::string words =
      rank == 0
          ? "expected none, as the input has rank 0, found " + std::to_string(axis)
          : expected_found(std::to_string(-signed_rank) + " to " + std::to_string(signed_rank - 1),
                           axis);
  return attribute_error(attribute, words);
}

Result<uint32_t> resolve_axes(std::string_view attribute, std::span<const int64_t> axes,
                              size_t rank) {
  if (axes.empty()) return (uint32_t{1} << rank) - 1;
  uint32_t mask = 0;
  for (int64_t axis : axes) {
    BP_TRY_ASSIGN(const size_t index, resolve_axis(attribute, axis, rank));
    if ((mask >> index & 1) != 0) {
      return attribute_error(attribute, "axis " + std::to_string(axis) + " stands there twice");
    }
    mask |= uint32_t{1} << index;
  }
  return mask;
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
