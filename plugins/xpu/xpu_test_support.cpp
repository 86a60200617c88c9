// SPDX-License-Identifier: Apache-2.0
//
// The host table, the fixture and small helpers of the xpu tests.
#include "xpu_test_support.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <filesystem>

namespace bp::xpu_test {
namespace {

/// Options as the ABI takes them; holds pointers into `options`.
struct OptionArrays {
  explicit OptionArrays(const Options& options) {
    for (const auto& [name, value] : options) {
      names.push_back({name.data(), name.size()});
      values.push_back({value.data(), value.size()});
    }
  }
  std::vector<bp_str> names;
  std::vector<bp_str> values;
};

size_t entry_count(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

}  // namespace

const bp_host_api* Host::api() {
  static constexpr bp_host_api kApi{
      .struct_size = sizeof(bp_host_api), .flags = 0, .report = on_report, .log = on_log};
  return &kApi;
}

void Host::on_report(void* context, const bp_report_info* info) {
  auto* host = static_cast<Host*>(context);
  const std::lock_guard lock(host->mutex_);
  host->reports_.push_back({info->status, info->vendor_code, info->op_seq, info->stream,
                            std::string(info->message.ptr, info->message.len)});
}

void Host::on_log(void* context, uint32_t, bp_str message) {
  auto* host = static_cast<Host*>(context);
  const std::lock_guard lock(host->mutex_);
  host->log_lines_.emplace_back(message.ptr, message.len);
}

std::vector<Report> Host::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

Report Host::last_report() const {
  const std::lock_guard lock(mutex_);
  return reports_.empty() ? Report{} : reports_.back();
}

std::vector<std::string> Host::log_lines() const {
  const std::lock_guard lock(mutex_);
  return log_lines_;
}

void Host::clear() {
  const std::lock_guard lock(mutex_);
  reports_.clear();
  log_lines_.clear();
}

decltype(&bp_plugin_entry) load_entry() {
  void* library = dlopen(BP_XPU_PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto entry =
      reinterpret_cast<decltype(&bp_plugin_entry)>(dlsym(library, "bp_plugin_entry"));
  EXPECT_NE(entry, nullptr);
  return entry;
}

bp_plugin load_plugin() {
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  const auto entry = load_entry();
  if (entry != nullptr) {
    EXPECT_EQ(entry(BP_ABI_CURRENT, &plugin), BP_OK);
  }
  return plugin;
}

bp_status init(const bp_plugin& plugin, Host* host, const Options& options,
               bp_instance** out_instance) {
  const OptionArrays arrays(options);
  const bp_config config{.struct_size = sizeof(bp_config),
                         .flags = 0,
                         .abi_semantics = BP_ABI_CURRENT,
                         .option_count = static_cast<uint32_t>(options.size()),
                         .option_names = arrays.names.data(),
                         .option_values = arrays.values.data()};
  return plugin.root->init(Host::api(), host, &config, out_instance);
}

bp_status open_device(const bp_plugin& plugin, bp_instance* instance, uint32_t index,
                      const Options& options, bp_device** out_device) {
  const OptionArrays arrays(options);
  const bp_open_args args{.struct_size = sizeof(bp_open_args),
                          .flags = 0,
                          .index = index,
                          .option_count = static_cast<uint32_t>(options.size()),
                          .option_names = arrays.names.data(),
                          .option_values = arrays.values.data()};
  return plugin.device->device_open(instance, &args, out_device);
}

void XpuTest::SetUp() {
  plugin_ = load_plugin();
  ASSERT_NE(plugin_.root, nullptr);
  const bp_status status = init(plugin_, &host_, {}, &instance_);
  if (status == BP_UNAVAILABLE) GTEST_SKIP() << host_.last_report().message;
  ASSERT_EQ(status, BP_OK) << host_.last_report().message;
  ASSERT_EQ(open_device(plugin_, instance_, 0, {}, &device_), BP_OK) << host_.last_report().message;
}

void XpuTest::TearDown() {
  if (device_ != nullptr) {
    EXPECT_EQ(plugin_.device->device_close(device_), BP_OK);
  }
  if (instance_ != nullptr) {
    EXPECT_EQ(plugin_.root->shutdown(instance_), BP_OK);
  }
}

uint64_t XpuTest::alloc(uint64_t bytes) {
  const bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                           .flags = 0,
                           .bytes = bytes,
                           .alignment_bytes = 0,
                           .usage = BP_USAGE_ACTIVATIONS,
                           .reserved = 0};
  uint64_t handle = 0;
  EXPECT_EQ(plugin_.memory->mem_alloc(device_, &args, &handle), BP_OK)
      << host_.last_report().message;
  return handle;
}

void XpuTest::free(uint64_t handle) {
  EXPECT_EQ(plugin_.memory->mem_free(device_, handle), BP_OK) << host_.last_report().message;
}

bp_status XpuTest::copy(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes, bp_stream* stream) {
  const bp_copy_args args{.struct_size = sizeof(bp_copy_args),
                          .flags = 0,
                          .kind = kind,
                          .reserved = 0,
                          .dst = dst,
                          .src = src,
                          .bytes = bytes};
  return stream != nullptr ? plugin_.stream->mem_copy_async(stream, &args)
                           : plugin_.memory->mem_copy(device_, &args);
}

bp_status XpuTest::upload(bp_mem dst, const void* src, uint64_t bytes, bp_stream* stream) {
  return copy(BP_COPY_HOST_TO_DEVICE, dst, host_mem(src), bytes, stream);
}

bp_status XpuTest::download(void* dst, bp_mem src, uint64_t bytes, bp_stream* stream) {
  return copy(BP_COPY_DEVICE_TO_HOST, host_mem(dst), src, bytes, stream);
}

bp_status XpuTest::fill(bp_mem dst, uint64_t bytes, uint64_t pattern, uint32_t pattern_bytes,
                        bp_stream* stream) {
  const bp_fill_args args{.struct_size = sizeof(bp_fill_args),
                          .flags = 0,
                          .dst = dst,
                          .bytes = bytes,
                          .pattern = pattern,
                          .pattern_bytes = pattern_bytes,
                          .reserved = 0,
                          .stream = stream};
  return plugin_.memory->mem_fill(device_, &args);
}

bp_status XpuTest::host_alloc(uint64_t bytes, void** out_ptr) {
  const bp_host_alloc_args args{
      .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = bytes};
  return plugin_.memory->host_alloc(device_, &args, out_ptr);
}

bp_stream* XpuTest::make_stream() {
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  bp_stream* stream = nullptr;
  EXPECT_EQ(plugin_.stream->stream_create(device_, &args, &stream), BP_OK)
      << host_.last_report().message;
  return stream;
}

bp_event* XpuTest::make_event(uint32_t flags) {
  const bp_event_args args{.struct_size = sizeof(bp_event_args), .flags = flags};
  bp_event* event = nullptr;
  EXPECT_EQ(plugin_.stream->event_create(device_, &args, &event), BP_OK)
      << host_.last_report().message;
  return event;
}

std::vector<uint8_t> XpuTest::read_bytes(uint64_t handle, uint64_t bytes) {
  std::vector<uint8_t> data(bytes);
  EXPECT_EQ(download(data.data(), {handle, 0}, bytes), BP_OK) << host_.last_report().message;
  return data;
}

void Gate::hold(void* gate, bp_status) {
  auto* self = static_cast<Gate*>(gate);
  std::unique_lock lock(self->mutex_);
  self->changed_.wait(lock, [self] { return self->open_; });
}

void Gate::release() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

size_t open_file_count() { return entry_count("/proc/self/fd"); }

size_t thread_count() { return entry_count("/proc/self/task"); }

}  // namespace bp::xpu_test
