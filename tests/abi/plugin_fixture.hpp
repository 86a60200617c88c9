// SPDX-License-Identifier: Apache-2.0
//
// A plugin of this build, loaded, with one of its devices open: for tests that call its own slots
// as a core of another version would.
#ifndef BACKPLANE_TESTS_ABI_PLUGIN_FIXTURE_HPP
#define BACKPLANE_TESTS_ABI_PLUGIN_FIXTURE_HPP

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/plugin/loader.hpp"
#include "tests/plugins.hpp"
#include "truncated.hpp"

namespace bp::abi {

struct PluginFolder {
  std::string id;
  std::string folder;
};
inline void PrintTo(const PluginFolder& plugin, std::ostream* out) { *out << plugin.id; }

inline std::vector<PluginFolder> plugin_folders() {
  std::vector<PluginFolder> folders = {{"good", BP_FAKES_DIR "/good"}};
  for (const std::string& id : tests::plugin_ids())
    folders.push_back({id, std::string(BP_PLUGIN_DIR "/") + id});
  return folders;
}

class PluginTest : public testing::TestWithParam<PluginFolder> {
 protected:
  void SetUp() override {
    LoadOptions options;
    options.search_path = {GetParam().folder};
    options.install_directory.clear();
    set_ = std::make_unique<PluginSet>(load_plugins(options));
    for (const SkippedPlugin& skipped : set_->skipped) ADD_FAILURE() << skipped.to_string();
    ASSERT_NE(set_->find(GetParam().id), nullptr);
    bp_open_args args{};
    args.struct_size = sizeof(args);
    ASSERT_EQ(device_api().device_open(plugin().instance(), &args, &device_), BP_OK);
    props_.struct_size = sizeof(props_);
    ASSERT_EQ(device_api().device_props(device_, &props_), BP_OK);
  }
  void TearDown() override {
    if (device_ != nullptr) {
      EXPECT_EQ(device_api().device_close(device_), BP_OK);
    }
  }

  const LoadedPlugin& plugin() const { return *set_->find(GetParam().id); }
  const PluginTables& tables() const { return plugin().tables(); }
  const bp_device_api& device_api() const { return tables().device; }
  const bp_memory_api& memory() const { return tables().memory; }
  const bp_stream_api& stream() const { return tables().stream; }
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

  /// The kernels of the device, as the plugin has them.
  std::vector<const bp_kernel*> kernels() const {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    EXPECT_EQ(tables().kernel.kernel_list(device_, &list), BP_OK);
    return {list.kernels, list.kernels + list.kernel_count};
  }
  const bp_kernel* kernel(std::string_view op) const {
    for (const bp_kernel* kernel : kernels()) {
      const bool is_good = kernel->launch != nullptr;
      if (is_good && std::string_view(kernel->op.ptr, kernel->op.len) == op) return kernel;
    }
    return nullptr;
  }
  /// The entry point of the plugin, which is mapped.
  int32_t (*entry() const)(uint32_t, bp_plugin*) {
    void* const library = dlopen(plugin().path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(library, nullptr);
    void* const symbol = dlsym(library, "bp_plugin_entry");
    dlclose(library);
    return reinterpret_cast<int32_t (*)(uint32_t, bp_plugin*)>(symbol);
  }

 private:
  std::unique_ptr<PluginSet> set_;
  bp_device* device_ = nullptr;
  bp_device_props props_{};
};

}  // namespace bp::abi

#endif
