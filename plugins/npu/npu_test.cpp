// SPDX-License-Identifier: Apache-2.0
//
// The plugin through its raw tables: entry and instances, options, the address space, memory that
// runs out, copies, fills, pinned memory, and that threads and memory end with their owner.
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "plugins/npu/npu_harness_test.hpp"

namespace bp::npu_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kAllFeatures =
    BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT;

size_t thread_count() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count;
}

std::set<std::string> operators_of(const Device& device) {
  bp_kernel_list list{};
  list.struct_size = sizeof list;
  EXPECT_EQ(plugin().kernel->kernel_list(device.get(), &list), BP_OK);
  std::set<std::string> names;
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    names.emplace(sdk::view(list.kernels[i]->op));
  }
  return names;
}

TEST(NpuEntry, FreshCore_GivesAllTables) {
  EXPECT_NE(plugin().root, nullptr);
  EXPECT_NE(plugin().device, nullptr);
  EXPECT_NE(plugin().memory, nullptr);
  EXPECT_NE(plugin().stream, nullptr);
  EXPECT_NE(plugin().kernel, nullptr);
  EXPECT_EQ(plugin().flags & BP_PLUGIN_SINGLE_INSTANCE_BIT, 0u);
  EXPECT_EQ(plugin().memory->flags, BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT);
  EXPECT_EQ(plugin().memory->mem_map, nullptr);
}

