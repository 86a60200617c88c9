// SPDX-License-Identifier: Apache-2.0
//
// Private to this folder: one plugin on its way through the steps, and what they ask of the
// operating system (platform.cpp).
#ifndef BACKPLANE_CORE_PLUGIN_STEPS_HPP
#define BACKPLANE_CORE_PLUGIN_STEPS_HPP

#include <fmt/ranges.h>

#include <array>

#include "core/plugin/loader.hpp"

namespace bp {

inline constexpr std::string_view kManifestSuffix = ".backplane.json";

template <class... Args>
Status fail(bp_status code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

struct FileInfo {
  /// Device, inode, size, times of modification and change. Tells a file from one put in its place:
  /// even a swap and a swap back alter the last one.
  std::array<int64_t, 5> identity{};
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

/// Copies min(its struct_size, our_bytes) of a versioned struct into `out`, zeroes the rest and
/// sets struct_size to ours. INCOMPATIBLE for a null pointer and for a size over 64 KiB, not a
/// multiple of 8, or below required_bytes; `what` names the struct.
Status copy_versioned(std::string_view what, const void* theirs, size_t required_bytes,
                      size_t our_bytes, void* out);

bp_status known_status(bp_status code);  // INTERNAL for one that the ABI does not have
bool is_readable(bp_str text);           // a plugin's text: at most 4 KiB of UTF-8
std::string_view view(bp_str text);      // empty if it is not readable

/// The arrays of bp_str that bp_config and bp_open_args want. Points into the settings.
struct OptionArrays {
  explicit OptionArrays(const std::vector<OptionSetting>& settings);
  std::vector<bp_str> names;
  std::vector<bp_str> values;
};

Result<FileInfo> file_info(const std::string& path);  // follows links
/// UNAVAILABLE where a shared library is shorter than its own program headers say: mapping a
/// half-written one would end the process with SIGBUS. Other defects are the system loader's to
/// tell.
Status check_library_complete(const std::string& path, uint64_t size_bytes);
/// The shared library, or else the program, that this code is linked into; an absolute real path.
std::string core_binary(bool* out_is_library);
uint32_t effective_user();
uint32_t effective_group();
int64_t process_number();

}  // namespace bp

#endif
