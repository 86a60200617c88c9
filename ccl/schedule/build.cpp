// SPDX-License-Identifier: Apache-2.0
//
// The table of algorithms, and what must be right before one of them is asked.
#include "ccl/schedule/build.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "ccl/schedule/builders.hpp"
#include "ccl/schedule/cost_formulas.hpp"
#include "core/base/checked.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

namespace b = builders;
namespace f = formulas;

// Places in buffers and scratch are some times elements times ranks, which then cannot overflow.
constexpr uint64_t kMostElementsOfGroup = uint64_t{1} << 60;
constexpr uint32_t kMostRanks = 1u << 20;

// Where costs are equal the first is taken: recursive algorithms before Bruck's, which copy more.
constexpr std::array kAlgorithms = std::to_array<Algorithm>({
    {Kind::kAllReduce, "recursive_doubling", false, false, false, false,
     b::all_reduce_recursive_doubling, f::all_reduce_recursive_doubling},
    {Kind::kAllReduce, "rabenseifner", false, false, false, false, b::all_reduce_rabenseifner,
     f::all_reduce_rabenseifner},
    {Kind::kAllReduce, "ring", false, false, false, false, b::all_reduce_ring, f::all_reduce_ring},
    {Kind::kAllReduce, "rank_order", true, false, false, false, b::all_reduce_rank_order,
     f::all_reduce_rank_order},
    {Kind::kAllReduce, "gathered_rank_order", true, false, false, false,
     b::all_reduce_gathered_rank_order, f::all_reduce_gathered_rank_order},
    {Kind::kAllReduce, "hierarchical", false, false, false, true, b::all_reduce_hierarchical,
     f::all_reduce_hierarchical},
    {Kind::kAllGather, "recursive_doubling", false, true, true, false,
     b::all_gather_recursive_doubling, f::all_gather_recursive_doubling},
    {Kind::kAllGather, "ring", false, false, false, false, b::all_gather_ring, f::all_gather_ring},
    {Kind::kAllGather, "bruck", false, false, false, false, b::all_gather_bruck,
     f::all_gather_bruck},
    {Kind::kReduceScatter, "recursive_halving", false, true, true, false,
     b::reduce_scatter_recursive_halving, f::reduce_scatter_recursive_halving},
    {Kind::kReduceScatter, "ring", false, false, false, false, b::reduce_scatter_ring,
     f::reduce_scatter_by_blocks},
    {Kind::kReduceScatter, "pairwise", false, false, false, false, b::reduce_scatter_pairwise,
     f::reduce_scatter_by_blocks},
    {Kind::kReduceScatter, "rank_order", true, false, false, false, b::reduce_scatter_rank_order,
     f::reduce_scatter_rank_order},
    {Kind::kBroadcast, "binomial", false, false, false, false, b::broadcast_binomial,
     f::broadcast_binomial},
    {Kind::kBroadcast, "scatter_allgather", false, false, false, false,
     b::broadcast_scatter_allgather, f::broadcast_scatter_allgather},
    {Kind::kSend, "direct", false, false, false, false, b::send_direct, f::one_message},
    {Kind::kRecv, "direct", false, false, false, false, b::recv_direct, f::one_message},
    {Kind::kReduce, "binomial", false, false, false, false, b::reduce_binomial, f::reduce_binomial},
    {Kind::kReduce, "reduce_scatter_gather", false, false, false, false, b::reduce_scatter_gather,
     f::reduce_scatter_gather},
    {Kind::kReduce, "rank_order", true, false, false, false, b::reduce_rank_order,
     f::reduce_rank_order},
    {Kind::kGather, "binomial", false, false, false, false, b::gather_binomial, f::rooted_binomial},
    {Kind::kGather, "direct", false, false, false, false, b::gather_direct, f::rooted_direct},
    {Kind::kScatter, "binomial", false, false, false, false, b::scatter_binomial,
     f::rooted_binomial},
    {Kind::kScatter, "direct", false, false, false, false, b::scatter_direct, f::rooted_direct},
    {Kind::kAllToAll, "pairwise", false, false, false, false, b::all_to_all_pairwise,
     f::all_to_all_pairwise},
    {Kind::kAllToAll, "bruck", false, false, true, false, b::all_to_all_bruck, f::all_to_all_bruck},
    {Kind::kBarrier, "dissemination", false, false, false, false, b::barrier_dissemination,
     f::barrier_dissemination},
});

