// SPDX-License-Identifier: Apache-2.0
//
// The graph: single assignment, nodes in the order in which they can run, types inferred as nodes
// are added. Readers and decompositions build it, passes rewrite it, plans are made from it.
#ifndef BACKPLANE_CORE_GRAPH_GRAPH_HPP
#define BACKPLANE_CORE_GRAPH_GRAPH_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/status.hpp"
#include "core/dispatch/attributes.hpp"
#include "core/dispatch/schema.hpp"

namespace bp {

/// Contiguous values in host memory, shared and immutable: a weight in a mapped file, a folded
/// constant, an attribute's tensor. `owner` keeps `data` alive.
struct HostTensor {
  uint32_t dtype = BP_DTYPE_NONE;
  Dims sizes;
  const void* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;

  /// A zero-filled tensor of its own; data is writable through `out_data` until it is shared.
  /// Errors: INVALID_ARGUMENT for sizes that overflow; OUT_OF_MEMORY.
  static Result<HostTensor> allocate(uint32_t dtype, const Dims& sizes, void** out_data);
};

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;  // an absent optional input
inline constexpr NodeId kNoNode = UINT32_MAX;

class Graph;

/// A body that a node owns (a branch, a loop). Its graph's first inputs are `captures`, in order:
/// values of the enclosing graph, named explicitly so that no pass can miss a use.
struct Region {
  std::vector<ValueId> captures;
  std::shared_ptr<const Graph> body;
};

struct Value {
  std::string name;  // unique in the graph; "" for values nobody named
  TensorType type;
  NodeId producer = kNoNode;      // kNoNode: graph input or constant
  std::shared_ptr<const HostTensor> constant;  // set: a constant
};

struct Node {
  OpId op = 0;
  std::string name;  // for messages: the model's node name, or "op#index"
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  std::vector<Region> regions;
};

class Graph {
 public:
  explicit Graph(const OpRegistry& registry) : registry_(&registry) {}

  const OpRegistry& registry() const { return *registry_; }

  /// The size that stands for a named unknown ("N"); the same name gives the same size.
  int64_t symbol(std::string_view name);
  /// The name of a symbol size, "" for another size.
  std::string_view symbol_name(int64_t size) const;

  /// Errors: INVALID_ARGUMENT for a name that is taken.
  Result<ValueId> add_input(std::string_view name, TensorType type);
  Result<ValueId> add_constant(std::string_view name, HostTensor tensor);
  /// A constant of rank 0 (or of the given sizes, repeated) with the value rounded to the dtype.
  Result<ValueId> add_scalar(uint32_t dtype, double value);

  /// Adds a node behind all others and infers its outputs. Inputs are existing values or kNoValue.
  /// `output_names` may be empty (unnamed) or as long as the schema's outputs.
  /// Errors: INVALID_ARGUMENT naming the node: arity, dtypes, inference; a taken output name.
  Result<NodeId> add_node(OpId op, std::string_view name, std::span<const ValueId> inputs,
                          Attributes attributes, std::span<const std::string> output_names = {});
  /// add_node for one output, by operator name: what decompositions call.
  Result<ValueId> op(std::string_view op_name, std::span<const ValueId> inputs,
                     Attributes attributes);
  /// ... with default attributes.
  Result<ValueId> op(std::string_view op_name, std::span<const ValueId> inputs);

  /// Errors: INVALID_ARGUMENT for a value that is not there.
  Status set_outputs(std::vector<ValueId> outputs, std::vector<std::string> names);

  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  std::span<const std::string> output_names() const { return output_names_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Value> values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  /// kNoValue if nothing has this name.
  ValueId find_value(std::string_view name) const;

  /// Checks single assignment, order, arity, types against inference, names. INTERNAL naming the
  /// node: a failure is a bug of whoever changed the graph last.
  Status verify() const;
  /// One line per node, for people.
  std::string to_string() const;

  // For passes (core/graph/passes.hpp).
  /// Value `id` becomes a constant; its producer no longer makes it.
  void replace_with_constant(ValueId id, HostTensor tensor);
  /// Every use of `from`, outputs too, becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Drops nodes whose outputs nobody uses, and constants nobody reads; ids change.
  void remove_dead();
  /// Infers all types anew, e.g. after input sizes became known.
  Status infer_all();
  /// The same graph with input sizes set (rank and dtype as before); for plans.
  Result<Graph> with_input_sizes(std::span<const Dims> sizes) const;

 private:
  Result<ValueId> add_value(std::string_view name, TensorType type);
  Status infer_node(const Node& node, std::vector<TensorType>* out_types) const;

  const OpRegistry* registry_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::string> output_names_;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, ValueId> by_name_;
};

}  // namespace bp

#endif
