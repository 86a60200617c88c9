// SPDX-License-Identifier: Apache-2.0
//
// Reductions of the oracle.
#include <algorithm>
#include <cassert>
#include <string_view>

#include "backplane/ops/reduction.h"
#include "core/op/attributes.hpp"
#include "ops/oracle/evaluators.hpp"
#include "ops/register.hpp"

namespace bp::ops {
namespace {

/// y[reduced position] = combine(y, x), starting from start(N{}).
template <class Start, class Combine>
void evaluate_reduce(const OracleCall& call, bp_i64_span axes, Start start, Combine combine) {
  const Dims& sizes = call.inputs[0].sizes;
  OracleTensor& y = call.outputs[0];
  const auto mask = resolve_axes("axes", values(axes), sizes.size());
  assert(mask.ok());
  Dims kept = sizes;  // with reduced dimensions kept as 1, whatever keepdims says
  for (size_t i = 0; i < kept.size(); ++i) {
    if ((*mask >> i & 1) != 0) kept[i] = 1;
  }
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    std::vector<N> result(static_cast<size_t>(y.count()), start(N{}));
    size_t index = 0;
    for (Positions at(sizes); !at.done(); at.next(), ++index) {
      N& cell = result[static_cast<size_t>(broadcast_index(kept, at.at()))];
      cell = combine(cell, x[index]);
    }
    for (size_t i = 0; i < result.size(); ++i) put<N>(y, static_cast<int64_t>(i), result[i]);
  });
}

}  // namespace

void evaluate_reduce_max(const OracleCall& call) {
  const uint32_t dtype = call.outputs[0].dtype;
  evaluate_reduce(
      call, attrs<bp_attrs_reduce_max>(call.attributes).axes,
      [dtype]<class N>(N) { return lowest<N>(dtype); },
      []<class N>(N a, N b) { return larger(a, b); });
}

void evaluate_reduce_sum(const OracleCall& call) {
  evaluate_reduce(
      call, attrs<bp_attrs_reduce_sum>(call.attributes).axes, []<class N>(N) { return N{0}; },
      []<class N>(N a, N b) { return plus(a, b); });
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
