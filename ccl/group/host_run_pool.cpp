// SPDX-License-Identifier: Apache-2.0
#include "ccl/group/host_run_pool.hpp"

namespace bp::ccl {

Result<HostRunPool::Lent> HostRunPool::take(uint64_t sequence, HostBuffers buffers,
                                            Combiner* combiner) {
  std::unique_ptr<HostRun> run(spare_.exchange(nullptr, std::memory_order_acq_rel));
  if (run == nullptr) {
    BP_TRY_ASSIGN(run, HostRun::make(args_));
  }
  run->begin(sequence, buffers, combiner);
  return Lent(run.release(), GiveBack{shared_from_this()});
}

void HostRunPool::give_back(HostRun* given) noexcept {
  std::unique_ptr<HostRun> run(given);
  if (!may_stay(*run)) return;
  HostRun* none = nullptr;
  if (spare_.compare_exchange_strong(none, given, std::memory_order_acq_rel)) run.release();
}

}  // namespace bp::ccl
