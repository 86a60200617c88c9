// SPDX-License-Identifier: Apache-2.0
//
// Passes that need no plan: what can be worked out before sizes are known. They know operators only
// by what the schema says of them, and the device by what the caller answers.
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

/// Whether the device that the graph is for has a kernel for such a call, as far as dtypes, ranks
/// and attributes tell.
using HasKernelFn =
    std::function<bool(OpId op, std::span<const TensorType> inputs,
                       std::span<const TensorType> outputs, const Attributes& attributes)>;

struct PassOptions {
  FoldFn fold = {};  // empty: only what needs no kernel is folded
  /// No folded node's outputs take more than this together, unless its inputs do: folding must
  /// not turn a small model into a large one. Nor do all folded nodes' outputs take more than eight
  /// times this, unless the graph's own constants do.
  uint64_t fold_limit_bytes = uint64_t{16} << 20;
  HasKernelFn has_kernel = {};  // empty: no operator does the work of its reader
  /// Called after each pass with its name; for dumps.
  std::function<void(std::string_view pass, const Graph&)> after_pass = {};
};

/// Dead code, constant folding, nodes that copy their input unchanged, common subexpressions,
/// epilogues. Each pass is verified, and timed in the log at debug level. Graph inputs, output
/// names and output types stay. Errors: INTERNAL if a pass broke the graph or `fold` gave other
/// outputs than inference says; what inference finds once constants are known.
Status run_passes(Graph* graph, const PassOptions& options);

}  // namespace bp

#endif
