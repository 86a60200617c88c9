// SPDX-License-Identifier: Apache-2.0
//
// Kinds that only move, and barrier.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "ccl/schedule/builders.hpp"
#include "ccl/schedule/phases.hpp"

namespace bp::ccl::builders {
namespace {

/// Blocks of the members of a tree one behind the other in their order, from that of member 0.
class Packed {
 public:
  Packed(const Team& team, const BlockLayout& blocks) : team_(team), blocks_(blocks) {
    if (!blocks.is_listed()) return;
    first_.resize(team.size() + 1, 0);
    for (uint32_t i = 0; i < team.size(); ++i) {
      first_[i + 1] = first_[i] + blocks.count(team.rank(i));
    }
  }
  uint64_t first(uint32_t member) const {
    return first_.empty() ? member * blocks_.count(0) : first_[member];
  }
  /// Of `members` of them, in packed form.
  uint64_t count(uint32_t begin, uint32_t members) const {
    return first(begin + members) - first(begin);
  }
  /// Whether the blocks lie so in the large buffer too.
  bool is_packed_there(uint32_t begin, uint32_t members) const {
    uint64_t end = 0;
    bool is_first = true;
    for (uint32_t i = begin; i < begin + members; ++i) {
      const uint32_t rank = team_.rank(i);
      if (blocks_.count(rank) == 0) continue;
      if (!is_first && blocks_.first(rank) != end) return false;
      end = blocks_.first(rank) + blocks_.count(rank);
      is_first = false;
    }
    return true;
  }
  /// Where they begin in the large buffer; for what is packed there.
  uint64_t first_there(uint32_t begin, uint32_t members) const {
    for (uint32_t i = begin; i < begin + members; ++i) {
      if (blocks_.count(team_.rank(i)) > 0) return blocks_.first(team_.rank(i));
    }
    return 0;
  }
  /// Calls `use` with each block's part of the large buffer and of what is packed.
  template <class Use>
  void for_each(uint32_t begin, uint32_t members, Buffer large, const Part& packed, Use use) const {
    for (uint32_t i = begin; i < begin + members; ++i) {
      const uint32_t rank = team_.rank(i);
      use(Part{large, blocks_.first(rank), blocks_.count(rank)},
          sub_part(packed, first(i) - first(begin), blocks_.count(rank)));
    }
  }

