// SPDX-License-Identifier: Apache-2.0
//
// The Runtime as the command line wants it, and its plugins in words.
#include "core/cli/environment.hpp"

#include <cstdio>
#include <filesystem>

#include "core/base/log.hpp"
#include "core/cli/text.hpp"
#include "core/device/features.hpp"
#include "ops/register.hpp"

namespace bp::cli {

int fail(const char* command, const std::string& words, int exit_code) {
  flush_output();
  std::fprintf(stderr, "backplane %s: %s\n", command, visible(words).c_str());
  return exit_code;
}

Result<Ref<Runtime>> open_runtime(const GlobalArgs& global) {
  RuntimeArgs args;
  args.register_ops = register_ops;
  for (const std::string& folder : global.plugin_path) {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(folder, error);
    args.plugin_path.push_back(error ? folder : absolute.string());
  }
  for (const auto& [name, value] : global.plugin_options) {
    args.plugin_options.push_back({name, value, "--option"});
  }
  if (!global.only_plugin.empty()) {
    args.options.push_back({"BACKPLANE_PLUGINS", global.only_plugin});
  }
  return Runtime::create(args);
}

int open_failure_code(const GlobalArgs& global, const Status& error) {
  if (global.plugin_options.empty() && global.plugin_path.empty()) return kExitEnvironment;
  // An error does not say where its setting came from. But what fails in the same words without the
  // command line's options is not theirs, and this way no code has to read the words.
  GlobalArgs without_options = global;
  without_options.plugin_options.clear();
  without_options.plugin_path.clear();
  set_log_sink([](uint32_t, std::string_view) {});  // the first time has told what there is to tell
  const Status again = open_runtime(without_options).status();
  set_log_sink({});
  const bool is_same = !again.ok() && again.message() == error.message();
  return is_same ? kExitEnvironment : kExitUsage;
}

Result<Device*> choose_device(const Runtime& runtime, const std::string& name) {
  if (!name.empty()) return runtime.find_device(name);
  if (!runtime.devices().empty()) return runtime.devices().front().get();
  std::string text = "there is no device: no plugin gives one (searched";
  for (const SearchedFolder& folder : runtime.plugins().searched) text += " " + folder.path;
  return Status(BP_UNAVAILABLE, text + "); `backplane doctor` tells why");
}

int device_failure_code(const Runtime& runtime) {
  return runtime.devices().empty() ? kExitEnvironment : kExitDevice;
}

bool is_absent(const SkippedPlugin& skipped) {
  return skipped.step >= PluginStep::kInit && skipped.reason.code() == BP_UNAVAILABLE;
}

void write_skipped(const PluginSet& plugins, JsonWriter* out_json) {
  out_json->key("skipped").begin_array();
  for (const SkippedPlugin& skipped : plugins.skipped) {
    out_json->begin_object()
        .field("path", skipped.path)
        .field("id", skipped.id)
        .field("step", step_name(skipped.step))
        .field("reason", skipped.reason.to_string())
        .field("next_action", skipped.next_action())
        .end_object();
  }
  out_json->end_array();
}

void write_missing(const Runtime& runtime, JsonWriter* out_json) {
  out_json->key("missing").begin_array();
  for (const MissingDevice& missing : runtime.missing_devices()) {
    out_json->begin_object()
        .field("name", missing.name)
        .field("reason", missing.reason.to_string())
        .end_object();
  }
  out_json->end_array();
}

std::vector<BandState> band_states(const Device& device) {
  constexpr std::string_view kStates[] = {"native", "emulated", "absent"};  // by FeatureState
  std::vector<BandState> states;
  for (const Feature& feature : kFeatures) {
    states.push_back(
        {feature.name, kStates[static_cast<size_t>(state_of(feature, device.table()))]});
  }
  return states;
}

std::string text_of(bp_str text) {
  return text.ptr == nullptr ? std::string() : std::string(text.ptr, text.len);
}

}  // namespace bp::cli
