// SPDX-License-Identifier: Apache-2.0
//
// The journey of every plugin, in order, and what is published at its end.
#include "core/plugin/loader.hpp"

#include <algorithm>

#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/base/options.hpp"
#include "core/plugin/load_steps.hpp"
#include "core/plugin/process_state.hpp"

namespace bp {
namespace {

struct Step {
  std::string_view name;
  Status (*take)(Attempt* attempt);
  std::string_view next_action;
};

constexpr std::string_view kAskVendor = "Check driver and options, or tell the plugin's vendor.";
constexpr Step kJourney[] = {  // by PluginStep
    {"discover", nullptr, "Correct the search path."},
    {"manifest", read_manifest, "Reinstall the plugin, or ask its vendor."},
    {"admit", admit, "If you trust it, correct owner and mode (chown, chmod); else remove it."},
    {"options", choose_options, "Correct or remove the option."},
    {"open", open_library, "Install what it names, or reinstall the plugin."},
    {"entry", call_entry, "Install another release, or tell its vendor."},
    {"validate", validate_tables, "Install another release, or tell its vendor."},
    {"init", start_instance, kAskVendor},
    {"devices", count_devices, kAskVendor}};

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void load_one(Attempt* attempt, PluginSet* set) {
  attempt->parts.path = attempt->manifest_path;
  attempt->parts.call_timeout = attempt->options.call_timeout;
  PluginStep step = PluginStep::kManifest;
  Status status;
  for (const Step& next : kJourney) {
    if (!status.ok() || next.take == nullptr) continue;
    step = static_cast<PluginStep>(&next - kJourney);
    status = contain([&] { return next.take(attempt); });
    const std::string& id = attempt->parts.manifest.id;
    const auto& only = attempt->options.only;
    if (step == PluginStep::kManifest && status.ok() && !only.empty() && !is_in(only, id)) {
      set->left_out.push_back(id);
      return;
    }
  }
  // Owns the instance from here on, also that of a plugin whose devices cannot be counted.
  std::shared_ptr<const LoadedPlugin> plugin;
  const auto own = [&] { plugin = std::make_shared<LoadedPlugin>(std::move(attempt->parts)); };
  if (!contain(own).ok()) const LoadedPlugin ended(std::move(attempt->parts));
  // Without memory nothing is known of the plugin, not even which options are its own.
  if (!plugin || (status.code() == BP_OUT_OF_MEMORY && step < PluginStep::kInit))
    throw std::bad_alloc();
  if (status.ok()) {
    log(BP_LOG_INFO, fmt::format("plugin {} ({}): {} devices", plugin->id(), plugin->path(),
                                 plugin->device_count()));
    set->plugins.push_back(std::move(plugin));
    return;
  }
  if (step == PluginStep::kOptions) set->option_errors.push_back(status);
  const bool was_told = plugin->gate() != nullptr && plugin->gate()->is_abandoned();
  set->skipped.push_back({plugin->path(), plugin->id(), step, status, was_told});
}

/// Of all plugins that were found, loaded or not.
std::vector<std::string> found_ids(const PluginSet& set) {
  std::vector<std::string> ids = set.left_out;
  for (const auto& plugin : set.plugins) ids.push_back(plugin->id());
  for (const SkippedPlugin& skipped : set.skipped) ids.push_back(skipped.id);
  return ids;
}

Status no_such_plugin(const std::string& setting, const std::string& id,
                      const std::vector<std::string>& ids) {
  const auto near = nearest_match(id, ids);
  return fail(BP_INVALID_ARGUMENT, "{}: no plugin is called '{}'{}", setting, id,
              near ? " (did you mean '" + *near + "'?)" : "");
}

// Options of plugins that are nowhere to be found; those of skipped plugins are no mistake.
Status check_option_id(const std::string& name, const PluginSet& set) {
  const size_t dot = name.find('.');
  const std::string id = name.substr(0, dot);
  if (dot == std::string::npos) {
    return fail(BP_INVALID_ARGUMENT, "option '{}': expected <plugin id>.<option>", name);
  }
  const std::vector<std::string> ids = found_ids(set);
  return is_in(ids, id) ? Status() : no_such_plugin("option '" + name + "'", id, ids);
}

}  // namespace

std::string_view step_name(PluginStep step) { return kJourney[static_cast<size_t>(step)].name; }

bool SkippedPlugin::is_absent() const {
  return step >= PluginStep::kInit && reason.code() == BP_UNAVAILABLE;
}

std::string SkippedPlugin::next_action() const {
  const bool admitting = step == PluginStep::kAdmit;
  if (is_absent()) return "Nothing, unless this machine should have such a device.";
  if (admitting && reason.code() == BP_INCOMPATIBLE) return "Install releases that fit together.";
  if (step == PluginStep::kOpen && reason.code() == BP_INCOMPATIBLE) {
    return "Build it without sanitizers, or use a core that was built with the same.";
  }
  if (admitting && reason.code() == BP_BUSY) return "Remove one, or change the search order.";
  if (reason.code() == BP_BUSY) return "Close the Runtime or the process that uses it.";
  if (admitting && reason.code() == BP_UNAVAILABLE) return "Reinstall the plugin.";
  return std::string(kJourney[static_cast<size_t>(step)].next_action);
}

std::string SkippedPlugin::to_string() const {
  return fmt::format("{} skipped at {}: {}. {}", id.empty() ? path : id + " (" + path + ")",
                     step_name(step), reason.to_string(), next_action());
}

PluginSet::~PluginSet() {
  while (!plugins.empty()) plugins.pop_back();
}

const LoadedPlugin* PluginSet::find(std::string_view id) const {
  const auto at = std::find_if(plugins.begin(), plugins.end(),
                               [id](const auto& plugin) { return plugin->id() == id; });
  return at == plugins.end() ? nullptr : at->get();
}

PluginSet load_plugins(const LoadOptions& options) {
  watch_forks();
  const KeepProcessState keep;
  PluginSet set;
  std::vector<Attempt> attempts = discover(options, &set);
  // Room is made before foreign code runs, so that a started plugin cannot fail to be recorded.
  set.plugins.reserve(attempts.size());
  set.skipped.reserve(set.skipped.size() + attempts.size());
  for (Attempt& attempt : attempts) load_one(&attempt, &set);
  for (const OptionSetting& setting : options.plugin_options) {
    const Status status = check_option_id(setting.name, set);
    if (!status.ok()) set.option_errors.push_back(setting.blame(status));
  }
  const std::vector<std::string> ids = found_ids(set);
  for (const std::string& id : options.only) {
    if (!is_in(ids, id)) set.option_errors.push_back(no_such_plugin("BACKPLANE_PLUGINS", id, ids));
  }
  for (const SkippedPlugin& skipped : set.skipped) {
    const bool is_news = !skipped.is_absent() && !skipped.was_told;
    log(is_news ? BP_LOG_WARNING : BP_LOG_INFO, skipped.to_string());
  }
  return set;
}

}  // namespace bp
