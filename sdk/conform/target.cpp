// SPDX-License-Identifier: Apache-2.0
//
// From a folder to the plugin in it.
#include "sdk/conform/target.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/base/options.hpp"

namespace bp::conform {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifestSuffix = ".backplane.json";

/// The part behind the plugin's id, or nothing for another plugin's option.
std::string_view local_name(const Manifest& manifest, std::string_view name) {
  if (!name.starts_with(manifest.id + ".")) return {};
  return name.substr(manifest.id.size() + 1);
}

}  // namespace

Result<std::vector<OptionSetting>> Target::options_of(OptionScope scope) const {
  std::vector<OptionSetting> settings;
  for (const OptionSetting& setting : options) {
    const std::string_view name = local_name(manifest, setting.name);
    for (const OptionDecl& declared : manifest.options) {
      if (declared.name != name || declared.scope != scope) continue;
      settings.push_back({declared.name, setting.value});
    }
  }
  return check_options(manifest, scope, settings);
}

Result<Target> find_target(const std::string& plugin, uint32_t device_index,
                           const std::vector<OptionSetting>& options) {
  std::error_code error;
  const fs::path given = fs::canonical(plugin, error);
  if (error) return Status(BP_INVALID_ARGUMENT, plugin + ": " + error.message());
  const bool is_folder = fs::is_directory(given, error);
  const fs::path real = is_folder ? given : given.parent_path();
  std::vector<std::string> manifests;
  for (const fs::directory_entry& entry : fs::directory_iterator(real)) {
    if (entry.path().string().ends_with(kManifestSuffix)) manifests.push_back(entry.path());
  }
  if (manifests.size() != 1) {
    return Status(BP_INVALID_ARGUMENT, real.string() +
                                           ": expected one manifest (*.backplane.json), found " +
                                           std::to_string(manifests.size()));
  }
  Target target;
  BP_TRY_ASSIGN(target.manifest, read_manifest(manifests[0]));
  target.folder = real.string();
  target.library_path =
      manifests[0].substr(0, manifests[0].size() - kManifestSuffix.size()) + ".so";
  if (!is_folder && target.library_path != given) {
    return Status(BP_INVALID_ARGUMENT,
                  given.string() + ": the manifest beside it is for " + target.library_path);
  }
  target.device_index = device_index;
  for (const OptionSetting& setting : options) {
    const std::string_view name = local_name(target.manifest, setting.name);
    if (name.empty()) continue;
    std::vector<std::string> declared;
    for (const OptionDecl& each : target.manifest.options) declared.push_back(each.name);
    if (std::find(declared.begin(), declared.end(), name) == declared.end()) {
      const std::string words =
          "plugin " + target.manifest.id + " has no option '" + std::string(name) + "'";
      return Status(BP_INVALID_ARGUMENT, with_nearest(words, name, declared));
    }
    target.options.push_back(setting);
  }
  for (const OptionScope scope : {OptionScope::kInstance, OptionScope::kDevice}) {
    BP_TRY(target.options_of(scope));
  }
  return target;
}

std::string band_names(uint64_t bands) {
  std::string names;
  for (const Feature& band : kBands) {
    if ((bands & band.bit) == 0) continue;
    if (!names.empty()) names += ",";
    names += band.name;
  }
  return names;
}

Result<uint64_t> parse_bands(std::string_view names) {
  uint64_t bands = 0;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    uint64_t bit = 0;
    for (const Feature& band : kBands) bit |= band.name == name ? band.bit : 0;
    if (bit == 0) {
      return Status(BP_INVALID_ARGUMENT, "no band is called '" + std::string(name) +
                                             "'; there are " + band_names(UINT64_MAX));
    }
    bands |= bit;
  }
  return bands;
}

}  // namespace bp::conform
