// SPDX-License-Identifier: Apache-2.0
//
// Elementwise operators as graphs of simpler ones.
#include "ops/decompose/builder.hpp"

namespace bp::ops {

// The same values for every x; only the sign of a zero may differ.
Status decompose_relu(const InferContext& context, GraphBuilder* graph) {
  Builder builder(context, {"x"}, graph);
  const ValueId zero = builder.scalar(context.inputs[0].dtype, 0);
  return builder.finish(builder.op("max", {builder.input(0), zero}));
}

}  // namespace bp::ops
