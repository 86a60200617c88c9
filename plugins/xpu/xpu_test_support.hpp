// SPDX-License-Identifier: Apache-2.0
//
// What the xpu tests share: the built plugin, driven through its C tables alone
// (tests/raw_abi.hpp).
#ifndef BACKPLANE_PLUGINS_XPU_XPU_TEST_SUPPORT_HPP
#define BACKPLANE_PLUGINS_XPU_XPU_TEST_SUPPORT_HPP

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/raw_abi.hpp"

namespace bp::xpu_test {

using tests::Gate;
using tests::host_mem;
using tests::text_of;

/// The plugin's entry point, or nullptr and a test failure.
tests::Entry load_entry();
/// The plugin's tables. They stay valid: a plugin is never unmapped.
bp_plugin load_plugin();

/// A folder of this process that lives as long as the test.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("xpu_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { remove(); }
  const std::filesystem::path& path() const { return path_; }
  void remove() const { std::filesystem::remove_all(path_); }

 private:
  std::filesystem::path path_;
};

/// Options for tests that depend on programs being compiled, or must not leave files behind.
inline const tests::OptionList kWithoutCache{{"cache", "off"}};

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
  /// The first kernel of an operator; nullptr, and a failure, without one.
  const bp_kernel* find_kernel(std::string_view op);

  const tests::RecordingHost& services() const { return instance_->host(); }

  bp_plugin plugin_{};
  std::optional<tests::RawInstance> instance_;
  bp_device* device_ = nullptr;
};

/// Entries of /proc/self/fd, and threads that have not ended.
size_t open_file_count();
size_t thread_count();

}  // namespace bp::xpu_test

#endif