 private:
  const Team& team_;
  const BlockLayout& blocks_;
  std::vector<uint64_t> first_;  // of listed blocks
};

/// The own block of a rank that has both buffers.
void copy_own_block(Writer* writer, const BuildArgs& args, const Part& to, const Part& from) {
  if (!args.is_in_place) writer->copy(to, from);
}

}  // namespace

void all_gather_ring(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const Places places{Buffer::kRecv, 0, 0, args.blocks};
  const Part own = send_part(args.blocks->count(team.self()));
  copy_own_block(writer, args, places.block(team.self()), own);
  gather_to_all_by_ring(writer, team, places, own);
}

void all_gather_bruck(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const Places places{Buffer::kRecv, 0, 0, args.blocks};
  const Part own = send_part(args.blocks->count(team.self()));
  copy_own_block(writer, args, places.block(team.self()), own);
  const Part all = gather_to_all_rotated(writer, team, *args.blocks, own);
  uint64_t at = own.count;
  for (uint32_t steps = 1; steps < team.size(); ++steps) {
    const Part block = places.block((team.self() + steps) % team.size());
    writer->copy(block, sub_part(all, at, block.count));
    at += block.count;
  }
}

void all_gather_recursive_doubling(Writer* writer, const BuildArgs& args) {
  const Team team(args.place);
  const Places places{Buffer::kRecv, 0, 0, args.blocks};
  const Part own = places.block(team.self());
  copy_own_block(writer, args, own, send_part(own.count));
  writer->end_round();
  gather_to_all_by_doubling(writer, team, places);
}

void broadcast_binomial(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const Part from = send_part(args.operation.count);
  const Part to = recv_part(args.operation.count);
  if (team.self() == 0) copy_own_block(writer, args, to, from);
  spread_by_tree(writer, team, from, to);
}

void broadcast_scatter_allgather(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const BlockLayout parts = BlockLayout::even_parts(args.operation.count, team.size());
  const Places from{Buffer::kSend, 0, 0, &parts};
  const Places to{Buffer::kRecv, 0, 0, &parts};
  const Part own = to.block(team.self());
  // All else comes round to the root as to everyone.
  if (team.self() == 0) copy_own_block(writer, args, own, from.block(0));
  scatter_parts_by_tree(writer, team, from, to);
  gather_to_all_by_ring(writer, team, to, own);
}

void gather_direct(Writer* writer, const BuildArgs& args) {
  const uint32_t root = args.operation.root;
  const Part own = send_part(args.blocks->count(args.place.rank));
  if (args.place.rank != root) {
    writer->send(root, own);
    return;
  }
  const Places places{Buffer::kRecv, 0, 0, args.blocks};
  for (uint32_t rank = 0; rank < args.place.rank_count; ++rank) {
    if (rank != root) writer->recv(rank, places.block(rank));
  }
  copy_own_block(writer, args, places.block(root), own);
}

void gather_binomial(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const Packed packed(team, *args.blocks);
  const uint32_t self = team.self();
  const uint32_t below = members_below(self, team.size());
  const Part own = send_part(args.blocks->count(args.place.rank));
  Part mine = own;  // all that comes by way of this rank
  if (self == 0) {
    const Places places{Buffer::kRecv, 0, 0, args.blocks};
    copy_own_block(writer, args, places.block(args.place.rank), own);
  } else if (below > 1) {
    mine = writer->scratch(packed.count(self, below));
    writer->copy(sub_part(mine, 0, own.count), own);
  }
  for (uint32_t distance = 1; distance < team.size(); distance *= 2) {
    const uint32_t child = self + distance;
    if (self % (2 * distance) == distance) {
      writer->send(team.rank(self - distance), mine);
    } else if (self % (2 * distance) == 0 && child < team.size()) {
      const uint32_t members = members_below(child, team.size());
      const uint64_t count = packed.count(child, members);
      if (self != 0) {
        writer->recv(team.rank(child),
                     sub_part(mine, packed.first(child) - packed.first(self), count));
      } else if (packed.is_packed_there(child, members)) {
        writer->recv(team.rank(child), {Buffer::kRecv, packed.first_there(child, members), count});
      } else {
        const Part landing = writer->landing(count);
        writer->recv(team.rank(child), landing);
        packed.for_each(child, members, Buffer::kRecv, landing,
                        [&](const Part& there, const Part& here) { writer->copy(there, here); });
      }
    }
    writer->end_round();
  }
}

void scatter_direct(Writer* writer, const BuildArgs& args) {
  const uint32_t root = args.operation.root;
  const Part own = recv_part(args.blocks->count(args.place.rank));
  if (args.place.rank != root) {
    writer->recv(root, own);
    return;
  }
  const Places places{Buffer::kSend, 0, 0, args.blocks};
  for (uint32_t rank = 0; rank < args.place.rank_count; ++rank) {
    if (rank != root) writer->send(rank, places.block(rank));
  }
  copy_own_block(writer, args, own, places.block(root));
}

void scatter_binomial(Writer* writer, const BuildArgs& args) {
  const Team team(args.place, args.operation.root);
  const Packed packed(team, *args.blocks);
  const uint32_t self = team.self();
  const uint32_t below = members_below(self, team.size());
  const Part own = recv_part(args.blocks->count(args.place.rank));
  const auto child_part = [&](uint32_t child, uint32_t members, const Part& mine) -> Part {
    const uint64_t count = packed.count(child, members);
    if (self != 0) return sub_part(mine, packed.first(child) - packed.first(self), count);
    if (packed.is_packed_there(child, members)) {
      return {Buffer::kSend, packed.first_there(child, members), count};
    }
    const Part part = writer->scratch(count);
    packed.for_each(child, members, Buffer::kSend, part,
                    [&](const Part& there, const Part& here) { writer->copy(here, there); });
    return part;
  };
  // In scratch is what goes on from here. The root puts there, in a round before, what does not
  // lie together.
  const bool passes_on = self != 0 && below > 1;
  const Part mine = passes_on ? writer->scratch(packed.count(self, below)) : own;
  std::vector<Part> to_children;
  for (uint32_t distance = std::bit_ceil(below) / 2; distance > 0; distance /= 2) {
    const uint32_t child = self + distance;
    to_children.push_back(child_part(child, members_below(child, team.size()), mine));
  }
  writer->end_round();
  auto to_child = to_children.begin();
  for (uint32_t distance = std::bit_ceil(team.size()) / 2; distance > 0; distance /= 2) {
    if (self % (2 * distance) == distance) {
      writer->recv(team.rank(self - distance), mine);
    } else if (self % (2 * distance) == 0 && self + distance < team.size()) {
      writer->send(team.rank(self + distance), *to_child++);
    }
    writer->end_round();
  }
  if (passes_on) writer->copy(own, sub_part(mine, 0, own.count));
  if (self == 0) {
    const Places places{Buffer::kSend, 0, 0, args.blocks};
    copy_own_block(writer, args, own, places.block(args.place.rank));
  }
}

void all_to_all_pairwise(Writer* writer, const BuildArgs& args) {
  const Places from{Buffer::kSend, 0, 0, args.send_blocks};
  const Places to{Buffer::kRecv, 0, 0, args.blocks};
  const uint32_t size = args.place.rank_count;
  const uint32_t rank = args.place.rank;
  writer->copy(to.block(rank), from.block(rank));
  for (uint32_t round = 1; round < size; ++round) {
    const uint32_t target = (rank + round) % size;
    const uint32_t source = (rank + size - round) % size;
    writer->send(target, from.block(target), args.sends_empty_blocks);
    writer->recv(source, to.block(source), args.sends_empty_blocks);
    writer->end_round();
  }
}

void all_to_all_bruck(Writer* writer, const BuildArgs& args) {
  const uint32_t size = args.place.rank_count;
  const uint32_t rank = args.place.rank;
  const Places from{Buffer::kSend, 0, 0, args.send_blocks};
  const Places to{Buffer::kRecv, 0, 0, args.blocks};
  const uint64_t count = args.blocks->count(0);
  // What is to go `steps` ranks on travels by the bits of `steps`, the lowest first. Between its
  // travels it waits here.
  const Part waiting = writer->scratch(size * count);
  const Part outgoing = writer->scratch((size + 1) / 2 * count);
  const auto pack = [&](uint32_t bit) {
    uint64_t packed = 0;
    for (uint32_t steps = bit; steps < size; steps = (steps + 1) | bit) {
      const bool has_travelled = (steps & (bit - 1)) != 0;
      writer->copy(sub_part(outgoing, packed, count), has_travelled
                                                          ? sub_part(waiting, steps * count, count)
                                                          : from.block((rank + steps) % size));
      packed += count;
    }
    return packed;
  };
  writer->copy(to.block(rank), from.block(rank));
  uint64_t packed = pack(1);
  writer->end_round();
  for (uint32_t bit = 1; bit < size; bit *= 2) {
    const Part landing = writer->landing(packed);
    writer->send((rank + bit) % size, sub_part(outgoing, 0, packed));
    writer->recv((rank + size - bit) % size, landing);
    uint64_t unpacked = 0;
    for (uint32_t steps = bit; steps < size; steps = (steps + 1) | bit) {
      const bool is_there = steps < 2 * bit;
      writer->copy(is_there ? to.block((rank + size - steps) % size)
                            : sub_part(waiting, steps * count, count),
                   sub_part(landing, unpacked, count));
      unpacked += count;
    }
    if (2 * bit < size) packed = pack(2 * bit);
    writer->end_round();
  }
}

void send_direct(Writer* writer, const BuildArgs& args) {
  writer->send(args.operation.root, send_part(args.operation.count));
}

void recv_direct(Writer* writer, const BuildArgs& args) {
  writer->recv(args.operation.root, recv_part(args.operation.count));
}

void barrier_dissemination(Writer* writer, const BuildArgs& args) {
  const uint32_t size = args.place.rank_count;
  const uint32_t rank = args.place.rank;
  const Part out = writer->scratch(1);
  const Part in = writer->scratch(1);
  for (uint32_t distance = 1; distance < size; distance *= 2) {
    writer->send((rank + distance) % size, out);
    writer->recv((rank + size - distance) % size, in);
    writer->end_round();
  }
}

}  // namespace bp::ccl::builders
