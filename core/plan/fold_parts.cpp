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

uint64_t bytes_of(std::span<const HostTensor* const> inputs) {
  uint64_t bytes = 0;
  for (const HostTensor* input : inputs) bytes += input != nullptr ? input->bytes : 0;
  return bytes;
}

}  // namespace

Result<std::shared_ptr<const Graph>> fold_parts(
    std::span<const std::shared_ptr<const HostTensor>> inputs, const Node& node,
    const std::shared_ptr<const Graph>& parts, const FoldFn& fold) {
  std::shared_ptr<Graph> folded;
  size_t part = 0;
  for (size_t i = 0; fold && i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const ValueId value = parts->inputs()[part++];
    if (inputs[i] == nullptr) continue;
    if (folded == nullptr) folded = std::make_shared<Graph>(*parts);
    folded->replace_with_constant(value, inputs[i]);
  }
  if (folded == nullptr) return parts;
  const auto fold_small =
      [&](const Node& part_node,
          std::span<const HostTensor* const> values) -> Result<std::vector<HostTensor>> {
    if (bytes_of(values) > kMostFoldedBytes)
      return Status(BP_UNSUPPORTED, "weights stay as they are");
    return fold(part_node, values);
  };
  BP_TRY(run_passes(folded.get(), {.fold = fold_small}));
  return std::shared_ptr<const Graph>(std::move(folded));
}

}  // namespace bp
