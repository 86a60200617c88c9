// SPDX-License-Identifier: Apache-2.0
//
// See symbolic_sweep_test.hpp.
#include "ccl/schedule/symbolic_sweep_test.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace bp::ccl::symbolic {
namespace {

uint32_t smallest_divisor(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return divisor;
  }
  return number;
}

/// Hosts of ranks: as many on each, in blocks and by turns, and in ways that are not even.
std::vector<std::vector<uint32_t>> host_forms(uint32_t rank_count) {
  const uint32_t divisor = smallest_divisor(rank_count);
  const auto form = [&](auto host_of) {
    std::vector<uint32_t> hosts(rank_count);
    for (uint32_t i = 0; i < rank_count; ++i) hosts[i] = host_of(i);
    return hosts;
  };
  return {form([](uint32_t) { return 7u; }),
          form([](uint32_t i) { return 100 - i % 101 + 101 * (i / 101); }),
          form([&](uint32_t i) { return i / divisor; }),
          form([&](uint32_t i) { return i % divisor; }),
          form([](uint32_t i) { return i * i % 7; }),
          form([](uint32_t i) { return i / 8; }),
          form([](uint32_t i) { return i == 0 ? 1u : 0u; })};
}

std::vector<uint64_t> counts_of(const Algorithm& algorithm, uint32_t rank_count) {
  if (algorithm.kind == Kind::kBarrier) return {0};
  const std::set<uint64_t> counts = {
      0, 1, 3, rank_count - 1, rank_count, uint64_t{rank_count} + 1, 1000};
  return {counts.begin(), counts.end()};
}

constexpr size_t kOfThreeElements = 2;  // the number of this count, where there are more ranks

/// Of four roots their numbers; else 4.
uint32_t number_of_few(uint32_t root, uint32_t rank_count) {
  if (root < 2) return root;
  if (root == rank_count / 2) return 2;
  return root + 1 == rank_count ? 3 : 4;
}

bool is_squared(const Algorithm& algorithm) {
  constexpr std::string_view kSquared[] = {"ring", "pairwise", "rank_order", "gathered_rank_order",
                                           "scatter_allgather"};
  return std::find(std::begin(kSquared), std::end(kSquared), algorithm.name) != std::end(kSquared);
}

/// Whether a sweep has the root with the count number `i` of `counts`.
bool has(Sweep sweep, const Algorithm& algorithm, RankPlace root, size_t i, size_t counts) {
  const bool is_of_squared = is_squared(algorithm);
  if (!kind_info(algorithm.kind).has_root) {
    return sweep != Sweep::kThinnest || !is_of_squared || (root.rank_count + i) % 2 == 0;
  }
  if (sweep == Sweep::kAll || (sweep == Sweep::kMost && !is_of_squared)) return true;
  const uint32_t number = number_of_few(root.rank, root.rank_count);
  if (sweep == Sweep::kThinnest && is_of_squared && i == kOfThreeElements) return true;
  if (sweep != Sweep::kMost && is_of_squared) return number == i % 4;
  return number < 4 || root.rank % counts == i;
}

bool can_be_in_place(Kind kind) { return kind != Kind::kAllToAll && kind != Kind::kBarrier; }

/// Sizes 0 to 4 without any order, an element apart, from the last rank to the first.
BlockLayout uneven_blocks(uint32_t rank_count, uint32_t seed, bool has_gaps) {
  std::vector<Block> blocks(rank_count);
  uint64_t first = has_gaps ? 2 : 0;
  for (uint32_t i = 0; i < rank_count; ++i) {
    const uint32_t index = has_gaps ? rank_count - 1 - i : i;
    blocks[index] = {first, (index * 7 + seed * 3 + index * index) % 5};
    first += blocks[index].count + (has_gaps ? 1 : 0);
  }
  return BlockLayout::listed(std::move(blocks)).value();
}

/// Of all_to_all: what rank a sends to rank b is what b receives from a.
std::pair<std::vector<BlockLayout>, std::vector<BlockLayout>> exchanged_blocks(
    uint32_t rank_count) {
  const auto count = [](uint32_t from, uint32_t to) { return (from * 5 + to * 3) % 4; };
  std::vector<BlockLayout> sent;
  std::vector<BlockLayout> received;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    std::vector<Block> out(rank_count);
    std::vector<Block> in(rank_count);
    uint64_t out_first = 0;
    uint64_t in_first = 1;
    for (uint32_t other = 0; other < rank_count; ++other) {
      out[other] = {out_first, count(rank, other)};
      out_first += out[other].count + rank % 2;
      in[other] = {in_first, count(other, rank)};
      in_first += in[other].count;
    }
    sent.push_back(BlockLayout::listed(std::move(out)).value());
    received.push_back(BlockLayout::listed(std::move(in)).value());
  }
  return {std::move(received), std::move(sent)};
}

}  // namespace

