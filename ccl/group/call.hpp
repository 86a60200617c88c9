// SPDX-License-Identifier: Apache-2.0
//
// A caller's operation, and the checks that need no other rank: which tensors it takes, of which
// size, and whether they may lie in one memory.
#ifndef BACKPLANE_CCL_GROUP_CALL_HPP
#define BACKPLANE_CCL_GROUP_CALL_HPP

#include <cstdint>

#include "ccl/operation.hpp"
#include "core/base/ref.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

/// What one rank asks for. Tensors lie on the group's device. Where the kind has blocks
/// (all_gather, reduce_scatter, gather, scatter, all_to_all) the larger tensor has rank_count times
/// the elements of the smaller one, by rank.
struct Call {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;  // or the other rank of a send or recv
  bool is_deterministic = false;
  Ref<Tensor> send = {};  // broadcast: may be left out, then the root's is `recv`
  Ref<Tensor> recv = {};  // reduce: at the root only
};

struct CheckedCall {
  Operation operation;
  Ref<Tensor> send;  // null where this rank sends nothing
  Ref<Tensor> recv;  // null where it receives nothing; contiguous
  uint64_t send_bytes = 0;
  uint64_t recv_bytes = 0;
  bool is_in_place = false;
};

/// Errors: INVALID_ARGUMENT naming the operation, the tensor, what was expected and found.
Result<CheckedCall> check_call(const Call& call, RankPlace place, const Device& device);

}  // namespace bp::ccl

#endif
