// SPDX-License-Identifier: Apache-2.0
//
// Meshes and redistribution in the C API. Data parallel is in ccl_parallel_api.cpp.
#include <algorithm>
#include <string>
#include <vector>

#include "ccl/dist/redistribute.hpp"
#include "core/api/ccl_dist_handles.hpp"

namespace bp {
namespace {

constexpr const char* kDefaultMeshName = "mesh";
constexpr uint32_t kMostMeshRanks = 65536;
constexpr uint32_t kFirstShard = BPA_CCL_SHARD(0);
constexpr uint32_t kFirstPartial = BPA_CCL_PARTIAL(0);
static_assert(BPA_CCL_REPLICATE == 0 && kFirstShard + BP_MAX_RANK <= kFirstPartial);

std::string indexed(std::string_view name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

Result<std::vector<ccl::MeshAxis>> read_axes(const bpa_ccl_mesh_args& given) {
  constexpr uint32_t kMost = ccl::MeshLayout::kMostAxes;
  if (given.axis_count == 0 || given.axis_count > kMost) {
    return bad_argument("args.axis_count", "is " + std::to_string(given.axis_count) +
                                               ", expected 1 to " + std::to_string(kMost));
  }
  BP_TRY(check_pointer(given.axis_names, "args.axis_names"));
  BP_TRY(check_pointer(given.axis_sizes, "args.axis_sizes"));
  std::vector<ccl::MeshAxis> axes;
  for (uint32_t i = 0; i < given.axis_count; ++i) {
    BP_TRY(check_text(given.axis_names[i], indexed("args.axis_names", i)));
    axes.push_back({given.axis_names[i], given.axis_sizes[i]});
  }
  return axes;
}

Result<ccl::MeshLayout> read_layout(const bpa_ccl_mesh_args& given) {
  BP_TRY_ASSIGN(std::vector<ccl::MeshAxis> axes, read_axes(given));
  if (given.rank_count == 0 || given.rank_count > kMostMeshRanks) {
    return bad_argument("args.rank_count", "is " + std::to_string(given.rank_count) +
                                               ", expected 1 to " + std::to_string(kMostMeshRanks));
  }
  std::span<const uint32_t> order;
  if (given.ranks != nullptr) order = {given.ranks, given.rank_count};
  auto layout = ccl::MeshLayout::make(std::move(axes), given.rank_count, order);
  if (!layout.ok()) return layout.status().with_prefix("argument args");
  return layout;
}

Result<ccl::MeshArgs> read_mesh_args(const bpa_ccl_mesh_args& given, Device& device) {
  ccl::MeshArgs args;
  BP_TRY_ASSIGN(const ApiStore* const store, object_of(given.store, "args.store"));
  args.store = store->store;
  if (given.reserved != 0) {
    return Status(BP_UNSUPPORTED,
                  "argument args.reserved is " + std::to_string(given.reserved) + ", expected 0");
  }
  if (given.name != nullptr) BP_TRY(check_text(given.name, "args.name"));
  args.name = given.name != nullptr ? given.name : kDefaultMeshName;
  if (args.name.empty() || args.name.size() > ccl::kMostMeshNameBytes) {
    return bad_argument("args.name", "has " + std::to_string(args.name.size()) +
                                         " bytes, expected 1 to " +
                                         std::to_string(ccl::kMostMeshNameBytes));
  }
  BP_TRY_ASSIGN(args.layout, read_layout(given));
  if (given.rank >= given.rank_count) {
    return bad_argument("args.rank", "is " + std::to_string(given.rank) +
                                         ", expected less than args.rank_count, " +
                                         std::to_string(given.rank_count));
  }
  args.rank = given.rank;
  args.device = &device;
  BP_TRY(check_timeout(given.timeout_ns, device.runtime(), "args.timeout_ns"));
  args.timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0));
  return args;
}

/// `place`: "args.", before the names of arguments.
Result<Dims> read_whole_sizes(const int64_t* sizes, uint32_t rank, const std::string& place) {
  if (rank > BP_MAX_RANK) {
    return bad_argument(place + "rank", "is " + std::to_string(rank) + ", expected at most " +
                                            std::to_string(BP_MAX_RANK));
  }
  if (rank > 0) BP_TRY(check_pointer(sizes, place + "sizes"));
  const Dims dims(std::span<const int64_t>(sizes, rank));
  if (!checked_element_count(dims)) {
    return bad_argument(place + "sizes",
                        "are " + numbers_text(dims) + ": negative or too large together");
  }
  return dims;
}

Result<ccl::Placement> read_placement(uint32_t code, const std::string& name, size_t rank) {
  if (code == BPA_CCL_REPLICATE) return ccl::Placement();
  if (code >= kFirstPartial && code - kFirstPartial < ccl::kReductionCount) {
    return ccl::Placement::partial(static_cast<ccl::Reduction>(code - kFirstPartial));
  }
  if (code >= kFirstShard && code < kFirstPartial) {
    const uint32_t dim = code - kFirstShard;
    if (dim < rank) return ccl::Placement::shard(dim);
    return bad_argument(name, "is BPA_CCL_SHARD(" + std::to_string(dim) + "), and the tensor has " +
                                  std::to_string(rank) + " dimensions");
  }
  return bad_argument(name, "is " + std::to_string(code) +
                                ", expected BPA_CCL_REPLICATE, or one by BPA_CCL_SHARD or "
                                "BPA_CCL_PARTIAL");
}

struct PlacementArray {
  const uint32_t* codes;
  uint32_t count;
  std::string name;        // "args.from"
  std::string count_name;  // "args.placement_count"
};

Result<ccl::Placements> read_placements(const PlacementArray& given, const ccl::Mesh& mesh,
                                        size_t rank) {
  const size_t axis_count = mesh.layout().axes().size();
  if (given.count != axis_count) {
    return bad_argument(given.count_name, "is " + std::to_string(given.count) +
                                              ", and the mesh has " + std::to_string(axis_count) +
                                              " axes");
  }
  BP_TRY(check_pointer(given.codes, given.name));
  ccl::Placements placements;
  for (size_t i = 0; i < axis_count; ++i) {
    BP_TRY_ASSIGN(const ccl::Placement placement,
                  read_placement(given.codes[i], indexed(given.name, i), rank));
    placements.push_back(placement);
  }
  return placements;
}

Result<ccl::RedistributeArgs> read_redistribute_args(const bpa_ccl_redistribute_args& given,
                                                     const ccl::Mesh& mesh) {
  ccl::RedistributeArgs args;
  args.is_deterministic = (given.flags & BPA_CCL_DETERMINISTIC_BIT) != 0;
  BP_TRY_ASSIGN(Tensor * tensor, object_of(given.tensor, "args.tensor"));
  args.tensor = Ref<Tensor>(tensor);
  BP_TRY_ASSIGN(args.sizes, read_whole_sizes(given.sizes, given.rank, "args."));
  BP_TRY_ASSIGN(args.from, read_placements({given.from, given.placement_count, "args.from",
                                            "args.placement_count"},
                                           mesh, args.sizes.size()));
  BP_TRY_ASSIGN(
      args.to, read_placements({given.to, given.placement_count, "args.to", "args.placement_count"},
                               mesh, args.sizes.size()));
  if (given.stream != nullptr) {
    BP_TRY_ASSIGN(ApiStream * stream, object_of(given.stream, "args.stream"));
    if (&stream->stream.device() != &mesh.device()) {
      return bad_argument("args.stream", "is of " + stream->stream.device().name() +
                                             ", and the mesh is on " + mesh.device().name());
    }
    args.stream = &stream->stream;
  }
  BP_TRY(check_timeout(given.timeout_ns, mesh.device().runtime(), "args.timeout_ns"));
  args.timeout = timeout_of(given.timeout_ns, std::chrono::nanoseconds(0));
  return args;
}

}  // namespace