std::vector<Case> cases_of(const Algorithm& algorithm, uint32_t rank_count, Sweep sweep) {
  const bool has_root = kind_info(algorithm.kind).has_root;
  const std::vector<uint64_t> counts = counts_of(algorithm, rank_count);
  const uint32_t way_count = can_be_in_place(algorithm.kind) ? 3 : 1;
  std::vector<std::vector<uint32_t>> hosts = {{}};
  if (algorithm.needs_hosts) hosts = host_forms(rank_count);
  // Whether the turn of this way and this spread has come.
  const auto comes = [&](size_t turn, size_t way, size_t spread) {
    if (sweep == Sweep::kAll) return true;
    const bool is_spread = sweep == Sweep::kMost ? hosts.size() == 1 || (turn + spread) % 2 == 0
                                                 : turn % hosts.size() == spread;
    return is_spread && (turn + spread) % way_count == way;
  };
  std::vector<Case> cases;
  for (uint32_t root = 0; root < (has_root ? rank_count : 1); ++root) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!has(sweep, algorithm, {root, rank_count}, i, counts.size())) continue;
      for (size_t k = 0; k < hosts.size() * way_count; ++k) {
        const size_t way = k % way_count;
        const size_t spread = k / way_count;
        if (!comes(rank_count + root + i, way, spread)) continue;
        cases.push_back({&algorithm,
                         rank_count,
                         root,
                         counts[i],
                         static_cast<InPlace>(way),
                         hosts[spread],
                         {},
                         {}});
      }
    }
  }
  return cases;
}

std::vector<Case> cases_with_blocks(const Algorithm& algorithm, uint32_t rank_count) {
  constexpr Kind kKinds[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kGather, Kind::kScatter};
  std::vector<Case> cases;
  if (algorithm.needs_equal_blocks) return cases;
  if (algorithm.kind == Kind::kAllToAll) {
    auto [received, sent] = exchanged_blocks(rank_count);
    cases.push_back(
        {&algorithm, rank_count, 0, 0, InPlace::kNone, {}, std::move(received), std::move(sent)});
  }
  if (std::find(std::begin(kKinds), std::end(kKinds), algorithm.kind) == std::end(kKinds)) {
    return cases;
  }
  const uint32_t root_count = kind_info(algorithm.kind).has_root ? rank_count : 1;
  for (uint32_t root = 0; root < root_count; ++root) {
    for (uint32_t mode = 0; mode < 3; ++mode) {
      for (const bool has_gaps : {false, true}) {
        cases.push_back({&algorithm,
                         rank_count,
                         root,
                         0,
                         static_cast<InPlace>(mode),
                         {},
                         {uneven_blocks(rank_count, root + mode, has_gaps)},
                         {}});
      }
    }
  }
  return cases;
}

namespace {

/// Empty: all cases are right. Else the first that is not.
std::string prove_row(Sweep sweep, ProvedRow* row) {
  Prover prover(row->rank_count);
  for (const Case& c : cases_of(*row->algorithm, row->rank_count, sweep)) {
    std::string problem = prover.problem_of(c);
    if (!problem.empty()) return problem;
    ++row->cases;
  }
  return "";
}

}  // namespace

Proof prove(Kind kind, const std::vector<uint32_t>& rank_counts, Sweep sweep) {
  Proof proof;
  for (const Algorithm& algorithm : algorithms_of(kind)) {
    std::string problem;
    for (const uint32_t rank_count : rank_counts) {
      ProvedRow row{.algorithm = &algorithm, .rank_count = rank_count};
      row.serves = serves(algorithm, {rank_count, false, false, true});
      if (row.serves && problem.empty()) {
        problem = prove_row(sweep, &row);
        row.is_proved = problem.empty();
      }
      proof.cases += row.cases;
      proof.rows.push_back(row);
    }
    if (!problem.empty()) proof.problem += problem + "\n";
  }
  return proof;
}

std::vector<Kind> kinds_of_groups() {
  std::vector<Kind> kinds;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    if (!kind_info(static_cast<Kind>(i)).is_of_two) kinds.push_back(static_cast<Kind>(i));
  }
  return kinds;
}

std::vector<uint32_t> rank_counts(uint32_t first, uint32_t last) {
  std::vector<uint32_t> counts(last - first + 1);
  std::iota(counts.begin(), counts.end(), first);
  return counts;
}

}  // namespace bp::ccl::symbolic
