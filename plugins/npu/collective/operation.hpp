// SPDX-License-Identifier: Apache-2.0
//
// One operation of a rank: what it may be, what ranks must agree on, and what a rank does with the
// pieces that all have put before it.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_OPERATION_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_OPERATION_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backplane/collective.h"
#include "device.hpp"

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
/// The kinds, reductions and dtypes that an NPU has, with averages or without.
std::span<const bp_collective_row> collective_rows(bool averages);
/// Throws Failure for what no row has, and for what is wrong whatever the others do.
void check_operation(const bp_collective_op& what, RankPlace place);
/// Throws Failure where the memory is not there.
Operation find_memory(const bp_collective_op& what, RankPlace place, const DeviceMemory& memory);

/// What ranks tell each other of an operation.
using OperationWords = std::array<uint64_t, 4>;
OperationWords words_of(const bp_collective_op& what, Mismatch mismatch);
/// "reduce of 3 elements of dtype f32, reduction sum, root 0", whatever the words are.
std::string describe(const OperationWords& words);
/// Whether these can be one operation of two ranks of a group.
bool fit_together(const OperationWords& a, const OperationWords& b);
/// What becomes of it where they do not.
Mismatch mismatch_of(const OperationWords& words);

/// The bytes that a rank puts before others, piece by piece: the root's, where it alone does.
uint64_t put_bytes(const bp_collective_op& what, uint32_t rank_count);
/// `bytes` of them from `offset` on.
struct Piece {
  uint64_t offset;
  uint64_t bytes;
};
/// Moves what this rank receives of a piece, or combines it in the order of ranks. `from`: where
/// each rank has put its piece, or where the peer of a recv has.
void receive(const Operation& operation, RankPlace place, Piece piece,
             std::span<const std::byte* const> from);

}  // namespace bp::npu

#endif
