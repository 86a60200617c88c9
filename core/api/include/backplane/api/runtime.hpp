// SPDX-License-Identifier: Apache-2.0
//
// Runtimes and devices of the C++ API. Included by backplane.hpp.
#ifndef BACKPLANE_API_RUNTIME_HPP
#define BACKPLANE_API_RUNTIME_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backplane/api/error.hpp"

namespace bp {
inline namespace api {
namespace detail {

struct RuntimeDeleter {
  void operator()(bpa_runtime* runtime) const { bpa_runtime_release(runtime); }
};

}  // namespace detail

/// How one group of optional functions works on a device.
struct Feature {
  std::string name;    // "async"
  uint64_t bit = 0;    // BP_FEATURE_*_BIT
  uint32_t state = 0;  // BPA_FEATURE_NATIVE, _EMULATED, _ABSENT
};

/// A device of a Runtime; valid as long as it.
class Device {
 public:
  Device() = default;
  explicit Device(bpa_device* handle) : handle_(handle) {}
  bpa_device* handle() const { return handle_; }
  /// Sizes, features and counters as they are now.
  bpa_device_info info() const {
    bpa_device_info info{};
    info.struct_size = sizeof(info);
    detail::check(bpa_device_get_info(handle_, &info));
    return info;
  }
  /// "npu:0"
  std::string name() const { return detail::text(info().name); }
  std::vector<Feature> features() const {
    uint64_t count = 0;
    detail::check(bpa_device_feature_count(handle_, &count));
    std::vector<Feature> features;
    for (uint64_t i = 0; i < count; ++i) {
      bpa_feature_info info{};
      info.struct_size = sizeof(info);
      detail::check(bpa_device_get_feature(handle_, i, &info));
      features.push_back({info.name, info.bit, info.state});
    }
    return features;
  }
  /// Waits for all work; its first failure is thrown.
  void sync() const { detail::check(bpa_device_sync(handle_)); }

 private:
  bpa_device* handle_ = nullptr;
};

struct RuntimeOptions {
  std::string plugin_path{};                 // colon-separated folders searched first
  std::optional<std::string> install_dir{};  // replaces the installed plugin folder; "": no folder
  std::map<std::string, std::string> options{};  // "npu.memory", "BACKPLANE_FALLBACK"
};

/// Finds and loads plugins; owns everything below it.
class Runtime {
 public:
  static Runtime create(const RuntimeOptions& options = {}) {
    std::vector<const char*> names;
    std::vector<const char*> values;
    for (const auto& [name, value] : options.options) {
      names.push_back(name.c_str());
      values.push_back(value.c_str());
    }
    bpa_runtime_args args{};
    args.struct_size = sizeof(args);
    if (!options.plugin_path.empty()) args.plugin_path = options.plugin_path.c_str();
    if (options.install_dir) args.install_dir = options.install_dir->c_str();
    args.option_names = names.data();
    args.option_values = values.data();
    args.option_count = names.size();
    bpa_runtime* handle = nullptr;
    detail::check(bpa_runtime_create(&args, &handle));
    return Runtime(handle);
  }

  bpa_runtime* handle() const { return handle_.get(); }
  /// The error lists what there is.
  Device device(const std::string& name) const {
    bpa_device* device = nullptr;
    detail::check(bpa_runtime_find_device(handle_.get(), name.c_str(), &device));
    return Device(device);
  }
  std::vector<Device> devices() const {
    uint64_t count = 0;
    detail::check(bpa_runtime_device_count(handle_.get(), &count));
    std::vector<Device> devices;
    for (uint64_t i = 0; i < count; ++i) {
      bpa_device* device = nullptr;
      detail::check(bpa_runtime_device(handle_.get(), i, &device));
      devices.emplace_back(device);
    }
    return devices;
  }
  /// Ends or awaits asynchronous runs; later use of anything below throws GONE.
  void close() { detail::check(bpa_runtime_close(handle_.get())); }

 private:
  explicit Runtime(bpa_runtime* handle) : handle_(handle, detail::RuntimeDeleter()) {}
  std::shared_ptr<bpa_runtime> handle_;
};

}  // namespace api
}  // namespace bp

#endif
