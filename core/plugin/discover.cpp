// SPDX-License-Identifier: Apache-2.0
//
// Step 1: the manifests in the search path, each folder and one level below it, in order of name so
// that two machines with the same files agree. The working directory is never searched: a relative
// entry is refused, and so is an empty one.
#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "core/base/folder.hpp"
#include "core/base/foreign_text.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

namespace fs = std::filesystem;

struct Search {
  void add_entry(const std::string& path, bool must_exist) {
    set->searched.push_back({.path = path});
    if (!fs::path(path).is_absolute()) {
      return skip(path, fail(BP_INVALID_ARGUMENT, "'{}' is not an absolute path", path));
    }
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error == std::errc::no_such_file_or_directory && !must_exist) return;
    if (error) return skip(path, fail(BP_UNAVAILABLE, "{}: {}", path, error.message()));
    set->searched.back().is_there = true;
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
    if (names.ok()) note_seen(real, *names);
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

  void note_seen(const fs::path& folder, const std::vector<std::string>& names) {
    SearchedFolder& searched = set->searched.back();
    for (const std::string& name : names) {
      if (name.ends_with(kManifestSuffix)) ++searched.manifest_count;
      if (!name.starts_with(kLibraryPrefix) || !name.ends_with(kLibrarySuffix)) continue;
      std::string manifest = name.substr(0, name.size() - kLibrarySuffix.size());
      manifest += kManifestSuffix;
      const bool is_bare = std::find(names.begin(), names.end(), manifest) == names.end();
      if (is_bare) searched.bare_libraries.push_back(folder / name);
    }
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

std::string SearchedFolder::words() const {
  if (!is_there) return "not there";
  std::string text = manifest_count == 0   ? "no manifest of a plugin"
                     : manifest_count == 1 ? "1 plugin"
                                           : std::to_string(manifest_count) + " plugins";
  for (const std::string& library : bare_libraries) {
    text += "; " + foreign_text(library) + " has no manifest beside it";
  }
  return text;
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
