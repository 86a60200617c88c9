// SPDX-License-Identifier: Apache-2.0
//
// For which sizes the answer of a kernel's supports() holds.
#ifndef BACKPLANE_CORE_DEVICE_SIZE_RANGES_HPP
#define BACKPLANE_CORE_DEVICE_SIZE_RANGES_HPP

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backplane/kernel.h"
#include "core/base/dims.hpp"
#include "core/base/status.hpp"

namespace bp {

/// The sizes that a dimension can have, ends included.
struct DimRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};
/// Of a size, which may be unknown or a symbol.
using DimRangeFn = std::function<DimRange(int64_t size)>;

using SizeRanges = std::vector<bp_size_range>;
/// The sizes of each input, then of each output; nullptr: an absent input.
using ArgumentSizes = std::span<const Dims* const>;

/// The ranges of a support, checked; none: it holds for all sizes. Looks at the ranks of the
/// arguments only. Errors: INCOMPATIBLE, naming the range, what is wrong, what was expected.
Result<SizeRanges> read_size_ranges(const bp_support& support, ArgumentSizes arguments);

/// The first range that a call's sizes are outside of: "takes 1 to 4 in dimension 0 of input 1,
/// found 5", "takes 1 or more elements of output 0, found 0"; empty: none. For ranges that
/// read_size_ranges() took with arguments of these ranks.
std::string outside_words(std::span<const bp_size_range> ranges, ArgumentSizes arguments,
                          size_t input_count);

/// Whether a call can be within every range, of itself, where its sizes are what `range_of` says.
bool may_be_inside(std::span<const bp_size_range> ranges, ArgumentSizes arguments,
                   const DimRangeFn& range_of);

}  // namespace bp

#endif
