// SPDX-License-Identifier: Apache-2.0
//
// A core's side of the ABI, as small as it can be: a built plugin opened by its path and driven
// through its own tables, with a host table that keeps what it is told. All tests that call a
// plugin past the core do it with this; no code of the core is linked.
//
// The conformance kit has its own in sdk/conform/abi.hpp, since it ships without the tests, tells
// its defects as cases and not to GoogleTest, and takes its options from a manifest.
#ifndef BACKPLANE_TESTS_RAW_ABI_HPP
#define BACKPLANE_TESTS_RAW_ABI_HPP

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backplane/device_api.h"

namespace bp::tests {

inline std::string text_of(bp_str text) {
  return text.ptr == nullptr ? std::string() : std::string(text.ptr, text.len);
}

struct HostReport {
  bp_status status = BP_OK;
  int64_t vendor_code = 0;
  uint64_t op_seq = 0;
  bp_stream* stream = nullptr;
  std::string message = {};
};

/// The host services of one instance. Any thread.
class RecordingHost {
 public:
  static const bp_host_api* api() {
    static constexpr bp_host_api kApi{sizeof(bp_host_api), 0, on_report, on_log};
    return &kApi;
  }

  std::vector<HostReport> reports() const {
    const std::scoped_lock lock(mutex_);
    return reports_;
  }
  /// The newest one; an empty one if there is none.
  HostReport last_report() const {
    const std::scoped_lock lock(mutex_);
    return reports_.empty() ? HostReport() : reports_.back();
  }
  std::string last_message() const { return last_report().message; }
  std::vector<std::string> logged() const {
    const std::scoped_lock lock(mutex_);
    return logged_;
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    reports_.clear();
    logged_.clear();
  }

 private:
  static void on_report(void* host_ctx, const bp_report_info* info) {
    auto& host = *static_cast<RecordingHost*>(host_ctx);
    const std::scoped_lock lock(host.mutex_);
    host.reports_.push_back(
        {info->status, info->vendor_code, info->op_seq, info->stream, text_of(info->message)});
  }
  static void on_log(void* host_ctx, uint32_t, bp_str message) {
    auto& host = *static_cast<RecordingHost*>(host_ctx);
    const std::scoped_lock lock(host.mutex_);
    host.logged_.push_back(text_of(message));
  }

  mutable std::mutex mutex_;
  std::vector<HostReport> reports_;
  std::vector<std::string> logged_;
};

using OptionList = std::vector<std::pair<std::string, std::string>>;

/// Options as a bp_config or bp_open_args has them; it points into the list.
class OptionArrays {
 public:
  explicit OptionArrays(const OptionList& options) {
    for (const auto& [name, value] : options) {
      names_.push_back({name.data(), name.size()});
      values_.push_back({value.data(), value.size()});
    }
  }
  template <class Args>
  void fill(Args* args) const {
    args->option_count = static_cast<uint32_t>(names_.size());
    args->option_names = names_.data();
    args->option_values = values_.data();
  }

 private:
  std::vector<bp_str> names_;
  std::vector<bp_str> values_;
};

using Entry = decltype(&bp_plugin_entry);

/// The entry point of the library, which stays mapped as in the core; nullptr and a test failure.
inline Entry load_entry(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "bp_plugin_entry"));
  EXPECT_NE(entry, nullptr) << path;
  return entry;
}

/// What the entry fills; all zero after a test failure.
inline bp_plugin load_plugin(const std::string& path) {
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  if (const Entry entry = load_entry(path)) {
    EXPECT_EQ(entry(BP_ABI_CURRENT, &plugin), BP_OK) << path;
  }
  return plugin;
}

/// An instance, shut down at the end if there is one.
class RawInstance {
 public:
  explicit RawInstance(const bp_plugin& plugin, const OptionList& options = {}) : plugin_(plugin) {
    bp_config config{};
    config.struct_size = sizeof(config);
    config.abi_semantics = BP_ABI_CURRENT;
    const OptionArrays arrays(options);
    arrays.fill(&config);
    status_ = plugin.root->init(RecordingHost::api(), &host_, &config, &instance_);
  }
  ~RawInstance() { shutdown(); }
  RawInstance(const RawInstance&) = delete;
  RawInstance& operator=(const RawInstance&) = delete;