ApiMesh::ApiMesh(std::unique_ptr<const ccl::Mesh> made) : runtime(&made->device().runtime()) {
  auto all = std::make_shared<HeldMesh>();
  all->mesh = std::move(made);
  for (size_t axis = 0; axis < all->mesh->layout().axes().size(); ++axis) {
    all->groups.push_back(
        std::make_shared<HeldGroup>(Ref<ccl::ProcessGroup>(&all->mesh->group(axis))));
  }
  held = std::move(all);
}

}  // namespace bp

using bp::ApiGroup;
using bp::ApiMesh;
using bp::check_pointer;
using bp::guarded;
using bp::object_of;
using bp::Ref;
using bp::Status;

bpa_status bpa_ccl_mesh_create(bpa_device* device, const bpa_ccl_mesh_args* args,
                               bpa_ccl_mesh** out_mesh) {
  return guarded(out_mesh, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_mesh, "out_mesh"));
    BP_TRY_ASSIGN(const bp::DeviceUse target, object_of(device, "device"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_mesh_args given, bp::read_struct(args, "args"));
    BP_TRY_ASSIGN(const bp::ccl::MeshArgs mesh_args, bp::read_mesh_args(given, *target));
    BP_TRY(bp::check_open(*target));
    BP_TRY_ASSIGN(auto joined, bp::ccl::Mesh::create(mesh_args));
    auto mesh = Ref<ApiMesh>::make(std::move(joined));
    BP_TRY(bp::make_api_handle(mesh.get(), out_mesh));
    mesh.detach();
    return {};
  });
}

