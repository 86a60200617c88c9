// SPDX-License-Identifier: Apache-2.0
//
// Weights that a model keeps in other files. The model is foreign, so it may only name files in
// its own folder: no path out of it, no link, nothing that is no plain file, and no bytes that are
// not there. A content store is the one exception: where the model's own file is a symbolic link,
// its weights may be links too, into the folder in which the model's real file lies.
#ifndef BACKPLANE_OPS_ONNX_EXTERNAL_DATA_HPP
#define BACKPLANE_OPS_ONNX_EXTERNAL_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/base/closed_folder.hpp"
#include "core/base/file_bytes.hpp"
#include "core/base/status.hpp"
#include "ops/onnx/model.hpp"

namespace bp::onnx {

struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  const MappedFile* mapped = nullptr;  // as FileBytes
};

/// The files of one model, each opened once, and mapped or read.
class ExternalData {
 public:
  /// Of the model at this path. Its folder is opened when a tensor asks for it.
  ExternalData(const std::string& model_path, FileAccess access);

  /// What a tensor's entries name: location, and offset and length, which default to 0 and to
  /// `wanted_bytes`; checksum is not looked at. Errors: INVALID_ARGUMENT for another key, one given
  /// twice, what is no number, bytes that are not in the file; ClosedFolder's.
  Result<ExternalBytes> find(std::span<const StringEntryProto> entries, uint64_t wanted_bytes);

 private:
  Result<FileBytes> file(std::string_view location);

  std::string path_;
  std::string store_;  // where the model's real file lies; empty: the model is no link
  std::shared_ptr<const ClosedFolder> folder_;
  FileAccess access_;
  std::map<std::string, FileBytes, std::less<>> files_;
};

}  // namespace bp::onnx

#endif
