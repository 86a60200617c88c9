// SPDX-License-Identifier: Apache-2.0
//
// One operation of a rank, and what happens when all that it takes have met.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_OPERATION_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_OPERATION_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backplane/collective.h"
#include "memory.hpp"

namespace bp::npu {

/// Who an operation is of.
struct RankPlace {
  uint32_t rank;
  uint32_t rank_count;
};

/// An operation with its memory found. Where a rank sends or receives nothing the pointer is null.
struct Operation {
  bp_collective_op what;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

/// Sends and recvs concern two ranks, all others the whole group.
bool is_between_two(uint32_t kind);
/// The kinds, reductions and dtypes that an NPU has.
std::span<const bp_collective_row> collective_rows();
/// Throws Failure for what no row has, and for what is wrong whatever the others do.
void check_operation(const bp_collective_op& what, RankPlace place);
/// Throws Failure where the memory is not there.
Operation find_memory(const bp_collective_op& what, RankPlace place, const DeviceMemory& memory);

/// "reduce of 3 elements of dtype 12, reduction 0, root 0": what ranks must agree on.
std::string describe(const bp_collective_op& what);
/// Whether these can be one operation of two ranks of a group.
bool fit_together(const bp_collective_op& a, const bp_collective_op& b);
/// One operation of all ranks, in their order, which fit together.
void run_together(std::span<const Operation> of_ranks);
/// A send and the recv that takes it.
void run_together(const Operation& send, const Operation& recv);

}  // namespace bp::npu

#endif
