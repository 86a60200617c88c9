// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "core/base/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/open_file.hpp"

namespace bp {
Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path,
                                                           uint64_t limit_bytes) {
  const OpenFile file(path);
  BP_TRY_ASSIGN(const uint64_t size_bytes, file.size_within(limit_bytes));
  return map(file.descriptor(), path, size_bytes);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::map(int descriptor, std::string path,
                                                          uint64_t size_bytes) {
  std::span<const std::byte> bytes;
  if (size_bytes > 0) {
    void* memory = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED) {
      return Status(BP_UNAVAILABLE,
                    path + ": cannot map the file: " + std::generic_category().message(errno));
    }
    bytes = std::span(static_cast<const std::byte*>(memory), size_bytes);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(std::move(path), bytes));
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(const void* data, uint64_t size_bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  if (first < bytes_.data() || first >= bytes_.data() + bytes_.size()) return;
  const auto offset = static_cast<size_t>(first - bytes_.data());
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = offset % page;  // the mapping begins on a page
  const size_t released = before + std::min<size_t>(size_bytes, bytes_.size() - offset);
  // Nobody writes to the mapping, so that nothing is lost. A refusal changes nothing but memory.
  ::madvise(const_cast<std::byte*>(first - before), released, MADV_DONTNEED);
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  const OpenFile file(path);
  // Only what comes tells the size: a file may grow meanwhile, and those of /proc claim 0 bytes.
  BP_TRY(file.size_bytes());
  std::string content;
  std::array<char, 16384> part;
  while (content.size() <= limit_bytes) {
    const size_t room = std::min(part.size(), limit_bytes - content.size() + 1);
    const ssize_t count = ::read(file.descriptor(), part.data(), room);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file.error("read");
    if (count == 0) return content;
    content.append(part.data(), static_cast<size_t>(count));
  }
  return Status(BP_INVALID_ARGUMENT, path + ": the file is too large: it has more than " +
                                         std::to_string(limit_bytes) + " bytes");
}

}  // namespace bp
