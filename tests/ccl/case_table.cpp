// SPDX-License-Identifier: Apache-2.0
//
// See case_table.hpp.
#include "tests/ccl/case_table.hpp"

#include <array>
#include <stdexcept>

#include "tests/ccl/covering_array.hpp"

namespace bp::ccl::cases {
namespace {

constexpr std::array kRankCounts = {1u, 2u, 3u, 4u, 5u, 8u};
constexpr uint32_t kCountCount = 9;
constexpr uint64_t kLargeBytes = uint64_t{4} << 20;
constexpr std::array kMoving = {Kind::kAllGather, Kind::kBroadcast, Kind::kSend,
                                Kind::kGather,    Kind::kScatter,   Kind::kAllToAll};
constexpr std::array kReducing = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce};

/// Of the larger buffer: 4 MiB for the last one.
uint64_t count_of(uint32_t choice, const Case& c) {
  const uint64_t p = c.rank_count;
  const std::array<uint64_t, kCountCount> counts = {
      0,     1,     3,
      p - 1, p,     p + 1,
      1000,  65537, kLargeBytes / c.format->bytes / (has_blocks(c.kind) ? p : 1)};
  return counts[choice];
}

/// As many hosts as give both forms of a schedule: as many ranks on each, and not.
uint32_t host_count_of(const Algorithm& algorithm, uint32_t rank_count) {
  if (!algorithm.needs_hosts || rank_count == 1) return 1;
  return rank_count == 5 ? 3 : 2;
}

uint32_t root_of(uint32_t choice, uint32_t rank_count) {
  const std::array<uint32_t, 3> roots = {0, rank_count / 2, rank_count - 1};
  return roots[choice];
}

bool can_reduce(const Format& format, Reduction reduction) {
  return is_reduced(format, reduction) && has_kernel(format, reduction);
}

/// The factors of a space, in this order. Spaces of movements have no reductions.
struct Factors {
  std::vector<const Algorithm*> algorithms;
  std::vector<const Format*> formats;
  bool reduces = false;

  enum Index : uint32_t { kAlgorithm, kFormat, kPlace, kCount, kRanks, kRoot, kFill, kReduction };

