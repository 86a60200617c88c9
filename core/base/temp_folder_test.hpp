// SPDX-License-Identifier: Apache-2.0
//
// A folder for one test's files, gone afterwards; its own for every process, so that tests of
// several builds can run at once.
#ifndef BACKPLANE_CORE_BASE_TEMP_FOLDER_TEST_HPP
#define BACKPLANE_CORE_BASE_TEMP_FOLDER_TEST_HPP

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace bp {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "backplane-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }
  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace bp

#endif
