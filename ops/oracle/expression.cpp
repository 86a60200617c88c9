// SPDX-License-Identifier: Apache-2.0
//
// The oracle of the rows with a definition: the tree is walked for every element. Emitted code has
// no part in it.
#include <cassert>

#include "ops/expr/interpret.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// The dtype as the language has it. Floats are computed in long double; of their widths only f64's
/// matters, see expr::Program.
expr::Type type_of(uint32_t dtype) { return *expr::type_named(dtype_name(dtype)); }

expr::Value load_value(const OracleTensor& tensor, int64_t index) {
  if (is_float_dtype(tensor.dtype)) {
    return {.number = load_float(tensor.dtype, tensor.bytes.data(), index)};
  }
  return {.bits = load_integer(tensor.dtype, tensor.bytes.data(), index)};
}

/// An attribute as a kernel has it: rounded to the type that the operator is computed in.
expr::Value parameter_value(const expr::Parameter& parameter, const void* attributes,
                            expr::Type element) {
  const std::byte* place = &static_cast<const std::byte*>(attributes)[parameter.offset_bytes];
  if (parameter.kind == expr::ParameterKind::kF64) {
    double given = 0;
    std::memcpy(&given, place, sizeof(given));
    const bool is_narrow = element.kind == expr::Class::kFloat && element.bits == 32;
    const expr::Value value{.number = is_narrow ? double{static_cast<float>(given)} : given};
    return expr::convert(value, {expr::Class::kFloat, 64}, element);
  }
  int64_t given = 0;
  std::memcpy(&given, place, sizeof(given));
  const expr::Value value{.bits = static_cast<uint64_t>(given)};
  if (parameter.kind == expr::ParameterKind::kBool) return value;
  return expr::convert(value, {expr::Class::kSigned, 64}, element);
}

uint32_t element_dtype(const OracleCall& call, const expr::Row& row) {
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    if (!row.inputs[i].is_bool) return call.inputs[i].dtype;
  }
  return call.outputs[0].dtype;
}

void store_value(OracleTensor* tensor, int64_t index, const expr::Value& value) {
  if (is_float_dtype(tensor->dtype)) {
    store_float(tensor->dtype, tensor->bytes.data(), index, value.number);
  } else {
    store_integer(tensor->dtype, tensor->bytes.data(), index, value.bits);
  }
}

}  // namespace

void evaluate_expression(const OracleCall& call, const expr::Row& row) {
  OracleTensor& y = call.outputs[0];
  const expr::Type element = type_of(element_dtype(call, row));
  expr::Expr tree;
  const std::string error = expr::compile(row, expr::FormKind::kDefinition, element, &tree);
  assert(error.empty());  // bp-exprgen has compiled it for every class, or there were no build
  if (!error.empty()) return;
  expr::Program program(tree, expr::names_of(row, element));
  std::vector<expr::Value> values(row.inputs.size());
  for (const expr::Parameter& parameter : row.parameters) {
    values.push_back(parameter_value(parameter, call.attributes, element));
  }
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      values[i] = load_value(call.inputs[i], broadcast_index(call.inputs[i].sizes, at.at()));
    }
    store_value(&y, index, program.run(values));
  }
}

void evaluate_reduction(const OracleCall& call, const expr::ReductionRow& row, bp_i64_span axes) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  const expr::Type element = type_of(x.dtype);
  expr::ReductionTrees trees;
  const std::string error = expr::compile(row, element, &trees);
  const auto mask = resolve_axes("axes", values(axes), x.sizes.size());
  assert(error.empty() && mask.ok());  // as above; inference has looked at the axes
  if (!error.empty() || !mask.ok()) return;
  const expr::Type accumulator = trees.accumulator;
  expr::Program map(trees.map, expr::map_names(element));
  expr::Program combine(trees.combine, expr::combine_names(accumulator));
  expr::Program finish(trees.finish, expr::finish_names(element, accumulator));
  const expr::Value start = expr::Program(trees.start, {}).run({});
  Dims kept = x.sizes;  // with reduced dimensions kept as 1, whatever keepdims says
  for (size_t i = 0; i < kept.size(); ++i) {
    if ((*mask >> i & 1) != 0) kept[i] = 1;
  }
  std::vector<expr::Value> results(static_cast<size_t>(y.count()), start);
  int64_t index = 0;
  for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
    const expr::Value element_values[] = {load_value(x, index), {}};
    expr::Value& cell = results[static_cast<size_t>(broadcast_index(kept, at.at()))];
    const expr::Value pair[] = {cell, map.run(element_values)};
    cell = combine.run(pair);
  }
  const int64_t reduced_count = y.count() > 0 ? x.count() / y.count() : 0;
  const expr::Value count = expr::convert({.bits = static_cast<uint64_t>(reduced_count)},
                                          {expr::Class::kSigned, 64}, accumulator);
  for (size_t i = 0; i < results.size(); ++i) {
    const expr::Value last[] = {results[i], count, {}};
    store_value(&y, static_cast<int64_t>(i), finish.run(last));
  }
}

}  // namespace bp::ops
