// SPDX-License-Identifier: Apache-2.0
//
// Inside core/api: the objects behind the handles of collectives.
#ifndef BACKPLANE_CORE_API_CCL_HANDLES_HPP
#define BACKPLANE_CORE_API_CCL_HANDLES_HPP

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ccl/group/group.hpp"
#include "ccl/store/store.hpp"
#include "core/api/handles.hpp"
#include "core/base/log.hpp"

namespace bp {

/// Counted: groups that are being made have a share of their own.
struct ApiStore : Counted<ApiStore> {
  explicit ApiStore(std::shared_ptr<ccl::Store> made) : store(std::move(made)) {}
  const std::shared_ptr<ccl::Store> store;
};

/// Why something failed, for callers who keep pointers into it: once found, it stays where it is.
class KeptFailure {
 public:
  /// `found`: what is known now. nullptr: no failure so far.
  const ccl::Failure* keep(ccl::Failure found) {
    const std::lock_guard lock(mutex_);
    if (!kept_ && !found.ok()) kept_ = std::move(found);
    return kept_ ? &*kept_ : nullptr;
  }

 private:
  std::mutex mutex_;
  std::optional<ccl::Failure> kept_;
};

/// A group, which waits for its operations as it ends, so that a close of the Runtime can still end
/// them.
struct HeldGroup {
  explicit HeldGroup(Ref<ccl::ProcessGroup> made) : group(std::move(made)) {}
  ~HeldGroup();
  HeldGroup(const HeldGroup&) = delete;
  HeldGroup& operator=(const HeldGroup&) = delete;
  const Ref<ccl::ProcessGroup> group;
};

struct ApiGroup : Counted<ApiGroup> {
  explicit ApiGroup(Ref<ccl::ProcessGroup> made)
      : ApiGroup(std::make_shared<HeldGroup>(std::move(made))) {}
  explicit ApiGroup(std::shared_ptr<const HeldGroup> shared)
      : runtime(&shared->group->runtime()), held(std::move(shared)) {}
  /// Its end reaches plugins, so it waits for a close of the Runtime on another thread.
  ~ApiGroup() { runtime->let_go(std::move(held)); }
  ccl::ProcessGroup& group() const { return *held->group; }

  const Ref<Runtime> runtime;  // keeps the device
  std::shared_ptr<const HeldGroup> held;
  KeptFailure failure;
};

struct ApiWork : Counted<ApiWork> {
  /// Of work that is still to begin.
  explicit ApiWork(Runtime& owner) : runtime(&owner), held(std::make_shared<Ref<ccl::Work>>()) {}
  /// As that of a group.
  ~ApiWork() { runtime->let_go(std::move(held)); }
  ccl::Work& work() const { return **held; }

  const Ref<Runtime> runtime;  // keeps the device
  std::shared_ptr<Ref<ccl::Work>> held;
  KeptFailure failure;
};

template <>
struct HandleTraits<bpa_ccl_store> {
  using Object = ApiStore;
  static constexpr HandleKind kKind = HandleKind::kStore;
};
template <>
struct HandleTraits<bpa_ccl_group> {
  using Object = ApiGroup;
  static constexpr HandleKind kKind = HandleKind::kGroup;
};
template <>
struct HandleTraits<bpa_ccl_work> {
  using Object = ApiWork;
  static constexpr HandleKind kKind = HandleKind::kWork;
};

/// Releases what may be a group's last user. The group's own thread may be the one that logs: on
/// it, the group cannot wait for its end.
template <class Object>
void release_group_user(Object* object) {
  if (!in_sink_of_a_working_thread()) return object->release();
  // Without a thread for it, it stays for ever.
  [[maybe_unused]] const Status begun =
      contain([object] { std::thread([object] { object->release(); }).detach(); });
}
inline void let_go_of(ApiGroup* group) { release_group_user(group); }

/// As the C API has it; 0: `otherwise`. Longer ones than nanoseconds can count are cut.
std::chrono::nanoseconds timeout_of(uint64_t timeout_ns, std::chrono::nanoseconds otherwise);

/// `name`: of the argument. Errors: INVALID_ARGUMENT for one longer than BACKPLANE_TIMEOUT.
Status check_timeout(uint64_t timeout_ns, const Runtime& runtime, std::string_view name);

}  // namespace bp

#endif
