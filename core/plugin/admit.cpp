// SPDX-License-Identifier: Apache-2.0
//
// Step 3: everything that can be refused before foreign code runs, which mapping a library already
// does. Trust: manifest, library and each folder from them up to the search-path entry belong to
// root, to the current user or to the owner of the core's own file, and no other user can write
// there. A file whose real path lies outside its entry (a link), or any file of a process with
// raised privileges, is checked up to the root; with raised privileges only root counts. Writable
// by a group is accepted for root's, the process's own and the core's: members of any other could
// put a file in place.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

namespace fs = std::filesystem;

std::string version_text(uint32_t abi) { return fmt::format("{}.{}", abi >> 16, abi & 0xffff); }

Status check_build(const LoadOptions& core, const Manifest& manifest) {
  if (manifest.abi_min > core.abi_max) {
    return fail(BP_INCOMPATIBLE, "the plugin needs ABI {} or newer, this core has up to {}",
                version_text(manifest.abi_min), version_text(core.abi_max));
  }
  if (manifest.abi_built < core.abi_min) {
    return fail(BP_INCOMPATIBLE, "the plugin was built for ABI {}, this core has {} and newer",
                version_text(manifest.abi_built), version_text(core.abi_min));
  }
  // A sanitizer's runtime ends the process when it is mapped into a plain one, and those of two
  // compilers do not mix; plain code runs anywhere.
  const auto& [sanitizer, compiler] = core.build;
  const bool alike = manifest.sanitizer == sanitizer && manifest.compiler == compiler;
  if (manifest.sanitizer == "none" || alike) return {};
  return fail(BP_INCOMPATIBLE,
              "the plugin was built with sanitizer {} by {}, this core with {} by {}",
              manifest.sanitizer, manifest.compiler, sanitizer, compiler);
}

Status check_one(const fs::path& path, bool privileged, const FileInfo& core) {
  BP_TRY_ASSIGN(const FileInfo info, file_info(path));
  const auto is_ours = [privileged](uint32_t number, uint32_t own, uint32_t of_core) {
    return number == 0 || (!privileged && (number == own || number == of_core));
  };
  // In a sticky folder others may add files but not replace ours, and theirs have their owner.
  const uint32_t mode = info.permissions;
  const bool guarded = info.is_folder && (mode & 01000) != 0;
  std::string defect;
  if (!is_ours(info.owner, effective_user(), core.owner)) {
    defect = fmt::format("belongs to user {}, expected {}", info.owner,
                         privileged ? "root" : "root, the current user or Backplane's owner");
  } else if ((mode & 02) != 0 && !guarded) {
    defect = fmt::format("can be written by everyone (mode {:04o})", mode);
  } else if ((mode & 020) != 0 && !guarded && !is_ours(info.group, effective_group(), core.group)) {
    defect = fmt::format("can be written by group {} (mode {:04o})", info.group, mode);
  }
  if (defect.empty()) return {};
  return fail(BP_INVALID_ARGUMENT, "not trusted: {} {}", path.string(), defect);
}

// An id belongs to the first plugin that was admitted, also if that one failed later; one that was
// not admitted cannot keep a good one out.
Status check_id(const Attempt& attempt) {
  const std::string& id = attempt.parts.manifest.id;
  std::string holder;
  if (const LoadedPlugin* loaded = attempt.earlier.find(id)) holder = loaded->path();
  for (const SkippedPlugin& skipped : attempt.earlier.skipped) {
    if (skipped.id == id && skipped.step > PluginStep::kAdmit) holder = skipped.path;
  }
  if (holder.empty()) return {};
  return fail(BP_BUSY, "the id '{}' is taken by {}, which comes first in the search order", id,
              holder);
}

}  // namespace

// Links are resolved first: the folder that holds the name and the one that holds the file both
// decide which bytes are loaded.
Result<std::string> check_trust(const std::string& name, const std::string& entry_folder,
                                bool privileged) {
  const fs::path path = name;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return fail(BP_UNAVAILABLE, "{}: {}", path.string(), error.message());
  BP_TRY_ASSIGN(const FileInfo core, core_file_info());
  BP_TRY(check_one(real, privileged, core));
  const fs::path entry = entry_folder;
  for (const fs::path& lowest : {real.parent_path(), path.parent_path()}) {
    const bool inside =
        std::mismatch(entry.begin(), entry.end(), lowest.begin(), lowest.end()).first ==
        entry.end();
    const fs::path last = inside && !privileged ? entry : entry.root_path();
    for (fs::path folder = lowest;; folder = folder.parent_path()) {
      BP_TRY(check_one(folder, privileged, core));
      if (folder == last) break;
    }
  }
  return real.string();
}

Status admit(Attempt* attempt) {
  LoadedPlugin::Parts& parts = attempt->parts;
  BP_TRY(check_build(attempt->options, parts.manifest));
  // Both sides follow the rules of the older one.
  parts.abi_semantics = std::min(parts.manifest.abi_built, attempt->options.abi_max);
  const std::string& manifest = attempt->manifest_path;
  const std::string stem = manifest.substr(0, manifest.size() - kManifestSuffix.size());
  const bool privileged = attempt->options.privileged;
  BP_TRY(check_trust(manifest, attempt->entry_folder, privileged));
  BP_TRY_ASSIGN(parts.path,
                check_trust(stem + std::string(kLibrarySuffix), attempt->entry_folder, privileged));
  BP_TRY_ASSIGN(attempt->library_file, file_info(parts.path));
  if (attempt->library_file.is_regular) return check_id(*attempt);
  return fail(BP_UNAVAILABLE, "{} is not a regular file", parts.path);
}

}  // namespace bp
