// SPDX-License-Identifier: Apache-2.0
//
// Test program: answers what the oracle says. Requests are lines of JSON on standard input:
//
//   {"rows": true}                       the rows with expressions
//   {"mutants": SEED, "each": N}         the list of mutants.hpp
//   {"op": NAME, "inputs": [{"dtype": NAME, "sizes": [...]}], "attributes": {NAME: VALUE}}
//
// The bytes of the inputs follow the third kind's line; with "mutant": {"kind", "part", "text"}
// that text stands in place of the row's own. Each answer is a line of JSON: what was asked for;
// {"outputs": [{"dtype", "sizes"}]}, with the bytes behind it; or {"error": words}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/op/attributes.hpp"
#include "ops/infer/common.hpp"
#include "ops/oracle/evaluators.hpp"
#include "ops/oracle/oracle.hpp"
#include "ops/register.hpp"
#include "ops/truth/mutants.hpp"

namespace bp::truth {
namespace {

using Json = nlohmann::json;

uint32_t dtype_of(const std::string& name) {
  for (uint32_t dtype = 1; dtype < 64; ++dtype) {
    if (is_dtype(dtype) && dtype_name(dtype) == name) return dtype;
  }
  throw std::runtime_error("no dtype '" + name + "'");
}

std::string class_name(expr::Class kind) {
  return expr::type_name({kind, kind == expr::Class::kBool ? uint8_t{8} : uint8_t{0}});
}

expr::Class class_of(const std::string& name) { return expr::type_named(name).value().kind; }

Json row_of(const expr::Row& row) {
  Json inputs = Json::array();
  for (const expr::Argument& input : row.inputs) inputs.push_back(input.is_bool);
  Json parameters = Json::array();
  for (const expr::Parameter& parameter : row.parameters) {
    parameters.push_back({{"name", parameter.name},
                          {"is_bool", parameter.kind == expr::ParameterKind::kBool},
                          {"default", parameter.default_value}});
  }
  return {{"op", row.op},
          {"dtypes", std::vector<std::string>(row.dtypes.begin(), row.dtypes.end())},
          {"bool_inputs", inputs},
          {"gives_bool", row.gives_bool},
          {"parameters", parameters},
          {"either_zero", row.cases.either_zero},
          {"near_input", row.near_input}};
}

Json all_rows() {
  Json answer = {{"rows", Json::array()}, {"reductions", Json::array()}};
  for (const expr::Row& row : expr::all_rows()) answer["rows"].push_back(row_of(row));
  for (const expr::ReductionRow& row : expr::all_reductions()) {
    answer["reductions"].push_back(
        {{"op", row.op},
         {"dtypes", std::vector<std::string>(row.dtypes.begin(), row.dtypes.end())}});
  }
  return answer;
}

Json mutants(uint64_t seed, size_t each) {
  Json list = Json::array();
  for (const Mutant& mutant : all_mutants(seed, each)) {
    list.push_back({{"op", mutant.op},
                    {"kind", class_name(mutant.kind)},
                    {"part", mutant.part},
                    {"original", mutant.original},
                    {"text", mutant.text}});
  }
  return {{"mutants", list}};
}

void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

Attributes attributes_of(const OpSchema& schema, const Json& request) {
  Attributes attributes(schema);
  const Json given = request.value("attributes", Json::object());
  for (const auto& [name, value] : given.items()) {
    if (value.is_array()) {
      must(attributes.set_i64s(name, value.get<std::vector<int64_t>>()));
    } else if (name == "to") {
      must(attributes.set_i64(name, dtype_of(value.get<std::string>())));
    } else if (value.is_number_float()) {
      must(attributes.set_f64(name, value.get<double>()));
    } else {
      must(attributes.set_i64(name, value.get<int64_t>()));
    }
  }
  return attributes;
}

std::vector<OracleTensor> inputs_of(const Json& request) {
  std::vector<OracleTensor> inputs;
  for (const Json& input : request["inputs"]) {
    const auto sizes = input["sizes"].get<std::vector<int64_t>>();
    Dims dims;
    dims.resize(sizes.size(), 0);
    std::copy(sizes.begin(), sizes.end(), dims.begin());
    inputs.push_back(OracleTensor::zeros(dtype_of(input["dtype"].get<std::string>()), dims));
  }
  for (OracleTensor& input : inputs) {
    std::cin.read(reinterpret_cast<char*>(input.bytes.data()),
                  static_cast<std::streamsize>(input.bytes.size()));
  }
  return inputs;
}

/// The outputs again, by a row with another text.
void evaluate_mutant(const ops::OracleCall& call, const Mutant& mutant) {
  if (const expr::Row* row = expr::find_row(mutant.op)) {
    return ops::evaluate_expression(call, MutatedRow(*row, mutant).row);
  }
  const expr::ReductionRow* row = expr::find_reduction(mutant.op);
  if (row == nullptr) throw std::runtime_error("no row '" + mutant.op + "'");
  // Every reduction's struct begins with its axes.
  const auto& axes = *reinterpret_cast<const bp_i64_span*>(
      static_cast<const std::byte*>(call.attributes) + 2 * sizeof(uint32_t));
  ops::evaluate_reduction(call, MutatedReduction(*row, mutant).row, axes);
}

std::vector<OracleTensor> outputs_of(const OpRegistry& registry, const Json& request,
                                     const std::vector<OracleTensor>& inputs) {
  const auto name = request["op"].get<std::string>();
  const auto op = registry.find(name);
  if (!op) throw std::runtime_error("no operator '" + name + "'");
  const OpSchema& schema = registry.schema(*op);
  const Attributes attributes = attributes_of(schema, request);
  std::vector<OracleTensor> outputs;
  must(evaluate(schema, inputs, attributes.data(), &outputs));
  if (!request.contains("mutant")) return outputs;
  const Json& given = request["mutant"];
  const Mutant mutant{.op = name,
                      .kind = class_of(given["kind"].get<std::string>()),
                      .part = given["part"].get<std::string>(),
                      .original = {},
                      .text = given["text"].get<std::string>()};
  evaluate_mutant({.inputs = inputs, .attributes = attributes.data(), .outputs = outputs}, mutant);
  return outputs;
}

/// Prints the answer.
void answer(const OpRegistry& registry, const Json& request) {
  if (request.contains("rows")) {
    std::cout << all_rows().dump() << std::endl;
    return;
  }
  if (request.contains("mutants")) {
    std::cout << mutants(request["mutants"].get<uint64_t>(), request["each"].get<size_t>()).dump()
              << std::endl;
    return;
  }
  const std::vector<OracleTensor> inputs = inputs_of(request);
  const std::vector<OracleTensor> outputs = outputs_of(registry, request, inputs);
  Json list = Json::array();
  for (const OracleTensor& output : outputs) {
    list.push_back({{"dtype", dtype_name(output.dtype)},
                    {"sizes", std::vector<int64_t>(output.sizes.begin(), output.sizes.end())}});
  }
  std::cout << Json{{"outputs", list}}.dump() << '\n';
  for (const OracleTensor& output : outputs) {
    std::cout.write(reinterpret_cast<const char*>(output.bytes.data()),
                    static_cast<std::streamsize>(output.bytes.size()));
  }
  std::cout.flush();
}

}  // namespace
}  // namespace bp::truth

int main() {
  bp::OpRegistry registry;
  const bp::Status registered = bp::register_ops(&registry);
  if (!registered.ok()) {
    std::cerr << registered.to_string() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    try {
      bp::truth::answer(registry, nlohmann::json::parse(line));
    } catch (const std::exception& error) {
      std::cout << nlohmann::json{{"error", error.what()}}.dump() << std::endl;
    }
  }
  return 0;
}
