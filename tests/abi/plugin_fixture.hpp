// SPDX-License-Identifier: Apache-2.0
//
// A plugin of this build with one of its devices open (tests/raw_abi.hpp): for tests that call its
// slots as a core of another version would.
#ifndef BACKPLANE_TESTS_ABI_PLUGIN_FIXTURE_HPP
#define BACKPLANE_TESTS_ABI_PLUGIN_FIXTURE_HPP

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/plugins.hpp"
#include "tests/raw_abi.hpp"
#include "truncated.hpp"

namespace bp::abi {

struct PluginFolder {
  std::string id;
  std::string folder;
  std::string library() const { return folder + "/libbackplane_" + id + ".so"; }
};
inline void PrintTo(const PluginFolder& plugin, std::ostream* out) { *out << plugin.id; }

inline std::vector<PluginFolder> plugin_folders() {
  std::vector<PluginFolder> folders = {{"good", BP_FAKES_DIR "/good"}};
  for (const std::string& id : tests::plugin_ids())
    folders.push_back({id, std::string(BP_PLUGIN_DIR "/") + id});
  return folders;
}

/// The status of a call with a struct of this size, where `required` bytes must be enough.
inline void expect_status(bp_status status, uint32_t bytes, uint32_t required) {
  if (bytes >= required) {
    EXPECT_EQ(status, BP_OK) << bytes;
  } else {
    EXPECT_GE(status, BP_OK) << bytes;
    EXPECT_LE(status, BP_INTERNAL) << bytes;
  }
}

class PluginTest : public testing::TestWithParam<PluginFolder> {
 protected:
  void SetUp() override {
    ASSERT_NE(plugin_.root, nullptr);
    ASSERT_EQ(instance_.status(), BP_OK) << instance_.host().last_message();
    ASSERT_EQ(instance_.open(0, {}, &device_), BP_OK) << instance_.host().last_message();
    props_.struct_size = sizeof(props_);
    ASSERT_EQ(device_api().device_props(device_, &props_), BP_OK);
  }
  void TearDown() override {
    if (device_ != nullptr) {
      EXPECT_EQ(device_api().device_close(device_), BP_OK);
    }
  }

  const bp_root_api& root() const { return *plugin_.root; }
  const bp_device_api& device_api() const { return *plugin_.device; }
  const bp_memory_api& memory() const { return *plugin_.memory; }
  const bp_stream_api& stream() const { return *plugin_.stream; }  // where it has ASYNC
  const bp_kernel_api& kernel_api() const { return *plugin_.kernel; }
  bool has_collectives() const { return plugin_.collective != nullptr; }
  const bp_collective_api& collective() const { return *plugin_.collective; }  // where it has them
  bp_instance* instance() const { return instance_.get(); }
  bp_device* device() const { return device_; }
  /// The device has this band, natively.
  bool has(uint64_t band) const { return (props_.features & band) != 0; }

  uint64_t alloc(uint64_t bytes) const {
    bp_alloc_args args{};
    args.struct_size = sizeof(args);
    args.bytes = bytes;
    uint64_t handle = 0;
    EXPECT_EQ(memory().mem_alloc(device_, &args, &handle), BP_OK);
    return handle;
  }
  void free(uint64_t handle) const { EXPECT_EQ(memory().mem_free(device_, handle), BP_OK); }

  std::span<const bp_kernel* const> kernels() const {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    EXPECT_EQ(kernel_api().kernel_list(device_, &list), BP_OK);
    return {list.kernels, list.kernel_count};
  }
  const bp_kernel* kernel(std::string_view op) const {
    for (const bp_kernel* kernel : kernels()) {
      if (kernel->launch != nullptr && tests::text_of(kernel->op) == op) return kernel;
    }
    return nullptr;
  }
  tests::Entry entry() const { return tests::load_entry(GetParam().library()); }

 private:
  const bp_plugin plugin_ = tests::load_plugin(GetParam().library());
  tests::RawInstance instance_{plugin_};
  bp_device* device_ = nullptr;
  bp_device_props props_{};
};

}  // namespace bp::abi

#endif
