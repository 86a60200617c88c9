// SPDX-License-Identifier: Apache-2.0
//
// See cost.hpp. p: ranks; n: elements, of a block where there are blocks. Parts of a whole differ
// by one element, and the first ones, which are the largest, take part in every round.
#include "ccl/schedule/cost.hpp"

#include <algorithm>
#include <bit>

#include "ccl/schedule/cost_formulas.hpp"
#include "ccl/schedule/team.hpp"

namespace bp::ccl {
namespace formulas {
namespace {

uint64_t largest_part(uint64_t n, uint32_t size) {
  return BlockLayout::even_parts(n, size).largest_count();
}

/// Of halving or doubling among `size` ranks, a power of two: 1, 2, 4... parts in a round.
uint64_t moved_by_halving(uint64_t n, uint32_t size) {
  const BlockLayout parts = BlockLayout::even_parts(n, size);
  uint64_t moved = 0;
  for (uint32_t count = 1; count < size; count *= 2) moved += parts.first(count);
  return moved;
}

/// Of parts to or from member 0 of a tree. In a round that is all of empty parts nothing is sent.
Cost parts_by_tree(uint64_t n, uint32_t size) {
  const auto filled = static_cast<uint32_t>(std::min<uint64_t>(n, size));
  return {.messages = doubling_rounds(filled), .moved = n - largest_part(n, size)};
}

Cost operator+(const Cost& a, const Cost& b) {
  return {a.messages + b.messages,     a.moved + b.moved,     a.host_messages + b.host_messages,
          a.host_moved + b.host_moved, a.reduced + b.reduced, a.copied + b.copied};
}

/// Everything of those that leave goes to others, and back if they get a result.
Cost fold(uint64_t n, uint32_t p, bool returns) {
  if (std::has_single_bit(p)) return {};
  const uint64_t rounds = returns ? 2 : 1;
  return {.messages = rounds, .moved = rounds * n, .reduced = n};
}

Cost sum_by_halving_and_doubling(uint64_t n, uint32_t p) {
  const uint32_t left = std::bit_floor(p);
  const uint64_t moved = moved_by_halving(n, left);
  return fold(n, p, true) + Cost{.messages = 2 * uint64_t{doubling_rounds(left)},
                                 .moved = 2 * moved,
                                 .reduced = moved};
}

/// p - 1 rounds, each with `n` elements.
Cost rounds_of_all(uint64_t n, uint32_t p) { return {.messages = p - 1, .moved = (p - 1) * n}; }

}  // namespace

Cost all_reduce_recursive_doubling(const CostArgs& args) {
  const uint64_t n = args.count;
  const uint64_t rounds = doubling_rounds(std::bit_floor(args.rank_count));
  return fold(n, args.rank_count, true) +
         Cost{.messages = rounds, .moved = rounds * n, .reduced = rounds * n};
}

Cost all_reduce_rabenseifner(const CostArgs& args) {
  return sum_by_halving_and_doubling(args.count, args.rank_count);
}

Cost all_reduce_ring(const CostArgs& args) {
  const uint64_t part = largest_part(args.count, args.rank_count);
  const Cost rounds = rounds_of_all(part, args.rank_count);
  return rounds + rounds + Cost{.reduced = (args.rank_count - 1) * part};
}

Cost all_reduce_rank_order(const CostArgs& args) {
  return all_reduce_ring(args) + Cost{.copied = largest_part(args.count, args.rank_count)};
}

Cost all_reduce_gathered_rank_order(const CostArgs& args) {
  const uint64_t others = (args.rank_count - 1) * args.count;
  return {.messages = doubling_rounds(args.rank_count),
          .moved = others,
          .reduced = others,
          .copied = 2 * args.count};
}

Cost all_reduce_hierarchical(const CostArgs& args) {
  const HostShape& hosts = args.hosts;
  const uint64_t n = args.count;
  if (!hosts.is_even) {
    const uint64_t rounds = doubling_rounds(hosts.most_ranks);
    return sum_by_halving_and_doubling(n, hosts.host_count) +
           Cost{.host_messages = 2 * rounds, .host_moved = 2 * rounds * n, .reduced = rounds * n};
  }
  const uint64_t part = largest_part(n, hosts.most_ranks);
  const uint64_t rounds = hosts.most_ranks - 1;
  return sum_by_halving_and_doubling(part, hosts.host_count) + Cost{.host_messages = 2 * rounds,
                                                                    .host_moved = 2 * rounds * part,
                                                                    .reduced = rounds * part};
}

Cost reduce_binomial(const CostArgs& args) {
  const uint64_t rounds = doubling_rounds(args.rank_count);
  return {.messages = rounds, .moved = rounds * args.count, .reduced = rounds * args.count};
}

Cost reduce_scatter_gather(const CostArgs& args) {
  const uint32_t left = std::bit_floor(args.rank_count);
  const uint64_t moved = moved_by_halving(args.count, left);
  return fold(args.count, args.rank_count, false) +
         Cost{.messages = doubling_rounds(left), .moved = moved, .reduced = moved} +
         parts_by_tree(args.count, left);
}

Cost reduce_rank_order(const CostArgs& args) {
  const uint64_t part = largest_part(args.count, args.rank_count);
  return rounds_of_all(part, args.rank_count) + parts_by_tree(args.count, args.rank_count) +
         Cost{.reduced = (args.rank_count - 1) * part, .copied = part};
}

Cost reduce_scatter_by_blocks(const CostArgs& args) {
  return rounds_of_all(args.count, args.rank_count) +
         Cost{.reduced = (args.rank_count - 1) * args.count};
}

Cost reduce_scatter_recursive_halving(const CostArgs& args) {
  const uint64_t others = (args.rank_count - 1) * args.count;
  return {.messages = doubling_rounds(args.rank_count),
          .moved = others,
          .reduced = others,
          .copied = args.count};
}

Cost reduce_scatter_rank_order(const CostArgs& args) {
  return reduce_scatter_by_blocks(args) + Cost{.copied = args.count};
}

Cost all_gather_ring(const CostArgs& args) {
  return rounds_of_all(args.count, args.rank_count) + Cost{.copied = args.count};
}

Cost all_gather_bruck(const CostArgs& args) {
  return {.messages = doubling_rounds(args.rank_count),
          .moved = (args.rank_count - 1) * args.count,
          .copied = (uint64_t{args.rank_count} + 1) * args.count};
}

Cost all_gather_recursive_doubling(const CostArgs& args) {
  return {.messages = doubling_rounds(args.rank_count),
          .moved = (args.rank_count - 1) * args.count,
          .copied = args.count};
}

Cost broadcast_binomial(const CostArgs& args) {
  const uint64_t rounds = doubling_rounds(args.rank_count);
  return {.messages = rounds, .moved = rounds * args.count, .copied = args.count};
}

Cost broadcast_scatter_allgather(const CostArgs& args) {
  const uint64_t part = largest_part(args.count, args.rank_count);
  return parts_by_tree(args.count, args.rank_count) + rounds_of_all(part, args.rank_count) +
         Cost{.copied = part};
}

Cost rooted_binomial(const CostArgs& args) {
  const uint32_t p = args.rank_count;
  // Blocks of the part of the tree that has both the last rank and rank 0, which do not lie
  // together in the root's buffer.
  uint64_t apart = 0;
  for (uint32_t child = 1; child < p; child *= 2) {
    const uint32_t members = std::min(child, p - child);
    const uint64_t begin = uint64_t{args.root} + child;
    if (begin < p && p < begin + members) apart = members;
  }
  return {.messages = doubling_rounds(p),
          .moved = (p - 1) * args.count,
          .copied = (1 + apart) * args.count};
}

Cost rooted_direct(const CostArgs& args) {
  return rounds_of_all(args.count, args.rank_count) + Cost{.copied = args.count};
}

Cost all_to_all_pairwise(const CostArgs& args) {
  return rounds_of_all(args.count, args.rank_count) + Cost{.copied = args.count};
}

Cost all_to_all_bruck(const CostArgs& args) {
  const uint64_t p = args.rank_count;
  uint64_t travels = 0;  // of blocks, by the bits of how far each has to go
  for (uint64_t bit = 1; bit < p; bit *= 2) {
    const uint64_t over = p % (2 * bit);
    travels += p / (2 * bit) * bit + (over > bit ? over - bit : 0);
  }
  return {.messages = doubling_rounds(args.rank_count),
          .moved = travels * args.count,
          .copied = (1 + 2 * travels) * args.count};
}

Cost one_message(const CostArgs& args) { return {.messages = 1, .moved = args.count}; }

Cost barrier_dissemination(const CostArgs& args) {
  const uint64_t rounds = doubling_rounds(args.rank_count);
  return {.messages = rounds, .moved = rounds};
}

}  // namespace formulas

Cost cost_of(const Algorithm& algorithm, const CostArgs& args) {
  const bool is_of_two = kind_info(args.kind).is_of_two;
  if (args.count == 0 && args.kind != Kind::kBarrier) return {};
  if (args.rank_count == 1 && !is_of_two) return {.copied = args.count};
  return algorithm.cost(args);
}

double estimated_ns(const Cost& cost, uint64_t element_bytes, const CostModel& model) {
  const auto bytes = [&](uint64_t elements) {
    return static_cast<double>(elements) * static_cast<double>(element_bytes);
  };
  return model.alpha_ns * static_cast<double>(cost.messages) +
         model.beta_ns_per_byte * bytes(cost.moved) +
         model.host_alpha_ns * static_cast<double>(cost.host_messages) +
         model.host_beta_ns_per_byte * bytes(cost.host_moved) +
         model.gamma_ns_per_byte * (bytes(cost.reduced) + bytes(cost.copied));
}

}  // namespace bp::ccl
