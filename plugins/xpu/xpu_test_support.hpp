// SPDX-License-Identifier: Apache-2.0
//
// What the xpu tests share: the built plugin opened by path and driven through its C tables alone,
// with a host table that keeps what is reported. No code of the plugin or the core is linked.
#ifndef BACKPLANE_PLUGINS_XPU_XPU_TEST_SUPPORT_HPP
#define BACKPLANE_PLUGINS_XPU_XPU_TEST_SUPPORT_HPP

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backplane/device_api.h"

namespace bp::xpu_test {

struct Report {
  bp_status status = BP_OK;
  int64_t vendor_code = 0;
  uint64_t op_seq = 0;
  bp_stream* stream = nullptr;
  std::string message;
};

/// The host services of one instance.
class Host {
 public:
  static const bp_host_api* api();

  std::vector<Report> reports() const;
  /// The newest report; an empty one if there is none.
  Report last_report() const;
  std::vector<std::string> log_lines() const;
  void clear();

 private:
  static void on_report(void* context, const bp_report_info* info);
  static void on_log(void* context, uint32_t level, bp_str message);

  mutable std::mutex mutex_;
  std::vector<Report> reports_;
  std::vector<std::string> log_lines_;
};

/// The plugin's entry point, or nullptr and a test failure.
decltype(&bp_plugin_entry) load_entry();
/// The plugin's tables. They stay valid: a plugin is never unmapped.
bp_plugin load_plugin();

using Options = std::vector<std::pair<std::string, std::string>>;

bp_status init(const bp_plugin& plugin, Host* host, const Options& options,
               bp_instance** out_instance);
bp_status open_device(const bp_plugin& plugin, bp_instance* instance, uint32_t index,
                      const Options& options, bp_device** out_device);

/// An initialised instance with its device 0, or a skipped test where there is no OpenCL device.
class XpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  uint64_t alloc(uint64_t bytes);
  void free(uint64_t handle);
  bp_status copy(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes,
                 bp_stream* stream = nullptr);
  bp_status upload(bp_mem dst, const void* src, uint64_t bytes, bp_stream* stream = nullptr);
  bp_status download(void* dst, bp_mem src, uint64_t bytes, bp_stream* stream = nullptr);
  bp_status host_alloc(uint64_t bytes, void** out_ptr);
  bp_status fill(bp_mem dst, uint64_t bytes, uint64_t pattern, uint32_t pattern_bytes,
                 bp_stream* stream = nullptr);
  bp_stream* make_stream();
  bp_event* make_event(uint32_t flags = 0);
  std::vector<uint8_t> read_bytes(uint64_t handle, uint64_t bytes);

  Host host_;
  bp_plugin plugin_{};
  bp_instance* instance_ = nullptr;
  bp_device* device_ = nullptr;
};

inline bp_mem host_mem(const void* ptr) { return {reinterpret_cast<uintptr_t>(ptr), 0}; }

/// A host function that holds its stream until it is released, so that tests decide what is pending
/// without measuring time.
class Gate {
 public:
  ~Gate() { release(); }
  /// For stream_host_call, with the gate as user pointer.
  static void hold(void* gate, bp_status status);
  void release();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// Entries of /proc/self/fd and /proc/self/task.
size_t open_file_count();
size_t thread_count();

}  // namespace bp::xpu_test

#endif
