// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of the oracle.
#include <algorithm>
#include <map>
#include <utility>

#include "backplane/ops/linalg.h"
#include "ops/linalg/einsum.hpp"
#include "ops/oracle/epilogue.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// sum over k of a[start_a + k * step_a] * b[start_b + k * step_b]
template <class N>
N dot(const std::vector<N>& a, int64_t start_a, int64_t step_a, const std::vector<N>& b,
      int64_t start_b, int64_t step_b, int64_t count) {
  N sum{0};
  for (int64_t k = 0; k < count; ++k) {
    const auto index_a = static_cast<size_t>(start_a + k * step_a);
    const auto index_b = static_cast<size_t>(start_b + k * step_b);
    sum = plus(sum, times(a[index_a], b[index_b]));
  }
  return sum;
}

/// The sizes in front of a matrix, and the matrix; 1-D operands count as one row or one column.
struct MatrixStack {
  Dims batch;
  int64_t rows;
  int64_t columns;
};

MatrixStack stack_of(const Dims& sizes, bool vector_is_row) {
  const size_t rank = sizes.size();
  if (rank == 1) {
    return {
        .batch = {}, .rows = vector_is_row ? 1 : sizes[0], .columns = vector_is_row ? sizes[0] : 1};
  }
  MatrixStack stack{.batch = sizes, .rows = sizes[rank - 2], .columns = sizes[rank - 1]};
  stack.batch.resize(rank - 2);
  return stack;
}

template <class N>
N from_factor(double factor) {
  if constexpr (std::is_same_v<N, double>) {
    return factor;
  } else {
    // Inference has seen to it that the factor is whole; a negative one wraps.
    return static_cast<N>(static_cast<int64_t>(factor));
  }
}

}  // namespace

void evaluate_matmul(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  const MatrixStack a = stack_of(call.inputs[0].sizes, true);
  const MatrixStack b = stack_of(call.inputs[1].sizes, false);
  const size_t matrix_dims =
      (call.inputs[0].sizes.size() > 1 ? 1u : 0u) + (call.inputs[1].sizes.size() > 1 ? 1u : 0u);
  Dims batch = y.sizes;
  batch.resize(y.sizes.size() - matrix_dims);
  with_number(y.dtype, [&]<class N>(N) {
    const auto values_a = numbers<N>(call.inputs[0]);
    const auto values_b = numbers<N>(call.inputs[1]);
    std::vector<N> values;
    for (Positions at(batch); !at.done(); at.next()) {
      const int64_t start_a = broadcast_index(a.batch, at.at()) * a.rows * a.columns;
      const int64_t start_b = broadcast_index(b.batch, at.at()) * b.rows * b.columns;
      for (int64_t cell = 0; cell < a.rows * b.columns; ++cell) {
        const int64_t row = cell / b.columns;
        const int64_t column = cell % b.columns;
        values.push_back(dot(values_a, start_a + row * a.columns, 1, values_b, start_b + column,
                             b.columns, a.columns));
      }
    }
    put_with_epilogue(y, std::move(values), call.has_input(2) ? &call.inputs[2] : nullptr,
                      activation_of(attrs<bp_attrs_matmul>(call.attributes)));
  });
}

void evaluate_gemm(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_gemm>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const Dims& a = call.inputs[0].sizes;
  const Dims& b = call.inputs[1].sizes;
  const bool trans_a = attributes.trans_a != 0;
  const bool trans_b = attributes.trans_b != 0;
  const int64_t inner = a[trans_a ? 0 : 1];
  with_number(y.dtype, [&]<class N>(N) {
    const auto values_a = numbers<N>(call.inputs[0]);
    const auto values_b = numbers<N>(call.inputs[1]);
    const bool adds_c = call.has_input(2) && attributes.beta != 0;
    const auto values_c = adds_c ? numbers<N>(call.inputs[2]) : std::vector<N>();
    std::vector<N> values;
    for (Positions at(y.sizes); !at.done(); at.next()) {
      const int64_t row = at.at()[0];
      const int64_t column = at.at()[1];
      const N product = dot(values_a, trans_a ? row : row * a[1], trans_a ? a[1] : 1, values_b,
                            trans_b ? column * b[1] : column, trans_b ? 1 : b[1], inner);
      N value = times(from_factor<N>(attributes.alpha), product);
      if (adds_c) {
        const auto index_c = static_cast<size_t>(broadcast_index(call.inputs[2].sizes, at.at()));
        value = plus(value, times(from_factor<N>(attributes.beta), values_c[index_c]));
      }
      values.push_back(value);
    }
    put_with_epilogue(y, std::move(values), nullptr, activation_of(attributes));
  });
}

namespace {

/// A step along each label in an operand's elements: twice on a diagonal, none where a size of 1
/// repeats.
std::map<EinsumLabel, int64_t> label_steps(const std::vector<EinsumLabel>& labels,
                                           const Dims& sizes) {
  std::map<EinsumLabel, int64_t> steps;
  int64_t step = 1;
  for (size_t i = labels.size(); i-- > 0;) {
    if (sizes[i] != 1) steps[labels[i]] += step;
    step *= sizes[i];
  }
  return steps;
}

}  // namespace

void evaluate_einsum(const OracleCall& call) {
  std::vector<TensorType> types;
  for (const OracleTensor& x : call.inputs) types.push_back({.dtype = x.dtype, .sizes = x.sizes});
  const auto& attributes = attrs<bp_attrs_einsum>(call.attributes);
  const auto plan = plan_einsum(text(attributes.equation), types);
  if (!plan.ok()) return;                          // inference has seen to it
  std::vector<EinsumLabel> labels = plan->output;  // then those that are summed
  int64_t terms = 1;
  for (const auto& [label, size] : plan->sizes) {
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) continue;
    labels.push_back(label);
    terms *= size;
  }
  std::vector<std::map<EinsumLabel, int64_t>> steps;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    steps.push_back(label_steps(plan->operands[i], call.inputs[i].sizes));
  }
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    std::vector<std::vector<N>> values;
    for (const OracleTensor& x : call.inputs) values.push_back(numbers<N>(x));
    for (int64_t index = 0; index < y.count(); ++index) {
      N sum{0};
      for (int64_t term = 0; term < terms; ++term) {
        std::vector<int64_t> at(call.inputs.size(), 0);
        int64_t rest = index * terms + term;  // counts through all labels, the last one fastest
        for (size_t i = labels.size(); i-- > 0;) {
          const int64_t size = plan->sizes.at(labels[i]);
          for (size_t k = 0; k < at.size(); ++k) {
            const auto step = steps[k].find(labels[i]);
            if (step != steps[k].end()) at[k] += rest % size * step->second;
          }
          rest /= size;
        }
        N product{1};
        for (size_t k = 0; k < at.size(); ++k) {
          product = times(product, values[k][static_cast<size_t>(at[k])]);
        }
        sum = plus(sum, product);
      }
      put<N>(y, index, sum);
    }
  });
}

}  // namespace bp::ops
