// SPDX-License-Identifier: Apache-2.0
//
// Functions of a model, written out where they are called: behind this no other part of the reader
// knows of them, and the nodes that they bring are like any others.
#ifndef BACKPLANE_OPS_ONNX_FUNCTIONS_HPP
#define BACKPLANE_OPS_ONNX_FUNCTIONS_HPP

#include <deque>
#include <string>

#include "core/base/status.hpp"
#include "ops/onnx/model.hpp"

namespace bp::onnx {

/// No function calls deeper than this.
inline constexpr size_t kMaxCallDepth = 64;
/// What calls may take in memory when they are written out: a small file can ask for any number,
/// by functions that call others twice.
inline constexpr uint64_t kMaxInlinedBytes = uint64_t{64} << 20;

/// "" for the default domain, which has two names.
std::string_view plain_domain(std::string_view domain);

/// The operator set of the default domain; 0: none is named. Errors: INVALID_ARGUMENT for a domain
/// given twice, UNSUPPORTED for a version that is not read.
Result<int64_t> default_opset(const std::vector<OpsetImport>& imports);

/// Replaces every node of the graph that calls a function by the function's nodes, and sets every
/// node's operator set. New names are unique, say which call they are of, and live in `names`, as
/// long as the model needs them. A function that nothing calls is not looked at.
/// Errors: INVALID_ARGUMENT naming the function and the node: a function that calls itself, by
/// whatever others; one defined twice; a call with what the function does not have; a body whose
/// values are missing or made twice. UNSUPPORTED for calls that are too deep or too large.
Status inline_functions(ModelProto* model, std::deque<std::string>* names);

}  // namespace bp::onnx

#endif
