// SPDX-License-Identifier: Apache-2.0
//
// Building a Runtime: options, plugins, devices, in that order; and taking it down in reverse.
#include "core/runtime/runtime.hpp"

#include <algorithm>
#include <charconv>

#include "core/base/folder.hpp"
#include "core/base/fork.hpp"
#include "core/base/log.hpp"
#include "core/base/quoted.hpp"
#include "core/runtime/config_file.hpp"

namespace bp {
namespace {

uint32_t log_level_from(std::string_view name) {
  if (name == "error") return BP_LOG_ERROR;
  if (name == "info") return BP_LOG_INFO;
  if (name == "debug") return BP_LOG_DEBUG;
  return BP_LOG_WARNING;
}

// A comma begins the next option only before ID.NAME=; any other belongs to the value.
Result<std::vector<OptionSetting>> parse_settings(const std::vector<std::string>& parts) {
  std::vector<OptionSetting> settings;
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals != std::string::npos && part.find('.') < equals) {
      settings.push_back(
          {part.substr(0, equals), part.substr(equals + 1), "BACKPLANE_PLUGIN_OPTIONS"});
    } else if (!settings.empty()) {
      settings.back().value += "," + part;
    } else {
      return Status(BP_INVALID_ARGUMENT,
                    "BACKPLANE_PLUGIN_OPTIONS: expected ID.NAME=VALUE, found '" + part + "'");
    }
  }
  return settings;
}

/// A folder that the program names is there; those of the environment may come and go, which the
/// log tells.
Status check_folder(const std::string& argument, const std::string& folder) {
  const std::string expected = argument + ": expected the absolute path of a folder, found ";
  if (!folder.starts_with('/')) return Status(BP_INVALID_ARGUMENT, expected + quoted(folder));
  const auto names = names_in_folder(folder);
  if (names.ok()) return {};
  return Status(BP_INVALID_ARGUMENT, expected + foreign_text(names.status().message()));
}

Status check_folders(const RuntimeArgs& args) {
  for (const std::string& folder : args.plugin_path) BP_TRY(check_folder("plugin_path", folder));
  if (!args.install_directory || args.install_directory->empty()) return {};
  return check_folder("install_dir", *args.install_directory);
}

}  // namespace

Result<Ref<Runtime>> Runtime::create(const RuntimeArgs& args) {
  auto runtime = Ref<Runtime>::adopt(new Runtime);
  BP_TRY(args.register_ops(&runtime->registry_));
  BP_TRY(runtime->apply_options(args));
  BP_TRY(runtime->load(args));
  BP_TRY(check_not_forked());  // a callback may have forked while plugins were started
  runtime->open_devices();
  return runtime;
}

Runtime::~Runtime() {
  close();
  for (const Ref<Device>& device : devices_) device->end_handle();
}

Status Runtime::apply_options(const RuntimeArgs& args) {
  BP_TRY_ASSIGN(options_, Options::from_environment(process_is_privileged()));
  for (const OptionSetting& setting : args.options) {
    BP_TRY(setting.blame(options_.set(setting.name, setting.value)));
  }
  set_log_level(log_level_from(options_.text("BACKPLANE_LOG")));
  sync_launches_ = options_.flag("BACKPLANE_SYNC");
  checks_arithmetic_ = options_.flag("BACKPLANE_CHECK_ARITHMETIC");
  uint32_t workers = 1;
  const std::string& count = options_.text("BACKPLANE_WORKERS");
  std::from_chars(count.data(), count.data() + count.size(), workers);
  workers_.set_max_threads(workers);
  const std::string& fallback = options_.text("BACKPLANE_FALLBACK");
  fallback_mode_ = fallback == "allow"  ? FallbackMode::kAllow
                   : fallback == "deny" ? FallbackMode::kDeny
                                        : FallbackMode::kWarn;
  int64_t seconds = 0;
  const std::string& timeout = options_.text("BACKPLANE_TIMEOUT");
  std::from_chars(timeout.data(), timeout.data() + timeout.size(), seconds);
  wait_timeout_ = std::chrono::seconds(seconds);
  host_ops_.assign(registry_.size(), false);
  for (const std::string& name : options_.parts("BACKPLANE_HOST_OPS")) {
    const auto op = registry_.find(name);
    if (!op) {
      const auto near = nearest_match(name, registry_.names());
      return Status(BP_INVALID_ARGUMENT, "BACKPLANE_HOST_OPS: no operator is called '" + name +
                                             "'" + (near ? "; did you mean " + *near + "?" : ""));
    }
    host_ops_[*op] = true;
  }
  return {};
}

