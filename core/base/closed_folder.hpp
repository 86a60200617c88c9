// SPDX-License-Identifier: Apache-2.0
//
// A folder whose files are named by somebody who is not trusted: a model that keeps its weights in
// other files. What the names lead to stays in the folder, whatever others change there meanwhile.
#ifndef BACKPLANE_CORE_BASE_CLOSED_FOLDER_HPP
#define BACKPLANE_CORE_BASE_CLOSED_FOLDER_HPP

#include <memory>
#include <string>
#include <string_view>

#include "core/base/file_bytes.hpp"
#include "core/base/status.hpp"

namespace bp {

/// Immutable, any thread.
class ClosedFolder {
 public:
  /// Errors: UNAVAILABLE naming the path.
  static Result<std::shared_ptr<const ClosedFolder>> open(const std::string& path);
  ~ClosedFolder();
  ClosedFolder(const ClosedFolder&) = delete;
  ClosedFolder& operator=(const ClosedFolder&) = delete;

  /// How a name is followed: by one call of the kernel, or, where that call is not known, part by
  /// part. Both refuse the same.
  enum class Walk { kKernel, kSteps };

  /// The bytes of the file `name`, which may be in a folder of the folder, and may be empty. Errors
  /// name it. INVALID_ARGUMENT: it is absolute, has a part that is empty or "..", goes by a
  /// symbolic link (at its end too), is no regular file, or has another hard link, by which it may
  /// be anybody's. UNAVAILABLE: it cannot be opened. Those of file_bytes().
  Result<FileBytes> bytes(std::string_view name, const FileAccess& access,
                          Walk walk = Walk::kKernel) const;
  /// Whether `name`, which breaks none of bytes()'s rules else, is a symbolic link at its end.
  bool is_link(std::string_view name) const;
  /// Of what such a link leads to: a file of the folder `store`, a real path, itself. It is
  /// opened by bytes()'s rules there. Errors: bytes()'s, and INVALID_ARGUMENT for a link to another
  /// folder.
  Result<FileBytes> link_bytes(std::string_view name, const std::string& store,
                               const FileAccess& access) const;
  /// The folder, as a real path, of the file that the symbolic link `path` leads to; empty where it
  /// is none, or leads nowhere.
  static std::string behind_link(const std::string& path);

 private:
  ClosedFolder(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace bp

#endif
