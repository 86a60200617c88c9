// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/slurm_tasks.hpp"

#include <charconv>

namespace bp::ccl {
namespace {

/// A number from 1 to `most` at the front of the text, which it is taken from; 0: there is none.
uint32_t take_number(std::string_view* text, uint32_t most) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || number > most) return 0;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return number;
}

bool take(std::string_view* text, std::string_view expected) {
  if (!text->starts_with(expected)) return false;
  text->remove_prefix(expected.size());
  return true;
}

}  // namespace

std::optional<std::vector<uint32_t>> parse_slurm_tasks(std::string_view text, uint32_t most) {
  std::vector<uint32_t> counts;
  do {
    const uint32_t tasks = take_number(&text, most);
    if (tasks == 0) return std::nullopt;
    uint32_t nodes = 1;
    if (take(&text, "(x")) {
      nodes = take_number(&text, most);
      if (nodes == 0 || !take(&text, ")")) return std::nullopt;
    }
    if (nodes > most - counts.size()) return std::nullopt;
    counts.insert(counts.end(), nodes, tasks);
  } while (take(&text, ","));
  if (!text.empty()) return std::nullopt;
  return counts;
}

}  // namespace bp::ccl
