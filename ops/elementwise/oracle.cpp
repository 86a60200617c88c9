// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators of the oracle.
#include <cmath>

#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// y = fn(a, b), broadcast, in the number type of the dtype.
template <class Fn>
void evaluate_binary(const OracleCall& call, Fn fn) {
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    const auto a = numbers<N>(call.inputs[0]);
    const auto b = numbers<N>(call.inputs[1]);
    int64_t index = 0;
    for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
      const auto index_a = static_cast<size_t>(broadcast_index(call.inputs[0].sizes, at.at()));
      const auto index_b = static_cast<size_t>(broadcast_index(call.inputs[1].sizes, at.at()));
      put<N>(y, index, fn(a[index_a], b[index_b]));
    }
  });
}

template <class Fn>
void evaluate_float_unary(const OracleCall& call, Fn fn) {
  const auto x = numbers<double>(call.inputs[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    put<double>(call.outputs[0], static_cast<int64_t>(i), fn(x[i]));
  }
}

template <class N>
N divide(N a, N b) {
  if constexpr (std::is_same_v<N, double>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    // The one quotient that does not fit; it wraps.
    if (std::is_signed_v<N> && b == static_cast<N>(-1)) return times<N>(a, b);
    return a / b;
  }
}

}  // namespace

void evaluate_add(const OracleCall& call) {
  evaluate_binary(call, []<class N>(N a, N b) { return plus(a, b); });
}

void evaluate_sub(const OracleCall& call) {
  evaluate_binary(call, []<class N>(N a, N b) {
    if constexpr (std::is_same_v<N, double>) {
      return a - b;
    } else {
      return static_cast<N>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    }
  });
}

void evaluate_mul(const OracleCall& call) {
  evaluate_binary(call, []<class N>(N a, N b) { return times(a, b); });
}

void evaluate_div(const OracleCall& call) {
  evaluate_binary(call, []<class N>(N a, N b) { return divide(a, b); });
}

void evaluate_max(const OracleCall& call) {
  evaluate_binary(call, []<class N>(N a, N b) { return larger(a, b); });
}

void evaluate_relu(const OracleCall& call) {
  OracleTensor& y = call.outputs[0];
  with_number(y.dtype, [&]<class N>(N) {
    const auto x = numbers<N>(call.inputs[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool kept = x[i] > 0 || x[i] != x[i];
      put<N>(y, static_cast<int64_t>(i), kept ? x[i] : N{0});
    }
  });
}

void evaluate_exp(const OracleCall& call) {
  evaluate_float_unary(call, [](double x) { return std::exp(x); });
}

void evaluate_sqrt(const OracleCall& call) {
  evaluate_float_unary(call, [](double x) { return std::sqrt(x); });
}

void evaluate_reciprocal(const OracleCall& call) {
  evaluate_float_unary(call, [](double x) { return 1.0 / x; });
}

void evaluate_cast(const OracleCall& call) {
  const OracleTensor& x = call.inputs[0];
  OracleTensor& y = call.outputs[0];
  for (int64_t i = 0; i < x.count(); ++i) {
    if (is_float_dtype(x.dtype)) {
      const double value = load_float(x.dtype, x.bytes.data(), i);
      if (is_float_dtype(y.dtype)) {
        store_float(y.dtype, y.bytes.data(), i, value);
      } else {
        store_integer_from_float(y.dtype, y.bytes.data(), i, value);
      }
      continue;
    }
    const uint64_t value = load_integer(x.dtype, x.bytes.data(), i);
    if (!is_float_dtype(y.dtype)) {
      store_integer(y.dtype, y.bytes.data(), i, value);
    } else if (is_signed_dtype(x.dtype)) {
      store_float(y.dtype, y.bytes.data(), i,
                  static_cast<long double>(static_cast<int64_t>(value)));
    } else {
      store_float(y.dtype, y.bytes.data(), i, static_cast<long double>(value));
    }
  }
}

}  // namespace bp::ops