Status Runtime::load(const RuntimeArgs& args) {
  LoadOptions load_options;
  if (!load_options.privileged) BP_TRY(check_folders(args));
  load_options.search_path = args.plugin_path;
  for (std::string& folder : options_.parts("BACKPLANE_PLUGIN_PATH")) {
    load_options.search_path.push_back(std::move(folder));
  }
  load_options.only = options_.parts("BACKPLANE_PLUGINS");
  if (args.install_directory) load_options.install_directory = *args.install_directory;
  load_options.call_timeout =
      std::min(load_options.call_timeout,
               std::chrono::duration_cast<std::chrono::milliseconds>(wait_timeout_));
  // Later settings win: file, then environment, then the caller.
  if (const std::string& path = options_.text("BACKPLANE_CONFIG"); !path.empty()) {
    BP_TRY_ASSIGN(ConfigFile config, read_config_file(path));
    load_options.plugin_options = std::move(config.plugin_options);
    aliases_ = std::move(config.aliases);
  }
  BP_TRY_ASSIGN(const std::vector<OptionSetting> from_environment,
                parse_settings(options_.parts("BACKPLANE_PLUGIN_OPTIONS")));
  for (const auto* settings : {&from_environment, &args.plugin_options}) {
    load_options.plugin_options.insert(load_options.plugin_options.end(), settings->begin(),
                                       settings->end());
  }
  PluginSet loaded = load_plugins(load_options);
  plugins_.plugins = std::move(loaded.plugins);
  plugins_.skipped = std::move(loaded.skipped);
  plugins_.searched = std::move(loaded.searched);
  plugins_.left_out = std::move(loaded.left_out);
  plugins_.option_errors = std::move(loaded.option_errors);
  return plugins_.option_errors.empty() ? Status() : plugins_.option_errors.front();
}

void Runtime::open_devices() {
  for (const auto& plugin : plugins_.plugins) open_devices_of(plugin);
  choose_host_device();
  for (const auto& [alias, name] : aliases_) {
    const auto device = device_called(name);
    if (device.ok()) continue;
    log(BP_LOG_WARNING, "alias " + quoted(alias) + ": " + device.status().message());
  }
}

void Runtime::open_devices_of(const std::shared_ptr<const LoadedPlugin>& plugin) {
  Status hung;
  for (uint32_t index = 0; index < plugin->device_count(); ++index) {
    const std::string name = plugin->id() + ":" + std::to_string(index);
    auto device = hung.ok() ? Device::open(*this, plugin, index, {}) : hung;
    if (!device.ok()) {
      const bool is_told = hung.ok() && plugin->gate()->is_occupied();
      log(is_told ? BP_LOG_INFO : BP_LOG_WARNING,
          "device " + name + " is left out: " + device.status().to_string());
      missing_devices_.push_back({name, device.status()});
      // Each of the others may take as long.
      if (!is_told) continue;
      hung = Status(BP_DEVICE_LOST, name + " did not open in time, so this one is not tried");
      continue;
    }
    devices_.push_back(std::move(*device));
  }
}

