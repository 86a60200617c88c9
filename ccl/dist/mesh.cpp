// SPDX-License-Identifier: Apache-2.0
//
// See mesh.hpp. Ranks that were told of different meshes would wait for each other under names that
// the others do not have: so they compare what they were told first, and after each axis tell each
// other how it went.
#include "ccl/dist/mesh.hpp"

#include "ccl/group/join.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

/// Ends the waits of a store when the Runtime is closed.
class WaitsOfStore final : private CloseListener {
 public:
  explicit WaitsOfStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  ~WaitsOfStore() {
    if (runtime_) runtime_->remove_close_listener(this);
  }
  WaitsOfStore(const WaitsOfStore&) = delete;
  WaitsOfStore& operator=(const WaitsOfStore&) = delete;

  Status listen(Runtime& runtime) {
    BP_TRY(runtime.add_close_listener(this));
    runtime_ = Ref<Runtime>(&runtime);
    return {};
  }

 private:
  void runtime_closes() noexcept override { store_->abort(); }

  const std::shared_ptr<Store> store_;
  Ref<Runtime> runtime_;
};

Status check_mesh_args(const MeshArgs& args) {
  const auto refuse = [](const std::string& what) {
    return Status(BP_INVALID_ARGUMENT, "a mesh: " + what);
  };
  if (args.store == nullptr) return refuse("store is missing");
  if (args.device == nullptr) return refuse("device is missing");
  if (args.name.empty() || args.name.size() > kMostMeshNameBytes) {
    return refuse("expected a name of 1 to " + std::to_string(kMostMeshNameBytes) +
                  " bytes, found " + std::to_string(args.name.size()));
  }
  if (args.rank >= args.layout.rank_count()) {
    return refuse("expected a rank from 0 to " + std::to_string(args.layout.rank_count() - 1) +
                  ", found " + std::to_string(args.rank));
  }
  BP_TRY(args.device->check_open());
  return check_timeout(args.device->runtime(), args.timeout).with_prefix("a mesh");
}

}  // namespace

Result<std::unique_ptr<const Mesh>> Mesh::create(const MeshArgs& args) {
  BP_TRY(check_not_forked());
  BP_TRY(check_mesh_args(args));
  std::unique_ptr<Mesh> mesh(new Mesh(args));
  const Status joined = contain([&] { return mesh->join(); });
  if (!joined.ok()) return joined.with_prefix("mesh " + args.name);
  return std::unique_ptr<const Mesh>(std::move(mesh));
}

Status Mesh::join() {
  const bool is_given = args_.timeout.count() > 0;
  const auto timeout = is_given ? args_.timeout : default_timeout(args_.device->runtime());
  const JoinWait wait = {"mesh " + name(),
                         Store::Clock::now() + timeout,
                         {.set_by = is_given ? kSetByProgram : kSetByOption}};
  const RankPlace place{args_.rank, layout().rank_count()};
  const auto store = make_prefix_store("mesh/" + name() + "/", args_.store);
  WaitsOfStore waits(store);
  BP_TRY(waits.listen(args_.device->runtime()));
  BP_TRY(agree(*store, wait));
  for (size_t axis = 0; axis < layout().axes().size(); ++axis) {
    auto group = join_axis(axis, wait.deadline);
    // A rank that gives up tells the others, which would wait for it on the next axis.
    BP_TRY(meet(*store, "axis-" + std::to_string(axis), group.status(), place, wait));
    groups_.push_back(*std::move(group));
  }
  return {};
}

Status Mesh::agree(Store& store, const JoinWait& wait) const {
  BP_TRY_ASSIGN(const int64_t count, store.add("rank-" + std::to_string(args_.rank), 1));
  if (count != 1) {
    return Status(BP_INVALID_ARGUMENT, "rank " + std::to_string(args_.rank) +
                                           " is in the mesh already: expected each rank once");
  }
  const std::string own = layout().describe();
  // The first one's counts.
  BP_TRY_ASSIGN(const std::string there,
                store.compare_set("layout", std::nullopt,
                                  "rank " + std::to_string(args_.rank) + " of " + own));
  const std::string theirs = there.substr(there.find('['));
  const Status agreed = theirs == own
                            ? Status()
                            : Status(BP_INVALID_ARGUMENT, "rank " + std::to_string(args_.rank) +
                                                              " was told of " + own + ", " + there);
  return meet(store, "agreed", agreed, {args_.rank, layout().rank_count()}, wait);
}

Result<Ref<ProcessGroup>> Mesh::join_axis(size_t axis, Store::Clock::time_point deadline) const {
  const std::vector<uint32_t> members = layout().members(args_.rank, axis);
  GroupArgs group;
  group.store = args_.store;
  group.name = name() + "/" + layout().axes()[axis].name + "/" + std::to_string(members[0]);
  group.place = {coordinates_[axis], layout().axes()[axis].size};
  group.device = args_.device;
  group.timeout = args_.timeout;
  group.join_deadline = deadline;
  group.descent.job_ranks = members;
  return ProcessGroup::create(group);
}

}  // namespace bp::ccl
