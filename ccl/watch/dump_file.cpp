// SPDX-License-Identifier: Apache-2.0
//
// POSIX: dumps as files. They may lie in a folder that others can write to, and who reads them may
// come at any moment.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

#include "ccl/watch/dump.hpp"
#include "core/base/file_bytes.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/hash.hpp"

namespace bp::ccl {
namespace {

constexpr mode_t kOwnerOnly = 0600;

/// An open file of this object.
class OwnedFile {
 public:
  explicit OwnedFile(int descriptor) : descriptor_(descriptor) {}
  ~OwnedFile() { close(); }
  OwnedFile(const OwnedFile&) = delete;
  OwnedFile& operator=(const OwnedFile&) = delete;
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  /// False with errno: on some file systems what was written is refused only here.
  bool close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || ::close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

Status refuse_file(const std::string& path, const char* action) {
  return {BP_UNAVAILABLE, foreign_text(path) + ": cannot " + action + ": " +
                              std::generic_category().message(errno)};
}

/// False with errno.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

/// A descriptor, or none with errno.
int open_folder(const std::string& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/// By the thread, of which two may write at once.
std::string part_name(const std::string& name) {
  return "." + name + "." + std::to_string(::gettid());
}

/// A descriptor of a new file in the folder, or none with errno. A dead thread of this number may
/// have left one of its name.
int make_part(int folder, const std::string& name) {
  ::unlinkat(folder, name.c_str(), 0);
  return ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  kOwnerOnly);
}

bool belongs_in_a_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
}

}  // namespace

void set_origin(RankDump* dump) {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) == 0) dump->host = host;
  dump->process_id = static_cast<uint64_t>(::getpid());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  dump->dumped_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string dump_file_name(const GroupInfo& group) {
  constexpr size_t kMostLetters = 100;
  std::string name = group.name.substr(0, kMostLetters);
  for (char& letter : name) letter = belongs_in_a_name(letter) ? letter : '_';
  if (name.starts_with('.')) name[0] = '_';
  if (name.empty() || name != group.name) {
    char number[20];
    const uint64_t hash = content_hash(std::as_bytes(std::span(group.name)));
    std::snprintf(number, sizeof(number), "-%08x", static_cast<uint32_t>(hash));
    name += number;
  }
  return name + "-" + std::to_string(group.epoch) + "-rank" + std::to_string(group.place.rank) +
         ".json";
}

Status check_dump_folder(const std::string& folder) {
  constexpr mode_t kOwnersFolder = 0700;
  if (::mkdir(folder.c_str(), kOwnersFolder) != 0 && errno != EEXIST) {
    return refuse_file(folder, "make the folder");
  }
  const OwnedFile parent(open_folder(folder));
  if (!parent.is_open()) return refuse_file(folder, "open the folder");
  const std::string name = part_name("check");
  const OwnedFile file(make_part(parent.get(), name));
  if (!file.is_open()) return refuse_file(folder, "create a file in the folder");
  ::unlinkat(parent.get(), name.c_str(), 0);
  return {};
}

Status write_dump_file(const std::string& folder, const RankDump& dump) {
  const std::string text = dump_text(dump);
  const std::string name = dump_file_name(dump.group);
  const std::string path = folder + "/" + name;
  const OwnedFile parent(open_folder(folder));
  if (!parent.is_open()) return refuse_file(folder, "open the folder");
  const std::string part = part_name(name);
  OwnedFile file(make_part(parent.get(), part));
  if (!file.is_open()) return refuse_file(path, "create the file");
  Status status;
  // The mode again: the process may have an umask that leaves less.
  if (::fchmod(file.get(), kOwnerOnly) != 0 || !write_all(file.get(), text) || !file.close()) {
    status = refuse_file(path, "write the file");
  } else if (::renameat(parent.get(), part.c_str(), parent.get(), name.c_str()) != 0) {
    status = refuse_file(path, "put the file in its place");
  }
  if (!status.ok()) ::unlinkat(parent.get(), part.c_str(), 0);
  return status;
}

Result<RankDump> read_dump(const std::string& path) {
  // Read and not mapped: who wrote it may cut it short meanwhile.
  BP_TRY_ASSIGN(const FileBytes file, open_file_bytes(path, kMostDumpBytes, {.read = true}));
  return parse_dump({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}, path);
}

}  // namespace bp::ccl