bool can_be_in_place(Kind kind) {
  return kind != Kind::kAllToAll && kind_info(kind).send != Extent::kNone &&
         kind_info(kind).recv != Extent::kNone;
}

Status refuse(const BuildArgs& args, const std::string& problem) {
  return {BP_INVALID_ARGUMENT, describe(args.operation) + ": " + problem};
}

Status check_blocks(const BuildArgs& args) {
  const uint32_t rank_count = args.place.rank_count;
  const bool is_all_to_all = args.operation.kind == Kind::kAllToAll;
  if ((args.blocks != nullptr && !has_blocks(args.operation.kind)) ||
      (args.send_blocks != nullptr && !is_all_to_all)) {
    return refuse(args, "this kind has no such blocks");
  }
  if (is_all_to_all && (args.blocks == nullptr) != (args.send_blocks == nullptr)) {
    return refuse(args, "expected blocks of both buffers, or of none");
  }
  for (const BlockLayout* blocks : {args.blocks, args.send_blocks}) {
    if (blocks != nullptr && blocks->size() != rank_count) {
      return refuse(args, "expected a block for each of " + std::to_string(rank_count) +
                              " ranks, found " + std::to_string(blocks->size()));
    }
  }
  if (is_all_to_all && args.blocks != nullptr) {
    const uint64_t sent = args.send_blocks->count(args.place.rank);
    const uint64_t received = args.blocks->count(args.place.rank);
    if (sent != received) {
      return refuse(args, "a rank sends itself " + std::to_string(sent) +
                              " elements, and receives " + std::to_string(received));
    }
  }
  return {};
}

Status check_args(const BuildArgs& args) {
  BP_TRY(check_operation(args.operation, args.place));
  const uint32_t rank_count = args.place.rank_count;
  const auto elements = checked_mul<uint64_t>(args.operation.count, rank_count);
  if (rank_count > kMostRanks || !elements || *elements > kMostElementsOfGroup) {
    return refuse(args, "too many elements for a group of " + std::to_string(rank_count));
  }
  if (args.is_in_place && !can_be_in_place(args.operation.kind)) {
    return refuse(args, "this kind does not work in place");
  }
  if (!args.hosts.empty() && args.hosts.size() != rank_count) {
    return refuse(args, "expected the hosts of " + std::to_string(rank_count) + " ranks, found " +
                            std::to_string(args.hosts.size()));
  }
  return check_blocks(args);
}

Needs needs_of(const BuildArgs& args) {
  return {args.place.rank_count, args.operation.is_deterministic, args.blocks != nullptr,
          !args.hosts.empty()};
}

/// The elements of this rank's own block, or of the whole.
Part own_part(Buffer buffer, const BuildArgs& args, Extent extent) {
  const uint32_t rank = args.place.rank;
  const BlockLayout* blocks = buffer == Buffer::kSend && args.operation.kind == Kind::kAllToAll
                                  ? args.send_blocks
                                  : args.blocks;
  if (blocks == nullptr) return {buffer, 0, args.operation.count};
  const bool is_of_blocks = extent == Extent::kBlocks || extent == Extent::kBlocksAtRoot;
  return {buffer, is_of_blocks ? blocks->first(rank) : 0, blocks->count(rank)};
}

