// SPDX-License-Identifier: Apache-2.0
//
// Collectives of the C++ API: ranks of a group, each with its own device, exchange tensors.
// Included by backplane.hpp; ccl.h says what each operation does, docs/collectives.md tells it from
// the beginning.
//
//   auto store = bp::ccl::Store::memory();                           // once, for all ranks
//   auto group = bp::ccl::Group::create(                             // on each rank's thread
//       device, {.store = store, .rank = rank, .rank_count = 2});
//   group.all_reduce(x);                                             // x is the sum of all ranks'
//   group.all_reduce(x, y, {.op = bp::ccl::Reduction::max});         // y is the maximum
//   auto work = group.async().all_reduce(x);                         // returns at once
//
// Operations of a group wait until they are over; those of group.async() return their work. A
// failure of the group is a GroupError, which tells the ranks that are its cause.
#ifndef BACKPLANE_API_CCL_HPP
#define BACKPLANE_API_CCL_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backplane/api/ccl_work.hpp"

namespace bp {
inline namespace api {
namespace ccl {

struct TcpStoreOptions;

/// Where ranks meet. Copies are the same store.
class Store {
 public:
  /// None.
  Store() = default;
  /// For ranks that are threads of this process.
  static Store memory() {
    bpa_ccl_store* handle = nullptr;
    detail::check(bpa_ccl_store_create_memory(&handle));
    return Store(handle);
  }
  /// For ranks that are processes; defined in ccl_job.hpp. `job`: another for each run.
  static Store file(const std::string& path, const std::string& job);
  static Store tcp(const TcpStoreOptions& options);
  bpa_ccl_store* handle() const { return handle_.get(); }

 private:
  friend class Job;
  explicit Store(bpa_ccl_store* handle) : handle_(handle, detail::CclDeleter()) {}

  std::shared_ptr<bpa_ccl_store> handle_;
};

struct GroupOptions {
  Store store{};
  std::string name = "default";  // good for one group of a store
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  std::chrono::nanoseconds timeout{0};  // for joining and each operation; 0: BACKPLANE_CCL_TIMEOUT
};

struct RebuildOptions {
  uint64_t epoch = 1;                   // above the group's, and those of earlier tries
  std::vector<uint32_t> members{};      // ranks that go on: their places are the new ranks
  std::chrono::nanoseconds timeout{0};  // 0: the group's
};

/// The color of a rank that goes into no group.
inline constexpr int64_t no_color = BPA_CCL_NO_COLOR;

struct SplitOptions {
  int64_t color = 0;                    // ranks of one color make a group
  int64_t key = 0;                      // their order there; of equal keys that of the ranks
  std::chrono::nanoseconds timeout{0};  // 0: the group's
};

/// One rank of a group, for any threads. Copies are the same rank; the end of the last one waits
/// for operations in progress.
class Group : public Operations<void> {
 public:
  /// None.
  Group() = default;
  /// Waits until all ranks have joined.
  static Group create(Device device, const GroupOptions& options) {
    bpa_ccl_group_args args{};
    args.struct_size = sizeof(args);
    args.store = options.store.handle();
    args.name = options.name.c_str();
    args.rank = options.rank;
    args.rank_count = options.rank_count;
    args.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_group* handle = nullptr;
    detail::check(bpa_ccl_group_create(device.handle(), &args, &handle));
    return adopt(handle);
  }

  /// Takes over a reference.
  static Group adopt(bpa_ccl_group* handle) {
    return Group(std::shared_ptr<bpa_ccl_group>(handle, detail::CclDeleter()));
  }

  /// The same operations, which return at once.
  Operations<Work> async() const { return Operations<Work>(handle_); }

  /// Another group of the ranks that are left, which all of them make; this one stays as it is.
  Group rebuild(const RebuildOptions& options) const {
    bpa_ccl_rebuild_args args{};
    args.struct_size = sizeof(args);
    args.epoch = options.epoch;
    args.members = options.members.data();
    args.member_count = options.members.size();
    args.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_group* made = nullptr;
    detail::check(bpa_ccl_group_rebuild(handle(), &args, &made));
    return adopt(made);
  }
  /// A group of the ranks of each color, which all ranks make; nullopt for no_color.
  std::optional<Group> split(const SplitOptions& options) const {
    bpa_ccl_split_args args{};
    args.struct_size = sizeof(args);
    args.color = options.color;
    args.key = options.key;
    args.timeout_ns = detail::timeout_ns(options.timeout);
    bpa_ccl_group* made = nullptr;
    detail::check(bpa_ccl_group_split(handle(), &args, &made), handle(), bpa_ccl_group_get_error);
    if (made == nullptr) return std::nullopt;
    return adopt(made);
  }

  /// Ends the group on all ranks that can be reached: operations throw CANCELLED with these words.
  void abort(const std::string& words = {}) const {
    detail::check(bpa_ccl_group_abort(handle(), words.c_str()));
  }
  Failure failure() const { return detail::failure_of(handle(), bpa_ccl_group_get_error); }

  uint32_t rank() const { return info().rank; }
  uint32_t rank_count() const { return info().rank_count; }
  uint64_t epoch() const { return info().epoch; }
  /// By rank: the rank in the group from which this one descends by rebuild() and split().
  std::vector<uint32_t> job_ranks() const {
    const bpa_ccl_group_info all = info();
    return {all.job_ranks, all.job_ranks + all.rank_count};
  }
  /// Counters as they are now.
  bpa_ccl_group_info info() const {
    bpa_ccl_group_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_ccl_group_get_info(handle(), &info));
    return info;
  }
  /// What this rank has recorded, as JSON: what `backplane ccl trace` reads.
  std::string trace() const {
    std::string text;
    for (uint64_t bytes = 0;;) {
      detail::check(bpa_ccl_group_get_trace(handle(), nullptr, 0, &bytes));
      text.resize(bytes + 4096);  // for what comes until the next call
      if (bpa_ccl_group_get_trace(handle(), text.data(), text.size(), &bytes) != BP_OK) continue;
      text.resize(bytes - 1);
      return text;
    }
  }

 private:
  explicit Group(std::shared_ptr<bpa_ccl_group> handle) : Operations<void>(std::move(handle)) {}
};

}  // namespace ccl
}  // namespace api
}  // namespace bp

#endif
