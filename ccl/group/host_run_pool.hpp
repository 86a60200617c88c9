// SPDX-License-Identifier: Apache-2.0
//
// Runs of one operation over and over: what a run has made for itself serves the next one.
#ifndef BACKPLANE_CCL_GROUP_HOST_RUN_POOL_HPP
#define BACKPLANE_CCL_GROUP_HOST_RUN_POOL_HPP

#include <atomic>
#include <memory>
#include <utility>

#include "ccl/group/host_run.hpp"

namespace bp::ccl {

/// Any thread.
class HostRunPool : public std::enable_shared_from_this<HostRunPool> {
 public:
  struct GiveBack {
    std::shared_ptr<HostRunPool> pool = {};  // null: it ends
    void operator()(HostRun* run) const noexcept {
      pool != nullptr ? pool->give_back(run) : delete run;
    }
  };
  using Lent = std::unique_ptr<HostRun, GiveBack>;

  /// Of `args` sequence, buffers and combiner are those of each run, which has one part.
  explicit HostRunPool(HostRunArgs args) : args_(std::move(args)) {}
  ~HostRunPool() { delete spare_.load(std::memory_order_acquire); }
  HostRunPool(const HostRunPool&) = delete;
  HostRunPool& operator=(const HostRunPool&) = delete;

  const std::shared_ptr<const Schedule>& schedule() const { return args_.part.schedule; }
  /// A run that is over may begin once more. What was given up may be used by an engine in ways
  /// that nobody here knows; much scratch is given back to the system.
  static bool may_stay(const HostRun& run) {
    return run.is_done() && run.scratch_bytes() <= kMostSpareBytes;
  }
  /// Errors: OUT_OF_MEMORY for scratch.
  Result<Lent> take(uint64_t sequence, HostBuffers buffers, Combiner* combiner);

 private:
  void give_back(HostRun* run) noexcept;

  static constexpr uint64_t kMostSpareBytes = 1 << 20;  // of scratch

  const HostRunArgs args_;
  std::atomic<HostRun*> spare_{nullptr};
};

}  // namespace bp::ccl

#endif
