// SPDX-License-Identifier: Apache-2.0
//
// The oracle over whole graphs.
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/dtype.hpp"
#include "ops/oracle/oracle.hpp"

namespace bp {
namespace {

std::string describe(uint32_t dtype, const Dims& sizes) {
  return std::string(dtype_name(dtype)) + to_string(sizes);
}

bool matches(const TensorType& expected, const OracleTensor& found) {
  if (expected.dtype != found.dtype) return false;
  if (!expected.has_rank) return true;
  if (expected.sizes.size() != found.sizes.size()) return false;
  for (size_t i = 0; i < found.sizes.size(); ++i) {
    if (is_known(expected.sizes[i]) && expected.sizes[i] != found.sizes[i]) return false;
  }
  return true;
}

/// The values of a graph while it is evaluated.
class Evaluation {
 public:
  explicit Evaluation(const Graph& graph) : graph_(graph), values_(graph.values().size()) {}

  Status set_inputs(std::span<const OracleTensor> inputs) {
    if (inputs.size() != graph_.inputs().size()) {
      return {BP_INVALID_ARGUMENT, "graph: expected " + std::to_string(graph_.inputs().size()) +
                                       " inputs, found " + std::to_string(inputs.size())};
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph_.value(graph_.inputs()[i]);
      if (!matches(value.type, inputs[i])) {
        return {BP_INVALID_ARGUMENT, "graph input '" + value.name + "': expected " +
                                         describe(value.type.dtype, value.type.sizes) + ", found " +
                                         describe(inputs[i].dtype, inputs[i].sizes)};
      }
      values_[graph_.inputs()[i]] = inputs[i];
    }
    return {};
  }

  Status run(const Node& node) {
    if (!node.regions.empty()) {
      return {BP_UNSUPPORTED, "node " + node.name + ": the oracle runs no regions"};
    }
    std::vector<OracleTensor> inputs;
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? OracleTensor() : value(id));
    }
    std::vector<OracleTensor> outputs;
    const OpSchema& schema = graph_.registry().schema(node.op);
    const Status status = evaluate(schema, inputs, node.attributes.data(), &outputs);
    if (!status.ok()) return status.with_prefix("node " + node.name);
    for (size_t i = 0; i < outputs.size(); ++i) {
      // A pass may have folded one of several outputs.
      if (node.outputs[i] != kNoValue) values_[node.outputs[i]] = std::move(outputs[i]);
    }
    return {};
  }

  const OracleTensor& value(ValueId id) {
    std::optional<OracleTensor>& slot = values_[id];
    if (!slot) slot = oracle_tensor(*graph_.value(id).constant);
    return *slot;
  }

 private:
  const Graph& graph_;
  std::vector<std::optional<OracleTensor>> values_;
};

}  // namespace

OracleTensor oracle_tensor(const HostTensor& tensor) {
  OracleTensor copy = OracleTensor::zeros(tensor.dtype, tensor.sizes);
  if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), tensor.data, copy.bytes.size());
  return copy;
}

Status evaluate_graph(const Graph& graph, std::span<const OracleTensor> inputs,
                      std::vector<OracleTensor>* out_outputs) {
  Evaluation evaluation(graph);
  BP_TRY(evaluation.set_inputs(inputs));
  for (const Node& node : graph.nodes()) BP_TRY(evaluation.run(node));
  out_outputs->clear();
  for (ValueId id : graph.outputs()) out_outputs->push_back(evaluation.value(id));
  return {};
}

}  // namespace bp
