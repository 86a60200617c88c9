// SPDX-License-Identifier: Apache-2.0
//
// Dimensions that several tensors are stepped through together, merged into as few as the strides
// allow, so that most tensors end up with one and the index arithmetic with them.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_NEST_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_NEST_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/geometry.h"
#include "kernels/kernel.hpp"

namespace bp::xpu {

/// Drops dimensions of size 1, and merges neighbours that all tensors step through as one.
template <class Nest>
void merge_dimensions(Nest* nest) {
  uint64_t kept = 0;
  for (uint64_t d = 0; d < nest->rank; ++d) {
    if (nest->sizes[d] == 1) continue;
    bool merges = kept > 0;
    for (const auto& strides : nest->strides) {
      const auto size = static_cast<int64_t>(nest->sizes[d]);
      merges = merges && strides[kept - 1] == strides[d] * size;
    }
    const uint64_t target = merges ? kept - 1 : kept;
    nest->sizes[target] = nest->sizes[d] * (merges ? nest->sizes[target] : 1);
    for (auto& strides : nest->strides) strides[target] = strides[d];
    kept = target + 1;
  }
  nest->rank = kept;
}

/// Over the elements of an output of `query`, its first, in row-major order, with the strides of as
/// many inputs as Nest has room for; those that the query lacks have stride 0 and hinder no
/// merging.
template <class Nest>
Nest make_nest(const bp_kernel_query& query) {
  const bp_arg_info& output = argument(query, query.input_count);
  Nest nest{};
  nest.rank = output.rank;
  nest.item_count = element_count(output);
  for (uint32_t d = 0; d < output.rank; ++d) {
    nest.sizes[d] = static_cast<uint64_t>(output.sizes[d]);
  }
  for (uint32_t i = 0; i < query.input_count && i < std::size(nest.strides); ++i) {
    broadcast_strides(argument(query, i), output.sizes, output.rank, nest.strides[i]);
  }
  merge_dimensions(&nest);
  return nest;
}

/// The lanes of x along `axis`, and those of a y of the same sizes, or of one without the axis,
/// whose elements are then those of the lanes in their order.
inline LanesGeometry make_lanes(const bp_arg_info& x, const bp_arg_info& y, uint32_t axis) {
  LanesGeometry geometry{};
  geometry.lanes.rank = x.rank;
  geometry.lanes.item_count = 1;
  const bool has_axis = y.rank == x.rank && y.sizes[axis] == x.sizes[axis];
  for (uint32_t d = 0; d < x.rank; ++d) {
    geometry.lanes.sizes[d] = d == axis ? 1 : static_cast<uint64_t>(x.sizes[d]);
    geometry.lanes.item_count *= geometry.lanes.sizes[d];
    geometry.lanes.strides[0][d] = x.strides[d];
    geometry.lanes.strides[1][d] = has_axis ? y.strides[d] : 0;
  }
  geometry.length = static_cast<uint64_t>(x.sizes[axis]);
  geometry.x_step = x.strides[axis];
  geometry.y_step = has_axis ? y.strides[axis] : 0;
  merge_dimensions(&geometry.lanes);
  return geometry;
}

/// Whether the first `tensor_count` tensors lie as the items are counted, one behind the other.
template <class Nest>
bool is_dense(const Nest& nest, uint32_t tensor_count) {
  if (nest.rank == 0) return true;
  bool dense = nest.rank == 1;
  for (uint32_t i = 0; i < tensor_count; ++i) dense = dense && nest.strides[i][0] == 1;
  return dense;
}

}  // namespace bp::xpu

#endif
