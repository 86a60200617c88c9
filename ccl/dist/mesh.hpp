// SPDX-License-Identifier: Apache-2.0
//
// A mesh on one rank: its place on named axes, and a process group for each axis, of the ranks that
// differ from it on that axis alone.
#ifndef BACKPLANE_CCL_DIST_MESH_HPP
#define BACKPLANE_CCL_DIST_MESH_HPP

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ccl/dist/mesh_layout.hpp"
#include "ccl/group/group.hpp"

namespace bp::ccl {

struct MeshArgs {
  std::shared_ptr<Store> store;  // where the ranks meet
  /// 1 to kMostMeshNameBytes bytes, the same on all ranks; good for one mesh of a store. Its groups
  /// are called NAME/AXIS/RANK, after the first rank of each.
  std::string name = "mesh";
  uint32_t rank = 0;
  MeshLayout layout;  // the same on all ranks
  Device* device = nullptr;
  /// Of each group, and of the ranks' agreement before. 0: BACKPLANE_CCL_TIMEOUT.
  std::chrono::nanoseconds timeout{0};
};

inline constexpr size_t kMostMeshNameBytes = 128;

/// Any thread. Ends its groups.
class Mesh {
 public:
  /// Waits for all ranks, and succeeds or fails on all of them. Errors: INVALID_ARGUMENT for ranks
  /// whose layouts differ, naming both; those of ProcessGroup::create; UNAVAILABLE for a rank that
  /// failed, with its words.
  static Result<std::unique_ptr<const Mesh>> create(const MeshArgs& args);

  const MeshLayout& layout() const { return args_.layout; }
  const std::string& name() const { return args_.name; }
  uint32_t rank() const { return args_.rank; }
  /// By axis.
  std::span<const uint32_t> coordinates() const { return coordinates_; }
  /// Of the axis: this rank's number in it is its coordinate.
  ProcessGroup& group(size_t axis) const { return *groups_[axis]; }
  Device& device() const { return *args_.device; }

 private:
  explicit Mesh(const MeshArgs& args)
      : args_(args), coordinates_(args.layout.coordinates(args.rank)) {}
  Status join();
  Status agree(Store& store, const JoinWait& wait) const;
  Result<Ref<ProcessGroup>> join_axis(size_t axis, Store::Clock::time_point deadline) const;

  const MeshArgs args_;
  const std::vector<uint32_t> coordinates_;
  std::vector<Ref<ProcessGroup>> groups_;  // by axis
};

}  // namespace bp::ccl

#endif