  bp_status open(uint32_t index, const OptionList& options, bp_device** out_device) const {
    bp_open_args args{};
    args.struct_size = sizeof(args);
    args.index = index;
    const OptionArrays arrays(options);
    arrays.fill(&args);
    return plugin_.device->device_open(instance_, &args, out_device);
  }
  void shutdown() {
    if (instance_ == nullptr) return;
    EXPECT_EQ(plugin_.root->shutdown(std::exchange(instance_, nullptr)), BP_OK);
  }

  bp_status status() const { return status_; }  // of init
  bp_instance* get() const { return instance_; }
  RecordingHost& host() { return host_; }
  const RecordingHost& host() const { return host_; }

 private:
  const bp_plugin& plugin_;
  RecordingHost host_;
  bp_instance* instance_ = nullptr;
  bp_status status_ = BP_INTERNAL;
};

inline bp_mem host_mem(const void* ptr) { return {reinterpret_cast<uint64_t>(ptr), 0}; }

inline bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  return {sizeof(bp_copy_args), 0, kind, 0, dst, src, bytes};
}

/// An open device of an instance of its own.
class RawDevice {
 public:
  explicit RawDevice(const bp_plugin& plugin, const OptionList& options = {})
      : plugin_(plugin), instance_(plugin) {
    EXPECT_EQ(instance_.open(0, options, &device_), BP_OK) << host().last_message();
  }
  ~RawDevice() {
    if (device_ == nullptr) return;
    EXPECT_EQ(plugin_.device->device_close(device_), BP_OK);
  }
  RawDevice(const RawDevice&) = delete;
  RawDevice& operator=(const RawDevice&) = delete;

  bp_device* get() const { return device_; }
  const RawInstance& instance() const { return instance_; }
  const RecordingHost& host() const { return instance_.host(); }

  bp_device_props props() const {
    bp_device_props props{};
    props.struct_size = sizeof(props);
    EXPECT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
    return props;
  }
  /// Those of the device, as the plugin has them.
  std::vector<const bp_kernel*> kernels() const {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    EXPECT_EQ(plugin_.kernel->kernel_list(device_, &list), BP_OK);
    return {list.kernels, list.kernels + list.kernel_count};
  }

  bp_status try_alloc(uint64_t bytes, uint64_t* out_handle, uint64_t alignment_bytes = 0) const {
    const bp_alloc_args args{sizeof(args), 0, bytes, alignment_bytes, BP_USAGE_ACTIVATIONS, 0};
    return plugin_.memory->mem_alloc(device_, &args, out_handle);
  }
  uint64_t alloc(uint64_t bytes) const {
    uint64_t handle = 0;
    EXPECT_EQ(try_alloc(bytes, &handle), BP_OK) << host().last_message();
    return handle;
  }
  void free(uint64_t handle) const {
    EXPECT_EQ(plugin_.memory->mem_free(device_, handle), BP_OK) << host().last_message();
  }
  bp_status copy(const bp_copy_args& args) const {
    return plugin_.memory->mem_copy(device_, &args);
  }

 private:
  const bp_plugin& plugin_;
  RawInstance instance_;
  bp_device* device_ = nullptr;
};

/// Holds streams up until it is released, so that tests fix what happens before what without
/// measuring time.
class Gate {
 public:
  Gate() = default;
  ~Gate() { release(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  bp_status hold(const bp_stream_api& api, bp_stream* stream) {
    auto held = std::make_unique<std::shared_future<void>>(opened_);
    const bp_status status = api.stream_host_call(stream, wait, held.get());
    if (status == BP_OK) held.release();  // wait() owns it, which may end after the gate
    return status;
  }
  void release() {
    if (!std::exchange(is_open_, true)) open_.set_value();
  }

 private:
  static void wait(void* user, bp_status) {
    const std::unique_ptr<std::shared_future<void>> opened(
        static_cast<std::shared_future<void>*>(user));
    opened->wait();
  }

  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
  bool is_open_ = false;
};

}  // namespace bp::tests

#endif
