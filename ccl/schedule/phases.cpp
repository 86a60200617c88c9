// SPDX-License-Identifier: Apache-2.0
//
// See phases.hpp.
#include "ccl/schedule/phases.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace bp::ccl {
namespace {

/// The elements of parts that lie one behind the other.
Block elements_of(const BlockLayout& parts, uint32_t begin, uint32_t end) {
  return {parts.first(begin), parts.first(end - 1) + parts.count(end - 1) - parts.first(begin)};
}

/// The order of operands is that of members, on whichever side.
First first_of(uint32_t self, uint32_t peer) {
  return self < peer ? First::kOwn : First::kReceived;
}

/// The member that is `steps` after this one, or before it.
uint32_t after(const Team& team, uint32_t steps) {
  return static_cast<uint32_t>((uint64_t{team.self()} + steps) % team.size());
}
uint32_t before(const Team& team, uint32_t steps) { return after(team, team.size() - steps); }

}  // namespace

void fold_in(Writer* writer, const Team& team, Values* values) {
  if (team.fold_rest() == 0) return;
  if (team.leaves_fold()) {
    writer->send(team.rank(team.self() - 1), values->own_part(values->all()));
  } else if (team.takes_at_fold()) {
    receive_sum(writer, team.rank(team.self() + 1), *values, values->all(), First::kOwn);
    values->is_same = true;
  }
  writer->end_round();
}

void fold_out(Writer* writer, const Team& team, const Values& values) {
  if (team.fold_rest() == 0) return;
  if (team.leaves_fold()) {
    writer->recv(team.rank(team.self() - 1), values.sum);
  } else if (team.takes_at_fold()) {
    writer->send(team.rank(team.self() + 1), values.sum);
  }
  writer->end_round();
}

void sum_by_doubling(Writer* writer, const Team& team, Values* values) {
  for (uint32_t distance = 1; distance < team.size(); distance *= 2) {
    const uint32_t peer = team.self() ^ distance;
    writer->send(team.rank(peer), values->own_part(values->all()));
    receive_sum(writer, team.rank(peer), *values, values->all(), first_of(team.self(), peer));
    values->is_same = true;
    writer->end_round();
  }
}

void sum_parts_by_halving(Writer* writer, const Team& team, const BlockLayout& parts,
                          Values* values) {
  uint32_t begin = 0;
  for (uint32_t half = team.size() / 2; half > 0; half /= 2) {
    const uint32_t peer = team.self() ^ half;
    const bool keeps_upper = (team.self() & half) != 0;
    const uint32_t sent = keeps_upper ? begin : begin + half;
    if (keeps_upper) begin += half;
    writer->send(team.rank(peer), values->own_part(elements_of(parts, sent, sent + half)));
    receive_sum(writer, team.rank(peer), *values, elements_of(parts, begin, begin + half),
                first_of(team.self(), peer));
    values->is_same = true;
    writer->end_round();
  }
}

void sum_parts_by_ring(Writer* writer, const Team& team, const BlockLayout& parts, Values* values) {
  for (uint32_t round = 1; round < team.size(); ++round) {
    const uint32_t sent = before(team, round);
    const uint32_t summed = before(team, round + 1);
    // Part `sent` is this rank's own at first, and afterwards what it summed in the round before.
    const Block sent_elements = elements_of(parts, sent, sent + 1);
    writer->send(team.rank(after(team, 1)),
                 round == 1 ? values->own_part(sent_elements) : values->sum_part(sent_elements));
    receive_sum(writer, team.rank(before(team, 1)), *values, elements_of(parts, summed, summed + 1),
                First::kReceived);
    writer->end_round();
  }
  if (team.size() > 1) values->is_same = true;
}

void sum_by_halving_and_doubling(Writer* writer, const Team& team, Values* values) {
  const Team folded = team.folded();
  const BlockLayout parts = BlockLayout::even_parts(values->sum.count, folded.size());
  fold_in(writer, team, values);
  if (team.leaves_fold()) {
    writer->end_rounds(2 * doubling_rounds(folded.size()));
  } else {
    sum_parts_by_halving(writer, folded, parts, values);
    gather_to_all_by_doubling(writer, folded, {values->sum.buffer, values->sum.first, 0, &parts});
  }
  fold_out(writer, team, *values);
}

uint32_t halving_and_doubling_rounds(uint32_t size) {
  const uint32_t left = std::bit_floor(size);
  return 2 * doubling_rounds(left) + (left < size ? 2 : 0);
}

