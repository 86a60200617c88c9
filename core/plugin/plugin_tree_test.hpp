// SPDX-License-Identifier: Apache-2.0
//
// Folders with plugins for the loader's tests: copies of the fakes of tests/fakes with manifests
// that the test writes, in a temporary folder that goes away with the object.
#ifndef BACKPLANE_CORE_PLUGIN_PLUGIN_TREE_TEST_HPP
#define BACKPLANE_CORE_PLUGIN_PLUGIN_TREE_TEST_HPP

#include <stdlib.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/plugin/loader.hpp"

namespace bp {

/// No user or group of this machine has files of its.
inline constexpr uid_t kNobody = 65534;

/// Manifest text with the core's own build kind. Members are inserted as they are.
struct ManifestText {
  std::string id = "good";
  std::string abi_min = "0.2";
  std::string abi_built = "0.2";
  std::string sanitizer = core_build_kind().sanitizer;
  std::string compiler = core_build_kind().compiler;
  std::string options;  // JSON objects with commas between them
  std::string extra;    // further fields, each with a comma before it

  std::string text() const {
    return R"({"manifest": 1, "id": ")" + id + R"(", "version": "1.0", "abi_min": ")" + abi_min +
           R"(", "abi_built": ")" + abi_built + R"(", "sanitizer": ")" + sanitizer +
           R"(", "compiler": ")" + compiler + R"(", "options": [)" + options + "]" + extra + "}";
  }
};

class PluginTree {
 public:
  PluginTree() {
    std::string name = (std::filesystem::temp_directory_path() / "bp_plugin_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = std::filesystem::canonical(name);
  }
  ~PluginTree() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  PluginTree(const PluginTree&) = delete;
  PluginTree& operator=(const PluginTree&) = delete;

  std::string path(const std::string& relative = "") const {
    return relative.empty() ? root_.string() : (root_ / relative).string();
  }

  void write(const std::string& relative, std::string_view text) const {
    std::filesystem::create_directories((root_ / relative).parent_path());
    std::ofstream(root_ / relative, std::ios::binary) << text;
  }

  /// Copies the fake `fake` as <folder>/lib<name>.so.
  std::string add_library(const std::string& fake, const std::string& folder,
                          const std::string& name) const {
    namespace fs = std::filesystem;
    const fs::path from = fs::path(BP_FAKES_DIR) / fake / ("libbackplane_" + fake + ".so");
    const fs::path to = root_ / folder / ("lib" + name + ".so");
    fs::create_directories(to.parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
    return to.string();
  }

  /// The fake with a manifest of the test's own; `folder` may be empty. Answers the library's path.
  std::string add(const std::string& fake, const std::string& folder, const std::string& name,
                  const ManifestText& manifest) const {
    write((folder.empty() ? "" : folder + "/") + "lib" + name + ".backplane.json", manifest.text());
    return add_library(fake, folder, name);
  }

  /// The fake with the manifest it was built with.
  std::string add(const std::string& fake) const {
    namespace fs = std::filesystem;
    const std::string name = "libbackplane_" + fake + ".backplane.json";
    fs::create_directories(root_ / fake);
    fs::copy_file(fs::path(BP_FAKES_DIR) / fake / name, root_ / fake / name);
    return add_library(fake, fake, "backplane_" + fake);
  }

  LoadOptions options() const {
    LoadOptions options;
    options.search_path = {path()};
    options.install_directory = "";
    options.privileged = false;
    return options;
  }

 private:
  std::filesystem::path root_;
};

/// Takes all log lines while it lives.
class LogCapture {
 public:
  explicit LogCapture(uint32_t level = BP_LOG_INFO) {
    set_log_level(level);
    set_log_sink([this](uint32_t at, std::string_view line) { lines_.emplace_back(at, line); });
  }
  ~LogCapture() {
    set_log_sink({});
    set_log_level(BP_LOG_WARNING);
  }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// Lines at this level that contain the text.
  int count(uint32_t level, std::string_view text) const {
    int found = 0;
    for (const auto& [at, line] : lines_) {
      if (at == level && line.find(text) != std::string::npos) ++found;
    }
    return found;
  }

 private:
  std::vector<std::pair<uint32_t, std::string>> lines_;
};

}  // namespace bp

#endif
