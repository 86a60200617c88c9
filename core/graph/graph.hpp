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
#include <unordered_map>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/status.hpp"
#include "core/op/attributes.hpp"
#include "core/op/graph_builder.hpp"
#include "core/op/host_tensor.hpp"
#include "core/op/schema.hpp"

namespace bp {

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

class Graph;

/// A body that a node owns (a branch, a loop). Its graph's first inputs are `captures`, in order:
/// values of the enclosing graph, named explicitly so that no pass can miss a use.
struct Region {
  std::vector<ValueId> captures;
  std::shared_ptr<const Graph> body;
};

struct Value {
  std::string name;  // unique in the graph; "" for values without a name
  TensorType type;
  NodeId producer = kNoNode;                   // kNoNode: graph input or constant
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

/// What inference sees of a call's inputs: their types, and what constants hold. `values`: the
/// graph's.
struct CallInputs {
  CallInputs(std::span<const Value> values, std::span<const ValueId> inputs);
  /// Valid while this and the attributes live and stay as they are.
  InferContext context(const Attributes& attributes) const {
    return {types, host_data, attributes.data()};
  }

  std::vector<TensorType> types;
  std::vector<const void*> host_data;
};

/// A constant that stands for an input which a run may leave out.
struct DefaultInput {
  ValueId value = kNoValue;  // the constant; its name is the input's
  TensorType type;           // what may be given instead
};

class Graph final : public GraphBuilder {
 public:
  explicit Graph(const OpRegistry& registry) : registry_(&registry) {}

  const OpRegistry& registry() const override { return *registry_; }

  /// The size that stands for a named unknown ("N"); the same name gives the same size.
  int64_t symbol(std::string_view name);
  /// The name of a symbol size, "" for another size.
  std::string_view symbol_name(int64_t size) const;

  Result<ValueId> add_input(std::string_view name, TensorType type) override;
  Result<ValueId> add_constant(std::string_view name, HostTensor tensor) override;
  Result<ValueId> add_scalar(uint32_t dtype, double value) override;

  /// Adds a node behind all others and infers its outputs. Inputs are existing values or kNoValue;
  /// optional ones that are left out at the end are kNoValue in the node. Empty attributes stand
  /// for all defaults. `output_names` may be empty (unnamed) or as long as the schema's outputs.
  /// Errors: INVALID_ARGUMENT naming the node: arity, dtypes, inference; a missing attribute; a
  /// taken output name. The graph is unchanged then.
  Result<NodeId> add_node(OpId op, std::string_view name, std::span<const ValueId> inputs,
                          Attributes attributes, std::span<const std::string> output_names = {});
  Result<std::vector<ValueId>> op_outputs(std::string_view op_name, std::span<const ValueId> inputs,
                                          Attributes attributes) override;
  using GraphBuilder::op;
  /// ... with default attributes.
  Result<ValueId> op(std::string_view op_name, std::span<const ValueId> inputs);

  Status set_outputs(std::vector<ValueId> outputs, std::vector<std::string> names) override;

  /// Says that the constant is the default of an input of this type. To all else it is a constant.
  void add_default_input(ValueId constant, TensorType type);
  std::span<const DefaultInput> default_inputs() const { return default_inputs_; }
  /// The same graph where these defaults are inputs, behind the others, and the rest of them plain
  /// constants. Errors: what inference finds without their values.
  Result<Graph> with_default_inputs(std::span<const ValueId> given) const;

  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  std::span<const std::string> output_names() const { return output_names_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Value> values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  const TensorType& type(ValueId id) const override { return values_[id].type; }
  /// kNoValue if nothing has this name.
  ValueId find_value(std::string_view name) const;

  /// Checks single assignment, order, arity, types against inference, names. INTERNAL naming the
  /// node: a failure is a bug of the pass that changed the graph last.
  Status verify() const;
  /// One line per node, for people.
  std::string to_string() const;
  /// "f32[N, 1, 8, 8]", symbols by their names; "f32[...]" without rank.
  std::string to_string(const TensorType& type) const;
  std::string to_string(const Dims& sizes) const;

  // For passes (core/passes/passes.hpp).
  /// Value `id` becomes a constant; its producer no longer makes it (kNoValue in its outputs).
  void replace_with_constant(ValueId id, HostTensor tensor);
  void replace_with_constant(ValueId id, std::shared_ptr<const HostTensor> constant);
  /// Every use of value v, outputs too, becomes `replacement[v]`, which is made before v.
  void replace_uses(std::span<const ValueId> replacement);
  /// Puts another node in the place of one, with the same outputs, whose types it infers.
  /// Errors: INTERNAL for outputs that are not the same.
  Status replace_node(NodeId id, Node node);
  /// Drops nodes whose outputs have no use, and values without maker and reader, but inputs; ids
  /// change.
  void remove_dead();
  /// Infers a node's outputs anew, e.g. after an input became a constant. Errors name the node.
  Status infer_again(NodeId id);

  /// The same graph with input sizes set, one Dims for each input; for plans. Sizes below 0 leave
  /// what was known. Errors: INVALID_ARGUMENT naming the input for another rank, another size than
  /// the graph fixes, or a symbol that gets two sizes; what inference finds.
  Result<Graph> with_input_sizes(std::span<const Dims> sizes) const;

  /// The types of a node's outputs, with the most that sizes which depend on values can be: a
  /// value's own type leaves those unknown. Errors: what inference finds.
  Status infer_bounds(const Node& node, std::vector<TensorType>* out_types) const;

 private:
  ValueId add_value(std::string_view name, TensorType type);
  Status check_name(std::string_view name) const;
  Result<NodeId> make_node(OpId op, std::string_view name, std::span<const ValueId> inputs,
                           Attributes attributes, std::span<const std::string> output_names);
  Status infer_node(const Node& node, std::vector<TensorType>* out_types) const;
  Status infer_all();
  std::string node_label(const Node& node) const;
  std::string value_label(ValueId id) const;
  Status bind_input(ValueId input, const Dims& sizes, std::vector<int64_t>* symbol_sizes);
  Status verify_values() const;
  Status verify_node(NodeId id, std::vector<bool>* made) const;
  std::vector<bool> live_values(std::vector<bool>* out_live_nodes) const;

  const OpRegistry* registry_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<std::string> output_names_;
  std::vector<DefaultInput> default_inputs_;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, int64_t> symbol_by_name_;
  std::unordered_map<std::string, ValueId> by_name_;
};

}  // namespace bp

#endif
