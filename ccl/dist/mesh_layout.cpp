// SPDX-License-Identifier: Apache-2.0
//
// See mesh_layout.hpp.
#include "ccl/dist/mesh_layout.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/checked.hpp"

namespace bp::ccl {
namespace {

Status refuse_mesh(const std::string& what) {
  return Status(BP_INVALID_ARGUMENT, "a mesh: " + what);
}

Status check_axes(std::span<const MeshAxis> axes, uint32_t rank_count) {
  if (axes.empty() || axes.size() > MeshLayout::kMostAxes) {
    return refuse_mesh("expected 1 to " + std::to_string(MeshLayout::kMostAxes) + " axes, found " +
                       std::to_string(axes.size()));
  }
  uint64_t product = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MeshAxis& axis = axes[i];
    if (axis.name.empty() || axis.name.size() > MeshLayout::kMostNameBytes) {
      return refuse_mesh("the name of axis " + std::to_string(i) + " has " +
                         std::to_string(axis.name.size()) + " bytes, expected 1 to " +
                         std::to_string(MeshLayout::kMostNameBytes));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axis.name) {
        return refuse_mesh("axes " + std::to_string(j) + " and " + std::to_string(i) +
                           " are both called " + axis.name);
      }
    }
    if (axis.size == 0)
      return refuse_mesh("axis " + axis.name + " has size 0, expected at least 1");
    product = checked_mul<uint64_t>(product, axis.size).value_or(UINT64_MAX);
  }
  if (product == rank_count) return {};
  std::string sizes;
  for (const MeshAxis& axis : axes) {
    sizes += (sizes.empty() ? "" : ", ") + axis.name + " " + std::to_string(axis.size);
  }
  return refuse_mesh("axes [" + sizes + "] have " +
                     (product == UINT64_MAX ? "far more" : std::to_string(product)) +
                     " places, and there are " + std::to_string(rank_count) + " ranks");
}

}  // namespace

Result<MeshLayout> MeshLayout::make(std::vector<MeshAxis> axes, uint32_t rank_count,
                                    std::span<const uint32_t> ranks) {
  BP_TRY(check_axes(axes, rank_count));
  if (!ranks.empty() && ranks.size() != rank_count) {
    return refuse_mesh("its order has " + std::to_string(ranks.size()) + " ranks, expected " +
                       std::to_string(rank_count));
  }
  MeshLayout layout;
  layout.axes_ = std::move(axes);
  layout.ranks_.assign(ranks.begin(), ranks.end());
  if (ranks.empty()) {
    layout.ranks_.resize(rank_count);
    std::iota(layout.ranks_.begin(), layout.ranks_.end(), 0u);
  }
  constexpr uint32_t kNone = UINT32_MAX;
  layout.places_.assign(rank_count, kNone);
  for (uint32_t place = 0; place < rank_count; ++place) {
    const uint32_t rank = layout.ranks_[place];
    if (rank >= rank_count) {
      return refuse_mesh("place " + std::to_string(place) + " has rank " + std::to_string(rank) +
                         ", and there are " + std::to_string(rank_count) + " ranks");
    }
    if (layout.places_[rank] != kNone) {
      return refuse_mesh("rank " + std::to_string(rank) + " is at places " +
                         std::to_string(layout.places_[rank]) + " and " + std::to_string(place));
    }
    layout.places_[rank] = place;
  }
  return layout;
}

std::optional<size_t> MeshLayout::find(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](const MeshAxis& axis) { return axis.name == name; });
  if (found == axes_.end()) return std::nullopt;
  return static_cast<size_t>(found - axes_.begin());
}

std::vector<uint32_t> MeshLayout::coordinates(uint32_t rank) const {
  std::vector<uint32_t> coordinates(axes_.size());
  uint32_t place = place_of(rank);
  for (size_t axis = axes_.size(); axis-- > 0;) {
    coordinates[axis] = place % axes_[axis].size;
    place /= axes_[axis].size;
  }
  return coordinates;
}

std::vector<uint32_t> MeshLayout::members(uint32_t rank, size_t axis) const {
  uint32_t step = 1;
  for (size_t later = axis + 1; later < axes_.size(); ++later) step *= axes_[later].size;
  const uint32_t first = place_of(rank) - coordinates(rank)[axis] * step;
  std::vector<uint32_t> members;
  for (uint32_t i = 0; i < axes_[axis].size; ++i) members.push_back(ranks_[first + i * step]);
  return members;
}

std::string MeshLayout::describe() const {
  std::string text = "[";
  for (const MeshAxis& axis : axes_) {
    text += (text.size() > 1 ? ", " : "") + axis.name + " " + std::to_string(axis.size);
  }
  text += "]";
  if (std::is_sorted(ranks_.begin(), ranks_.end())) return text;
  text += " of ranks";
  for (const uint32_t rank : ranks_) text += " " + std::to_string(rank);
  return text;
}

}  // namespace bp::ccl
