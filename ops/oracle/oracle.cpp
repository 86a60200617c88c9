// SPDX-License-Identifier: Apache-2.0
//
// One oracle call: check, infer, make outputs, run the operator's loops.
#include "ops/oracle/oracle.hpp"

#include <utility>

#include "core/op/attributes.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp {
namespace {

ops::OracleFn find_evaluator(uint32_t op) {
  for (const ops::OracleRow& row : ops::all_evaluators()) {
    if (row.op == op) return row.evaluate;
  }
  return nullptr;
}

Status check_bytes(const OpSchema& schema, std::span<const OracleTensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OracleTensor& input = inputs[i];
    if (input.dtype == BP_DTYPE_NONE) continue;
    const auto count = checked_element_count(input.sizes);
    if (count && input.bytes.size() == dtype_storage_bytes(input.dtype, *count)) continue;
    return {BP_INVALID_ARGUMENT, std::string(schema.name) + ": oracle input " + std::to_string(i) +
                                     " of sizes " + to_string(input.sizes) + " has " +
                                     std::to_string(input.bytes.size()) + " bytes"};
  }
  return {};
}

}  // namespace

Status evaluate(const OpSchema& schema, std::span<const OracleTensor> inputs,
                const void* attributes, std::vector<OracleTensor>* out_outputs) {
  const ops::OracleFn evaluator = find_evaluator(schema.id);
  if (evaluator == nullptr) {
    return {BP_UNSUPPORTED, "the oracle does not know operator " + std::string(schema.name)};
  }
  BP_TRY(check_bytes(schema, inputs));
  const auto copy = Attributes::copy_from(schema, attributes);
  if (!copy.ok()) return copy.status().with_prefix(schema.name);
  const Status complete = copy->validate();
  if (!complete.ok()) return complete.with_prefix(schema.name);

  const ops::CallContext context(inputs, copy->data());
  std::vector<TensorType> output_types;
  BP_TRY(infer_types(schema, context.get(), &output_types));
  std::vector<OracleTensor> outputs;
  for (const TensorType& type : output_types) {
    if (!type.has_rank || !all_known(type.sizes)) {
      return {BP_INTERNAL, std::string(schema.name) + ": known inputs gave an unknown output size"};
    }
    outputs.push_back(OracleTensor::zeros(type.dtype, type.sizes));
  }
  evaluator({.inputs = inputs, .attributes = copy->data(), .outputs = outputs});
  *out_outputs = std::move(outputs);
  return {};
}

}  // namespace bp
