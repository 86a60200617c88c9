// SPDX-License-Identifier: Apache-2.0
//
// One plugin on its way through the steps, and what these ask of the system (platform.cpp).
#ifndef BACKPLANE_CORE_PLUGIN_LOAD_STEPS_HPP
#define BACKPLANE_CORE_PLUGIN_LOAD_STEPS_HPP

#include <array>
#include <span>

#include "core/plugin/foreign.hpp"
#include "core/plugin/loader.hpp"

namespace bp {

inline constexpr std::string_view kManifestSuffix = ".backplane.json";
/// Of a plugin's library, which lies beside its manifest.
inline constexpr std::string_view kLibraryPrefix = "libbackplane_";
inline constexpr std::string_view kLibrarySuffix = ".so";

struct FileInfo {
  /// Device, inode, size, times of modification and change. Tells a file from one put in its place:
  /// even a swap and a swap back alter the last one.
  std::array<int64_t, 7> identity{};
  uint64_t size_bytes = 0;
  uint32_t owner = 0;
  uint32_t group = 0;
  uint32_t permissions = 0;  // low 12 mode bits
  bool is_folder = false;
  bool is_regular = false;
};

struct Attempt {
  const LoadOptions& options;
  const PluginSet& earlier;  // what became of those before
  std::string entry_folder;  // real path of the search-path entry; trust is checked up to here
  std::string manifest_path;
  FileInfo library_file{};
  int32_t (*entry)(uint32_t core_abi, bp_plugin* out_plugin) = nullptr;
  bp_plugin offered{};  // as the plugin filled it
  LoadedPlugin::Parts parts{};
};

std::vector<Attempt> discover(const LoadOptions& options, PluginSet* out_set);

// The steps of one plugin. Each fills its part of the Attempt, or says why the plugin is refused.
Status read_manifest(Attempt* attempt);
Status admit(Attempt* attempt);
Status choose_options(Attempt* attempt);
Status open_library(Attempt* attempt);
Status call_entry(Attempt* attempt);
Status validate_tables(Attempt* attempt);
Status start_instance(Attempt* attempt);
Status count_devices(Attempt* attempt);

// What serves all libraries that are opened at run time, plugins or not.

/// The real path of a file that is trusted (admit.cpp says when), by a name below the real path of
/// its search-path entry. Errors: UNAVAILABLE, where it is not there; INVALID_ARGUMENT, naming what
/// is not trusted.
Result<std::string> check_trust(const std::string& name, const std::string& entry_folder,
                                bool privileged);
/// INCOMPATIBLE where a library needs the runtime of a sanitizer that this process does not have.
Status check_runtimes(const std::string& path, std::string_view own_sanitizer);
/// Maps for ever the library that file_info() told of before it was checked; its symbols, in order.
/// Errors: UNAVAILABLE with the system's words; INVALID_ARGUMENT where it is another file now.
Result<std::vector<void*>> map_library(const std::string& path, const FileInfo& file,
                                       std::span<const char* const> symbols);

Result<FileInfo> file_info(const std::string& path);  // follows links
/// UNAVAILABLE where a shared library is shorter than its own program headers say: mapping a
/// half-written one would end the process with SIGBUS. The system loader tells other defects.
Status check_library_complete(const std::string& path, uint64_t size_bytes);
/// What the system loader will look for with it; empty for what is no ELF file.
Result<std::vector<std::string>> needed_libraries(const std::string& path);
/// The shared library, or else the program, that this code is linked into; an absolute real path.
std::string core_binary(bool* out_is_library);
/// Of the same. Errors: UNAVAILABLE where the library's file is gone.
Result<FileInfo> core_file_info();
uint32_t effective_user();
uint32_t effective_group();

}  // namespace bp

#endif
