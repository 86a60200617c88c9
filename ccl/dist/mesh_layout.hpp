// SPDX-License-Identifier: Apache-2.0
//
// How ranks lie in a mesh: named axes, and which rank is at which place. Pure values.
#ifndef BACKPLANE_CCL_DIST_MESH_LAYOUT_HPP
#define BACKPLANE_CCL_DIST_MESH_LAYOUT_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"

namespace bp::ccl {

struct MeshAxis {
  std::string name;
  uint32_t size = 1;
};

class MeshLayout {
 public:
  static constexpr size_t kMostAxes = 16;
  static constexpr size_t kMostNameBytes = 64;

  /// `ranks`: the rank at each place, in row-major order (the last axis is the fastest), each of
  /// them once; empty: 0, 1, 2, ... Errors: INVALID_ARGUMENT naming the axis or the rank.
  static Result<MeshLayout> make(std::vector<MeshAxis> axes, uint32_t rank_count,
                                 std::span<const uint32_t> ranks);

  std::span<const MeshAxis> axes() const { return axes_; }
  uint32_t rank_count() const { return static_cast<uint32_t>(ranks_.size()); }
  /// The number of the axis with that name.
  std::optional<size_t> find(std::string_view name) const;
  /// Of a rank of the mesh, by axis.
  std::vector<uint32_t> coordinates(uint32_t rank) const;
  /// The ranks that differ from this one in their coordinate on the axis alone, by that coordinate:
  /// with this one, those of its group.
  std::vector<uint32_t> members(uint32_t rank, size_t axis) const;
  /// "[data 2, model 3]", and how the ranks lie where that is not 0, 1, 2, ... Equal for equal
  /// layouts alone.
  std::string describe() const;

 private:
  uint32_t place_of(uint32_t rank) const { return places_[rank]; }

  std::vector<MeshAxis> axes_;
  std::vector<uint32_t> ranks_;   // by place
  std::vector<uint32_t> places_;  // by rank
};

}  // namespace bp::ccl

#endif
