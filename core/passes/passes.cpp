// SPDX-License-Identifier: Apache-2.0
//
// The neutral passes, in the order in which they help each other.
#include "core/passes/passes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/log.hpp"
#include "core/passes/absorb_readers.hpp"
#include "core/passes/merge_equal.hpp"

namespace bp {
namespace {

Status remove_dead_code(Graph* graph, const PassOptions&) {
  graph->remove_dead();
  return {};
}

/// The value of an operator that is its tensor attribute.
Result<HostTensor> attribute_value(const OpSchema& schema, const Node& node) {
  for (const AttrField& field : schema.attrs) {
    if (field.type != AttrType::kTensor) continue;
    const bp_tensor* tensor = nullptr;
    const auto* members = static_cast<const std::byte*>(node.attributes.data());
    std::memcpy(&tensor, members + field.offset_bytes, sizeof(tensor));
    if (tensor == nullptr) break;
    // Shares the attribute's memory: copies of Attributes hold the same values.
    const auto owner = std::make_shared<const Attributes>(node.attributes);
    const std::span sizes(tensor->sizes, tensor->rank);
    return HostTensor{tensor->dtype, Dims(sizes),
                      reinterpret_cast<const void*>(
                          static_cast<uintptr_t>(tensor->handle + tensor->offset_bytes)),
                      dtype_storage_bytes(tensor->dtype, element_count(sizes)), owner};
  }
  return Status(BP_INTERNAL, "operator " + std::string(schema.name) +
                                 " is its tensor attribute's value, but has none");
}

bool all_inputs_constant(const Graph& graph, const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    return id == kNoValue || graph.value(id).constant != nullptr;
  });
}

/// The view that the node's output is of its input with these sizes, if it is contiguous, for an
/// output of `out_sizes`.
ViewResult view_of_contiguous(const Graph& graph, const Node& node, const Dims& sizes,
                              const Dims& out_sizes) {
  CallInputs inputs(graph.values(), node.inputs);
  inputs.types[0].sizes = sizes;
  return graph.registry().schema(node.op).view(inputs.context(node.attributes),
                                               contiguous_strides(sizes), out_sizes);
}

/// A view of a contiguous constant that is contiguous itself: the same bytes with other sizes.
std::optional<HostTensor> viewed_constant(const Graph& graph, const Node& node) {
  const OpSchema& schema = graph.registry().schema(node.op);
  if (schema.view == nullptr || node.outputs.size() != 1) return std::nullopt;
  const HostTensor& input = *graph.value(node.inputs[0]).constant;
  const TensorType& type = graph.value(node.outputs[0]).type;
  if (!type.has_rank || !all_known(type.sizes) || type.dtype != input.dtype) return std::nullopt;
  const ViewResult view = view_of_contiguous(graph, node, input.sizes, type.sizes);
  if (!view.possible || view.offset != 0 || !is_contiguous(type.sizes, view.strides) ||
      element_count(type.sizes) != element_count(input.sizes)) {
    return std::nullopt;
  }
  HostTensor result = input;
  result.sizes = type.sizes;
  return result;
}

/// What all folded values may take together: as much as the model's own constants, or a few nodes'
/// limit. A chain of nodes keeps each of its values.
uint64_t total_limit_bytes(const Graph& graph, const PassOptions& options) {
  constexpr uint64_t kNodes = 8;
  uint64_t own_bytes = 0;
  for (const Value& value : graph.values()) {
    if (value.constant) own_bytes += value.constant->bytes;
  }
  return std::max(own_bytes, kNodes * options.fold_limit_bytes);
}

/// Whether the outputs' sizes are known and small enough to be kept.
bool is_worth_folding(const Graph& graph, const Node& node, uint64_t limit_bytes,
                      uint64_t total_left_bytes) {
  uint64_t input_bytes = 0;
  for (ValueId id : node.inputs) {
    if (id != kNoValue) input_bytes += graph.value(id).constant->bytes;
  }
  uint64_t left_bytes = std::min(std::max(limit_bytes, input_bytes), total_left_bytes);
  std::vector<TensorType> types;
  if (!graph.infer_bounds(node, &types).ok()) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = types[i];
    if (!type.has_rank || !all_known(type.sizes)) return false;
    const uint64_t bytes = dtype_storage_bytes(type.dtype, element_count(type.sizes));
    if (bytes > left_bytes) return false;
    left_bytes -= bytes;
  }
  return true;
}

