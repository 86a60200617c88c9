// SPDX-License-Identifier: Apache-2.0
//
// Nodes of operator set 6 as operator set 7 writes them; the rules begin there.
#ifndef BACKPLANE_OPS_ONNX_OPSET6_HPP
#define BACKPLANE_OPS_ONNX_OPSET6_HPP

#include <vector>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"
#include "ops/onnx/model.hpp"

namespace bp::onnx {

/// The oldest operator set that the rules know.
inline constexpr int64_t kOldestRules = 7;

/// Takes away the attributes that set 7 has dropped, with what they asked for done to the inputs'
/// values: broadcasting that was aligned by an axis, or by channel, becomes a reshape.
/// Errors, without the node's name: UNSUPPORTED for training, and for shapes that are not known.
Status adapt_to_opset7(NodeProto* node, std::vector<ValueId>* inputs, Graph* graph);

}  // namespace bp::onnx

#endif
