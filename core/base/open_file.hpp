// SPDX-License-Identifier: Apache-2.0
//
// POSIX: a file that is open for reading, and what it must be.
#ifndef BACKPLANE_CORE_BASE_OPEN_FILE_HPP
#define BACKPLANE_CORE_BASE_OPEN_FILE_HPP

#include <cstdint>
#include <string>

#include "core/base/status.hpp"

namespace bp {

class OpenFile {
 public:
  explicit OpenFile(std::string path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// What went wrong in errno, as UNAVAILABLE.
  Status error(const char* action) const;
  /// Errors: UNAVAILABLE if it could not be opened, INVALID_ARGUMENT if it is no regular file.
  Result<uint64_t> size_bytes() const;
  /// The same, and INVALID_ARGUMENT if it is empty, or larger than `limit_bytes`.
  Result<uint64_t> size_within(uint64_t limit_bytes) const;

 private:
  const std::string path_;
  const int descriptor_;
};

}  // namespace bp

#endif
