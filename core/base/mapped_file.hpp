// SPDX-License-Identifier: Apache-2.0
//
// A file as read-only memory, without a copy. Weights are used straight from it, so the mapping is
// shared: each pointer into it comes with a reference that keeps it alive. Small files are copied
// instead.
#ifndef BACKPLANE_CORE_BASE_MAPPED_FILE_HPP
#define BACKPLANE_CORE_BASE_MAPPED_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.hpp"

namespace bp {

/// Immutable, any thread. The file must not shrink while it is mapped: reading past its new end
/// raises SIGBUS, as with every mapped file. Replacing it (write beside, then rename) is safe.
class MappedFile {
 public:
  /// Maps the whole file. Errors name the path: UNAVAILABLE if it cannot be opened,
  /// INVALID_ARGUMENT if it is no regular file, empty, or larger than `limit_bytes`.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path,
                                                        uint64_t limit_bytes);
  /// Maps `size_bytes` of a file that is open, and stays the caller's. 0 bytes are no error.
  static Result<std::shared_ptr<const MappedFile>> map(int descriptor, std::string path,
                                                       uint64_t size_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the memory behind a part of bytes() back to the system: who reads it again waits until
  /// it is read from the file anew. For what was copied and is not wanted soon.
  void release(const void* data, uint64_t size_bytes) const;
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);

  std::string path_;
  std::span<const std::byte> bytes_;
};

/// A copy of the whole file, for texts that others wrote. What the path names is looked at once it
/// is open, so no other process can put a pipe or a device in its place. Errors name the path:
/// UNAVAILABLE if it cannot be read, INVALID_ARGUMENT if it is no regular file, or larger than
/// `limit_bytes`.
Result<std::string> read_file(const std::string& path, size_t limit_bytes);

}  // namespace bp

#endif