  Case case_of(const Row& row) const {
    Case c;
    c.kind = algorithms[row[kAlgorithm]]->kind;
    c.algorithm = algorithms[row[kAlgorithm]]->name;
    c.format = formats[row[kFormat]];
    c.is_in_place = row[kPlace] == 1;
    c.rank_count = kRankCounts[row[kRanks]];
    c.host_count = host_count_of(*algorithms[row[kAlgorithm]], c.rank_count);
    c.count = count_of(row[kCount], c);
    c.root = root_of(row[kRoot], c.rank_count);
    c.fill = static_cast<Fill>(row[kFill]);
    if (reduces) c.reduction = static_cast<Reduction>(row[kReduction]);
    return c;
  }
  /// A row that has the pair, and else what always may be.
  Row row_with(const Pair& pair) const {
    Row row(reduces ? 8 : 7, 0);
    row[kCount] = 2;
    row[kRanks] = 1;
    row[pair.first_factor] = pair.first;
    row[pair.second_factor] = pair.second;
    return row;
  }
  bool allows(const Pair& pair) const {
    const Algorithm& algorithm = *algorithms[pair.first_factor == kAlgorithm ? pair.first : 0];
    const bool is_of_algorithm = pair.first_factor == kAlgorithm;
    if (is_of_algorithm && pair.second_factor == kPlace) {
      return pair.second == 0 || is_ever_in_place(algorithm.kind);
    }
    if (is_of_algorithm && pair.second_factor == kRanks) {
      const uint32_t rank_count = kRankCounts[pair.second];
      return serves_group(algorithm, rank_count, host_count_of(algorithm, rank_count));
    }
    if (pair.first_factor == kFormat && pair.second_factor == kReduction) {
      return can_reduce(*formats[pair.first], static_cast<Reduction>(pair.second));
    }
    return true;
  }
  Space space() const {
    Space space;
    space.sizes = {static_cast<uint32_t>(algorithms.size()),
                   static_cast<uint32_t>(formats.size()),
                   2,
                   kCountCount,
                   static_cast<uint32_t>(kRankCounts.size()),
                   3,
                   2};
    if (reduces) space.sizes.push_back(kReductionCount);
    space.allows = [this](const Pair& pair) { return allows(pair); };
    return space;
  }
};

/// Values that no row may have stand in none, and get cases of their own.
Factors factors_of(std::span<const Kind> kinds, bool reduces) {
  Factors factors;
  factors.reduces = reduces;
  for (const Kind kind : kinds) {
    for (const Algorithm& algorithm : algorithms_of(kind)) factors.algorithms.push_back(&algorithm);
  }
  for (const Format& format : formats()) {
    if (!reduces || can_reduce(format, Reduction::kSum)) factors.formats.push_back(&format);
  }
  return factors;
}

void add_space(const Factors& factors, uint64_t seed, std::vector<Case>* cases) {
  const Space space = factors.space();
  const std::vector<Row> rows = covering_array(space, seed);
  if (count_faults(space, rows) != 0) throw std::logic_error("the rows do not have every pair");
  for (const Row& row : rows) cases->push_back(factors.case_of(row));
  for (const Pair& pair : forbidden_pairs(space)) {
    cases->push_back(factors.case_of(factors.row_with(pair)));
  }
}

constexpr std::array kOfBlocks = {Kind::kAllGather, Kind::kReduceScatter, Kind::kGather,
                                  Kind::kScatter, Kind::kAllToAll};

/// Blocks of different sizes: a case that is the `turn`th of its table.
Case case_with_counts(Kind kind, uint32_t rank_count, uint32_t turn) {
  constexpr std::array<uint64_t, 6> kCounts = {1000, 0, 1, 5003, 3, 16'385};
  Case c{.number = turn,
         .kind = kind,
         .is_in_place = is_ever_in_place(kind) && turn % 3 == 1,
         .count = kCounts[turn % kCounts.size()],
         .rank_count = rank_count,
         .fill = static_cast<Fill>(turn / 2 % 2),
         .has_counts = true};
  if (kind_info(kind).has_root) c.root = turn % rank_count;
  if (c.reduces()) c.reduction = static_cast<Reduction>(turn % kReductionCount);
  for (uint32_t i = 0; c.format == nullptr; ++i) {
    const Format& format = formats()[(turn + i) % formats().size()];
    if (!c.reduces() || can_reduce(format, c.reduction)) c.format = &format;
  }
  return c;
}

void add_with_counts(std::vector<Case>* cases) {
  constexpr uint32_t kTurns = 2;
  for (const Kind kind : kOfBlocks) {
    for (const Algorithm& algorithm : algorithms_of(kind)) {
      if (algorithm.needs_equal_blocks) continue;
      for (const uint32_t rank_count : kRankCounts) {
        for (uint32_t i = 0; i < kTurns; ++i) {
          cases->push_back(
              case_with_counts(kind, rank_count, static_cast<uint32_t>(cases->size())));
          cases->back().algorithm = algorithm.name;
        }
      }
    }
  }
}

/// Of schedules that need hosts where there is one, and of dtypes that are in no row.
void add_ruled_out(std::vector<Case>* cases) {
  for (const Kind kind : kReducing) {
    for (const Algorithm& algorithm : algorithms_of(kind)) {
      if (!algorithm.needs_hosts) continue;
      for (const uint32_t rank_count : kRankCounts) {
        if (rank_count == 1) continue;  // of a forbidden pair
        cases->push_back({.kind = kind,
                          .algorithm = algorithm.name,
                          .format = formats().data(),
                          .count = 1000,
                          .rank_count = rank_count});
      }
    }
  }
  uint32_t turn = 0;
  for (const Format& format : formats()) {
    if (can_reduce(format, Reduction::kSum)) continue;
    for (uint32_t reduction = 0; reduction < kReductionCount; ++reduction) {
      const Kind kind = kReducing[turn++ % kReducing.size()];
      cases->push_back({.kind = kind,
                        .algorithm = algorithms_of(kind)[0].name,
                        .format = &format,
                        .reduction = static_cast<Reduction>(reduction),
                        .count = 3,
                        .rank_count = 3});
    }
  }
}

}  // namespace

std::vector<Case> schedule_cases() {
  std::vector<Case> cases;
  add_space(factors_of(kReducing, true), kSeed, &cases);
  add_space(factors_of(kMoving, false), kSeed + 1, &cases);
  for (const uint32_t rank_count : kRankCounts) {
    cases.push_back({.kind = Kind::kBarrier,
                     .algorithm = algorithms_of(Kind::kBarrier)[0].name,
                     .rank_count = rank_count});
  }
  add_ruled_out(&cases);
  add_with_counts(&cases);
  for (size_t i = 0; i < cases.size(); ++i) cases[i].number = static_cast<uint32_t>(i);
  return cases;
}

std::vector<Case> mixed_cases(uint32_t rank_count) {
  constexpr std::array<uint64_t, 4> kCounts = {37, 1, 1000, 5};
  std::vector<Case> cases;
  const auto add = [&](Kind kind, const Format& format, uint32_t root) {
    const auto turn = static_cast<uint32_t>(cases.size());
    Case c{.number = turn,
           .kind = kind,
           .format = &format,
           .is_in_place = is_ever_in_place(kind) && turn % 3 == 0,
           .count = kCounts[turn % kCounts.size()],
           .rank_count = rank_count,
           .root = root,
           .fill = static_cast<Fill>(turn / 2 % 2)};
    if (c.reduces()) {
      for (uint32_t i = 0; i < kReductionCount; ++i) {
        c.reduction = static_cast<Reduction>((turn + i) % kReductionCount);
        if (is_reduced(format, c.reduction)) break;
      }
    }
    cases.push_back(c);
  };
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto kind = static_cast<Kind>(i);
    if (kind == Kind::kRecv || kind == Kind::kBarrier) continue;  // of send, and below
    for (const Format& format : formats()) {
      const bool has_root = kind_info(kind).has_root || kind == Kind::kSend;
      for (uint32_t root = 0; root < (has_root ? rank_count : 1); ++root) add(kind, format, root);
    }
  }
  cases.push_back({.number = static_cast<uint32_t>(cases.size()),
                   .kind = Kind::kBarrier,
                   .rank_count = rank_count});
  constexpr uint32_t kTurns = 6;
  for (const Kind kind : kOfBlocks) {
    for (uint32_t i = 0; i < kTurns; ++i) {
      cases.push_back(case_with_counts(kind, rank_count, static_cast<uint32_t>(cases.size())));
    }
  }
  return cases;
}

uint32_t variant_of(const Case& c) {
  const auto algorithms = algorithms_of(c.kind);
  for (uint32_t i = 0; i < algorithms.size(); ++i) {
    if (algorithms[i].name == c.algorithm) return i;
  }
  throw std::logic_error("a case forces a schedule that there is not");
}

uint32_t variant_count() {
  size_t most = 0;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    most = std::max(most, algorithms_of(static_cast<Kind>(i)).size());
  }
  return static_cast<uint32_t>(most);
}

std::string rules_of_variant(uint32_t variant) {
  std::string text;
  for (uint32_t i = 0; i < kKindCount; ++i) {
    const auto algorithms = algorithms_of(static_cast<Kind>(i));
    if (variant >= algorithms.size()) continue;
    text += (text.empty() ? "" : ",") + std::string(kind_info(static_cast<Kind>(i)).name) + ":" +
            std::string(algorithms[variant].name);
  }
  return text;
}

}  // namespace bp::ccl::cases
