// SPDX-License-Identifier: Apache-2.0
//
// The algorithms that there are, and the schedules that they make.
#ifndef BACKPLANE_CCL_SCHEDULE_BUILD_HPP
#define BACKPLANE_CCL_SCHEDULE_BUILD_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ccl/operation.hpp"
#include "ccl/schedule/block_layout.hpp"
#include "ccl/schedule/schedule.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// What a rank asks for. What is said to be the same on all ranks makes them agree.
struct BuildArgs {
  /// The same on all ranks. Where blocks are given, `count` says nothing.
  Operation operation;
  RankPlace place;
  /// This rank works in place, as bp_collective_op says it. Ranks need not agree.
  bool is_in_place = false;
  /// The blocks of the larger buffer, for blocks of different sizes; null: `count` elements each,
  /// in the order of ranks. The same on all ranks, but for all_to_all, where they are those of this
  /// rank's recv buffer.
  const BlockLayout* blocks = nullptr;
  /// Of all_to_all: the blocks of this rank's send buffer. Either both are given or none.
  const BlockLayout* send_blocks = nullptr;
  /// Of all_to_all with blocks: those of no elements are sent, too, since the other rank may have
  /// another size for it, which only a message tells. The same on all ranks.
  bool sends_empty_blocks = false;
  /// The host of each rank, by any numbers; empty: not known. The same on all ranks.
  std::span<const uint32_t> hosts = {};
};

/// Elements of the buffers that the schedule of this rank uses.
struct BufferCounts {
  uint64_t send = 0;
  uint64_t recv = 0;
};
BufferCounts buffer_counts(const BuildArgs& args);

/// What an algorithm must be able to do.
struct Needs {
  uint32_t rank_count = 1;
  bool is_deterministic = false;
  bool has_blocks = false;  // of different sizes
  bool has_hosts = false;
};

class Writer;
struct Cost;
struct CostArgs;

struct Algorithm {
  Kind kind;
  std::string_view name;    // "ring"
  bool is_in_rank_order;    // of kinds that reduce: combines values in the order of ranks
  bool needs_power_of_two;  // ranks
  bool needs_equal_blocks;  // of kinds that have blocks
  bool needs_hosts;
  void (*build)(Writer* writer, const BuildArgs& args);  // for build()
  Cost (*cost)(const CostArgs& args);                    // for cost_of()
};

/// At least one of them serves, whatever is needed. Of those that cost the same the first is to be
/// taken.
std::span<const Algorithm> algorithms_of(Kind kind);
bool serves(const Algorithm& algorithm, const Needs& needs);
/// Errors: INVALID_ARGUMENT naming those that there are.
Result<const Algorithm*> find_algorithm(Kind kind, std::string_view name);

/// The schedule of this rank. With one rank it is a copy, or nothing, whatever the algorithm. Time
/// and memory grow as the steps do, and for some algorithms as the group does. Errors:
/// INVALID_ARGUMENT for an operation that check_operation() refuses, for an algorithm that there is
/// not or that does not serve, and for blocks or hosts that do not fit the group.
Result<Schedule> build(std::string_view algorithm, const BuildArgs& args);

}  // namespace bp::ccl

#endif
