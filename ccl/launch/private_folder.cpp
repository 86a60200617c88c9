// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system. Locks are those of open files (flock): each is one
// process's own, and goes when it ends. NAME.alive has a shared lock of each process that holds the
// name; "gate" has an exclusive one of the process that looks for names that nobody holds.
#include "ccl/launch/private_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "ccl/store/private_file.hpp"
#include "core/base/foreign_text.hpp"

namespace bp::ccl {
namespace {

constexpr std::string_view kAlive = ".alive";
constexpr std::chrono::seconds kPatience{5};  // at the end, for who holds the gate

bool is_own_folder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

Status check_private_folder(const std::string& path) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) return file_error(path, "inspect");
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  return Status(BP_INVALID_ARGUMENT,
                foreign_text(path) + ": expected a folder of user " + std::to_string(::geteuid()) +
                    " that only this user may enter (mode 0700), found another; remove it");
}

Result<Descriptor> open_lock(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return file_error(path, "open");
  return file;
}

Result<Descriptor> pass_gate(const std::string& folder, HeldName::TimePoint deadline) {
  const std::string path = folder + "/gate";
  BP_TRY_ASSIGN(Descriptor gate, open_lock(path));
  while (::flock(gate.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_error(path, "lock");
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(BP_TIMEOUT, foreign_text(path) + ": another process keeps the lock");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return gate;
}

/// Behind the gate. Removes what nobody holds.
void sweep(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    files.push_back(entry->path().filename().string());
  }
  for (const std::string& file : files) {
    if (!file.ends_with(kAlive)) continue;
    const Descriptor held(::open((folder + "/" + file).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!held.is_open() || ::flock(held.get(), LOCK_EX | LOCK_NB) != 0) continue;
    const std::string name = file.substr(0, file.size() - kAlive.size() + 1);  // with the dot
    for (const std::string& other : files) {
      if (other.starts_with(name)) ::unlink((folder + "/" + other).c_str());
    }
  }
}

}  // namespace

Result<std::string> private_folder(const Environment& environment) {
  std::string folder = environment("XDG_RUNTIME_DIR").value_or("");
  // Batch systems hand on the variable to hosts where the user has no such folder.
  if (folder.starts_with('/') && is_own_folder(folder)) {
    folder += "/backplane";
  } else {
    folder = "/tmp/backplane-" + std::to_string(::geteuid());
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status(BP_UNAVAILABLE,
                  foreign_text(folder) + ": cannot make the folder: " + reason_of(errno));
  }
  BP_TRY(check_private_folder(folder));
  return folder;
}

Result<std::unique_ptr<HeldName>> HeldName::hold(const std::string& folder, const std::string& name,
                                                 TimePoint deadline) {
  const std::string path = folder + "/" + name;
  BP_TRY_ASSIGN(const Descriptor gate, pass_gate(folder, deadline));
  sweep(folder);
  BP_TRY_ASSIGN(Descriptor held, open_lock(path + std::string(kAlive)));
  if (::flock(held.get(), LOCK_SH | LOCK_NB) != 0) {
    return file_error(path + std::string(kAlive), "lock");
  }
  return std::unique_ptr<HeldName>(new HeldName(folder, path, std::move(held)));
}

HeldName::~HeldName() {
  const auto ended = contain([this]() -> Status {
    BP_TRY_ASSIGN(const Descriptor gate,
                  pass_gate(folder_, std::chrono::steady_clock::now() + kPatience));
    held_.close();
    sweep(folder_);
    return {};
  });
  static_cast<void>(ended);  // the files stay, then, for the next one who comes by
}

}  // namespace bp::ccl
