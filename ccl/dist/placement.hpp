// SPDX-License-Identifier: Apache-2.0
//
// How a tensor lies on the ranks of a mesh: for each axis, split along a dimension, whole on every
// rank, or as values that are still to be reduced. Pure values: which part a rank has, and by which
// steps one way to lie becomes another.
#ifndef BACKPLANE_CCL_DIST_PLACEMENT_HPP
#define BACKPLANE_CCL_DIST_PLACEMENT_HPP

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ccl/dist/mesh_layout.hpp"
#include "ccl/operation.hpp"
#include "core/base/dims.hpp"

namespace bp::ccl {

enum class PlacementKind : uint8_t {
  kReplicate,  // every rank has all of it
  kShard,      // each rank has a chunk of dimension `dim`
  kPartial,    // the values are the reduction of those of all ranks
};

struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  uint32_t dim = 0;                       // kShard
  Reduction reduction = Reduction::kSum;  // kPartial

  static constexpr Placement shard(uint32_t dim) {
    return {.kind = PlacementKind::kShard, .dim = dim};
  }
  static constexpr Placement partial(Reduction reduction) {
    return {.kind = PlacementKind::kPartial, .reduction = reduction};
  }
  bool is_shard_of(uint32_t other) const { return kind == PlacementKind::kShard && dim == other; }
  friend bool operator==(const Placement&, const Placement&) = default;
};
using Placements = std::vector<Placement>;  // by axis of the mesh

/// "shard 0", "replicate", "partial sum".
std::string describe(const Placement& placement);
/// "[shard 0, replicate]"
std::string describe(std::span<const Placement> placements);

/// A chunk of a dimension.
struct Chunk {
  int64_t offset = 0;
  int64_t size = 0;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};
/// Part `index` of `count`. All have ceil(size / count) but for the last ones, which have what is
/// left, perhaps nothing: parts of equal blocks that are padded at the end of the whole alone, and
/// the same as those of torch's DTensor.
Chunk chunk_of(int64_t size, uint32_t count, uint32_t index);

/// Where the part of a rank lies in the whole tensor.
struct Shard {
  Dims sizes;
  Dims offsets;
};
/// Axes that split the same dimension do so in their order, each the chunk of the one before.
/// `placements`: checked.
Shard shard_of(const Dims& sizes, std::span<const Placement> placements,
               std::span<const MeshAxis> axes, std::span<const uint32_t> coordinates);

/// One for each axis, each of dimensions that there are. Errors: INVALID_ARGUMENT, with `name`
/// ("from") and the axis.
Status check_placements(std::string_view name, std::span<const Placement> placements,
                        std::span<const MeshAxis> axes, const Dims& sizes);

/// On one axis: from one placement to another.
struct PlacementStep {
  size_t axis = 0;
  Placement from;
  Placement to;
};
/// In this order each step finds that no later axis splits a dimension that it changes, so that
/// its blocks are whole chunks. Errors: UNSUPPORTED naming the axis for a change to partial, which
/// no communication makes, and for partials whose reductions give another result in another order.
Result<std::vector<PlacementStep>> steps_between(std::span<const Placement> from,
                                                 std::span<const Placement> to,
                                                 std::span<const MeshAxis> axes);

}  // namespace bp::ccl

#endif
