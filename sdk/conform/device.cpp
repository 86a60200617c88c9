// SPDX-License-Identifier: Apache-2.0
//
// Loading, masking, closing.
#include "sdk/conform/device.hpp"

#include <cstdio>

#include "core/base/log.hpp"
#include "core/device/kernel_list.hpp"
#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "sdk/conform/checks.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {

struct OpenDevice::LogLines {
  std::mutex mutex;
  std::vector<std::string> warnings;

  std::vector<std::string> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(warnings, {});
  }
};

namespace {

/// What the core does with an open device before it uses it.
Status complete(uint64_t masked, DeviceTable* table, EmulationPtr* out_emulation) {
  name_slots(&table->device_api);
  name_slots(&table->memory);
  name_slots(&table->stream);
  name_slots(&table->kernel);
  name_slots(&table->collective);
  if ((masked & kOneCallAtATime) != 0) table->props.flags &= ~BP_DEVICE_CONCURRENT_BIT;
  take_bands(masked, table);
  table->gate->set_waits_without_asking();
  table->gate->set_most_idle_helpers(1);  // cases count what threads a device leaves behind
  *out_emulation = emulate_missing(table);
  if (*out_emulation == nullptr) return Status(BP_OUT_OF_MEMORY, "no memory for emulation");
  return {};
}

}  // namespace

OpenDevice::OpenDevice() : log_(std::make_shared<LogLines>()) {
  set_log_sink([log = log_](uint32_t level, std::string_view line) {
    if (level > BP_LOG_WARNING) return;
    const std::lock_guard lock(log->mutex);
    log->warnings.emplace_back(line);
    // Where a call never returns, its name here is all that is heard of the case.
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
}

OpenDevice::~OpenDevice() { close(); }

Result<std::unique_ptr<OpenDevice>> OpenDevice::open(const Target& target, uint64_t masked,
                                                     std::chrono::milliseconds call_timeout) {
  std::unique_ptr<OpenDevice> device(new OpenDevice);
  LoadOptions options;
  options.search_path = {target.folder};
  options.install_directory.clear();
  options.plugin_options = target.options;
  options.call_timeout = call_timeout;
  device->plugins_ = std::make_unique<PluginSet>(load_plugins(options));
  const PluginSet& loaded = *device->plugins_;
  if (!loaded.option_errors.empty()) return loaded.option_errors.front();
  if (loaded.plugins.empty() && !loaded.skipped.empty()) {
    // Only what is not here is UNAVAILABLE to the kit; a library that cannot be mapped is broken.
    // What a user could do next is no news to who makes the plugin.
    const SkippedPlugin& skipped = loaded.skipped.front();
    const bp_status code = skipped.is_absent() ? BP_UNAVAILABLE : BP_INTERNAL;
    return Status(code,
                  words("the core leaves ", skipped.id.empty() ? skipped.path : skipped.id,
                        " out at step ", step_name(skipped.step), ": ", skipped.reason.message()));
  }
  if (loaded.plugins.empty()) {
    return Status(BP_INTERNAL, target.folder + ": the loader found no plugin");
  }
  auto opened = open_device(device->plugin(), target.device_index, {});
  if (!opened.ok()) {
    // The index is the user's, and so INVALID_ARGUMENT; what a slot answers is a broken plugin.
    const bool is_usage = target.device_index >= device->plugin().device_count();
    const bool is_absent = opened.status().code() == BP_UNAVAILABLE;
    if (is_usage || is_absent) return opened.status();
    return Status(BP_INTERNAL, opened.status().message());
  }
  device->table_ = std::move(opened).value();
  device->native_features_ = device->table_.props.features;
  BP_TRY(complete(masked, &device->table_, &device->emulation_));
  BP_TRY_ASSIGN(device->kernels_, list_kernels(device->plugin(), device->table_));
  device->log_->take();
  return device;
}

std::vector<std::string> OpenDevice::close() {
  if (table_.device == nullptr) {
    set_log_sink({});
    return {};
  }
  emulation_.reset();
  const bp_status status = table_.device_close();
  table_.device = nullptr;
  kernels_ = {};
  plugins_.reset();  // shuts the instance down
  std::vector<std::string> complaints = log_->take();
  set_log_sink({});
  if (status != BP_OK) complaints.push_back("device_close answered " + status_words(status));
  return complaints;
}

Result<std::unique_ptr<SiblingDevice>> SiblingDevice::open(const LoadedPlugin& plugin,
                                                           uint32_t index) {
  std::unique_ptr<SiblingDevice> device(new SiblingDevice);
  BP_TRY_ASSIGN(device->table_, open_device(plugin, index, {}));
  BP_TRY(complete(0, &device->table_, &device->emulation_));
  return device;
}

bp_status SiblingDevice::close() {
  if (table_.device == nullptr) return BP_OK;
  emulation_.reset();
  const bp_status status = table_.device_close();
  table_.device = nullptr;
  return status;
}

}  // namespace bp::conform
