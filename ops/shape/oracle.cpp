// SPDX-License-Identifier: Apache-2.0
//
// Sizes in the oracle: counted anew, from the attributes as the operator's text has them.
#include "backplane/ops/shape.h"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

void evaluate_shape(const OracleCall& call) {
  const auto& attributes = attrs<bp_attrs_shape>(call.attributes);
  const Dims& sizes = call.inputs[0].sizes;
  const auto rank = static_cast<int64_t>(sizes.size());
  int64_t index = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const bool from = attributes.start < 0 ? d - rank >= attributes.start : d >= attributes.start;
    const bool until = attributes.end < 0 ? d - rank < attributes.end : d < attributes.end;
    if (from && until) put<int64_t>(call.outputs[0], index++, sizes[static_cast<size_t>(d)]);
  }
}

void evaluate_size(const OracleCall& call) {
  put<int64_t>(call.outputs[0], 0, call.inputs[0].count());
}

}  // namespace bp::ops
