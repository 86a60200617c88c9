// SPDX-License-Identifier: Apache-2.0
//
// Greedy: of some rows, each made round a pair that is still missing, the one with the most missing
// pairs is taken.
#include "tests/ccl/covering_array.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace bp::ccl::cases {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int kCandidates = 40;

template <class Visit>
void for_each_pair(const Space& space, Visit visit) {
  const auto factors = static_cast<uint32_t>(space.sizes.size());
  for (uint32_t a = 0; a < factors; ++a) {
    for (uint32_t b = a + 1; b < factors; ++b) {
      for (uint32_t i = 0; i < space.sizes[a]; ++i) {
        for (uint32_t k = 0; k < space.sizes[b]; ++k) visit(Pair{a, i, b, k});
      }
    }
  }
}

Pair pair_of(uint32_t a, uint32_t i, uint32_t b, uint32_t k) {
  return a < b ? Pair{a, i, b, k} : Pair{b, k, a, i};
}

class Maker {
 public:
  Maker(const Space& space, uint64_t seed) : space_(space), random_(seed) {
    for (const uint32_t size : space.sizes) {
      first_of_.push_back(value_count_);
      value_count_ += size;
    }
    is_missing_.resize(size_t{value_count_} * value_count_);
    for_each_pair(space, [&](const Pair& pair) {
      if (space.allows(pair)) missing_.push_back(pair);
      is_missing_[place_of(pair)] = space.allows(pair);
    });
  }

  std::vector<Row> make() {
    std::vector<Row> rows;
    while (!missing_.empty()) {
      Row best;
      size_t best_count = 0;
      for (int i = 0; i < kCandidates; ++i) {
        const Row row = candidate();
        const size_t count = row.empty() ? 0 : new_pairs(row);
        if (count > best_count) std::tie(best, best_count) = std::pair(row, count);
      }
      if (best.empty()) throw std::logic_error("a pair of values fits into no row");
      take(best);
      rows.push_back(best);
    }
    return rows;
  }

 private:
  size_t place_of(const Pair& pair) const {
    return size_t{first_of_[pair.first_factor] + pair.first} * value_count_ +
           first_of_[pair.second_factor] + pair.second;
  }
  bool is_missing(const Pair& pair) const { return is_missing_[place_of(pair)]; }

  /// Missing pairs of the value with those that the row has; nullopt-like kNone: it may not be.
  uint32_t gain(const Row& row, uint32_t factor, uint32_t value) const {
    uint32_t count = 0;
    for (uint32_t other = 0; other < row.size(); ++other) {
      if (other == factor || row[other] == kNone) continue;
      const Pair pair = pair_of(factor, value, other, row[other]);
      if (!space_.allows(pair)) return kNone;
      count += is_missing(pair) ? 1 : 0;
    }
    return count;
  }

  /// Empty: the values that were drawn leave none for a factor.
  Row candidate() {
    Row row(space_.sizes.size(), kNone);
    const Pair& seed = missing_[random_.below(static_cast<uint32_t>(missing_.size()))];
    row[seed.first_factor] = seed.first;
    row[seed.second_factor] = seed.second;
    std::vector<uint32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_.below(static_cast<uint32_t>(i))]);
    }
    for (const uint32_t factor : order) {
      if (row[factor] != kNone) continue;
      uint32_t best = kNone;
      uint32_t best_gain = 0;
      const uint32_t shift = random_.below(space_.sizes[factor]);
      for (uint32_t i = 0; i < space_.sizes[factor]; ++i) {
        const uint32_t value = (i + shift) % space_.sizes[factor];
        const uint32_t found = gain(row, factor, value);
        if (found == kNone || (best != kNone && found <= best_gain)) continue;
        best = value;
        best_gain = found;
      }
      if (best == kNone) return {};
      row[factor] = best;
    }
    return row;
  }

  size_t new_pairs(const Row& row) const {
    size_t count = 0;
    for (uint32_t a = 0; a < row.size(); ++a) {
      for (uint32_t b = a + 1; b < row.size(); ++b) {
        count += is_missing({a, row[a], b, row[b]}) ? 1 : 0;
      }
    }
    return count;
  }

  void take(const Row& row) {
    for (uint32_t a = 0; a < row.size(); ++a) {
      for (uint32_t b = a + 1; b < row.size(); ++b) {
        is_missing_[place_of({a, row[a], b, row[b]})] = false;
      }
    }
    std::erase_if(missing_, [&](const Pair& pair) { return !is_missing(pair); });
  }

  const Space& space_;
  Random random_;
  std::vector<uint32_t> first_of_;
  uint32_t value_count_ = 0;
  std::vector<Pair> missing_;
  std::vector<bool> is_missing_;
};

}  // namespace

std::vector<Row> covering_array(const Space& space, uint64_t seed) {
  return Maker(space, seed).make();
}

std::vector<Pair> forbidden_pairs(const Space& space) {
  std::vector<Pair> pairs;
  for_each_pair(space, [&](const Pair& pair) {
    if (!space.allows(pair)) pairs.push_back(pair);
  });
  return pairs;
}

uint64_t count_faults(const Space& space, const std::vector<Row>& rows) {
  uint64_t faults = 0;
  for_each_pair(space, [&](const Pair& pair) {
    const bool is_there = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row[pair.first_factor] == pair.first && row[pair.second_factor] == pair.second;
    });
    faults += is_there != space.allows(pair) ? 1 : 0;
  });
  return faults;
}

}  // namespace bp::ccl::cases
