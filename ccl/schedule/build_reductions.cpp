// SPDX-License-Identifier: Apache-2.0
//
// Kinds that reduce. Where nothing lies in the place for results yet, messages go there, and the
// own values are combined with them: so nothing is copied first.
#include <algorithm>
#include <array>

#include "ccl/schedule/builders.hpp"
#include "ccl/schedule/phases.hpp"

namespace bp::ccl::builders {
namespace {

/// The values of a rank whose sums end in its recv buffer.
Values values_in_recv(const BuildArgs& args) {
  const uint64_t count = args.operation.count;
  return {send_part(count), recv_part(count), 0, args.is_in_place};
}

/// Those of reduce: ranks that get no result sum in scratch.
Values values_at_root(Writer* writer, const BuildArgs& args, bool needs_room) {
  if (args.place.rank == args.operation.root) return values_in_recv(args);
  const uint64_t count = args.operation.count;
  // Without room there is a place all the same, which nothing is written to.
  const Part room = needs_room ? writer->scratch(count) : Part{Buffer::kScratch, 0, count};
  return {send_part(count), room, 0, false};
}

}  // namespace

void all_reduce_recursive_doubling(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const Team folded = team.folded();
  Values values = values_in_recv(args);
  fold_in(writer, team, &values);
  if (team.leaves_fold()) {
    writer->end_rounds(doubling_rounds(folded.size()));
  } else {
    sum_by_doubling(writer, folded, &values);
  }
  fold_out(writer, team, values);
}

void all_reduce_rabenseifner(Writer* writer, const BuildArgs& args) {
  Values values = values_in_recv(args);
  sum_by_halving_and_doubling(writer, Team(args.place), &values);
}

void all_reduce_ring(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const BlockLayout parts = BlockLayout::even_parts(args.operation.count, team.size());
  Values values = values_in_recv(args);
  sum_parts_by_ring(writer, team, parts, &values);
  const Places places{Buffer::kRecv, 0, 0, &parts};
  gather_to_all_by_ring(writer, team, places, places.block(team.self()));
}

void all_reduce_rank_order(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const BlockLayout parts = BlockLayout::even_parts(args.operation.count, team.size());
  const Places places{Buffer::kRecv, 0, 0, &parts};
  const Part own_sum = places.block(team.self());
  sum_block_in_rank_order(writer, team, {Buffer::kSend, 0, 0, &parts}, own_sum, args.is_in_place);
  gather_to_all_by_ring(writer, team, places, own_sum);
}

void all_reduce_gathered_rank_order(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const uint64_t count = args.operation.count;
  const BlockLayout blocks = BlockLayout::even_parts(count * team.size(), team.size());
  const Part all = gather_to_all_rotated(writer, team, blocks, send_part(count));
  const auto values_of = [&](uint32_t rank) {
    const uint32_t steps = (rank + team.size() - team.self()) % team.size();
    return sub_part(all, steps * count, count);
  };
  writer->copy(recv_part(count), values_of(0));
  for (uint32_t rank = 1; rank < team.size(); ++rank) {
    writer->reduce(recv_part(count), values_of(rank), false);
  }
}

void reduce_binomial(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const bool has_children = members_below(team.self(), team.size()) > 1;
  Values values = values_at_root(writer, args, has_children);
  sum_by_tree(writer, team, &values);
}

void reduce_scatter_gather(Writer* writer, const BuildArgs& args) {
  // The root is member 0, which stays when others leave.
  const Team team(args.place, args.operation.root);
  const Team folded = team.folded();
  const BlockLayout parts = BlockLayout::even_parts(args.operation.count, folded.size());
  Values values = values_at_root(writer, args, !team.leaves_fold());
  fold_in(writer, team, &values);
  if (team.leaves_fold()) return;
  sum_parts_by_halving(writer, folded, parts, &values);
  gather_parts_by_tree(writer, folded, {values.sum.buffer, values.sum.first, 0, &parts});
}

void reduce_rank_order(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const BlockLayout parts = BlockLayout::even_parts(args.operation.count, team.size());
  Places sums{Buffer::kRecv, 0, 0, &parts};
  const bool is_root = team.self() == 0;
  if (!is_root) {
    // Room for the sums of this rank's part of the tree.
    const uint32_t self = team.self();
    sums.buffer = Buffer::kScratch;
    sums.origin = parts.first(self);
    const uint64_t count = sums.range(self, self + members_below(self, team.size())).count;
    sums.first = writer->scratch(count).first;
  }
  sum_block_in_rank_order(writer, team, {Buffer::kSend, 0, 0, &parts}, sums.block(team.self()),
                          is_root && args.is_in_place);
  gather_parts_by_tree(writer, team, sums);
}

void reduce_scatter_ring(Writer* writer, const BuildArgs& args) {
  const Places own{Buffer::kSend, 0, 0, args.blocks};
  const uint32_t size = args.place.rank_count;
  const uint32_t rank = args.place.rank;
  // What was summed in one round is sent in the next, while the other place fills.
  const uint64_t largest = args.blocks->largest_count();
  const std::array<Part, 2> places = {writer->scratch(largest), writer->scratch(largest)};
  for (uint32_t round = 1; round < size; ++round) {
    const uint32_t sent = (rank + size - round) % size;
    const uint32_t summed = (rank + 2 * size - round - 1) % size;
    const uint64_t count = args.blocks->count(summed);
    const Part sum = sub_part(places[round % 2], 0, count);
    writer->send((rank + 1) % size,
                 round == 1 ? own.block(sent)
                            : sub_part(places[(round + 1) % 2], 0, args.blocks->count(sent)));
    const uint32_t from = (rank + size - 1) % size;
    if (round + 1 == size && !args.is_in_place) {
      writer->recv(from, recv_part(count));
      writer->reduce(recv_part(count), own.block(summed), false);
    } else if (round + 1 == size) {
      writer->recv(from, sum);
      writer->reduce(recv_part(count), sum, true);
    } else {
      writer->recv(from, sum);
      writer->reduce(sum, own.block(summed), false);
    }
    writer->end_round();
  }
}

void reduce_scatter_pairwise(Writer* writer, const BuildArgs& args) {
  const Places own{Buffer::kSend, 0, 0, args.blocks};
  const uint32_t size = args.place.rank_count;
  const uint32_t rank = args.place.rank;
  const uint64_t count = args.blocks->count(rank);
  Values values{own.block(rank), recv_part(count), 0, args.is_in_place};
  for (uint32_t round = 1; round < size; ++round) {
    const uint32_t to = (rank + round) % size;
    writer->send(to, own.block(to));
    receive_sum(writer, (rank + size - round) % size, values, values.all(), First::kOwn);
    values.is_same = true;
    writer->end_round();
  }
}

void reduce_scatter_recursive_halving(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const uint32_t half = team.size() / 2;
  const Places own{Buffer::kSend, 0, 0, args.blocks};
  // The half that is kept first is all that is ever summed here.
  const Part kept = team.self() < half ? own.range(0, half) : own.range(half, team.size());
  Values values{own.range(0, team.size()), writer->scratch(kept.count), kept.first, false};
  sum_parts_by_halving(writer, team, *args.blocks, &values);
  const Block block{args.blocks->first(team.self()), args.blocks->count(team.self())};
  writer->copy(recv_part(block.count), values.sum_part(block));
}

void reduce_scatter_rank_order(Writer* writer, const BuildArgs& args) {
  sum_block_in_rank_order(writer, Team(args.place), {Buffer::kSend, 0, 0, args.blocks},
                          recv_part(args.blocks->count(args.place.rank)), args.is_in_place);
}

}  // namespace bp::ccl::builders