bool fits(const Dims& sizes, const TensorType& type) {
  if (!type.has_rank) return true;
  return std::equal(sizes.begin(), sizes.end(), type.sizes.begin(), type.sizes.end(),
                    [](int64_t size, int64_t wanted) { return size == wanted || wanted < 0; });
}

Status check_folded(const Graph& graph, const Node& node, std::span<const HostTensor> folded) {
  const auto wrong = [&](const std::string& words) {
    return Status(BP_INTERNAL, "folding node '" + node.name + "': " + words)
        .with_op(graph.registry().schema(node.op).name);
  };
  if (folded.size() != node.outputs.size()) {
    return wrong("expected " + std::to_string(node.outputs.size()) + " outputs, found " +
                 std::to_string(folded.size()));
  }
  for (size_t i = 0; i < folded.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const TensorType& type = graph.value(node.outputs[i]).type;
    if (folded[i].dtype == type.dtype && fits(folded[i].sizes, type)) continue;
    return wrong("expected " + graph.to_string(type) + ", found " +
                 std::string(dtype_name(folded[i].dtype)) + to_string(folded[i].sizes));
  }
  return {};
}

/// The value of an operator that looks at types and at host arguments alone, if they are known.
std::vector<HostTensor> folded_types(const Graph& graph, const Node& node) {
  const CallInputs inputs(graph.values(), node.inputs);
  auto value = value_of_types(graph.registry(), node.op, inputs.context(node.attributes));
  return value.ok() ? *std::move(value) : std::vector<HostTensor>{};
}

/// The outputs of a node if they can be worked out now; empty if not. What a kernel makes is taken
/// from *left_bytes.
Result<std::vector<HostTensor>> fold_node(const Graph& graph, const Node& node,
                                          const PassOptions& options, uint64_t* left_bytes) {
  const OpSchema& schema = graph.registry().schema(node.op);
  if (schema.constant) {
    BP_TRY_ASSIGN(HostTensor value, attribute_value(schema, node));
    return std::vector<HostTensor>{std::move(value)};
  }
  if (schema.of_types) return folded_types(graph, node);
  // A node without inputs need not give the same result twice.
  if (node.inputs.empty() || !node.regions.empty() || !all_inputs_constant(graph, node)) {
    return std::vector<HostTensor>{};
  }
  if (auto viewed = viewed_constant(graph, node)) {
    return std::vector<HostTensor>{*std::move(viewed)};
  }
  if (!options.fold || !is_worth_folding(graph, node, options.fold_limit_bytes, *left_bytes)) {
    return std::vector<HostTensor>{};
  }
  std::vector<const HostTensor*> inputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(id == kNoValue ? nullptr : graph.value(id).constant.get());
  }
  auto folded = options.fold(node, inputs);
  if (!folded.ok()) {
    log(BP_LOG_DEBUG, "node '" + node.name + "' is not folded: " + folded.status().to_string());
    return std::vector<HostTensor>{};
  }
  BP_TRY(check_folded(graph, node, *folded));
  for (const HostTensor& value : *folded) *left_bytes -= std::min(*left_bytes, value.bytes);
  return folded;
}

Status fold_constants(Graph* graph, const PassOptions& options) {
  uint64_t left_bytes = total_limit_bytes(*graph, options);
  // One walk is enough: a folded shape makes sizes known only in nodes behind it.
  for (NodeId id = 0; id < graph->nodes().size(); ++id) {
    BP_TRY(graph->infer_again(id));
    const std::vector<ValueId> outputs = graph->node(id).outputs;
    BP_TRY_ASSIGN(auto folded, fold_node(*graph, graph->node(id), options, &left_bytes));
    for (size_t i = 0; i < folded.size(); ++i) {
      if (outputs[i] != kNoValue) graph->replace_with_constant(outputs[i], std::move(folded[i]));
    }
  }
  return {};
}

/// The sizes with every unknown one replaced by a number; equal symbols get equal numbers. None is
/// 0 or 1, where any strides would look right.
Dims probe_sizes(const Dims& sizes) {
  constexpr std::array<int64_t, 8> kPrimes = {2, 3, 5, 7, 11, 13, 17, 19};
  Dims probe = sizes;
  for (int64_t& size : probe) {
    if (!is_known(size)) size = kPrimes[static_cast<size_t>(symbol_dim(0) - size) % kPrimes.size()];
  }
  return probe;
}

