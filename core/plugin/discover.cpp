// SPDX-License-Identifier: Apache-2.0
//
// Step 1: the manifests in the search path, each folder and one level below it, in order of name so
// that two machines with the same files agree. The working directory is never searched: a relative
// entry is refused, and so is an empty one.
#include <filesystem>
#include <set>
#include <system_error>

#include "core/base/folder.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

namespace fs = std::filesystem;

struct Search {
  void add_entry(const std::string& path, bool must_exist) {
    set->searched.push_back(path);
    if (!fs::path(path).is_absolute()) {
      return skip(path, fail(BP_INVALID_ARGUMENT, "'{}' is not an absolute path", path));
    }
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error == std::errc::no_such_file_or_directory && !must_exist) return;
    if (error) return skip(path, fail(BP_UNAVAILABLE, "{}: {}", path, error.message()));
    for (const fs::path& folder : list(real, real)) list(real, folder);
  }

  void skip(const std::string& path, Status reason) {
    set->skipped.push_back({path, "", PluginStep::kDiscover, std::move(reason)});
  }

  /// Takes the manifests of a folder; answers its subfolders.
  std::vector<fs::path> list(const fs::path& entry, const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> subfolders;
    const fs::path real = fs::canonical(folder, error);
    const Result<std::vector<std::string>> names = names_in_folder(folder);
    if (!names.ok()) skip(folder, names.status());
    for (size_t i = 0; names.ok() && i < names->size(); ++i) {
      const fs::path path = real / (*names)[i];
      const bool is_manifest = path.string().ends_with(kManifestSuffix);
      if (!is_manifest && fs::is_directory(path, error)) subfolders.push_back(path);
      // One file reached in two ways (a repeated entry, a link) is one plugin, no duplicate.
      if (!is_manifest || !seen.insert(path).second) continue;
      found.push_back(
          {.options = options, .earlier = *set, .entry_folder = entry, .manifest_path = path});
    }
    return subfolders;
  }

  const LoadOptions& options;
  PluginSet* set;
  std::set<fs::path> seen{};
  std::vector<Attempt> found{};
};

}  // namespace

std::vector<Attempt> discover(const LoadOptions& options, PluginSet* out_set) {
  Search search{options, out_set};
  for (const std::string& entry : options.search_path) {
    const std::string why = " is not searched: the process runs with raised privileges";
    if (options.privileged) search.skip(entry, Status(BP_INVALID_ARGUMENT, entry + why));
    if (!options.privileged) search.add_entry(entry, true);
  }
  if (!options.install_directory.empty()) search.add_entry(options.install_directory, false);
  return std::move(search.found);
}

std::string default_install_directory() {
  bool is_library = false;
  const fs::path base = fs::path(core_binary(&is_library)).parent_path();
  if (is_library) return base / "backplane" / "plugins";
  fs::path bin = base;
  while (bin.has_relative_path() && bin.filename() != "bin") bin = bin.parent_path();
  return (bin.has_relative_path() ? bin : base).parent_path() / "lib" / "backplane" / "plugins";
}

}  // namespace bp
