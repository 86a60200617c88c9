// SPDX-License-Identifier: Apache-2.0
//
// Loading, instances and devices of xpu: what it does without a driver, how it names what it finds,
// and that opening and closing leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;

/// For the child of a death test, the only place where OpenCL is certain to be still unopened: ends
/// the process, with 0 and the plugin's words if init answers UNAVAILABLE. The child runs the test
/// from its start, so it has made a folder, too, which no destructor will remove.
[[noreturn]] void exit_after_init(const Folder& folder) {
  const bp_plugin plugin = load_plugin();
  const tests::RawInstance instance(plugin);
  std::fprintf(stderr, "status %d: %s\n", instance.status(),
               instance.host().last_message().c_str());
  folder.remove();
  std::_Exit(instance.status() == BP_UNAVAILABLE && instance.get() == nullptr ? 0 : 1);
}

TEST(XpuEntry, Call_FillsEveryTable) {
  const bp_plugin plugin = load_plugin();
  EXPECT_EQ(plugin.struct_size, sizeof(bp_plugin));
  EXPECT_NE(plugin.root, nullptr);
  EXPECT_NE(plugin.device, nullptr);
  EXPECT_NE(plugin.memory, nullptr);
  EXPECT_NE(plugin.stream, nullptr);
  EXPECT_NE(plugin.kernel, nullptr);
  EXPECT_EQ(plugin.stream->flags,
            uint32_t{BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_NATIVE_BIT});
  EXPECT_EQ(plugin.memory->flags,
            uint32_t{BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT});
  EXPECT_EQ(plugin.root->init(nullptr, nullptr, nullptr, nullptr), BP_INVALID_ARGUMENT);
}

TEST(XpuEntry, OldCoreOrNoOutput_IsRefused) {
  const auto entry = load_entry();
  ASSERT_NE(entry, nullptr);
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  EXPECT_EQ(entry(BP_ABI_VERSION(0, 0), &plugin), BP_INCOMPATIBLE);
  EXPECT_EQ(plugin.root, nullptr);
  EXPECT_EQ(entry(BP_ABI_CURRENT, nullptr), BP_INVALID_ARGUMENT);
  plugin.struct_size = offsetof(bp_plugin, kernel);
  EXPECT_EQ(entry(BP_ABI_VERSION(7, 0), &plugin), BP_OK);
  EXPECT_EQ(plugin.struct_size, offsetof(bp_plugin, kernel));
  EXPECT_NE(plugin.stream, nullptr);
  EXPECT_EQ(plugin.kernel, nullptr) << "written past what the core allocated";
}

TEST(XpuInitDeathTest, NoDriverInstalled_IsUnavailableWithWords) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Folder folder;
  setenv("OCL_ICD_VENDORS", folder.path().c_str(), 1);
  EXPECT_EXIT(exit_after_init(folder), ::testing::ExitedWithCode(0),
              "status 3: the OpenCL loader (knows no platform|cannot be opened).*install");
  unsetenv("OCL_ICD_VENDORS");
}

TEST(XpuInitDeathTest, LoaderCannotBeOpened_IsUnavailableWithWords) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Folder folder;
  std::ofstream(folder.path() / "libOpenCL.so.1") << "not a library";
  setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1);
  EXPECT_EXIT(exit_after_init(folder), ::testing::ExitedWithCode(0),
              "status 3: the OpenCL loader cannot be opened .*libOpenCL.so.1.*install one");
  unsetenv("LD_LIBRARY_PATH");
}

TEST(XpuInitDeathTest, LoaderLacksAFunction_IsUnavailableWithItsName) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Folder folder;
  std::filesystem::copy_file(BP_XPU_EMPTY_LIBRARY_PATH, folder.path() / "libOpenCL.so.1");
  setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1);
  EXPECT_EXIT(exit_after_init(folder), ::testing::ExitedWithCode(0),
              "status 3: libOpenCL.so.1 lacks clGetPlatformIDs");
  unsetenv("LD_LIBRARY_PATH");
}

using XpuInstanceTest = XpuTest;

