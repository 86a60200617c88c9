// SPDX-License-Identifier: Apache-2.0
//
// From an ONNX file to a graph of our operators. Versions of ONNX end here: what an operator set
// changed is resolved while reading, and no other part of the project knows of it.
#ifndef BACKPLANE_OPS_ONNX_IMPORT_HPP
#define BACKPLANE_OPS_ONNX_IMPORT_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/file_bytes.hpp"
#include "core/base/status.hpp"
#include "core/graph/graph.hpp"
#include "core/op/schema.hpp"

namespace bp {

/// No ONNX file is larger: protobuf's limit.
inline constexpr uint64_t kMaxOnnxBytes = std::numeric_limits<int32_t>::max();
/// Operator sets of the default domain that are read.
inline constexpr int64_t kOldestOpset = 6;
inline constexpr int64_t kNewestOpset = 28;

/// Maps and imports a file, or reads it, and all others that it names, where `access` says so. The
/// registry must hold the operators of ops/ and outlive the graph. Input dimensions with a name
/// become symbols of the graph; weights stay in these bytes where they are aligned, those in other
/// files (external data) too; these lie in the model's own folder. Functions of the model are
/// written out. An input that has an initializer is a default input of the graph, unless the reader
/// needs its value, or in IR version 3: a constant. Errors name the file and the node or tensor:
/// UNAVAILABLE (cannot be opened), INVALID_ARGUMENT (a file that shrinks while it is read; not a
/// valid model: what was expected and found), UNSUPPORTED (a valid one that this reader does not
/// take: operator, domain, operator set, dtype, sparse tensors).
Result<Graph> load_onnx(const std::string& path, const OpRegistry& registry,
                        const FileAccess& access = {});

/// The same for bytes that `owner` keeps alive; the graph may go on using them. `name` is for
/// messages. There is no folder for external data then: UNSUPPORTED.
Result<Graph> import_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          std::string_view name, const OpRegistry& registry);

/// A file that is one TensorProto, as the ONNX test data have them. Errors as above.
Result<HostTensor> load_tensor_proto(const std::string& path);

}  // namespace bp

#endif
