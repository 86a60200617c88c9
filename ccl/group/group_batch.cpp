// SPDX-License-Identifier: Apache-2.0
//
// Calls in one array, of which one may use what another gives.
#include "ccl/group/enqueue.hpp"

namespace bp::ccl {
namespace {

/// Whether a collective sends a strided view of what one before it receives.
bool uses_strided_results(std::span<const Call> calls) {
  const auto is_collective = [](const Call& call) { return !kind_info(call.kind).is_of_two; };
  for (size_t k = 1; k < calls.size(); ++k) {
    const Call& later = calls[k];
    if (!later.send || later.send->contiguous() || !is_collective(later)) continue;
    for (const Call& call : calls.first(k)) {
      if (call.recv && is_collective(call) && overlap(*later.send, *call.recv)) return true;
    }
  }
  return false;
}

}  // namespace

/// Copies of strided views are made before a batch begins, and so not of what it gives: then calls
/// go one by one. Other ranks do not see whether calls came in one batch.
Result<Ref<Work>> ProcessGroup::enqueue_batch(std::span<const Call> calls, const EnqueueArgs& args,
                                              std::chrono::nanoseconds timeout) {
  if (!uses_strided_results(calls)) return enqueue_all(calls, args, timeout);
  Enqueue all;
  BP_TRY(check_calls(calls, &all));  // or some would have begun
  Result<Ref<Work>> work = Ref<Work>();
  for (size_t i = 0; i < calls.size(); ++i) {
    work = enqueue_all(calls.subspan(i, 1), args, timeout);
    if (work.ok()) continue;
    if (i > 0) request_failure({.code = work.status().code(), .words = work.status().message()});
    return work;
  }
  return work;
}

}  // namespace bp::ccl