/// Whether the node's output is its first input, element by element.
bool copies_input(const Graph& graph, const Node& node) {
  const OpSchema& schema = graph.registry().schema(node.op);
  if (schema.view == nullptr || node.outputs.size() != 1) return false;
  const TensorType& in = graph.value(node.inputs[0]).type;
  const TensorType& out = graph.value(node.outputs[0]).type;
  if (in.dtype != out.dtype || !in.has_rank || !out.has_rank || !(in.sizes == out.sizes)) {
    return false;
  }
  // Two sizes about which nothing is known need not be equal.
  if (std::find(in.sizes.begin(), in.sizes.end(), kUnknownDim) != in.sizes.end()) return false;
  const Dims sizes = probe_sizes(in.sizes);
  if (!checked_element_count(sizes)) return false;
  const ViewResult view = view_of_contiguous(graph, node, sizes, sizes);
  return view.possible && view.offset == 0 && is_contiguous(sizes, view.strides);
}

Status remove_copies(Graph* graph, const PassOptions&) {
  std::vector<ValueId> replacement(graph->values().size());
  std::iota(replacement.begin(), replacement.end(), ValueId{0});
  // An output keeps a value of its own, so that a plan may give each output its own memory.
  std::vector<bool> is_output(replacement.size(), false);
  for (ValueId id : graph->outputs()) is_output[id] = true;
  for (const Node& node : graph->nodes()) {
    const bool is_removable = node.outputs.size() == 1 && node.outputs[0] != kNoValue &&
                              !is_output[node.outputs[0]] && copies_input(*graph, node);
    if (is_removable) replacement[node.outputs[0]] = replacement[node.inputs[0]];
  }
  graph->replace_uses(replacement);
  graph->remove_dead();
  return {};
}

Status merge_equal_nodes(Graph* graph, const PassOptions&) {
  merge_equal(graph);
  return {};
}

Status absorb_epilogues(Graph* graph, const PassOptions& options) {
  return absorb_readers(graph, options.has_kernel);
}

struct Pass {
  std::string_view name;
  Status (*run)(Graph*, const PassOptions&);
};

constexpr std::array<Pass, 6> kPasses = {{
    {"remove dead code", remove_dead_code},  // first: folding unused nodes is wasted
    {"fold constants", fold_constants},
    {"remove copies", remove_copies},
    {"merge equal nodes", merge_equal_nodes},  // behind what makes more of them equal
    {"remove what folding left", remove_dead_code},
    {"absorb epilogues", absorb_epilogues},  // last: a value may have lost readers
}};

Status run_pass(const Pass& pass, Graph* graph, const PassOptions& options) {
  const size_t nodes_before = graph->nodes().size();
  const auto start = std::chrono::steady_clock::now();
  BP_TRY(pass.run(graph, options));
  const auto duration = std::chrono::steady_clock::now() - start;
  BP_TRY(graph->verify());
  if (log_enabled(BP_LOG_DEBUG)) {
    const auto time_us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
    log(BP_LOG_DEBUG, "pass " + std::string(pass.name) + ": " + std::to_string(nodes_before) +
                          " -> " + std::to_string(graph->nodes().size()) + " nodes, " +
                          std::to_string(time_us) + " us");
  }
  if (options.after_pass) options.after_pass(pass.name, *graph);
  return {};
}

}  // namespace

Result<std::vector<HostTensor>> value_of_types(const OpRegistry& registry, OpId op,
                                               const InferContext& context) {
  Graph graph(registry);
  BP_TRY(registry.schema(op).decompose(context, &graph));
  std::vector<HostTensor> values;
  for (const ValueId id : graph.outputs()) {
    if (graph.value(id).constant == nullptr) {
      return Status(BP_INTERNAL, std::string(registry.schema(op).name) +
                                     ": its decomposition holds more than constants");
    }
    values.push_back(*graph.value(id).constant);
  }
  return values;
}

Status run_passes(Graph* graph, const PassOptions& options) {
  for (const Pass& pass : kPasses) {
    const Status status = run_pass(pass, graph, options);
    if (!status.ok()) return status.with_prefix("pass '" + std::string(pass.name) + "'");
  }
  return {};
}

}  // namespace bp
