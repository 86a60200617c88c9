// SPDX-License-Identifier: Apache-2.0
//
// What a decomposition makes of constants alone is made when it is planned, and not at each run.
#include <utility>

#include "core/dispatch/dispatcher.hpp"
#include "core/plan/planner.hpp"

namespace bp {
namespace {

/// Each plan has its own results: with weights they would take more memory than they save work.
constexpr uint64_t kMostFoldedBytes = 64 << 10;

uint64_t input_bytes(const Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId input : node.inputs) {
    if (input != kNoValue) bytes += graph.value(input).constant->bytes;
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<const Graph>> fold_parts(const Graph& outer, const Node& node,
                                                const std::shared_ptr<const Graph>& parts,
                                                const FoldFn& fold) {
  std::shared_ptr<Graph> folded;
  const auto make_constant = [&](ValueId input, ValueId part) {
    if (outer.value(input).constant == nullptr) return;
    if (folded == nullptr) folded = std::make_shared<Graph>(*parts);
    folded->replace_with_constant(part, outer.value(input).constant);
  };
  if (fold) {
    for_each_part_input(
        *parts, node.inputs, [](ValueId input) { return input != kNoValue; }, make_constant);
  }
  if (folded == nullptr) return parts;
  const auto fold_small = [&](const Graph& g, const Node& n) -> Result<std::vector<HostTensor>> {
    if (input_bytes(g, n) > kMostFoldedBytes)
      return Status(BP_UNSUPPORTED, "weights stay as they are");
    return fold(g, n);
  };
  BP_TRY(run_passes(folded.get(), {.fold = fold_small}));
  return std::shared_ptr<const Graph>(std::move(folded));
}

}  // namespace bp
