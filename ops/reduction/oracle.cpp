// SPDX-License-Identifier: Apache-2.0
//
// Reductions of the oracle.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <string_view>

#include "backplane/ops/reduction.h"
#include "core/op/attributes.hpp"
#include "ops/oracle/evaluators.hpp"
#include "ops/register.hpp"

namespace bp::ops {
/// In two steps, so that no power overflows: e^x by the largest of them.
void evaluate_reduce_log_sum_exp(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  const auto mask = resolve_axes(
      "axes", values(attrs<bp_attrs_reduce_log_sum_exp>(call.attributes).axes), x.sizes.size());
  assert(mask.ok());
  Dims kept = x.sizes;
  for (size_t i = 0; i < kept.size(); ++i) {
    if ((*mask >> i & 1) != 0) kept[i] = 1;
  }
  const auto numbers_of_x = numbers<double>(x);
  const auto count = static_cast<size_t>(call.outputs[0].count());
  std::vector<double> largest(count, -std::numeric_limits<double>::infinity());
  std::vector<long double> sums(count, 0);
  size_t index = 0;
  for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
    double& cell = largest[static_cast<size_t>(broadcast_index(kept, at.at()))];
    cell = larger(cell, numbers_of_x[index]);
  }
  for (double& cell : largest) cell = std::isinf(cell) ? 0 : cell;
  index = 0;
  for (Positions at(x.sizes); !at.done(); at.next(), ++index) {
    const auto place = static_cast<size_t>(broadcast_index(kept, at.at()));
    sums[place] += std::exp(static_cast<long double>(numbers_of_x[index]) - largest[place]);
  }
  OracleTensor& y = call.outputs[0];
  for (size_t i = 0; i < count; ++i) {
    store_float(y.dtype, y.bytes.data(), static_cast<int64_t>(i),
                static_cast<long double>(largest[i]) + std::log(sums[i]));
  }
}

/// The evaluator of the reduction that is named, with the axes as its attribute.
void evaluate_reduce_over_input(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_reduce>(call.attributes);
  const std::string_view kind(attributes.kind.ptr, attributes.kind.len);
  const auto schemas = all_schemas();
  const auto schema = std::find_if(schemas.begin(), schemas.end(),
                                   [&](const OpSchema& s) { return s.name == kind; });
  assert(schema != schemas.end());
  OracleTensor x = call.inputs[0];
  std::vector<int64_t> axes;
  if (call.has_input(1)) axes = call.inputs[1].to_i64();
  bool keep_dims = attributes.keepdims != 0;
  if (axes.empty() && attributes.noop_with_empty_axes != 0) {
    x.sizes.push_back(1);
    axes = {-1};
    keep_dims = false;
  }
  Attributes set(*schema);
  const bool is_set =
      set.set_i64s("axes", axes).ok() && set.set_i64("keepdims", keep_dims ? 1 : 0).ok();
  assert(is_set);
  static_cast<void>(is_set);
  for (const OracleRow& row : all_evaluators()) {
    if (row.op == schema->id) row.evaluate({{&x, 1}, set.data(), call.outputs});
  }
}

}  // namespace bp::ops
