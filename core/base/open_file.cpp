// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "core/base/open_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace bp {

OpenFile::OpenFile(std::string path)
    : path_(std::move(path)),
      // O_NONBLOCK: opening a pipe without a writer would wait for ever before it is refused.
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status OpenFile::error(const char* action) const {
  const std::string reason = std::generic_category().message(errno);
  return Status(BP_UNAVAILABLE, path_ + ": cannot " + action + " the file: " + reason);
}

Result<uint64_t> OpenFile::size_bytes() const {
  if (descriptor_ < 0) return error("open");
  struct stat info = {};
  if (::fstat(descriptor_, &info) != 0) return error("inspect");
  if (!S_ISREG(info.st_mode)) {
    return Status(BP_INVALID_ARGUMENT, path_ + ": expected a regular file, found a " +
                                           (S_ISDIR(info.st_mode) ? "folder" : "special file"));
  }
  return static_cast<uint64_t>(info.st_size);
}

Result<uint64_t> OpenFile::size_within(uint64_t limit_bytes) const {
  BP_TRY_ASSIGN(const uint64_t size, size_bytes());
  if (size == 0) {
    return Status(BP_INVALID_ARGUMENT, path_ + ": the file is empty (0 bytes)");
  }
  if (size > limit_bytes) {
    return Status(BP_INVALID_ARGUMENT, path_ + ": the file is too large: expected at most " +
                                           std::to_string(limit_bytes) + " bytes, found " +
                                           std::to_string(size));
  }
  return size;
}

}  // namespace bp
