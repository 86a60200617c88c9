// SPDX-License-Identifier: Apache-2.0
//
// A caller's operation, and the checks that need no other rank: which tensors it takes, of which
// size, and whether they may lie in one memory.
#ifndef BACKPLANE_CCL_GROUP_CALL_HPP
#define BACKPLANE_CCL_GROUP_CALL_HPP

#include <cstdint>
#include <memory>
#include <vector>

#include "ccl/group/blocks.hpp"
#include "ccl/operation.hpp"
#include "core/base/ref.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

/// What one rank asks for. Tensors lie on the group's device. Where the kind has blocks
/// (all_gather, reduce_scatter, gather, scatter, all_to_all) the larger tensor has a block for each
/// rank, by rank: as many elements as the smaller one has, or as `counts` says.
struct Call {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;  // or the other rank of a send or recv
  bool is_deterministic = false;
  Ref<Tensor> send = {};  // broadcast: may be left out, then the root's is `recv`
  Ref<Tensor> recv = {};  // reduce: at the root only
  /// Elements of the block of each rank, the same counts on all ranks; of all_to_all, of this
  /// rank's recv. Empty: all blocks have one size.
  std::vector<uint64_t> counts = {};
  std::vector<uint64_t> send_counts = {};  // of all_to_all, beside counts: of this rank's send
};

struct CheckedCall {
  Operation operation;
  Ref<Tensor> send = {};  // null where this rank sends nothing
  Ref<Tensor> recv = {};  // null where it receives nothing; contiguous
  uint64_t send_bytes = 0;
  uint64_t recv_bytes = 0;
  bool is_in_place = false;
  std::shared_ptr<const Blocks> blocks = {};  // null: none, or all of one size
};

/// Errors: INVALID_ARGUMENT naming the operation, the tensor, what was expected and found.
Status check_call(const Call& call, RankPlace place, const Device& device, CheckedCall* out);

}  // namespace bp::ccl

#endif