TEST(NpuInstance, NullArguments_AreRefusedWithWords) {
  Instance instance;
  EXPECT_EQ(plugin().root->init(tests::RecordingHost::api(), &instance.host(), nullptr, nullptr),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(instance.host().last_message(), HasSubstr("init"));
  EXPECT_EQ(plugin().root->shutdown(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().device->device_count(instance.get(), nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().device->device_open(instance.get(), nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().device->device_close(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().memory->mem_alloc(nullptr, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().stream->stream_sync(nullptr, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(plugin().stream->event_query(nullptr), BP_INVALID_ARGUMENT);
}

TEST(NpuInstance, DevicesOption_FixesTheCount) {
  for (const uint32_t wanted : {0u, 1u, 16u}) {
    const Instance instance(OptionList{{"devices", std::to_string(wanted)}});
    ASSERT_EQ(instance.status(), BP_OK);
    uint32_t count = 99;
    EXPECT_EQ(plugin().device->device_count(instance.get(), &count), BP_OK);
    EXPECT_EQ(count, wanted);
  }
}

TEST(NpuInstance, IndexOutOfRange_IsRefused) {
  const Instance instance(OptionList{{"devices", "2"}});
  bp_device* device = nullptr;
  EXPECT_EQ(instance.open(2, {}, &device), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(instance.host().last_message(), "device_open: no device 2; there are 2");
}

TEST(NpuInstance, TwoAtOnce_AreIndependent) {
  const Device first;
  const Device second(OptionList{{"memory", "4096"}});
  const uint64_t handle = first.alloc(8192);
  uint64_t unused = 0;
  EXPECT_EQ(second.try_alloc(8192, &unused), BP_OUT_OF_MEMORY);
  EXPECT_THAT(second.host().reports(), SizeIs(1));
  EXPECT_THAT(first.host().reports(), SizeIs(0));
  first.free(handle);
}

TEST(NpuInstance, InitAfterShutdown_Works) {
  for (int i = 0; i < 3; ++i) {
    const Device device;
    const uint64_t handle = device.alloc(4);
    device.upload<int32_t>({handle, 0}, {i});
    EXPECT_THAT(device.download<int32_t>({handle, 0}, 1), ElementsAre(i));
    device.free(handle);
  }
}

TEST(NpuInstance, HundredCycles_LeaveNoThreads) {
  std::thread([] {}).join();  // ThreadSanitizer starts one of its own with the first
  const size_t before = thread_count();
  for (int i = 0; i < 100; ++i) {
    const Device device(OptionList{{"memory", "65536"}});
    const Stream first(device);
    const Stream second(device);
    EXPECT_EQ(first.sync(), BP_OK);
  }
  // A joined thread may still be listed for a moment.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (thread_count() > before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(thread_count(), before);
}

TEST(NpuOptions, None_GiveTheDefaults) {
  const Device device(OptionList{});
  const bp_device_props props = device.props();
  EXPECT_EQ(props.features, kAllFeatures);
  EXPECT_EQ(props.flags, BP_DEVICE_CONCURRENT_BIT);
  EXPECT_EQ(props.execution, BP_EXECUTION_QUEUED);
  EXPECT_EQ(props.memory_bytes, 256 * kMiB);
  EXPECT_EQ(sdk::view(props.name), "simulated NPU");
  EXPECT_THAT(operators_of(device),
              ::testing::IsSupersetOf({"add", "cast", "conv", "identity", "matmul", "max_pool",
                                       "non_zero", "reduce_sum", "relu", "resize", "top_k"}));
}

TEST(NpuOptions, SwitchedOffFeature_IsNotOfferedAndRefused) {
  const Device device(OptionList{{"async", "false"},
                                 {"fill", "false"},
                                 {"pinned", "false"},
                                 {"timing", "false"},
                                 {"concurrent", "false"}});
  EXPECT_EQ(device.props().features, 0u);
  EXPECT_EQ(device.props().flags, 0u);
  bp_stream* stream = nullptr;
  const bp_stream_args args{sizeof args, 0};
  EXPECT_EQ(plugin().stream->stream_create(device.get(), &args, &stream), BP_UNSUPPORTED);
  EXPECT_EQ(stream, nullptr);
  void* ptr = nullptr;
  const bp_host_alloc_args host{sizeof host, 0, 64};
  EXPECT_EQ(plugin().memory->host_alloc(device.get(), &host, &ptr), BP_UNSUPPORTED);
  const bp_fill_args fill{sizeof fill, 0, {0, 0}, 0, 0, 1, 0, nullptr};
  EXPECT_EQ(plugin().memory->mem_fill(device.get(), &fill), BP_UNSUPPORTED);
  EXPECT_THAT(device.host().last_message(), HasSubstr("switched"));
}

TEST(NpuOptions, Kernels_TakesOperatorsAway) {
  const size_t count = operators_of(Device(OptionList{})).size();
  const Device device(OptionList{{"kernels", "conv,gather"}});
  EXPECT_THAT(operators_of(device), SizeIs(count - 2));
  EXPECT_THAT(operators_of(device), ::testing::Not(Contains("conv")));
  EXPECT_THAT(operators_of(device), Contains("relu"));
}

TEST(NpuOptions, BadValues_AreRefusedByName) {
  const Instance instance;
  const std::vector<std::pair<OptionList, std::string>> cases = {
      {{{"kernels", "conv,convv"}}, "'convv'"},
      {{{"kernels", "gemm"}}, "'gemm'"},
      {{{"kernels", ",conv"}}, "''"},
      {{{"memory", "much"}}, "option memory: 'much'"},
      {{{"launch_latency_ns", "1.5"}}, "option launch_latency_ns: '1.5'"},
  };
  for (const auto& [options, words] : cases) {
    bp_device* device = nullptr;
    EXPECT_EQ(instance.open(0, options, &device), BP_INVALID_ARGUMENT) << words;
    EXPECT_EQ(device, nullptr);
    EXPECT_THAT(instance.host().last_message(), HasSubstr(words));
  }
  const Instance refused(OptionList{{"devices", "few"}});
  EXPECT_EQ(refused.status(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(refused.get(), nullptr);
}

TEST(NpuOptions, ShorterStructOfAnOlderCore_MeansNoOptions) {
  const Instance instance;
  bp_open_args args{};
  args.struct_size = offsetof(bp_open_args, option_count);
  args.option_count = 7;  // Beyond what the caller says there is.
  bp_device* device = nullptr;
  ASSERT_EQ(plugin().device->device_open(instance.get(), &args, &device), BP_OK);
  EXPECT_EQ(plugin().device->device_close(device), BP_OK);
}

TEST(NpuProps, ShorterStructOfAnOlderCore_IsNotOverrun) {
  const Device device;
  bp_device_props props{};
  props.struct_size = offsetof(bp_device_props, memory_bytes);
  EXPECT_EQ(plugin().device->device_props(device.get(), &props), BP_OK);
  EXPECT_EQ(props.features, kAllFeatures);
  EXPECT_EQ(props.memory_bytes, 0u);
  EXPECT_EQ(props.struct_size, offsetof(bp_device_props, memory_bytes));
}

TEST(NpuMemory, HostPointerAsDeviceMemory_IsRefusedWithWords) {
  const Device device;
  std::vector<int> here(4), there(4);
  EXPECT_EQ(device.copy(copy_args(BP_COPY_HOST_TO_DEVICE, host_mem(there.data()),
                                  host_mem(here.data()), 16)),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("no NPU address"));
  EXPECT_EQ(plugin().memory->mem_free(device.get(), host_mem(here.data()).handle),
            BP_INVALID_ARGUMENT);
}

TEST(NpuMemory, DeviceAddressAsHostEnd_IsRefusedWithWords) {
  const Device device;
  const uint64_t a = device.alloc(64);
  const uint64_t b = device.alloc(64);
  for (const uint32_t kind : {BP_COPY_HOST_TO_DEVICE, BP_COPY_DEVICE_TO_HOST}) {
    EXPECT_EQ(device.copy(copy_args(kind, {a, 0}, {b, 0}, 16)), BP_INVALID_ARGUMENT);
    EXPECT_THAT(device.host().last_message(), HasSubstr("host end is NPU address"));
  }
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_HOST, {0, 0}, {b, 0}, 16)),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("NULL"));
  device.free(a);
  device.free(b);
}

TEST(NpuMemory, RangeBeyondItsAllocation_IsRefused) {
  const Device device;
  const uint64_t handle = device.alloc(100);
  std::vector<std::byte> host(200);
  const auto upload = [&](uint64_t offset, uint64_t bytes) {
    return device.copy(
        copy_args(BP_COPY_HOST_TO_DEVICE, {handle, offset}, host_mem(host.data()), bytes));
  };
  EXPECT_EQ(upload(0, 100), BP_OK);
  EXPECT_EQ(upload(99, 1), BP_OK);
  EXPECT_EQ(upload(100, 0), BP_OK);
  EXPECT_EQ(upload(0, 101), BP_INVALID_ARGUMENT);
  EXPECT_EQ(upload(100, 1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(upload(1, ~uint64_t{0}), BP_INVALID_ARGUMENT);
  EXPECT_EQ(upload(~uint64_t{0}, 2), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("reach beyond the 100 bytes"));
  device.free(handle);
}

TEST(NpuMemory, HandlesThatAreNotLive_AreRefused) {
  const Device device;
  const uint64_t stale = device.alloc(4096);
  device.free(stale);
  const uint64_t fresh = device.alloc(4096);
  EXPECT_NE(stale, fresh);  // Same place, other handle.
  std::vector<std::byte> host(16);
  for (const uint64_t handle : {stale, fresh + 256, fresh ^ (uint64_t{1} << 48)}) {
    EXPECT_EQ(
        device.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(host.data()), {handle, 0}, 16)),
        BP_INVALID_ARGUMENT);
    EXPECT_THAT(device.host().last_message(), HasSubstr("is not allocated on this device"));
    EXPECT_EQ(plugin().memory->mem_free(device.get(), handle), BP_INVALID_ARGUMENT);
  }
  device.free(fresh);
}

TEST(NpuMemory, HandleOfAnotherDevice_IsRefused) {
  const Instance instance(OptionList{{"devices", "2"}});
  bp_device* devices[2] = {};
  uint64_t handles[2] = {};
  const bp_alloc_args args{sizeof args, 0, 64, 0, BP_USAGE_IO, 0};
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(instance.open(i, kSmall, &devices[i]), BP_OK);
    ASSERT_EQ(plugin().memory->mem_alloc(devices[i], &args, &handles[i]), BP_OK);
  }
  EXPECT_EQ(plugin().memory->mem_free(devices[0], handles[1]), BP_INVALID_ARGUMENT);
  EXPECT_THAT(instance.host().last_message(), HasSubstr("another device's"));
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plugin().memory->mem_free(devices[i], handles[i]), BP_OK);
    EXPECT_EQ(plugin().device->device_close(devices[i]), BP_OK);
  }
}

TEST(NpuMemory, MoreThanThereIs_IsOutOfMemoryAndThenUsable) {
  const Device device(OptionList{{"memory", std::to_string(kMiB)}});
  const uint64_t big = device.alloc(kMiB);
  uint64_t handle = 0;
  EXPECT_EQ(device.try_alloc(1, &handle), BP_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 0u);
  EXPECT_EQ(device.host().last_message(),
            "mem_alloc: no free piece of 1 bytes; 1048576 of 1048576 are in use");
  device.free(big);
  for (const uint64_t bytes : {kMiB + 1, ~uint64_t{0}, ~uint64_t{0} - 255}) {
    EXPECT_EQ(device.try_alloc(bytes, &handle), BP_OUT_OF_MEMORY) << bytes;
  }
  device.free(device.alloc(kMiB));
}

TEST(NpuMemory, FreedPieces_AreUsedAgain) {
  const Device device(OptionList{{"memory", "4096"}});
  std::vector<uint64_t> handles;
  handles.reserve(4);
  for (int i = 0; i < 4; ++i) handles.push_back(device.alloc(1024));
  device.free(handles[1]);
  uint64_t handle = 0;
  EXPECT_EQ(device.try_alloc(1025, &handle), BP_OUT_OF_MEMORY);
  device.free(handles[2]);
  handles[1] = device.alloc(2048);  // Needs the two pieces to have become one.
  for (const size_t i : {0u, 1u, 3u}) device.free(handles[i]);
  device.free(device.alloc(4096));
}

TEST(NpuMemory, Allocations_NeverShareBytesAndKeepTheirAlignment) {
  const Device device(OptionList{{"memory", "65536"}});
  std::vector<uint64_t> handles;
  for (uint8_t i = 0; i < 20; ++i) {
    uint64_t handle = 0;
    const uint64_t alignment = uint64_t{1} << (i % 13);
    ASSERT_EQ(device.try_alloc(100 + i, &handle, alignment), BP_OK);
    EXPECT_EQ(handle % alignment, 0u);
    EXPECT_EQ(handle % 256, 0u);
    device.upload<uint8_t>({handle, 0}, std::vector<uint8_t>(100u + i, i));
    handles.push_back(handle);
  }
  for (uint8_t i = 0; i < 20; ++i) {
    EXPECT_THAT(device.download<uint8_t>({handles[i], 0}, 100u + i), Each(i));
    device.free(handles[i]);
  }
}

TEST(NpuMemory, BadAllocations_AreRefused) {
  const Device device;
  uint64_t handle = 0;
  EXPECT_EQ(device.try_alloc(0, &handle), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device.try_alloc(64, &handle, 48), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("aligned to 48"));
  EXPECT_EQ(device.try_alloc(64, &handle, uint64_t{1} << 37), BP_INVALID_ARGUMENT);
}

TEST(NpuMemory, LeftAtClose_IsLogged) {
  Instance instance;
  bp_device* device = nullptr;
  ASSERT_EQ(instance.open(0, kSmall, &device), BP_OK);
  uint64_t handle = 0;
  const bp_alloc_args args{sizeof args, 0, 640, 0, BP_USAGE_IO, 0};
  ASSERT_EQ(plugin().memory->mem_alloc(device, &args, &handle), BP_OK);
  EXPECT_EQ(plugin().device->device_close(device), BP_OK);
  EXPECT_THAT(instance.host().logged(), ElementsAre("npu: bytes left at close: 640"));
}

TEST(NpuCopy, RoundTripThroughTheDevice_KeepsTheBytes) {
  const Device device;
  const uint64_t a = device.alloc(64);
  const uint64_t b = device.alloc(64);
  device.upload<int32_t>({a, 4}, {1, 2, 3});
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_DEVICE, {b, 8}, {a, 4}, 12)), BP_OK);
  EXPECT_THAT(device.download<int32_t>({b, 8}, 3), ElementsAre(1, 2, 3));
  device.free(a);
  device.free(b);
}

TEST(NpuCopy, OverlapAndUnknownKind_AreRefused) {
  const Device device;
  const uint64_t handle = device.alloc(64);
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_DEVICE, {handle, 0}, {handle, 8}, 16)),
            BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("overlap"));
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_DEVICE, {handle, 0}, {handle, 16}, 16)), BP_OK);
  EXPECT_EQ(device.copy(copy_args(7, {handle, 0}, {handle, 16}, 16)), BP_UNSUPPORTED);
  device.free(handle);
}

