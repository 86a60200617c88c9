// SPDX-License-Identifier: Apache-2.0
//
// Linux: openat2 is there since 5.6, and sandboxes refuse what they do not know.
#include "core/base/closed_folder.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/quoted.hpp"

namespace bp {
namespace {

// O_NONBLOCK: opening a pipe without a writer would wait for ever before it is refused.
constexpr int kFileFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

/// An open file of this object.
class Owned {
 public:
  explicit Owned(int descriptor) : descriptor_(descriptor) {}
  ~Owned() { reset(-1); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  int get() const { return descriptor_; }
  void reset(int descriptor) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = descriptor;
  }

 private:
  int descriptor_;
};

Status invalid(std::string_view name, const std::string& words) {
  return {BP_INVALID_ARGUMENT, quoted(name) + " " + words};
}

/// "." parts say nothing, and are left out.
Result<std::vector<std::string>> parts_of(std::string_view name) {
  if (name.empty()) return invalid(name, "is no file name");
  if (name.front() == '/') return invalid(name, "is absolute, expected a file in the folder");
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty()) return invalid(name, "has an empty part");
    if (part == "..") return invalid(name, "has a part '..', expected a file in the folder");
    if (part != ".") parts.emplace_back(part);
    begin = end + 1;
  }
  if (parts.empty()) return invalid(name, "is the folder itself");
  return parts;
}

/// -1 with errno.
int open_by_kernel(int folder, const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) path += (path.empty() ? "" : "/") + part;
  open_how how = {};
  how.flags = static_cast<uint64_t>(kFileFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 16;  // EAGAIN: something in the tree was renamed meanwhile
  int opened = -1;
  for (int i = 0; i < kTries; ++i) {
    opened = static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
    if (opened >= 0 || errno != EAGAIN) break;
  }
  return opened;
}

/// The folder of the last part, looking at each one without following it; `inner` owns it where it
/// is not `folder` itself. -1 with errno.
int open_parent(int folder, const std::vector<std::string>& parts, Owned* inner) {
  int at = folder;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const int next = ::openat(at, parts[i].c_str(), kFolderFlags | O_NOFOLLOW);
    if (next < 0) {
      struct stat info = {};
      const bool is_link = errno == ENOTDIR &&
                           ::fstatat(at, parts[i].c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                           S_ISLNK(info.st_mode);
      errno = is_link ? ELOOP : errno;
      return -1;
    }
    inner->reset(next);
    at = next;
  }
  return at;
}

/// The same as open_by_kernel.
int open_by_steps(int folder, const std::vector<std::string>& parts) {
  Owned inner(-1);
  const int parent = open_parent(folder, parts, &inner);
  return parent < 0 ? -1 : ::openat(parent, parts.back().c_str(), kFileFlags);
}

/// Absolute, and without links; empty, with errno, where it leads nowhere.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
  return real != nullptr ? real.get() : std::string();
}

/// Of a real path.
std::string folder_of(const std::string& real) {
  const size_t slash = real.rfind('/');
  return slash == 0 ? "/" : real.substr(0, slash);
}

Status open_error(std::string_view name) {
  if (errno == ELOOP) return invalid(name, "goes by a symbolic link, expected none");
  if (errno == EXDEV) return invalid(name, "leads out of the folder");
  return {BP_UNAVAILABLE,
          quoted(name) + ": cannot open the file: " + std::generic_category().message(errno)};
}

}  // namespace

Result<std::shared_ptr<const ClosedFolder>> ClosedFolder::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), kFolderFlags);
  if (descriptor < 0) {
    return Status(BP_UNAVAILABLE,
                  path + ": cannot open the folder: " + std::generic_category().message(errno));
  }
  return std::shared_ptr<const ClosedFolder>(new ClosedFolder(path, descriptor));
}

ClosedFolder::~ClosedFolder() { ::close(descriptor_); }

bool ClosedFolder::is_link(std::string_view name) const {
  const auto parts = parts_of(name);
  if (!parts.ok()) return false;
  Owned inner(-1);
  const int parent = open_parent(descriptor_, *parts, &inner);
  struct stat info = {};
  return parent >= 0 && ::fstatat(parent, parts->back().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(info.st_mode);
}

// What the link leads to is opened by its name in the store: whatever others change meanwhile, no
// file outside it is.
Result<FileBytes> ClosedFolder::link_bytes(std::string_view name, const std::string& store,
                                           const FileAccess& access) const {
  const std::string real = real_path(path_ + "/" + std::string(name));
  if (real.empty()) return open_error(name);
  if (folder_of(real) != store) {
    return invalid(name, "is a link to " + quoted(real) + ", expected a file in " + quoted(store) +
                             ", where the link to the model leads");
  }
  BP_TRY_ASSIGN(const auto folder, open(store));
  return folder->bytes(std::string_view(real).substr(real.rfind('/') + 1), access);
}

std::string ClosedFolder::behind_link(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return {};
  const std::string real = real_path(path);
  return real.empty() ? real : folder_of(real);
}

Result<FileBytes> ClosedFolder::bytes(std::string_view name, const FileAccess& access,
                                      Walk walk) const {
  BP_TRY_ASSIGN(const std::vector<std::string> parts, parts_of(name));
  Owned file(walk == Walk::kKernel ? open_by_kernel(descriptor_, parts) : -1);
  const bool is_unknown = file.get() < 0 && (errno == ENOSYS || errno == EPERM);
  if (walk == Walk::kSteps || is_unknown) file.reset(open_by_steps(descriptor_, parts));
  if (file.get() < 0) return open_error(name);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) return open_error(name);
  if (!S_ISREG(info.st_mode)) {
    return invalid(name, std::string("is a ") +
                             (S_ISDIR(info.st_mode) ? "folder" : "special file") +
                             ", expected a regular file");
  }
  if (info.st_nlink != 1) {
    return invalid(name, "has " + std::to_string(info.st_nlink) +
                             " hard links, expected 1: it may be another's file");
  }
  return file_bytes(file.get(), path_ + "/" + std::string(name),
                    static_cast<uint64_t>(info.st_size), access);
}

}  // namespace bp
