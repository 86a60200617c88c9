// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes, with overflow checked where sizes are foreign.
#include "core/base/dims.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/base/checked.hpp"

namespace bp {

bool all_known(const Dims& sizes) {
  for (int64_t size : sizes) {
    if (!is_known(size)) return false;
  }
  return true;
}

std::optional<int64_t> checked_product(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size <= 0) continue;
    const auto next = checked_mul(product, size);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

std::optional<int64_t> checked_element_count(std::span<const int64_t> sizes) {
  bool zero = false;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    zero = zero || size == 0;
  }
  const auto product = checked_product(sizes);
  if (product && zero) return 0;
  return product && *product <= kMostElements ? product : std::nullopt;
}

int64_t element_count(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides;
  strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (sizes[i] > 0) stride *= sizes[i];
  }
  return strides;
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
  int64_t expected = 1;
  bool dense = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    dense = dense && strides[i] == expected;
    expected *= sizes[i];
  }
  return dense;
}

bool is_dense(const Dims& sizes, std::span<const int64_t> strides) {
  std::array<size_t, BP_MAX_RANK> order{};
  const auto dims = std::span(order).first(sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::ranges::sort(dims, {}, [&](size_t d) { return strides[d]; });
  int64_t expected = 1;
  for (const size_t d : dims) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

ElementRange element_range(const Dims& sizes, const Dims& strides) {
  if (element_count(sizes) == 0) return {};
  ElementRange range{0, 1};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t reach = (sizes[i] - 1) * strides[i];
    range.lowest += std::min<int64_t>(reach, 0);
    range.count += std::abs(reach);
  }
  return range;
}

std::string numbers_text(std::span<const int64_t> numbers) {
  std::string text = "[";
  for (const int64_t number : numbers) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  }
  return text + "]";
}

std::string to_string(const Dims& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    if (is_known(sizes[i])) {
      text += std::to_string(sizes[i]);
    } else if (sizes[i] == kUnknownDim) {
      text += "?";
    } else {
      text += "s" + std::to_string(-2 - sizes[i]);
    }
  }
  return text + "]";
}

}  // namespace bp
