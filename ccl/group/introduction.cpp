// SPDX-License-Identifier: Apache-2.0
//
// See introduction.hpp.
#include "ccl/group/introduction.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bp::ccl {
namespace {

/// "; linked among themselves are ranks 0 1".
std::string island_words(const Agreement& agreement) {
  std::string words;
  for (const Island& island : agreement.islands) {
    words += words.empty() ? "; linked among themselves are ranks " : ", and ranks ";
    for (const uint32_t rank : island.ranks) {
      words += (rank == island.ranks[0] ? "" : " ") + std::to_string(rank);
    }
  }
  return words;
}

std::string way_words(const Agreement& agreement) {
  if (!agreement.is_native()) {
    return "by messages: " + agreement.why_not_native + island_words(agreement);
  }
  const std::vector<CollectiveRow>& rows = agreement.islands[0].rows;
  std::string by_messages;
  for (uint32_t kind = 0; kind < kKindCount; ++kind) {
    const bool is_native = std::any_of(rows.begin(), rows.end(),
                                       [&](const CollectiveRow& row) { return row.kind == kind; });
    if (is_native) continue;
    by_messages += by_messages.empty() ? "" : ", ";
    by_messages += kind_info(static_cast<Kind>(kind)).name;
  }
  return fmt::format(
      "by the collectives of their devices ({}), {}by messages: {}", agreement.cards[0].device,
      agreement.checks ? "whose calls are compared before (BACKPLANE_CCL_CHECK), " : "",
      by_messages);
}

std::string interface_words(const Introduction& group) {
  if (group.engine == "loop") return "no interface, since all ranks are threads of one process";
  if (group.interface_name.empty()) {
    return "no interface, shared memory alone, since all ranks are on one host";
  }
  return fmt::format("interface {}, {}named by BACKPLANE_CCL_INTERFACE", group.interface_name,
                     group.interface_name == "lo" ? "the loopback, " : "");
}

std::string algorithm_words(const Agreement& agreement) {
  const std::string& forced = agreement.cards[0].algorithms;
  if (forced.empty()) return "algorithms by the cost model";
  return fmt::format("algorithms {} by BACKPLANE_CCL_ALGORITHM of rank 0, else by the cost model",
                     forced);
}

}  // namespace

std::string introduce(const Introduction& group) {
  const size_t count = group.agreement.cards.size();
  return fmt::format("group {}: {} rank{} {}; engine {}; {}; {}; an operation fails after {:g} s",
                     group.group, count, count == 1 ? "" : "s", way_words(group.agreement),
                     group.engine, interface_words(group), algorithm_words(group.agreement),
                     std::chrono::duration<double>(group.timeout).count());
}

}  // namespace bp::ccl