TEST(NpuFill, EachPatternSize_RepeatsItsLowBytes) {
  const Device device;
  const uint64_t handle = device.alloc(16);
  for (const uint32_t size : {1u, 2u, 4u, 8u}) {
    const bp_fill_args args{sizeof args, 0, {handle, 0}, 16, 0x0807060504030201, size, 0, nullptr};
    EXPECT_EQ(plugin().memory->mem_fill(device.get(), &args), BP_OK);
    const std::vector<uint8_t> bytes = device.download<uint8_t>({handle, 0}, 16);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(bytes[i], i % size + 1);
  }
  const bp_fill_args three{sizeof three, 0, {handle, 0}, 15, 1, 3, 0, nullptr};
  EXPECT_EQ(plugin().memory->mem_fill(device.get(), &three), BP_INVALID_ARGUMENT);
  const bp_fill_args uneven{sizeof uneven, 0, {handle, 0}, 15, 1, 2, 0, nullptr};
  EXPECT_EQ(plugin().memory->mem_fill(device.get(), &uneven), BP_INVALID_ARGUMENT);
  device.free(handle);
}

TEST(NpuPinned, Memory_IsAlignedAndCopies) {
  const Device device;
  const bp_host_alloc_args args{sizeof args, 0, 100};
  void* ptr = nullptr;
  ASSERT_EQ(plugin().memory->host_alloc(device.get(), &args, &ptr), BP_OK);
  EXPECT_EQ(reinterpret_cast<uint64_t>(ptr) % 64, 0u);
  const uint64_t handle = device.alloc(4);
  device.upload<int32_t>({handle, 0}, {42});
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(ptr), {handle, 0}, 4)), BP_OK);
  EXPECT_EQ(*static_cast<int32_t*>(ptr), 42);
  EXPECT_EQ(plugin().memory->host_free(device.get(), ptr), BP_OK);
  device.free(handle);
}

TEST(NpuThreads, ManyCallers_ShareOneDevice) {
  const Device device;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&device, t] {
      for (int i = 0; i < 50; ++i) {
        const uint64_t handle = device.alloc(64);
        device.upload<int32_t>({handle, 0}, {t, i});
        EXPECT_THAT(device.download<int32_t>({handle, 0}, 2), ElementsAre(t, i));
        device.free(handle);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace bp::npu_test