void bpa_ccl_mesh_release(bpa_ccl_mesh* mesh) { bp::release(mesh, "bpa_ccl_mesh_release"); }

bpa_status bpa_ccl_mesh_get_group(bpa_ccl_mesh* mesh, const char* axis, bpa_ccl_group** out_group) {
  return guarded(out_group, 1, [&]() -> Status {
    BP_TRY_ASSIGN(ApiMesh * found, object_of(mesh, "mesh"));
    BP_TRY(bp::check_text(axis, "axis"));
    BP_TRY(check_pointer(out_group, "out_group"));
    const bp::ccl::MeshLayout& layout = found->mesh().layout();
    const auto index = layout.find(axis);
    if (!index) {
      return bp::bad_argument(
          "axis", "is '" + std::string(axis) + "', and the mesh has " + layout.describe());
    }
    auto group = Ref<ApiGroup>::make(found->held->groups[*index]);
    BP_TRY(bp::make_api_handle(group.get(), out_group));
    group.detach();
    return {};
  });
}

bpa_status bpa_ccl_mesh_get_shard(bpa_ccl_mesh* mesh, const int64_t* sizes, uint32_t rank,
                                  const uint32_t* placements, uint32_t placement_count,
                                  int64_t* out_sizes, int64_t* out_offsets) {
  const bool can_be = rank <= BP_MAX_RANK;
  if (out_offsets != nullptr && can_be) std::fill_n(out_offsets, rank, 0);
  return guarded(out_sizes, can_be ? rank : UINT64_MAX, [&]() -> Status {
    BP_TRY_ASSIGN(ApiMesh * found, object_of(mesh, "mesh"));
    BP_TRY_ASSIGN(const bp::Dims whole, bp::read_whole_sizes(sizes, rank, ""));
    BP_TRY_ASSIGN(const auto read, bp::read_placements({placements, placement_count, "placements",
                                                        "placement_count"},
                                                       found->mesh(), whole.size()));
    if (rank > 0) BP_TRY(check_pointer(out_sizes, "out_sizes"));
    if (rank > 0) BP_TRY(check_pointer(out_offsets, "out_offsets"));
    const bp::ccl::Shard shard =
        bp::ccl::shard_of(whole, read, found->mesh().layout().axes(), found->mesh().coordinates());
    std::copy(shard.sizes.begin(), shard.sizes.end(), out_sizes);
    std::copy(shard.offsets.begin(), shard.offsets.end(), out_offsets);
    return {};
  });
}

bpa_status bpa_ccl_redistribute(bpa_ccl_mesh* mesh, const bpa_ccl_redistribute_args* args,
                                bpa_tensor** out_tensor) {
  return guarded(out_tensor, 1, [&]() -> Status {
    BP_TRY(check_pointer(out_tensor, "out_tensor"));
    BP_TRY_ASSIGN(ApiMesh * found, object_of(mesh, "mesh"));
    BP_TRY(check_pointer(args, "args"));
    BP_TRY_ASSIGN(const bpa_ccl_redistribute_args given,
                  bp::read_struct(args, "args", BPA_CCL_DETERMINISTIC_BIT));
    BP_TRY_ASSIGN(const auto read, bp::read_redistribute_args(given, found->mesh()));
    BP_TRY_ASSIGN(Ref<bp::Tensor> moved, bp::ccl::redistribute(found->mesh(), read));
    return bp::give_tensor(std::move(moved), out_tensor);
  });
}
