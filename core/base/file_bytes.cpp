// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "core/base/file_bytes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/base/open_file.hpp"

namespace bp {
namespace {

/// By its type read bytes are told from others.
struct FreeReadBytes {
  std::shared_ptr<const void> reserved;
  void operator()(const void* memory) {
    std::free(const_cast<void*>(memory));
    reserved = nullptr;
  }
};

/// Fills `memory`. Errors: as file_bytes().
Status read_all(int descriptor, const std::string& path, std::span<std::byte> memory) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  size_t done = 0;
  while (done < memory.size()) {
    const size_t wanted = std::min(memory.size() - done, kMostAtOnce);
    const ssize_t count =
        ::pread(descriptor, memory.data() + done, wanted, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Status(BP_UNAVAILABLE,
                    path + ": cannot read the file: " + std::generic_category().message(errno));
    }
    if (count == 0) {
      return Status(BP_INVALID_ARGUMENT, path + ": the file shrank while it was read: expected " +
                                             std::to_string(memory.size()) + " bytes, found " +
                                             std::to_string(done));
    }
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<FileBytes> read_bytes(int descriptor, const std::string& path, uint64_t size_bytes,
                             const FileAccess& access) {
  std::shared_ptr<const void> reserved;
  if (access.reserve) {
    auto answer = access.reserve(size_bytes);
    if (!answer.ok()) return answer.status().with_prefix(path);
    reserved = *std::move(answer);
  }
  // As a mapping has them, so that kernels find weights at the same alignment.
  constexpr uint64_t kAlignment = 4096;
  const uint64_t rounded = (size_bytes / kAlignment + 1) * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    return Status(BP_OUT_OF_MEMORY, path + ": no host memory for the " +
                                        std::to_string(size_bytes) + " bytes of the file");
  }
  FileBytes file;
  file.owner = std::shared_ptr<const void>(memory, FreeReadBytes{std::move(reserved)});
  const std::span bytes(static_cast<std::byte*>(memory), size_bytes);
  BP_TRY(read_all(descriptor, path, bytes));
  file.bytes = bytes;
  return file;
}

}  // namespace

Result<FileBytes> file_bytes(int descriptor, const std::string& path, uint64_t size_bytes,
                             const FileAccess& access) {
  if (access.read) return read_bytes(descriptor, path, size_bytes, access);
  BP_TRY_ASSIGN(std::shared_ptr<const MappedFile> mapped,
                MappedFile::map(descriptor, path, size_bytes));
  const MappedFile* const file = mapped.get();
  return FileBytes{file->bytes(), std::move(mapped), file};
}

Result<FileBytes> open_file_bytes(const std::string& path, uint64_t limit_bytes,
                                  const FileAccess& access) {
  const OpenFile file(path);
  BP_TRY_ASSIGN(const uint64_t size_bytes, file.size_within(limit_bytes));
  return file_bytes(file.descriptor(), path, size_bytes, access);
}

bool keeps_read_bytes(const std::shared_ptr<const void>& owner) {
  return std::get_deleter<FreeReadBytes>(owner) != nullptr;
}

}  // namespace bp
