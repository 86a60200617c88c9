// SPDX-License-Identifier: Apache-2.0
//
// Inside ops/onnx: one ONNX node while it is converted. A rule says which attributes an operator
// has and what becomes of each, so that an unknown one cannot be overlooked; most operators need
// nothing but their rule.
#ifndef BACKPLANE_OPS_ONNX_NODE_IMPORT_HPP
#define BACKPLANE_OPS_ONNX_NODE_IMPORT_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"
#include "ops/onnx/model.hpp"
#include "ops/onnx/tensor.hpp"

namespace bp::onnx {

// AttributeProto.AttributeType
inline constexpr int32_t kFloat = 1;
inline constexpr int32_t kInt = 2;
inline constexpr int32_t kString = 3;
inline constexpr int32_t kTensor = 4;
inline constexpr int32_t kFloats = 6;
inline constexpr int32_t kInts = 7;
inline constexpr int32_t kStrings = 8;
inline constexpr int32_t kSparseTensor = 11;

enum class Use {
  kField,     // copied to our attribute `field`
  kFlag,      // the same; any value but 0 and 1 is INVALID_ARGUMENT
  kMustBe,    // any value but `value` is UNSUPPORTED
  kRead,      // the converter looks at it
  kReadFlag,  // the same; any value but 0 and 1 is INVALID_ARGUMENT
  kIgnored,   // has no effect on what inference computes
  kRefused,   // UNSUPPORTED
};

struct AttributeRule {
  std::string_view name;
  int32_t type;
  Use use;
  std::string_view field = {};
  int64_t value = 0;
};

class NodeImport;

/// An ONNX operator in a range of operator sets.
struct OpRule {
  std::string_view onnx;
  int64_t since;
  int64_t until;
  size_t min_inputs;
  size_t max_inputs;
  size_t max_outputs;
  std::string_view op;  // ours
  std::span<const AttributeRule> attributes;
  Status (*convert)(NodeImport*) = nullptr;  // nullptr: `op` with the fields set
};

inline constexpr int64_t kAnyLater = INT64_MAX;

class NodeImport {
 public:
  /// `defaults`: constants in whose place a run may give others.
  NodeImport(const NodeProto& proto, std::string name, const TensorSource& source,
             const std::unordered_set<ValueId>& defaults, Graph* graph)
      : proto_(proto),
        name_(std::move(name)),
        source_(source),
        defaults_(defaults),
        graph_(graph) {}

  /// Converts the node: checks it against the rule, then adds our nodes. `inputs` are the values
  /// of the node's inputs.
  Status run(const OpRule& rule, std::vector<ValueId> inputs);
  /// The values of the node's outputs, in their order; kNoValue for those that it leaves out.
  std::span<const ValueId> outputs() const { return outputs_; }

  // For converters.
  const OpRule& rule() const { return *rule_; }
  const TensorSource& source() const { return source_; }
  /// kNoValue for an absent optional input.
  ValueId input(size_t index) const { return index < inputs_.size() ? inputs_[index] : kNoValue; }
  std::span<const ValueId> inputs() const { return inputs_; }
  const TensorType& input_type(size_t index) const { return graph_->value(inputs_[index]).type; }
  const TensorType& type(ValueId id) const { return graph_->value(id).type; }
  /// The input's value where it is known while reading and no run can give another, else nullptr.
  const HostTensor* input_constant(size_t index) const;
  /// The same, but from now on no run can give another: for what only a constant can be read from.
  const HostTensor* required_constant(size_t index) const;
  std::span<const ValueId> required_constants() const { return required_constants_; }
  /// Whether the node asks for its output `index`.
  bool has_output(size_t index) const {
    return index < proto_.outputs.size() && !proto_.outputs[index].empty();
  }
  size_t output_count() const { return proto_.outputs.size(); }
  /// nullptr if the node does not have it; its type is checked already.
  const AttributeProto* attribute(std::string_view name) const;
  int64_t i64(std::string_view name, int64_t default_value) const;
  std::span<const int64_t> i64s(std::string_view name) const;
  /// The attributes of our operator at their defaults, and with the rule's fields copied.
  Result<Attributes> attributes_of(std::string_view op) const;
  Result<Attributes> fields(std::string_view op) const;

  /// One of several nodes: its result has no name.
  Result<ValueId> step(std::string_view op, std::span<const ValueId> inputs,
                       Attributes attributes = {});
  /// All outputs of one of several nodes.
  Result<std::vector<ValueId>> step_outputs(std::string_view op, std::span<const ValueId> inputs,
                                            Attributes attributes = {});
  /// The node that makes the ONNX node's outputs: as many as ours has, in the same order.
  Status finish(std::string_view op, std::span<const ValueId> inputs, Attributes attributes = {});
  /// The output is a constant.
  Status finish(HostTensor tensor);
  /// The outputs are results of steps, in the ONNX node's order; kNoValue where it leaves one out.
  Status finish(std::vector<ValueId> outputs);
  /// A constant for one of several nodes.
  Result<ValueId> constant(HostTensor tensor) {
    return graph_->add_constant("", std::move(tensor));
  }
  Result<ValueId> scalar(uint32_t dtype, double value) { return graph_->add_scalar(dtype, value); }
  /// UNSUPPORTED for a dtype that input `index` of our operator does not take: ONNX's may take it,
  /// so that the model can be right.
  Status check_dtype(std::string_view op, size_t index, const std::string& label,
                     uint32_t dtype) const;
  /// INVALID_ARGUMENT for an input of bools, where a cast would make numbers of them.
  Status check_number(size_t index) const;
  /// An error naming node, operator and operator set.
  Status error(bp_status code, const std::string& words) const;

 private:
  Status check_attribute(const AttributeProto& attribute) const;
  Status check_arguments() const;
  Result<NodeId> add(std::string_view op, const std::string& name, std::span<const ValueId> inputs,
                     Attributes attributes, std::span<const std::string> output_names);
  Result<OpId> find_op(std::string_view op) const;

  const NodeProto& proto_;
  std::string name_;
  const TensorSource& source_;
  const std::unordered_set<ValueId>& defaults_;
  Graph* graph_;
  const OpRule* rule_ = nullptr;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  mutable std::vector<ValueId> required_constants_;
};

/// Every rule, by ONNX name and then operator set; generated from the rows of ops/defs, which also
/// name the converters (convert_<name>, in this folder).
std::span<const OpRule> all_rules();

/// The rule for an operator of the default domain; nullptr if there is none.
const OpRule* find_rule(std::string_view op_type, int64_t opset);
/// UNSUPPORTED, with the nearest name or the operator sets that have it, where there is none.
Status no_rule(std::string_view op_type);

}  // namespace bp::onnx

#endif
