// SPDX-License-Identifier: Apache-2.0
//
// A running plugin with one open device, reached as the core reaches it: loaded by core/plugin and
// completed by core/emulation. Bands can be taken from the device first, so that the core's
// emulation stands in for them.
#ifndef BACKPLANE_SDK_CONFORM_DEVICE_HPP
#define BACKPLANE_SDK_CONFORM_DEVICE_HPP

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/device_table.hpp"
#include "core/device/kernel_list.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/plugin/loader.hpp"
#include "sdk/conform/target.hpp"

namespace bp::conform {

class OpenDevice {
 public:
  /// UNAVAILABLE with the plugin's words where its hardware is not on this machine. A control call
  /// that takes longer than `call_timeout` abandons the device.
  static Result<std::unique_ptr<OpenDevice>> open(const Target& target, uint64_t masked,
                                                  std::chrono::milliseconds call_timeout);
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  const DeviceTable& table() const { return table_; }
  const KernelList& kernels() const { return kernels_; }
  const LoadedPlugin& plugin() const { return *plugins_->plugins.front(); }
  /// Bands that the plugin gives to this device itself, before any is taken.
  uint64_t native_features() const { return native_features_; }

  /// Which slot did not return in time; empty: each did. Then no call goes through any more, and
  /// this object is to be left as it is.
  std::string why_abandoned() const { return table_.gate->why_abandoned(); }

  /// Closes device and instance. Complaints: a status other than OK, and warnings that the plugin
  /// logged meanwhile, which is how plugins tell what was left behind.
  std::vector<std::string> close();

 private:
  OpenDevice();

  struct LogLines;
  std::shared_ptr<LogLines> log_;
  std::unique_ptr<PluginSet> plugins_;
  DeviceTable table_;
  KernelList kernels_;
  uint64_t native_features_ = 0;
  EmulationPtr emulation_{nullptr, nullptr};
};

/// Another device of a running plugin, for cases of several: opened like the first, without a list
/// of its kernels.
class SiblingDevice {
 public:
  static Result<std::unique_ptr<SiblingDevice>> open(const LoadedPlugin& plugin, uint32_t index);
  ~SiblingDevice() { close(); }
  SiblingDevice(const SiblingDevice&) = delete;
  SiblingDevice& operator=(const SiblingDevice&) = delete;

  const DeviceTable& table() const { return table_; }
  bp_status close();

 private:
  SiblingDevice() = default;

  DeviceTable table_;
  EmulationPtr emulation_{nullptr, nullptr};
};

}  // namespace bp::conform

#endif
