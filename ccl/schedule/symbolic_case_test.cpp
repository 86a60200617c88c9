// SPDX-License-Identifier: Apache-2.0
//
// See symbolic_case_test.hpp.
#include "ccl/schedule/symbolic_case_test.hpp"

#include <algorithm>
#include <utility>

#include "ccl/schedule/cost.hpp"

namespace bp::ccl::symbolic {
namespace {

bool is_in_place(const Case& c, uint32_t rank) {
  return c.in_place == InPlace::kAll || (c.in_place == InPlace::kOdd && rank % 2 == 1);
}

BuildArgs args_of(const Case& c, uint32_t rank) {
  BuildArgs args;
  const Kind kind = c.algorithm->kind;
  args.operation.kind = kind;
  args.operation.dtype = kind == Kind::kBarrier ? BP_DTYPE_NONE : BP_DTYPE_F32;
  args.operation.root = c.root;
  args.operation.count = c.count;
  args.operation.is_deterministic = kind_info(kind).reduces && c.algorithm->is_in_rank_order;
  args.place = {rank, c.rank_count};
  args.is_in_place = is_in_place(c, rank);
  if (!c.blocks.empty()) args.blocks = &c.blocks[c.blocks.size() == 1 ? 0 : rank];
  if (!c.send_blocks.empty()) {
    args.send_blocks = &c.send_blocks[rank];
    args.sends_empty_blocks = c.rank_count % 2 == 1;
  }
  args.hosts = c.hosts;
  return args;
}

/// Block `block` of the larger buffer of `rank`, or of its buffer on the side that `layouts` says.
Block block_of(const Case& c, const std::vector<BlockLayout>& layouts, uint32_t rank,
               uint32_t block) {
  if (layouts.empty()) return {block * c.count, c.count};
  const BlockLayout& layout = layouts[layouts.size() == 1 ? 0 : rank];
  return {layout.first(block), layout.count(block)};
}

/// What a kind that only moves leaves in the recv buffer of a rank.
Memory expected_movement(const Case& c, uint32_t rank) {
  Memory memory;
  const auto put = [&](uint64_t first, uint32_t from, const Block& sent) {
    if (sent.count > 0) memory.write(first, {{0, sent.count, from, sent.first}});
  };
  const Kind kind = c.algorithm->kind;
  if (kind == Kind::kBroadcast) put(0, c.root, {0, c.count});
  if (kind == Kind::kScatter) put(0, c.root, block_of(c, c.blocks, c.root, rank));
  const bool collects = kind == Kind::kAllGather || (kind == Kind::kGather && rank == c.root);
  for (uint32_t from = 0; from < c.rank_count; ++from) {
    const Block there = block_of(c, c.blocks, rank, from);
    if (collects) put(there.first, from, {0, there.count});
    if (kind == Kind::kAllToAll) put(there.first, from, block_of(c, c.send_blocks, from, rank));
  }
  return memory;
}

std::string text_of(const Cost& cost) {
  return std::to_string(cost.messages) + " messages, " + std::to_string(cost.moved) +
         " moved, within hosts " + std::to_string(cost.host_messages) + " and " +
         std::to_string(cost.host_moved) + ", " + std::to_string(cost.reduced) + " reduced, " +
         std::to_string(cost.copied) + " copied";
}

/// The formula is for ranks that do not work in place, and for equal blocks.
std::string problem_of_cost(const Case& c, const Cost& measured) {
  if (c.in_place != InPlace::kNone || !c.blocks.empty()) return "";
  const Cost said = cost_of(
      *c.algorithm, {c.algorithm->kind, c.count, c.rank_count, c.root, host_shape(c.hosts)});
  if (said == measured) return "";
  return "the formula says " + text_of(said) + "; found " + text_of(measured);
}

}  // namespace

std::string describe(const Case& c) {
  constexpr const char* kInPlace[] = {"", ", in place", ", odd ranks in place"};
  return std::string(kind_info(c.algorithm->kind).name) + " " + std::string(c.algorithm->name) +
         ", " + std::to_string(c.rank_count) + " ranks, root " + std::to_string(c.root) + ", " +
         std::to_string(c.count) + " elements" + kInPlace[static_cast<size_t>(c.in_place)] +
         (c.blocks.empty() ? "" : ", blocks of different sizes");
}

std::string Prover::build_all(const Case& c) {
  ranks_.resize(c.rank_count);
  for (uint32_t i = 0; i < c.rank_count; ++i) {
    const BuildArgs args = args_of(c, i);
    Result<Schedule> schedule = build(c.algorithm->name, args);
    if (!schedule.ok()) return schedule.status().to_string();
    Rank& rank = ranks_[i];
    rank.schedule = std::move(*schedule);
    rank.counts = buffer_counts(args);
    rank.is_in_place = args.is_in_place && rank.counts.send > 0 && rank.counts.recv > 0;
    rank.own_block = 0;
    if (rank.counts.send != rank.counts.recv) rank.own_block = block_of(c, c.blocks, i, i).first;
  }
  return "";
}

std::string Prover::problem_of_sums(const Case& c, const std::vector<Run>& found,
                                    const Block& elements) {
  uint64_t at = 0;
  for (const Run& run : found) {
    const auto place = [&run] { return "result " + std::to_string(run.first); };
    if (run.first != at || run.element != elements.first + at) {
      return place() + " is missing, or is element " + std::to_string(run.element);
    }
    const std::string problem = expressions_.problem_of_leaves(run.value);
    if (!problem.empty()) return place() + " " + problem;
    if (c.algorithm->is_in_rank_order && !expressions_.is_in_rank_order(run.value)) {
      return place() + " is not combined in the order of ranks";
    }
    at += run.count;
  }
  return at == elements.count ? "" : "results end at " + std::to_string(at);
}

std::string Prover::problem_of_results(const Case& c) {
  const Kind kind = c.algorithm->kind;
  std::vector<Run> of_rank_0;
  for (uint32_t rank = 0; rank < c.rank_count; ++rank) {
    const std::vector<Run>& found = run_.received(rank);
    std::string problem;
    if (!kind_info(kind).reduces) {
      if (found != expected_movement(c, rank).runs()) problem = "has other elements than it should";
    } else if (kind == Kind::kAllReduce && rank > 0) {
      // Equal trees give equal bits, whatever the numbers.
      if (found != of_rank_0) problem = "has results that are combined otherwise than rank 0's";
    } else if (kind != Kind::kReduce || rank == c.root) {
      const Block elements =
          kind == Kind::kReduceScatter ? block_of(c, c.blocks, rank, rank) : Block{0, c.count};
      problem = problem_of_sums(c, found, elements);
      of_rank_0 = found;
    }
    if (!problem.empty()) return "rank " + std::to_string(rank) + ": " + problem;
  }
  return "";
}

std::string Prover::problem_of_run(const Case& c) {
  const Outcome outcome = run_.run(c.algorithm->kind, ranks_, c.hosts);
  if (!outcome.problem.empty()) return outcome.problem;
  const std::string problem = problem_of_results(c);
  return problem.empty() ? problem_of_cost(c, outcome.cost) : problem;
}

std::string Prover::problem_of(const Case& c) {
  std::string problem = build_all(c);
  if (problem.empty()) problem = problem_of_run(c);
  return problem.empty() ? problem : describe(c) + ": " + problem;
}

}  // namespace bp::ccl::symbolic
