// SPDX-License-Identifier: Apache-2.0
//
// Which dimensions shape tells.
#ifndef BACKPLANE_OPS_SHAPE_DIMENSION_RANGE_HPP
#define BACKPLANE_OPS_SHAPE_DIMENSION_RANGE_HPP

#include <algorithm>
#include <cstdint>

#include "backplane/ops/shape.h"

namespace bp::ops {

/// Dimensions [begin, end); begin <= end.
struct DimensionRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline DimensionRange dimension_range(const bp_attrs_shape& attributes, int64_t rank) {
  const auto place = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = place(attributes.start);
  return {begin, std::max(begin, place(attributes.end))};
}

}  // namespace bp::ops

#endif
