// SPDX-License-Identifier: Apache-2.0
//
// Calls in one array, of which a collective may send a strided view of what one before it gives.
// Its copy is made when that is there: such a batch goes in parts, one behind the other in the
// stream. Other ranks do not see it: numbers are given, and calls compared, as those of one batch.
#include <vector>

#include "ccl/group/enqueue.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp::ccl {

void ProcessGroup::find_users_of_results(Enqueue* enqueue) {
  const auto is_collective = [](const EnqueuedOne& one) {
    return !kind_info(one.call.operation.kind).is_of_two;
  };
  for (size_t k = 1; k < enqueue->ones.size(); ++k) {
    EnqueuedOne& later = enqueue->ones[k];
    const Ref<Tensor>& send = later.call.send;
    if (!send || send->contiguous() || !is_collective(later)) continue;
    for (size_t i = 0; i < k && !later.uses_results; ++i) {
      const EnqueuedOne& one = enqueue->ones[i];
      later.uses_results =
          one.call.recv && is_collective(one) && may_overlap(*send, *one.call.recv);
    }
    enqueue->is_in_parts |= later.uses_results;
  }
}

/// Sends and receives, whose other ends may be waiting, are all in the first part.
Result<Ref<Work>> ProcessGroup::enqueue_in_parts(const Enqueue& whole) {
  std::vector<Enqueue> parts(1);
  const auto begin_part = [&](Enqueue& part) {
    part.stream = whole.stream;
    part.timeout = whole.timeout;
    part.is_native = whole.is_native;
    part.is_in_pieces = whole.is_in_pieces;
    part.path = whole.path;
  };
  begin_part(parts.front());
  for (const EnqueuedOne& one : whole.ones) {
    if (one.uses_results) begin_part(parts.emplace_back());
    const bool is_of_two = kind_info(one.call.operation.kind).is_of_two;
    (is_of_two ? parts.front() : parts.back()).ones.push_back(one);
  }
  Result<Ref<Work>> work = Ref<Work>();
  for (Enqueue& part : parts) {
    work = contain([&]() -> Result<Ref<Work>> {
      for (EnqueuedOne& one : part.ones) {
        if (one.uses_results) BP_TRY(order_input(&one.call, *part.stream));
      }
      return enqueue_unchecked(&part);
    });
    if (work.ok()) continue;
    if (&part != &parts.front()) give_up(part.ones.front(), work.status());
    return work;
  }
  return work;
}

}  // namespace bp::ccl