/// What is left of every algorithm where there is nobody to exchange with.
void copy_alone(Writer* writer, const BuildArgs& args) {
  const KindInfo& kind = kind_info(args.operation.kind);
  if (args.is_in_place || kind.send == Extent::kNone) return;
  writer->copy(own_part(Buffer::kRecv, args, kind.recv), own_part(Buffer::kSend, args, kind.send));
}

std::string needs_text(const Algorithm& algorithm) {
  std::string text;
  if (algorithm.needs_power_of_two) text += ", a power of two of ranks";
  if (algorithm.needs_equal_blocks) text += ", blocks of equal size";
  if (algorithm.needs_hosts) text += ", known hosts";
  if (!algorithm.is_in_rank_order && kind_info(algorithm.kind).reduces) {
    text += ", an operation that need not be deterministic";
  }
  return text.empty() ? text : text.substr(2);
}

}  // namespace

BufferCounts buffer_counts(const BuildArgs& args) {
  const KindInfo& kind = kind_info(args.operation.kind);
  BufferCounts counts{send_count(args.operation, args.place),
                      recv_count(args.operation, args.place)};
  if (args.blocks == nullptr) return counts;
  const auto count_of = [&](Extent extent, const BlockLayout& blocks) -> uint64_t {
    const bool is_root = args.place.rank == args.operation.root;
    if (extent == Extent::kCount) return blocks.count(args.place.rank);
    return extent == Extent::kBlocks || is_root ? blocks.end() : 0;
  };
  const bool is_all_to_all = args.operation.kind == Kind::kAllToAll;
  counts.send = count_of(kind.send, is_all_to_all ? *args.send_blocks : *args.blocks);
  counts.recv = count_of(kind.recv, *args.blocks);
  return counts;
}

std::span<const Algorithm> algorithms_of(Kind kind) {
  const auto is_of_kind = [kind](const Algorithm& a) { return a.kind == kind; };
  const auto begin = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), is_of_kind);
  const auto end = std::find_if_not(begin, kAlgorithms.end(), is_of_kind);
  return {begin, end};
}

bool serves(const Algorithm& algorithm, const Needs& needs) {
  const bool reduces = kind_info(algorithm.kind).reduces;
  return (!needs.is_deterministic || !reduces || algorithm.is_in_rank_order) &&
         (!algorithm.needs_power_of_two || std::has_single_bit(needs.rank_count)) &&
         (!algorithm.needs_equal_blocks || !needs.has_blocks) &&
         (!algorithm.needs_hosts || needs.has_hosts);
}

Result<const Algorithm*> find_algorithm(Kind kind, std::string_view name) {
  std::string names;
  for (const Algorithm& algorithm : algorithms_of(kind)) {
    if (algorithm.name == name) return &algorithm;
    names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return Status(BP_INVALID_ARGUMENT, std::string(kind_info(kind).name) + " has no algorithm " +
                                         quoted(name) + "; expected one of " + names);
}

Result<Schedule> build(std::string_view algorithm, const BuildArgs& args) {
  BP_TRY(check_args(args));
  BP_TRY_ASSIGN(const Algorithm* found, find_algorithm(args.operation.kind, algorithm));
  if (!serves(*found, needs_of(args))) {
    return refuse(args, std::string(algorithm) + " needs " + needs_text(*found));
  }
  BuildArgs filled = args;
  const BlockLayout equal =
      BlockLayout::even_parts(args.operation.count * args.place.rank_count, args.place.rank_count);
  if (has_blocks(args.operation.kind)) {
    if (filled.blocks == nullptr) filled.blocks = &equal;
    if (filled.send_blocks == nullptr) filled.send_blocks = &equal;
  }
  Writer writer;
  if (args.place.rank_count == 1 && !kind_info(args.operation.kind).is_of_two) {
    copy_alone(&writer, filled);
  } else {
    found->build(&writer, filled);
  }
  Schedule schedule = writer.finish();
  schedule.algorithm = found->name;
  return schedule;
}

}  // namespace bp::ccl
