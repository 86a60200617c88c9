// SPDX-License-Identifier: Apache-2.0
//
// The core's side of the ABI, as small as it can be: the tests load the built plugin by its path
// and drive it through its raw tables. Every helper makes the one call that its name says.
#ifndef BACKPLANE_PLUGINS_NPU_NPU_HARNESS_TEST_HPP
#define BACKPLANE_PLUGINS_NPU_NPU_HARNESS_TEST_HPP

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"

namespace bp::npu_test {

using OptionList = std::vector<std::pair<std::string, std::string>>;

/// The plugin's tables. The library stays mapped, as in the core.
inline const bp_plugin& plugin() {
  static const bp_plugin kLoaded = [] {
    void* const library = dlopen(NPU_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto entry =
        reinterpret_cast<decltype(&bp_plugin_entry)>(dlsym(library, "bp_plugin_entry"));
    bp_plugin result{};
    result.struct_size = sizeof result;
    if (entry(BP_ABI_CURRENT, &result) != BP_OK) throw std::runtime_error("bp_plugin_entry");
    return result;
  }();
  return kLoaded;
}

struct Report {
  bp_status status;
  uint64_t op_seq;
  bp_stream* stream;
  std::string message;
};

/// The host services; remembers what it was told.
class Host {
 public:
  std::vector<Report> reports() const {
    const std::scoped_lock lock(mutex_);
    return reports_;
  }
  std::string last_message() const {
    const std::scoped_lock lock(mutex_);
    return reports_.empty() ? "" : reports_.back().message;
  }
  std::vector<std::string> logged() const {
    const std::scoped_lock lock(mutex_);
    return logged_;
  }

  static const bp_host_api& api() {
    static const bp_host_api kTable = {sizeof(bp_host_api), 0, report, log};
    return kTable;
  }

 private:
  static void report(void* self, const bp_report_info* info) {
    auto& host = *static_cast<Host*>(self);
    const std::scoped_lock lock(host.mutex_);
    host.reports_.push_back(
        {info->status, info->op_seq, info->stream, std::string(sdk::view(info->message))});
  }
  static void log(void* self, uint32_t, bp_str message) {
    auto& host = *static_cast<Host*>(self);
    const std::scoped_lock lock(host.mutex_);
    host.logged_.emplace_back(sdk::view(message));
  }

  mutable std::mutex mutex_;
  std::vector<Report> reports_;
  std::vector<std::string> logged_;
};

/// Options as a bp_config or bp_open_args holds them.
class OptionArrays {
 public:
  explicit OptionArrays(const OptionList& options) {
    for (const auto& [name, value] : options) {
      names_.push_back(sdk::str(name));
      values_.push_back(sdk::str(value));
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

class Instance {
 public:
  explicit Instance(const OptionList& options = {}) {
    bp_config config{};
    config.struct_size = sizeof config;
    config.abi_semantics = BP_ABI_CURRENT;
    const OptionArrays arrays(options);
    arrays.fill(&config);
    status = plugin().root->init(&Host::api(), &host, &config, &instance);
  }
  ~Instance() {
    if (instance == nullptr) return;
    EXPECT_EQ(plugin().root->shutdown(instance), BP_OK);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  bp_status open(uint32_t index, const OptionList& options, bp_device** out_device) const {
    bp_open_args args{};
    args.struct_size = sizeof args;
    args.index = index;
    const OptionArrays arrays(options);
    arrays.fill(&args);
    return plugin().device->device_open(instance, &args, out_device);
  }

  Host host;
  bp_instance* instance = nullptr;
  bp_status status = BP_INTERNAL;
};

inline bp_copy_args copy_args(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  return {sizeof(bp_copy_args), 0, kind, 0, dst, src, bytes};
}

inline bp_mem host_mem(const void* ptr) { return {reinterpret_cast<uint64_t>(ptr), 0}; }

/// Little memory: sanitizers visit all of it when a device is opened and closed.
inline const OptionList kSmall = {{"memory", "1048576"}};

/// An open device of an instance of its own.
class Device {
 public:
  explicit Device(const OptionList& options = kSmall) {
    EXPECT_EQ(instance_.open(0, options, &device_), BP_OK) << host().last_message();
  }
  ~Device() { EXPECT_EQ(plugin().device->device_close(device_), BP_OK); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  bp_device* get() const { return device_; }
  bp_instance* instance() const { return instance_.instance; }
  const Host& host() const { return instance_.host; }

  bp_device_props props() const {
    bp_device_props props{};
    props.struct_size = sizeof props;
    EXPECT_EQ(plugin().device->device_props(device_, &props), BP_OK);
    return props;
  }

  bp_status try_alloc(uint64_t bytes, uint64_t* out_handle, uint64_t alignment_bytes = 0) const {
    const bp_alloc_args args{sizeof args, 0, bytes, alignment_bytes, BP_USAGE_ACTIVATIONS, 0};
    return plugin().memory->mem_alloc(device_, &args, out_handle);
  }
  uint64_t alloc(uint64_t bytes) const {
    uint64_t handle = 0;
    EXPECT_EQ(try_alloc(bytes, &handle), BP_OK) << host().last_message();
    return handle;
  }
  void free(uint64_t handle) const {
    EXPECT_EQ(plugin().memory->mem_free(device_, handle), BP_OK) << host().last_message();
  }
  bp_status copy(const bp_copy_args& args) const {
    return plugin().memory->mem_copy(device_, &args);
  }

  template <class T>
  void upload(bp_mem dst, const std::vector<T>& values) const {
    EXPECT_EQ(copy(copy_args(BP_COPY_HOST_TO_DEVICE, dst, host_mem(values.data()),
                             values.size() * sizeof(T))),
              BP_OK)
        << host().last_message();
  }
  template <class T>
  std::vector<T> download(bp_mem src, size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(
        copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(values.data()), src, count * sizeof(T))),
        BP_OK)
        << host().last_message();
    return values;
  }

 private:
  Instance instance_;
  bp_device* device_ = nullptr;
};

/// A stream that is destroyed at the end of the test, or earlier.
class Stream {
 public:
  explicit Stream(const Device& device) {
    const bp_stream_args args{sizeof args, 0};
    EXPECT_EQ(plugin().stream->stream_create(device.get(), &args, &stream_), BP_OK);
  }
  ~Stream() { destroy(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void destroy() {
    if (stream_ == nullptr) return;
    EXPECT_EQ(plugin().stream->stream_destroy(std::exchange(stream_, nullptr)), BP_OK);
  }
  bp_stream* get() const { return stream_; }
  bp_status sync(uint64_t timeout_ns = BP_TIMEOUT_FOREVER) const {
    return plugin().stream->stream_sync(stream_, timeout_ns);
  }
  bp_status query() const { return plugin().stream->stream_query(stream_); }
  bp_status copy(const bp_copy_args& args) const {
    return plugin().stream->mem_copy_async(stream_, &args);
  }
  bp_status host_call(bp_host_fn fn, void* user) const {
    return plugin().stream->stream_host_call(stream_, fn, user);
  }

 private:
  bp_stream* stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const Device& device, uint32_t flags = 0) {
    const bp_event_args args{sizeof args, flags};
    EXPECT_EQ(plugin().stream->event_create(device.get(), &args, &event_), BP_OK);
  }
  ~Event() { destroy(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void destroy() {
    if (event_ == nullptr) return;
    EXPECT_EQ(plugin().stream->event_destroy(std::exchange(event_, nullptr)), BP_OK);
  }
  bp_event* get() const { return event_; }
  bp_status record(const Stream& stream) const {
    return plugin().stream->event_record(event_, stream.get());
  }
  bp_status let_wait(const Stream& stream) const {
    return plugin().stream->event_wait(event_, stream.get());
  }
  bp_status sync(uint64_t timeout_ns = BP_TIMEOUT_FOREVER) const {
    return plugin().stream->event_sync(event_, timeout_ns);
  }
  bp_status query() const { return plugin().stream->event_query(event_); }

 private:
  bp_event* event_ = nullptr;
};

/// Holds a stream up until it is opened, so that tests fix what happens before what.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    EXPECT_EQ(stream.host_call(wait, new std::future<void>(open_.get_future())), BP_OK);
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    if (!std::exchange(is_open_, true)) open_.set_value();
  }

 private:
  static void wait(void* user, bp_status) {
    const std::unique_ptr<std::future<void>> opened(static_cast<std::future<void>*>(user));
    opened->wait();
  }

  std::promise<void> open_;
  bool is_open_ = false;
};

}  // namespace bp::npu_test

#endif
