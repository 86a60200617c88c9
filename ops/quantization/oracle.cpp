// SPDX-License-Identifier: Apache-2.0
//
// Quantization of the oracle.
#include <cmath>

#include "backplane/ops/quantization.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {
namespace {

/// Which element of a parameter belongs to a position of x.
class Place {
 public:
  Place(const OracleTensor& parameter, const Dims& x, int64_t axis, int64_t block)
      : sizes_(parameter.sizes),
        axis_(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis)),
        block_(block),
        is_one_(parameter.count() == 1) {}

  size_t of(const Dims& at) const {
    if (is_one_) return 0;
    if (block_ == 0) return static_cast<size_t>(at[axis_]);
    Dims block = at;
    block[axis_] /= block_;
    return static_cast<size_t>(broadcast_index(sizes_, block));
  }

 private:
  Dims sizes_;
  size_t axis_;
  int64_t block_;
  bool is_one_;
};

}  // namespace

void evaluate_quantize_linear(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_quantize_linear>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const auto x = numbers<double>(call.inputs[0]);
  const auto scale = numbers<double>(call.inputs[1]);
  const auto zero = numbers<int64_t>(call.inputs[2]);
  const Place scale_at(call.inputs[1], y.sizes, attributes.axis, attributes.block_size);
  const Place zero_at(call.inputs[2], y.sizes, attributes.axis, attributes.block_size);
  const bool is_f64 = call.inputs[0].dtype == BP_DTYPE_F64;
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    double quotient = x[static_cast<size_t>(index)] / scale[scale_at.of(at.at())];
    // Of two numbers of f32 the quotient in f64 rounds to what dividing in f32 gives.
    if (!is_f64) quotient = double{static_cast<float>(quotient)};
    const double value = std::nearbyint(quotient) + static_cast<double>(zero[zero_at.of(at.at())]);
    store_integer_from_float(y.dtype, y.bytes.data(), index, value);
  }
}

void evaluate_dequantize_linear(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_dequantize_linear>(call.attributes);
  OracleTensor& y = call.outputs[0];
  const auto x = numbers<int64_t>(call.inputs[0]);
  const auto scale = numbers<double>(call.inputs[1]);
  const auto zero = call.has_input(2) ? numbers<int64_t>(call.inputs[2]) : std::vector<int64_t>{};
  const Place scale_at(call.inputs[1], y.sizes, attributes.axis, attributes.block_size);
  const Place zero_at(call.inputs[zero.empty() ? 1 : 2], y.sizes, attributes.axis,
                      attributes.block_size);
  int64_t index = 0;
  for (Positions at(y.sizes); !at.done(); at.next(), ++index) {
    const int64_t taken = zero.empty() ? 0 : zero[zero_at.of(at.at())];
    const auto difference = static_cast<double>(x[static_cast<size_t>(index)] - taken);
    put<double>(y, index, difference * scale[scale_at.of(at.at())]);
  }
}

}  // namespace bp::ops
