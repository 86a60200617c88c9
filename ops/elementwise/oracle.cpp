// SPDX-License-Identifier: Apache-2.0
//
// The elementwise operator of the oracle that has no expression.
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

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
