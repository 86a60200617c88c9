// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "core/base/folder.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

namespace bp {

Result<std::vector<std::string>> names_in_folder(const std::string& path) {
  const auto refuse = [&path] {
    return Status(BP_UNAVAILABLE, path + ": " + std::generic_category().message(errno));
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return refuse();
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return refuse();
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace bp
