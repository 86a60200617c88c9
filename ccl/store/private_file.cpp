// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "ccl/store/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/foreign_text.hpp"

namespace bp::ccl {
namespace {

constexpr unsigned kOthersBits = 077;

std::string octal(unsigned mode) {
  std::string text = "0";
  for (int shift = 6; shift >= 0; shift -= 3)
    text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

}  // namespace

Status file_error(const std::string& path, const char* action) {
  return Status(BP_UNAVAILABLE,
                foreign_text(path) + ": cannot " + action + " the file: " + reason_of(errno));
}

Status check_private(int descriptor, const std::string& path) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return file_error(path, "inspect");
  const auto refuse = [&](const std::string& words) {
    return Status(BP_INVALID_ARGUMENT, foreign_text(path) + ": " + words);
  };
  if (!S_ISREG(info.st_mode)) {
    return refuse(std::string("expected a regular file, found a ") +
                  (S_ISDIR(info.st_mode) ? "folder" : "special file"));
  }
  if (info.st_uid != ::geteuid()) {
    return refuse("expected a file of user " + std::to_string(::geteuid()) +
                  ", found one of user " + std::to_string(info.st_uid));
  }
  if ((info.st_mode & kOthersBits) == 0) return {};
  return refuse("expected a file that only its user may read, such as mode 0600, found mode " +
                octal(info.st_mode & 0777u));
}

Result<std::string> read_private_file(const std::string& path, uint64_t most_bytes) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever before it is refused.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return file_error(path, "open");
  BP_TRY(check_private(file.get(), path));
  BP_TRY_ASSIGN(std::string content, read_at(file.get(), path, 0, most_bytes + 1));
  if (content.size() <= most_bytes) return content;
  return Status(BP_INVALID_ARGUMENT, foreign_text(path) + ": expected a file of at most " +
                                         std::to_string(most_bytes) + " bytes, found more");
}

Status write_private_file(const std::string& path, std::string_view content) {
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return file_error(path, "create");
  return write_at(file.get(), path, content, 0);
}

Status write_at(int descriptor, const std::string& path, std::string_view content,
                uint64_t offset_bytes) {
  while (!content.empty()) {
    const ssize_t count =
        ::pwrite(descriptor, content.data(), content.size(), static_cast<off_t>(offset_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return file_error(path, "write");
    content.remove_prefix(static_cast<size_t>(count));
    offset_bytes += static_cast<uint64_t>(count);
  }
  return {};
}

Result<std::string> read_at(int descriptor, const std::string& path, uint64_t offset_bytes,
                            uint64_t most_bytes) {
  std::string content(most_bytes, '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::pread(descriptor, content.data() + done, content.size() - done,
                                  static_cast<off_t>(offset_bytes + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(path, "read");
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return content;
}

}  // namespace bp::ccl