TEST_F(XpuInstanceTest, PlatformOption_FiltersByName) {
  bp_device_props props{};
  props.struct_size = sizeof(props);
  ASSERT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
  const std::string driver = text_of(props.driver);

  tests::RawInstance instance(plugin_, {{"platform", driver.substr(0, 5)}});
  ASSERT_EQ(instance.status(), BP_OK);
  uint32_t count = 0;
  EXPECT_EQ(plugin_.device->device_count(instance.get(), &count), BP_OK);
  EXPECT_GE(count, 1u);
  instance.shutdown();

  const tests::RawInstance none(plugin_, {{"platform", "no such platform"}});
  EXPECT_EQ(none.status(), BP_UNAVAILABLE);
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_THAT(none.host().last_message(),
              ::testing::AllOf(HasSubstr("contains 'no such platform'; there is '"),
                               HasSubstr(driver.substr(0, 5))));
}

TEST_F(XpuInstanceTest, UnknownOption_IsRefusedByName) {
  const tests::RawInstance instance(plugin_, {{"platfrom", "x"}});
  EXPECT_EQ(instance.status(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(instance.host().last_message(), "unknown option 'platfrom'");
  bp_device* device = nullptr;
  EXPECT_EQ(instance_->open(0, {{"threads", "2"}}, &device), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "unknown option 'threads'");
  EXPECT_EQ(instance_->open(0, {{"profiling", "1"}}, &device), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "option profiling: '1' is neither true nor false");
  EXPECT_EQ(device, nullptr);
}

TEST_F(XpuInstanceTest, DeviceIndexOutOfRange_IsRefusedWithCount) {
  uint32_t count = 0;
  ASSERT_EQ(plugin_.device->device_count(instance_->get(), &count), BP_OK);
  bp_device* device = nullptr;
  EXPECT_EQ(instance_->open(count, {}, &device), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(services().last_message(),
            "device index " + std::to_string(count) + ": there are " + std::to_string(count));
}

TEST_F(XpuInstanceTest, Props_DescribeAQueuedDeviceWithoutAddresses) {
  bp_device_props props{};
  props.struct_size = sizeof(props);
  ASSERT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
  EXPECT_EQ(props.struct_size, sizeof(props));
  EXPECT_EQ(props.flags, BP_DEVICE_CONCURRENT_BIT);
  EXPECT_EQ(props.execution, BP_EXECUTION_QUEUED);
  EXPECT_EQ(props.features, BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_FILL_BIT |
                                BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT | BP_FEATURE_NATIVE_BIT);
  EXPECT_GE(props.compute_unit_count, 1u);
  EXPECT_GE(props.memory_bytes, props.max_alloc_bytes);
  EXPECT_GT(props.max_alloc_bytes, 0u);
  EXPECT_GE(props.alignment_bytes, 1u);
  EXPECT_FALSE(text_of(props.name).empty());
  EXPECT_FALSE(text_of(props.vendor).empty());
  EXPECT_THAT(text_of(props.driver), HasSubstr("OpenCL"));
}

TEST_F(XpuInstanceTest, Props_OfAnOlderCore_AreNotWrittenPastTheirSize) {
  bp_device_props props{};
  props.struct_size = offsetof(bp_device_props, memory_bytes);
  props.memory_bytes = 77;
  ASSERT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
  EXPECT_EQ(props.struct_size, offsetof(bp_device_props, memory_bytes));
  EXPECT_GE(props.compute_unit_count, 1u);
  EXPECT_EQ(props.memory_bytes, 77u);
}

TEST_F(XpuInstanceTest, ProfilingOff_HasNoTimingBand) {
  bp_device* device = nullptr;
  ASSERT_EQ(instance_->open(0, {{"profiling", "false"}}, &device), BP_OK);
  bp_device_props props{};
  props.struct_size = sizeof(props);
  ASSERT_EQ(plugin_.device->device_props(device, &props), BP_OK);
  EXPECT_EQ(props.features & BP_FEATURE_TIMING_BIT, 0u);
  const bp_event_args args{.struct_size = sizeof(args), .flags = BP_EVENT_TIMING_BIT};
  bp_event* event = nullptr;
  EXPECT_EQ(plugin_.stream->event_create(device, &args, &event), BP_UNSUPPORTED);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(plugin_.device->device_close(device), BP_OK);
}

TEST_F(XpuInstanceTest, TwoInstances_HaveReportsAndMemoryOfTheirOwn) {
  tests::RawInstance other(plugin_);
  ASSERT_EQ(other.status(), BP_OK);
  bp_device* other_device = nullptr;
  ASSERT_EQ(other.open(0, {}, &other_device), BP_OK);

  const uint64_t handle = alloc(64);
  instance_->host().clear();
  EXPECT_EQ(plugin_.memory->mem_free(other_device, handle), BP_INVALID_ARGUMENT);
  EXPECT_THAT(other.host().last_message(), HasSubstr("is not an allocation of this device"));
  EXPECT_TRUE(services().reports().empty());
  EXPECT_EQ(fill({handle, 0}, 64, 7, 1), BP_OK);

  EXPECT_EQ(plugin_.device->device_close(other_device), BP_OK);
  other.shutdown();
  EXPECT_EQ(read_bytes(handle, 64), std::vector<uint8_t>(64, 7));
  free(handle);
}

TEST_F(XpuInstanceTest, InitAfterShutdown_Works) {
  ASSERT_EQ(plugin_.device->device_close(device_), BP_OK);
  device_ = nullptr;
  instance_.emplace(plugin_);
  ASSERT_EQ(instance_->status(), BP_OK);
  ASSERT_EQ(instance_->open(0, {}, &device_), BP_OK);
  const uint64_t handle = alloc(16);
  EXPECT_EQ(fill({handle, 0}, 16, 0xAB, 1), BP_OK);
  EXPECT_EQ(read_bytes(handle, 16), std::vector<uint8_t>(16, 0xAB));
  free(handle);
}

TEST_F(XpuInstanceTest, DeviceClosedWithMemory_IsReleasedAndLogged) {
  const uint64_t handle = alloc(4096);
  void* ptr = nullptr;
  ASSERT_EQ(host_alloc(64, &ptr), BP_OK);
  const bp_map_args args{.struct_size = sizeof(args),
                         .flags = 0,
                         .mem = {handle, 0},
                         .bytes = 64,
                         .access = BP_MAP_READ_BIT,
                         .reserved = 0};
  ASSERT_EQ(plugin_.memory->mem_map(device_, &args, &ptr), BP_OK);
  ASSERT_EQ(plugin_.device->device_close(device_), BP_OK);
  device_ = nullptr;
  EXPECT_THAT(services().logged(),
              ::testing::Contains(
                  HasSubstr("1 allocations of 4096 bytes in all and 1 blocks of host memory")));
}

TEST_F(XpuInstanceTest, FiftyCycles_LeaveNoFilesAndNoThreads) {
  size_t files = 0;
  size_t threads = 0;
  for (int cycle = 0; cycle < 52; ++cycle) {
    tests::RawInstance instance(plugin_);
    ASSERT_EQ(instance.status(), BP_OK);
    bp_device* device = nullptr;
    ASSERT_EQ(instance.open(0, {}, &device), BP_OK);
    const bp_stream_args args{.struct_size = sizeof(args), .flags = 0};
    bp_stream* stream = nullptr;
    ASSERT_EQ(plugin_.stream->stream_create(device, &args, &stream), BP_OK);
    ASSERT_EQ(plugin_.stream->stream_host_call(
                  stream, [](void*, bp_status) {}, nullptr),
              BP_OK);
    ASSERT_EQ(plugin_.stream->stream_destroy(stream), BP_OK);
    ASSERT_EQ(plugin_.device->device_close(device), BP_OK);
    instance.shutdown();
    // The driver opens files and starts threads of its own at first use.
    if (cycle == 1) {
      files = open_file_count();
      threads = thread_count();
    }
  }
  EXPECT_EQ(open_file_count(), files);
  EXPECT_EQ(thread_count(), threads);
}

TEST_F(XpuInstanceTest, NullArguments_AreRefused) {
  EXPECT_EQ(plugin_.root->shutdown(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.device->device_count(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.device->device_open(instance_->get(), nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.device->device_close(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.device->device_props(device_, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_alloc(device_, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_free(nullptr, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_copy(device_, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_fill(device_, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->host_alloc(device_, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(host_alloc(1, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->host_free(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_map(device_, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.memory->mem_unmap(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->stream_create(device_, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->stream_destroy(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->stream_sync(nullptr, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->stream_query(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_create(device_, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_destroy(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_record(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_wait(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_sync(nullptr, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_query(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->mem_copy_async(nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->stream_host_call(nullptr, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.stream->event_elapsed(nullptr, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin_.kernel->kernel_list(device_, nullptr), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp::xpu_test
