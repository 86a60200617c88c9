// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a file in either of two ways: mapped, which costs nothing and counts on the file
// staying as long as it is; or read, which takes as much memory and counts on nothing.
#ifndef BACKPLANE_CORE_BASE_FILE_BYTES_HPP
#define BACKPLANE_CORE_BASE_FILE_BYTES_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/mapped_file.hpp"
#include "core/base/status.hpp"

namespace bp {

struct FileBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;   // keeps them
  const MappedFile* mapped = nullptr;  // what `owner` is; nullptr: they were read
};

struct FileAccess {
  bool read = false;  // else mapped
  /// Asked before the bytes of a file are read. What it answers is kept as long as they are; an
  /// error ends the reading. Empty: nobody counts them.
  std::function<Result<std::shared_ptr<const void>>(uint64_t bytes)> reserve = {};
};

/// The whole of a file. Errors: those of MappedFile::open(), and of file_bytes().
Result<FileBytes> open_file_bytes(const std::string& path, uint64_t limit_bytes,
                                  const FileAccess& access);

/// The first `size_bytes` of a file that is open, and stays the caller's. Errors name the path:
/// UNAVAILABLE if it cannot be mapped or read, INVALID_ARGUMENT if it has become shorter,
/// OUT_OF_MEMORY; those of access.reserve.
Result<FileBytes> file_bytes(int descriptor, const std::string& path, uint64_t size_bytes,
                             const FileAccess& access);

/// Whether this keeps bytes that were read.
bool keeps_read_bytes(const std::shared_ptr<const void>& owner);

}  // namespace bp

#endif
