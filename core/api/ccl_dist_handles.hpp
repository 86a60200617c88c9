// SPDX-License-Identifier: Apache-2.0
//
// Inside core/api: the objects behind the handles of parallel training.
#ifndef BACKPLANE_CORE_API_CCL_DIST_HANDLES_HPP
#define BACKPLANE_CORE_API_CCL_DIST_HANDLES_HPP

#include <memory>
#include <utility>
#include <vector>

#include "ccl/dist/data_parallel.hpp"
#include "ccl/dist/mesh.hpp"
#include "core/api/ccl_handles.hpp"

namespace bp {

/// A mesh, whose groups callers may have, too. Its shares of them end first.
struct HeldMesh {
  std::unique_ptr<const ccl::Mesh> mesh;
  std::vector<std::shared_ptr<const HeldGroup>> groups;  // by axis
};

struct ApiMesh : Counted<ApiMesh> {
  explicit ApiMesh(std::unique_ptr<const ccl::Mesh> made);
  /// As that of a group.
  ~ApiMesh() { runtime->let_go(std::move(held)); }
  const ccl::Mesh& mesh() const { return *held->mesh; }

  const Ref<Runtime> runtime;  // keeps the device
  std::shared_ptr<const HeldMesh> held;
};

/// Its own share of the group ends before the last one may.
struct HeldDataParallel {
  std::shared_ptr<const HeldGroup> group;
  Ref<ccl::DataParallel> parallel;
};

struct ApiDataParallel : Counted<ApiDataParallel> {
  ApiDataParallel(std::shared_ptr<const HeldGroup> group, Ref<ccl::DataParallel> made);
  /// As that of a group.
  ~ApiDataParallel() { runtime->let_go(std::move(held)); }
  ccl::DataParallel& parallel() const { return *held->parallel; }
  Device& device() const { return held->group->group->device(); }

  const Ref<Runtime> runtime;  // keeps the device
  std::shared_ptr<const HeldDataParallel> held;
};

template <>
struct HandleTraits<bpa_ccl_mesh> {
  using Object = ApiMesh;
  static constexpr HandleKind kKind = HandleKind::kMesh;
};
template <>
struct HandleTraits<bpa_ccl_data_parallel> {
  using Object = ApiDataParallel;
  static constexpr HandleKind kKind = HandleKind::kDataParallel;
};

inline void let_go_of(ApiMesh* mesh) { release_group_user(mesh); }
inline void let_go_of(ApiDataParallel* parallel) { release_group_user(parallel); }

}  // namespace bp

#endif
