// SPDX-License-Identifier: Apache-2.0
//
// The oracle: what every operator means, in 64-bit arithmetic and plain loops, sharing no code with
// any plugin. Tests, `backplane doctor` and the conformance kit compare devices with it. It is not
// fast, and nothing runs models through it.
#ifndef BACKPLANE_OPS_ORACLE_ORACLE_HPP
#define BACKPLANE_OPS_ORACLE_ORACLE_HPP

#include <span>
#include <vector>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"
#include "core/op/schema.hpp"
#include "ops/oracle/oracle_tensor.hpp"

namespace bp {

/// Computes one operator. `attributes`: bp_attrs_<op>, NULL for all defaults. Floats are computed
/// in double, definitions in long double, from the inputs' exact values and rounded once, to the
/// output's dtype; integers are exact modulo 2^bits. Outputs of data-dependent size have their real
/// size; an index out of range is clamped, as kernels do. Any thread.
/// Errors: what infer_types says; INVALID_ARGUMENT for bytes that do not match an input's sizes;
/// UNSUPPORTED for an operator that is not in ops/defs.
Status evaluate(const OpSchema& schema, std::span<const OracleTensor> inputs,
                const void* attributes, std::vector<OracleTensor>* out_outputs);

/// A copy of a constant, a weight, or a tensor read from a file.
OracleTensor oracle_tensor(const HostTensor& tensor);

/// Computes a whole graph, node by node, each rounded to its output's dtype as devices do. The
/// inputs are the graph's, in order. Any thread.
/// Errors: INVALID_ARGUMENT for the number, dtype or sizes of inputs; UNSUPPORTED for a node with
/// regions; what evaluate says, with the node's name in front.
Status evaluate_graph(const Graph& graph, std::span<const OracleTensor> inputs,
                      std::vector<OracleTensor>* out_outputs);

}  // namespace bp

#endif
