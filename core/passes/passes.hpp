// SPDX-License-Identifier: Apache-2.0
//
// Passes that hold for every device: what can be worked out before the graph meets one. They know
// operators only by what the schema says of them.
#ifndef BACKPLANE_CORE_PASSES_PASSES_HPP
#define BACKPLANE_CORE_PASSES_PASSES_HPP

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"

namespace bp {

/// Runs one node on the values of its inputs (nullptr: absent) and returns its outputs, in order.
/// An error means that the node stays as it is; it will show again when the graph runs.
using FoldFn = std::function<Result<std::vector<HostTensor>>(
    const Node&, std::span<const HostTensor* const> inputs)>;

/// The outputs of an operator whose value follows from the types of its inputs
/// (OpSchema::of_types). Errors: UNSUPPORTED where too little of them is known.
Result<std::vector<HostTensor>> value_of_types(const OpRegistry& registry, OpId op,
                                               const InferContext& context);

struct PassOptions {
  FoldFn fold = {};  // empty: only what needs no kernel is folded
  /// No folded node's outputs take more than this together, unless its inputs do: folding must
  /// not turn a small model into a large one. Nor do all folded nodes' outputs take more than eight
  /// times this, unless the graph's own constants do.
  uint64_t fold_limit_bytes = uint64_t{16} << 20;
  /// Called after each pass with its name; for dumps.
  std::function<void(std::string_view pass, const Graph&)> after_pass = {};
};

/// Dead code, constant folding, nodes that copy their input unchanged, common subexpressions. Each
/// pass is verified, and timed in the log at debug level. Graph inputs, output names and output
/// types stay.
/// Errors: INTERNAL if a pass broke the graph or `fold` gave other outputs than inference says;
/// what inference finds once constants are known.
Status run_passes(Graph* graph, const PassOptions& options);

}  // namespace bp

#endif