void sum_block_in_rank_order(Writer* writer, const Team& team, const Places& own, const Part& sum,
                             bool is_same) {
  const uint32_t self_rank = team.rank(team.self());
  const Part own_block = own.block(team.self());
  const Part others = writer->scratch((team.size() - 1) * own_block.count);
  const auto block_of = [&](uint32_t rank) {
    const uint64_t slot = rank < self_rank ? rank : rank - 1;
    return rank == self_rank ? own_block
                             : sub_part(others, slot * own_block.count, own_block.count);
  };
  for (uint32_t round = 1; round < team.size(); ++round) {
    const uint32_t to = after(team, round);
    const uint32_t from = team.rank(before(team, round));
    writer->send(team.rank(to), own.block(to));
    writer->recv(from, block_of(from));
    if (round + 1 < team.size()) writer->end_round();
  }
  // In place the own block must stay until its turn, so that sums grow in scratch.
  const Part running = self_rank == 0 ? sum : block_of(0);
  if (self_rank == 0 && !is_same) writer->copy(sum, own_block);
  for (uint32_t rank = 1; rank < team.size(); ++rank) {
    writer->reduce(running, block_of(rank), false);
  }
  if (self_rank != 0) writer->copy(sum, running);
  writer->end_round();
}

void sum_by_tree(Writer* writer, const Team& team, Values* values) {
  const uint32_t self = team.self();
  for (uint32_t distance = 1; distance < team.size(); distance *= 2) {
    if (self % (2 * distance) == distance) {
      writer->send(team.rank(self - distance), values->own_part(values->all()));
    } else if (self % (2 * distance) == 0 && self + distance < team.size()) {
      receive_sum(writer, team.rank(self + distance), *values, values->all(), First::kOwn);
      values->is_same = true;
    }
    writer->end_round();
  }
}

void gather_to_all_by_doubling(Writer* writer, const Team& team, const Places& places) {
  for (uint32_t distance = 1; distance < team.size(); distance *= 2) {
    const uint32_t peer = team.self() ^ distance;
    const uint32_t own = team.self() & ~(distance - 1);
    const uint32_t others = peer & ~(distance - 1);
    writer->send(team.rank(peer), places.range(own, own + distance));
    writer->recv(team.rank(peer), places.range(others, others + distance));
    writer->end_round();
  }
}

void gather_to_all_by_ring(Writer* writer, const Team& team, const Places& places,
                           const Part& own) {
  for (uint32_t round = 1; round < team.size(); ++round) {
    writer->send(team.rank(after(team, 1)),
                 round == 1 ? own : places.block(before(team, round - 1)));
    writer->recv(team.rank(before(team, 1)), places.block(before(team, round)));
    writer->end_round();
  }
}

Part gather_to_all_rotated(Writer* writer, const Team& team, const BlockLayout& blocks,
                           const Part& own) {
  const uint32_t size = team.size();
  // Where the block of the member that is `steps` after this one lies.
  std::vector<uint64_t> first(size + 1, 0);
  for (uint32_t steps = 0; steps < size; ++steps) {
    first[steps + 1] = first[steps] + blocks.count(team.rank(after(team, steps)));
  }
  const Part all = writer->scratch(first[size]);
  writer->copy(sub_part(all, 0, own.count), own);
  writer->end_round();
  for (uint32_t distance = 1; distance < size; distance *= 2) {
    const uint32_t count = std::min(distance, size - distance);
    writer->send(team.rank(before(team, distance)), sub_part(all, 0, first[count]));
    writer->recv(team.rank(after(team, distance)),
                 sub_part(all, first[distance], first[distance + count] - first[distance]));
    writer->end_round();
  }
  return all;
}

void spread_by_tree(Writer* writer, const Team& team, const Part& from, const Part& to) {
  const uint32_t self = team.self();
  for (uint32_t distance = std::bit_ceil(team.size()) / 2; distance > 0; distance /= 2) {
    if (self % (2 * distance) == distance) {
      writer->recv(team.rank(self - distance), to);
    } else if (self % (2 * distance) == 0 && self + distance < team.size()) {
      writer->send(team.rank(self + distance), self == 0 ? from : to);
    }
    writer->end_round();
  }
}

void scatter_parts_by_tree(Writer* writer, const Team& team, const Places& from, const Places& to) {
  const uint32_t self = team.self();
  for (uint32_t distance = std::bit_ceil(team.size()) / 2; distance > 0; distance /= 2) {
    if (self % (2 * distance) == distance) {
      writer->recv(team.rank(self - distance),
                   to.range(self, self + members_below(self, team.size())));
    } else if (self % (2 * distance) == 0 && self + distance < team.size()) {
      const uint32_t child = self + distance;
      writer->send(team.rank(child),
                   (self == 0 ? from : to).range(child, child + members_below(child, team.size())));
    }
    writer->end_round();
  }
}

void gather_parts_by_tree(Writer* writer, const Team& team, const Places& places) {
  const uint32_t self = team.self();
  for (uint32_t distance = 1; distance < team.size(); distance *= 2) {
    if (self % (2 * distance) == distance) {
      writer->send(team.rank(self - distance),
                   places.range(self, self + members_below(self, team.size())));
    } else if (self % (2 * distance) == 0 && self + distance < team.size()) {
      const uint32_t child = self + distance;
      writer->recv(team.rank(child),
                   places.range(child, child + members_below(child, team.size())));
    }
    writer->end_round();
  }
}

uint32_t members_below(uint32_t member, uint32_t size) {
  return member == 0 ? size : std::min(member & (~member + 1), size - member);
}

}  // namespace bp::ccl
