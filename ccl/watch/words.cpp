// SPDX-License-Identifier: Apache-2.0
//
// Plain words: no state.
#include "ccl/watch/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ccl/watch/dump.hpp"
#include "core/base/foreign_text.hpp"

namespace bp::ccl {

std::string count_words(uint64_t count) {
  constexpr std::array<const char*, 4> kUnits = {"Ti", "Gi", "Mi", "Ki"};
  for (size_t i = 0; i < kUnits.size(); ++i) {
    const uint64_t unit = uint64_t{1} << (10 * (kUnits.size() - i));
    if (count >= unit && count % unit == 0) return fmt::format("{} {}", count / unit, kUnits[i]);
  }
  return std::to_string(count);
}

// As describe(), but for the count.
std::string operation_words(const Operation& operation) {
  const KindInfo& kind = kind_info(operation.kind);
  std::string words = form_name(operation);
  if (kind.reduces) words += fmt::format(" {}", reduction_name(operation.reduction));
  if (operation.kind != Kind::kBarrier) {
    words += fmt::format(" {}", record_dtype_name(operation.dtype));
    if (operation.blocks != kOwnBlocks) words += " " + count_words(operation.count);
  }
  words += blocks_words(operation);
  if (kind.has_root) words += fmt::format(" root {}", operation.root);
  if (kind.is_of_two) {
    words += fmt::format(" {} {}", operation.kind == Kind::kSend ? "to" : "from", operation.root);
  }
  if (operation.is_deterministic) words += " deterministic";
  return words;
}

std::string ranks_words(std::span<const uint32_t> ranks) {
  constexpr size_t kMostParts = 16;
  constexpr size_t kLeastRun = 3;
  std::vector<std::string> parts;
  size_t i = 0;
  while (i < ranks.size() && parts.size() < kMostParts) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i >= kLeastRun) {
      parts.push_back(fmt::format("{} to {}", ranks[i], ranks[end - 1]));
      i = end;
    } else {
      parts.push_back(std::to_string(ranks[i]));
      ++i;
    }
  }
  if (i < ranks.size()) parts.push_back(fmt::format("{} more", ranks.size() - i));
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t part = 0; part < parts.size(); ++part) {
    if (part > 0) words += part + 1 == parts.size() ? " and " : ", ";
    words += parts[part];
  }
  return words;
}

std::string group_words(const std::string& name, uint64_t epoch) {
  return foreign_text(name) + (epoch == 0 ? "" : fmt::format(" epoch {}", epoch));
}

std::string rank_words(const GroupInfo& group, uint32_t rank) {
  const uint32_t job_rank = group.job_rank(rank);
  if (job_rank == rank) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({} of the job)", rank, job_rank);
}

}  // namespace bp::ccl
