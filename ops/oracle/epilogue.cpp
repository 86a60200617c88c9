// SPDX-License-Identifier: Apache-2.0
//
// Epilogues in the oracle; see epilogue.hpp.
#include "ops/oracle/epilogue.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "core/op/attributes.hpp"
#include "ops/oracle/oracle.hpp"
#include "ops/register.hpp"

namespace bp::ops {
namespace {

const OpSchema& schema_of(std::string_view name) {
  const auto schemas = all_schemas();
  const auto found = std::find_if(schemas.begin(), schemas.end(),
                                  [&](const OpSchema& schema) { return schema.name == name; });
  assert(found != schemas.end());
  return *found;
}

bool has_attribute(const OpSchema& schema, std::string_view name) {
  return std::any_of(schema.attrs.begin(), schema.attrs.end(),
                     [&](const AttrField& field) { return field.name == name; });
}

}  // namespace

std::vector<double> activate(const Activation& activation, const std::vector<double>& values) {
  const ActivationRow& row = *find_activation(activation.name);
  const OpSchema& schema = schema_of(row.name);
  Attributes attributes(schema);
  std::vector<OracleTensor> inputs = {
      OracleTensor::from_f64(BP_DTYPE_F64, {static_cast<int64_t>(values.size())}, values)};
  for (const auto& [name, value] :
       {std::pair(row.alpha, activation.alpha), std::pair(row.beta, activation.beta)}) {
    if (name.empty()) continue;
    if (!has_attribute(schema, name)) {
      inputs.push_back(OracleTensor::from_f64(BP_DTYPE_F64, {}, std::span(&value, 1)));
      continue;
    }
    [[maybe_unused]] const Status set = attributes.set_f64(name, value);
    assert(set.ok());
  }
  std::vector<OracleTensor> outputs;
  [[maybe_unused]] const Status status = evaluate(schema, inputs, attributes.data(), &outputs);
  assert(status.ok());
  return outputs[0].to_f64();
}

}  // namespace bp::ops