// Everything may have to fall back to it, so a device with a kernel or two must not take the place
// of one with many because of its name.
void Runtime::choose_host_device() {
  std::vector<Device*> able;
  for (const Ref<Device>& device : devices_) {
    if (device->is_inline() && device->has_host_memory()) able.push_back(device.get());
  }
  uint64_t most = 0;
  for (Device* device : able) {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    // Most programs have one such device, and its kernels are listed when they are wanted.
    bool is_asked = false;
    if (able.size() > 1) {
      const bp_status code = device->table().kernel_list(&list);
      device->warn(code, Slot::kKernelList);
      is_asked = code == BP_OK;
    }
    if (host_device_ != nullptr && (!is_asked || list.kernel_count <= most)) continue;
    host_device_ = device;
    most = list.kernel_count;
  }
}

Result<Device*> Runtime::find_device(std::string_view name) const {
  BP_TRY(check_open());
  const auto alias = aliases_.find(name);
  if (alias == aliases_.end()) return device_called(name);
  auto device = device_called(alias->second);
  if (device.ok()) return device;
  return device.status().with_prefix("alias " + quoted(name));
}

Result<Device*> Runtime::device_called(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& device : devices_) {
    if (device->name() == name) return device.get();
    names.push_back(device->name());
  }
  for (const MissingDevice& missing : missing_devices_) {
    if (missing.name == name) {
      return missing.reason.with_prefix("device " + std::string(name) + " is not usable");
    }
  }
  std::string text = "no device is called '" + std::string(name) + "'";
  if (!plugins_.left_out.empty()) {
    text += " (BACKPLANE_PLUGINS leaves out";
    for (const std::string& id : plugins_.left_out) text += " " + id;
    text += ")";
  }
  if (names.empty()) {
    text += "; no plugin gives a device (searched";
    for (const SearchedFolder& folder : plugins_.searched) text += " " + folder.path;
    return Status(BP_UNAVAILABLE, text + "). `backplane doctor` tells why");
  }
  text += "; there is";
  for (const std::string& known : names) text += " " + known;
  for (const auto& [alias, device] : aliases_) {
    text += " " + alias + " (" + device + ")";
    // An alias names a device: one that was followed here is no way to it.
    if (alias != name && device != name) names.push_back(alias);
  }
  if (const auto near = nearest_match(name, names)) text += "; did you mean " + *near + "?";
  return Status(BP_UNAVAILABLE, text);
}

void Runtime::note_fallback(const Device& device, OpId op, std::string_view reason) {
  {
    std::lock_guard lock(fallback_mutex_);
    ++fallback_counts_[device.name()][std::string(registry_.schema(op).name)];
  }
  warn_of_fallback(device, op, reason);
}

void Runtime::warn_of_fallback(const Device& device, OpId op, std::string_view reason) {
  if (fallback_mode_ != FallbackMode::kWarn) return;
  {
    std::lock_guard lock(fallback_mutex_);
    if (!warned_of_.emplace(&device, op).second) return;
  }
  log(BP_LOG_WARNING,
      device.name() + " does not run " + std::string(registry_.schema(op).name) + ": it runs on " +
          (host_device_ != nullptr ? host_device_->name() : "no device") + " with copies (" +
          std::string(reason) + "); BACKPLANE_FALLBACK=allow silences this");
}

std::string Runtime::fallback_summary() const {
  std::lock_guard lock(fallback_mutex_);
  std::string text;
  for (const auto& [device, ops] : fallback_counts_) {
    if (!text.empty()) text += "; ";
    text += (host_device_ != nullptr ? host_device_->name() : "host") + " ran for " + device + ":";
    for (const auto& [op, count] : ops) text += " " + op + " " + std::to_string(count) + "x";
  }
  return text;
}

Status Runtime::check_open() const {
  return closed() ? Status(BP_GONE, "the Runtime was closed") : Status();
}

Status Runtime::begin_run() {
  runs_.fetch_add(1);
  if (!stopping_.load()) [[likely]]
    return {};
  end_run();
  return Status(BP_GONE, "the Runtime was closed");
}

}  // namespace bp
