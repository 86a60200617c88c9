// SPDX-License-Identifier: Apache-2.0
#include "core/device/size_ranges.hpp"

#include <algorithm>

#include "core/base/dtype.hpp"
#include "core/plugin/foreign.hpp"

namespace bp {
namespace {

constexpr uint64_t kMostRanges = 256;

/// What is wrong with a range in itself, or for arguments of these ranks; empty: nothing.
std::string defect_of(const bp_size_range& range, ArgumentSizes arguments) {
  if (range.min < 0 || range.min > range.max) {
    return fmt::format("is from {} to {}; expected 0 or more, and no less", range.min, range.max);
  }
  if (range.argument >= arguments.size()) {
    return fmt::format("is of argument {}; there are {}", range.argument, arguments.size());
  }
  const Dims* const sizes = arguments[range.argument];
  if (sizes == nullptr || range.dim == BP_RANGE_ELEMENTS) return {};
  const auto rank = static_cast<int64_t>(sizes->size());
  if (range.dim < rank && range.dim >= -rank) return {};
  return fmt::format("is of dimension {} of argument {}, which has rank {}", range.dim,
                     range.argument, rank);
}

/// Of a range that defect_of() found nothing wrong with.
size_t dim_of(const bp_size_range& range, const Dims& sizes) {
  return static_cast<size_t>(range.dim < 0 ? range.dim + static_cast<int64_t>(sizes.size())
                                           : range.dim);
}

/// How many elements there can be; what is more than a number holds is the largest one.
DimRange element_range(const Dims& sizes, const DimRangeFn& range_of) {
  const auto product = [](int64_t a, int64_t b) {
    int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
  };
  DimRange count{1, 1};
  for (const int64_t size : sizes) {
    const DimRange range = range_of(size);
    count = {product(count.min, range.min), product(count.max, range.max)};
  }
  return count;
}

}  // namespace

Result<SizeRanges> read_size_ranges(const bp_support& support, ArgumentSizes arguments) {
  const bp_size_range* const ranges = support.ranges;
  const uint64_t count = support.range_count;
  if (ranges == nullptr || count == 0) return SizeRanges();
  if (count > kMostRanges || !is_aligned(ranges)) {
    return fail(BP_INCOMPATIBLE, "its ranges are {} at {}; expected at most {}, aligned", count,
                fmt::ptr(ranges), kMostRanges);
  }
  SizeRanges copy(ranges, ranges + count);
  for (size_t i = 0; i < copy.size(); ++i) {
    const std::string defect = defect_of(copy[i], arguments);
    if (!defect.empty()) return fail(BP_INCOMPATIBLE, "its range {} {}", i, defect);
  }
  return copy;
}

std::string outside_words(std::span<const bp_size_range> ranges, ArgumentSizes arguments,
                          size_t input_count) {
  for (const bp_size_range& range : ranges) {
    const Dims* const sizes = arguments[range.argument];
    if (sizes == nullptr) continue;
    const bool is_count = range.dim == BP_RANGE_ELEMENTS;
    const size_t dim = is_count ? 0 : dim_of(range, *sizes);
    const int64_t found = is_count ? element_count(*sizes) : (*sizes)[dim];
    if (found >= range.min && found <= range.max) continue;
    const bool is_input = range.argument < input_count;
    const std::string most = range.max == INT64_MAX ? "more" : std::to_string(range.max);
    return fmt::format("takes {} {} {} {} of {} {}, found {}", range.min,
                       range.max == INT64_MAX ? "or" : "to", most,
                       is_count ? "elements" : fmt::format("in dimension {}", dim),
                       is_input ? "input" : "output",
                       is_input ? range.argument : range.argument - input_count, found);
  }
  return {};
}

bool may_be_inside(std::span<const bp_size_range> ranges, ArgumentSizes arguments,
                   const DimRangeFn& range_of) {
  return std::ranges::all_of(ranges, [&](const bp_size_range& range) {
    const Dims* const sizes = arguments[range.argument];
    if (sizes == nullptr) return true;
    const DimRange found = range.dim == BP_RANGE_ELEMENTS
                               ? element_range(*sizes, range_of)
                               : range_of((*sizes)[dim_of(range, *sizes)]);
    return found.min <= range.max && found.max >= range.min;
  });
}

}  // namespace bp
