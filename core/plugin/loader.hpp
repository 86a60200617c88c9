// SPDX-License-Identifier: Apache-2.0
//
// Finds, checks and starts plugins: what core/runtime calls. One bad plugin never stops the others;
// it is skipped with a reason and a next action. The other files of this folder are the steps.
#ifndef BACKPLANE_CORE_PLUGIN_LOADER_HPP
#define BACKPLANE_CORE_PLUGIN_LOADER_HPP

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/build_kind.hpp"
#include "core/base/status.hpp"
#include "core/plugin/api_tables.hpp"
#include "core/plugin/call_gate.hpp"
#include "core/plugin/host_context.hpp"
#include "core/plugin/manifest.hpp"

namespace bp {

/// The journey of one plugin, and where a skipped one stopped.
enum class PluginStep {
  kDiscover,  // find manifests in the search path
  kManifest,  // read and check the file
  kAdmit,     // ABI range, sanitizer, trust, unique id: before any foreign code runs
  kOptions,   // the user's options against the manifest
  kOpen,      // map the library
  kEntry,     // call bp_plugin_entry
  kValidate,  // copy and check the tables
  kInit,      // start an instance
  kDevices,   // count its devices
};
std::string_view step_name(PluginStep step);  // "discover", "manifest", ...

bool process_is_privileged();  // it has more rights than its user: no trust in the environment

/// `<folder of libbackplane.so>/backplane/plugins`; where the core is linked into a program,
/// `lib/backplane/plugins` beside the nearest folder `bin` above it.
std::string default_install_directory();

struct LoadOptions {
  std::vector<std::string> search_path;  // searched first; absolute; not read if `privileged`
  std::string install_directory = default_install_directory();  // searched last; empty: none
  std::vector<std::string> only;  // the ids of the plugins that are loaded; empty: all
  /// Name "<plugin id>.<option>"; later ones win. Those of device scope hold for every device.
  std::vector<OptionSetting> plugin_options;
  /// For each control call; what takes longer is abandoned.
  std::chrono::milliseconds call_timeout{30'000};
  bool privileged = process_is_privileged();
  uint32_t abi_min = BP_ABI_CORE_MIN;
  uint32_t abi_max = BP_ABI_CURRENT;
  BuildKind build = core_build_kind();
};

/// A plugin's named extension table; lives while the plugin is mapped.
struct PluginExtension {
  std::string name;
  uint32_t version = 0;
  const void* table = nullptr;
};

/// All that the entry gave, as the core's own.
struct PluginTables : ApiTables {
  uint32_t flags = 0;  // BP_PLUGIN_*_BIT
  std::vector<PluginExtension> extensions;
};

/// A running instance. Immutable and usable from any thread; the last owner shuts the instance down
/// (after every device is closed), but not in a forked child. The library stays mapped for ever.
class LoadedPlugin {
 public:
  struct Parts {
    Manifest manifest;
    std::string path;
    PluginTables tables;
    HostContext* host = nullptr;     // never destroyed; given back with the plugin
    std::shared_ptr<CallGate> gate;  // of the instance
    bp_instance* instance = nullptr;
    uint32_t abi_semantics = 0;
    uint32_t device_count = 0;
    std::vector<OptionSetting> instance_options;
    std::vector<OptionSetting> device_options;
    std::chrono::milliseconds call_timeout{};
  };
  explicit LoadedPlugin(Parts parts) : parts_(std::move(parts)) {}
  ~LoadedPlugin();
  LoadedPlugin(const LoadedPlugin&) = delete;
  LoadedPlugin& operator=(const LoadedPlugin&) = delete;

  const std::string& id() const { return parts_.manifest.id; }
  const Manifest& manifest() const { return parts_.manifest; }
  const std::string& path() const { return parts_.path; }  // the library's absolute real path
  const PluginTables& tables() const { return parts_.tables; }
  bp_instance* instance() const { return parts_.instance; }
  HostContext& host() const { return *parts_.host; }
  const std::shared_ptr<CallGate>& gate() const { return parts_.gate; }
  std::chrono::milliseconds call_timeout() const { return parts_.call_timeout; }
  uint32_t abi_semantics() const { return parts_.abi_semantics; }  // the rules both sides follow
  uint32_t device_count() const { return parts_.device_count; }
  /// What the user set for all devices of this plugin, checked.
  const std::vector<OptionSetting>& device_options() const { return parts_.device_options; }

 private:
  const Parts parts_;
};

struct SkippedPlugin {
  std::string path;  // of the library, manifest or search-path entry
  std::string id;    // empty if the manifest was not readable
  PluginStep step = PluginStep::kDiscover;
  Status reason;
  bool was_told = false;  // in the log, as a call that did not return

  bool is_absent() const;           // no error: the plugin is fine, its hardware is not here
  std::string next_action() const;  // what the user can do, one sentence
  std::string to_string() const;  // "npu (/path) skipped at init: UNAVAILABLE: words. Next action."
};

/// A folder of the search path and what was seen there, and one level below it.
struct SearchedFolder {
  std::string path;
  bool is_there = false;
  size_t manifest_count = 0;
  /// Of libraries by a plugin's name, without a manifest beside them.
  std::vector<std::string> bare_libraries{};

  /// "2 plugins", "not there", "no manifest of a plugin".
  std::string words() const;
};

/// All that was found. The plugins are in search order; destruction is in reverse.
struct PluginSet {
  PluginSet() = default;
  PluginSet(PluginSet&&) = default;
  ~PluginSet();
  const LoadedPlugin* find(std::string_view id) const;

  std::vector<std::shared_ptr<const LoadedPlugin>> plugins;
  std::vector<SkippedPlugin> skipped;
  std::vector<SearchedFolder> searched;  // in order, whether they exist or not
  std::vector<std::string> left_out;     // ids that are not in LoadOptions::only
  /// Settings that no plugin takes: unknown plugin, unknown option, bad value. The plugin whose
  /// option it is stands in `skipped` too.
  std::vector<Status> option_errors;
};

/// The whole journey, for every plugin in the search path. Each skipped plugin is one log line.
/// Blocks, at most call_timeout per plugin in init; not to be called from a plugin.
PluginSet load_plugins(const LoadOptions& options);

}  // namespace bp

#endif
