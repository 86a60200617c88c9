// SPDX-License-Identifier: Apache-2.0
//
// Tensors from files, as the command line takes them: by the file's extension.
#ifndef BACKPLANE_CORE_CLI_FILES_FILES_HPP
#define BACKPLANE_CORE_CLI_FILES_FILES_HPP

#include <optional>
#include <string>
#include <string_view>

#include "core/cli/files/npy.hpp"
#include "core/cli/files/npz.hpp"

namespace bp {

/// An ONNX TensorProto (.pb).
Result<HostTensor> read_tensor_proto(const std::string& path);

/// .npy and .pb give one tensor with an empty name, .npz its arrays. Errors as the readers';
/// INVALID_ARGUMENT naming the file for another extension. `only`: as in read_npz().
Result<NamedTensors> read_tensors(const std::string& path,
                                  std::optional<std::string_view> only = std::nullopt);

}  // namespace bp

#endif
