// SPDX-License-Identifier: Apache-2.0
//
// See placement.hpp.
#include "ccl/dist/placement.hpp"

#include <algorithm>

namespace bp::ccl {
namespace {

/// Sums and averages of sums can be taken in any order; a maximum of sums cannot.
bool is_linear(Reduction reduction) {
  return reduction == Reduction::kSum || reduction == Reduction::kAvg;
}

Status check_partials(std::span<const Placement> from, std::span<const MeshAxis> axes) {
  const Placement* first = nullptr;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis].kind != PlacementKind::kPartial) continue;
    if (first == nullptr) first = &from[axis];
    if (first->reduction == from[axis].reduction) continue;
    if (is_linear(first->reduction) && is_linear(from[axis].reduction)) continue;
    return Status(BP_UNSUPPORTED, "axis " + axes[axis].name + " is " + describe(from[axis]) +
                                      ", and another one " + describe(*first) +
                                      ": the result depends on which of them comes first");
  }
  return {};
}

/// Whether a step on an earlier axis changes how the dimension is split.
bool touches(const Placement& from, const Placement& to, uint32_t dim) {
  return from != to && (from.is_shard_of(dim) || to.is_shard_of(dim));
}

}  // namespace

std::string describe(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kShard:
      return "shard " + std::to_string(placement.dim);
    case PlacementKind::kPartial:
      return "partial " + std::string(reduction_name(placement.reduction));
    case PlacementKind::kReplicate:
      break;
  }
  return "replicate";
}

std::string describe(std::span<const Placement> placements) {
  std::string text = "[";
  for (const Placement& placement : placements) {
    text += (text.size() > 1 ? ", " : "") + describe(placement);
  }
  return text + "]";
}

Chunk chunk_of(int64_t size, uint32_t count, uint32_t index) {
  const int64_t full = size / count + (size % count != 0 ? 1 : 0);
  const int64_t offset = std::min(full * index, size);
  return {offset, std::min(full, size - offset)};
}

Shard shard_of(const Dims& sizes, std::span<const Placement> placements,
               std::span<const MeshAxis> axes, std::span<const uint32_t> coordinates) {
  Shard shard{sizes, Dims()};
  shard.offsets.resize(sizes.size());
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].kind != PlacementKind::kShard) continue;
    const uint32_t dim = placements[axis].dim;
    const Chunk chunk = chunk_of(shard.sizes[dim], axes[axis].size, coordinates[axis]);
    shard.sizes[dim] = chunk.size;
    shard.offsets[dim] += chunk.offset;
  }
  return shard;
}

Status check_placements(std::string_view name, std::span<const Placement> placements,
                        std::span<const MeshAxis> axes, const Dims& sizes) {
  if (placements.size() != axes.size()) {
    return Status(BP_INVALID_ARGUMENT,
                  std::string(name) + " has " + std::to_string(placements.size()) +
                      " placements, and the mesh " + std::to_string(axes.size()) + " axes");
  }
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const Placement& placement = placements[axis];
    if (placement.kind != PlacementKind::kShard || placement.dim < sizes.size()) continue;
    return Status(BP_INVALID_ARGUMENT, std::string(name) + " is " + describe(placement) +
                                           " on axis " + axes[axis].name + ", and a tensor of " +
                                           "sizes " + to_string(sizes) + " has dimensions 0 to " +
                                           std::to_string(sizes.size()) + " exclusive");
  }
  return {};
}

Result<std::vector<PlacementStep>> steps_between(std::span<const Placement> from,
                                                 std::span<const Placement> to,
                                                 std::span<const MeshAxis> axes) {
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (from[axis] == to[axis] || to[axis].kind != PlacementKind::kPartial) continue;
    return Status(BP_UNSUPPORTED, "axis " + axes[axis].name + " cannot become " +
                                      describe(to[axis]) + " from " + describe(from[axis]) +
                                      ": expected replicate or shard");
  }
  BP_TRY(check_partials(from, axes));
  std::vector<PlacementStep> steps;
  Placements now(from.begin(), from.end());
  // A later axis has chunks of an earlier one's: it gives them up before that one changes.
  for (size_t axis = axes.size(); axis-- > 0;) {
    if (now[axis].kind != PlacementKind::kShard) continue;
    bool gives_up = false;
    for (size_t earlier = 0; earlier < axis; ++earlier) {
      gives_up = gives_up || touches(from[earlier], to[earlier], now[axis].dim);
    }
    if (!gives_up) continue;
    steps.push_back({axis, now[axis], Placement{}});
    now[axis] = Placement{};
  }
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (now[axis] != to[axis]) steps.push_back({axis, now[axis], to[axis]});
  }
  return steps;
}

}  // namespace bp::ccl
