// SPDX-License-Identifier: Apache-2.0
//
// How many values a range has, for its inference and its decomposition. Private to ops/creation.
#ifndef BACKPLANE_OPS_CREATION_RANGE_HPP
#define BACKPLANE_OPS_CREATION_RANGE_HPP

#include <cstdint>
#include <optional>
#include <variant>

#include "ops/infer/common.hpp"

namespace bp::ops {

/// Integers of any dtype fit, and so do the differences of two.
using WideInt = __int128;

template <class N>
struct RangeOf {
  N start;
  N limit;
  N delta;
};
using RangeValues = std::variant<RangeOf<double>, RangeOf<WideInt>>;

/// nullopt: a value is not known. Errors: input_error for what is no scalar.
Result<std::optional<RangeValues>> read_range(const InferContext& context);
/// Errors: input_error for a delta of 0, for what is not finite, and for too many values.
Result<int64_t> range_count(const RangeValues& values);

}  // namespace bp::ops

#endif
