// SPDX-License-Identifier: Apache-2.0
//
// The choice among the readers. The extension decides, not the content: a wrong file should be
// described as what its name says it is.
#include "core/cli/files/files.hpp"

#include <utility>

#include "ops/onnx/import.hpp"

namespace bp {

Result<HostTensor> read_tensor_proto(const std::string& path) { return load_tensor_proto(path); }

Result<NamedTensors> read_tensors(const std::string& path, std::optional<std::string_view> only) {
  if (path.ends_with(".npz")) return read_npz(path, only);
  const bool is_npy = path.ends_with(".npy");
  if (!is_npy && !path.ends_with(".pb")) {
    return Status(BP_INVALID_ARGUMENT,
                  path + ": expected a file that ends in .npy, .npz or .pb (ONNX TensorProto)");
  }
  BP_TRY_ASSIGN(HostTensor tensor, is_npy ? read_npy(path) : read_tensor_proto(path));
  NamedTensors tensors;
  tensors.emplace_back("", std::move(tensor));
  return tensors;
}

}  // namespace bp
