// SPDX-License-Identifier: Apache-2.0
//
// Entry, instances, options, properties, memory and the list of kernels, through the raw tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <set>

#include "plugins/cpu/cpu_test_support.hpp"

namespace bp::cpu_test {
namespace {

using ::testing::HasSubstr;

uint64_t allocate(Device& device, uint64_t bytes, uint64_t alignment = 0) {
  bp_alloc_args args{};
  args.struct_size = sizeof(args);
  args.bytes = bytes;
  args.alignment_bytes = alignment;
  uint64_t handle = 0;
  EXPECT_EQ(plugin().memory->mem_alloc(device.get(), &args, &handle), BP_OK);
  return handle;
}

bp_status allocate_status(Device& device, uint64_t bytes, uint64_t alignment) {
  bp_alloc_args args{};
  args.struct_size = sizeof(args);
  args.bytes = bytes;
  args.alignment_bytes = alignment;
  uint64_t handle = 0;
  const bp_status status = plugin().memory->mem_alloc(device.get(), &args, &handle);
  EXPECT_EQ(handle, 0u);
  return status;
}

bp_status copy(Device& device, uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes) {
  return device.copy(tests::copy_args(kind, dst, src, bytes));
}

bp_status fill(Device& device, bp_mem dst, uint64_t bytes, uint64_t pattern, uint32_t width) {
  bp_fill_args args{};
  args.struct_size = sizeof(args);
  args.dst = dst;
  args.bytes = bytes;
  args.pattern = pattern;
  args.pattern_bytes = width;
  return plugin().memory->mem_fill(device.get(), &args);
}

TEST(CpuEntry, Tables_AnnounceWhatIsThere) {
  bp_plugin twin = plugin();
  EXPECT_NE(twin.root, nullptr);
  EXPECT_EQ(twin.stream, nullptr);
  EXPECT_EQ(twin.extension_count, 0u);
  EXPECT_EQ(twin.memory->flags, BP_FEATURE_FILL_BIT | BP_FEATURE_MAP_BIT);
  EXPECT_EQ(twin.memory->host_alloc, nullptr);
}

TEST(CpuInstance, TwoAtOnce_DoNotDisturbEachOther) {
  Device first;
  {
    Device second("1");
    EXPECT_EQ(second.props().compute_unit_count, 1u);
  }
  const Call call{"add",
                  {make_tensor(BP_DTYPE_F32, {2}, {1, 2}), make_tensor(BP_DTYPE_F32, {2}, {3, 4})},
                  make_output(BP_DTYPE_F32, {2})};
  EXPECT_EQ(run(first, call).status, BP_OK);
  EXPECT_EQ(call.output.values(), (Values{4, 6}));
}

TEST(CpuInstance, InitAfterShutdown_Works) {
  for (int round = 0; round < 3; ++round) {
    Device device;
    uint32_t count = 0;
    EXPECT_EQ(plugin().device->device_count(device.instance().get(), &count), BP_OK);
    EXPECT_EQ(count, 1u);
  }
}

TEST(CpuInstance, UnknownOption_IsRefusedByName) {
  const Instance instance(tests::OptionList{{"speed", "high"}});
  EXPECT_EQ(instance.status(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(instance.get(), nullptr);
  EXPECT_THAT(instance.host().last_message(), HasSubstr("'speed'"));
}

TEST(CpuDevice, IndexOutOfRange_IsRefused) {
  Instance instance;
  bp_device* device = nullptr;
  EXPECT_EQ(instance.open(1, {}, &device), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);
  EXPECT_THAT(instance.host().last_message(), HasSubstr("found 1"));
}

TEST(CpuDevice, BadOptions_AreRefusedByName) {
  Instance instance;
  bp_device* device = nullptr;
  for (const char* value : {"-1", "1025", "two", ""}) {
    EXPECT_EQ(instance.open(0, {{"threads", value}}, &device), BP_INVALID_ARGUMENT);
    EXPECT_THAT(instance.host().last_message(), HasSubstr("threads")) << value;
  }
  EXPECT_EQ(instance.open(0, {{"thread", "2"}}, &device), BP_INVALID_ARGUMENT);
  EXPECT_THAT(instance.host().last_message(), HasSubstr("'thread'"));
  EXPECT_EQ(device, nullptr);
}

TEST(CpuDevice, Props_SayInlineHostMemory) {
  const Device device("3");
  const bp_device_props props = device.props();
  EXPECT_EQ(props.execution, BP_EXECUTION_INLINE);
  EXPECT_EQ(props.flags,
            BP_DEVICE_CONCURRENT_BIT | BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT);
  EXPECT_EQ(props.features, BP_FEATURE_FILL_BIT | BP_FEATURE_MAP_BIT);
  EXPECT_EQ(props.compute_unit_count, 3u);
  EXPECT_EQ(props.alignment_bytes, 64u);
  EXPECT_GT(props.memory_bytes, uint64_t{1} << 20);
  EXPECT_GT(props.name.len, 0u);
  EXPECT_THAT(std::string(props.driver.ptr, props.driver.len), HasSubstr("oneDNN 3."));
}

TEST(CpuDevice, DefaultThreads_AreTheCoresOfTheProcess) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  const Device device;
  EXPECT_EQ(device.props().compute_unit_count, static_cast<uint32_t>(CPU_COUNT(&cores)));
}

TEST(CpuDevice, ShorterPropsOfAnOlderCore_AreNotOverrun) {
  const Device device;
  bp_device_props props{};
  props.struct_size = offsetof(bp_device_props, memory_bytes);
  props.memory_bytes = 42;
  EXPECT_EQ(plugin().device->device_props(device.get(), &props), BP_OK);
  EXPECT_EQ(props.execution, BP_EXECUTION_INLINE);
  EXPECT_EQ(props.memory_bytes, 42u);
  EXPECT_EQ(props.struct_size, offsetof(bp_device_props, memory_bytes));
}

TEST(CpuMemory, Alloc_IsAlignedAndFreedOnce) {
  Device device;
  const uint64_t handle = allocate(device, 3);
  EXPECT_EQ(handle % 64, 0u);
  const uint64_t aligned = allocate(device, 100, 4096);
  EXPECT_EQ(aligned % 4096, 0u);
  EXPECT_EQ(plugin().memory->mem_free(device.get(), handle), BP_OK);
  EXPECT_EQ(plugin().memory->mem_free(device.get(), aligned), BP_OK);
  EXPECT_EQ(plugin().memory->mem_free(device.get(), handle), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("is not allocated"));
  EXPECT_EQ(plugin().memory->mem_free(device.get(), 0), BP_INVALID_ARGUMENT);
}

TEST(CpuMemory, ImpossibleAllocations_AreRefused) {
  Device device;
  EXPECT_EQ(allocate_status(device, UINT64_MAX, 0), BP_OUT_OF_MEMORY);
  EXPECT_EQ(allocate_status(device, device.props().memory_bytes + 1, 0), BP_OUT_OF_MEMORY);
  EXPECT_THAT(device.host().last_message(), HasSubstr("bytes of host memory"));
  EXPECT_EQ(allocate_status(device, 0, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(allocate_status(device, 8, 48), BP_INVALID_ARGUMENT);
}

TEST(CpuMemory, Copy_MovesBytesAndChecksBothEnds) {
  Device device;
  const uint64_t a = allocate(device, 16);
  const uint64_t b = allocate(device, 16);
  const char text[17] = "0123456789abcdef";
  char back[17] = {};
  EXPECT_EQ(copy(device, BP_COPY_HOST_TO_DEVICE, {a, 0}, tests::host_mem(text), 16), BP_OK);
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_DEVICE, {b, 4}, {a, 0}, 12), BP_OK);
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_HOST, tests::host_mem(back), {b, 4}, 12), BP_OK);
  EXPECT_STREQ(back, "0123456789ab");
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_HOST, tests::host_mem(back), {b, 0}, 0), BP_OK);
  EXPECT_EQ(copy(device, BP_COPY_HOST_TO_DEVICE, {a, 1}, tests::host_mem(text), 16),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_HOST, tests::host_mem(back), {a, 17}, 1),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_HOST, tests::host_mem(back), {a, UINT64_MAX}, 2),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(device, BP_COPY_DEVICE_TO_HOST, tests::host_mem(back), {0, 0}, 2),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(device, 9, {a, 0}, {b, 0}, 2), BP_UNSUPPORTED);
  plugin().memory->mem_free(device.get(), a);
  plugin().memory->mem_free(device.get(), b);
}

TEST(CpuMemory, Fill_RepeatsThePattern) {
  Device device;
  const uint64_t memory = allocate(device, 16);
  const auto* bytes = reinterpret_cast<const uint8_t*>(memory);
  const auto* words = reinterpret_cast<const uint32_t*>(memory);
  EXPECT_EQ(fill(device, {memory, 0}, 16, 0x1122334455667788, 4), BP_OK);
  EXPECT_EQ(words[0], 0x55667788u);
  EXPECT_EQ(words[3], 0x55667788u);
  EXPECT_EQ(fill(device, {memory, 5}, 2, 0xab, 1), BP_OK);
  EXPECT_EQ(bytes[5], 0xab);
  EXPECT_EQ(bytes[7], 0x55);
  EXPECT_EQ(fill(device, {memory, 8}, 8, 0x0102030405060708, 8), BP_OK);
  EXPECT_EQ(bytes[8], 8);
  EXPECT_EQ(fill(device, {memory, 0}, 0, 1, 2), BP_OK);
  EXPECT_EQ(fill(device, {memory, 0}, 15, 0, 2), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill(device, {memory, 0}, 15, 0, 3), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill(device, {memory, 8}, 16, 0, 8), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill(device, {memory, 0}, 16, 0, 0), BP_INVALID_ARGUMENT);
  plugin().memory->mem_free(device.get(), memory);
}

TEST(CpuMemory, Map_GivesTheMemoryItself) {
  Device device;
  const uint64_t memory = allocate(device, 64);
  bp_map_args args{};
  args.struct_size = sizeof(args);
  args.mem = {memory, 8};
  args.bytes = 56;
  args.access = BP_MAP_READ_BIT | BP_MAP_WRITE_BIT;
  void* ptr = nullptr;
  EXPECT_EQ(plugin().memory->mem_map(device.get(), &args, &ptr), BP_OK);
  EXPECT_EQ(reinterpret_cast<uint64_t>(ptr), memory + 8);
  EXPECT_EQ(plugin().memory->mem_unmap(device.get(), ptr), BP_OK);
  EXPECT_EQ(plugin().memory->mem_unmap(device.get(), ptr), BP_INVALID_ARGUMENT);
  args.bytes = 57;
  EXPECT_EQ(plugin().memory->mem_map(device.get(), &args, &ptr), BP_INVALID_ARGUMENT);
  plugin().memory->mem_free(device.get(), memory);
}

TEST(CpuKernels, List_CoversTheOperatorsWithUniqueNames) {
  const Device device;
  std::set<std::string> names;
  std::set<std::string> operators;
  for (const bp_kernel* kernel : device.kernels()) {
    EXPECT_TRUE(names.insert({kernel->name.ptr, kernel->name.len}).second);
    operators.insert({kernel->op.ptr, kernel->op.len});
    EXPECT_NE(kernel->launch, nullptr);
    EXPECT_EQ(kernel->plan == nullptr, kernel->plan_free == nullptr);
    EXPECT_EQ(kernel->state_create == nullptr, kernel->state_destroy == nullptr);
  }
  // Those of files in kernels/, and some of those that come from expressions.
  EXPECT_THAT(operators, ::testing::IsSupersetOf({"add", "where", "gelu", "is_nan", "reduce_max",
                                                  "reduce_sum", "softmax", "batch_norm", "max_pool",
                                                  "conv", "matmul", "gemm", "cast", "identity",
                                                  "gather", "non_zero", "resize"}));
}

TEST(CpuKernels, LaunchOnAForeignStream_IsRefused) {
  Device device;
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = device.get();
  const bp_tensor tensors[3]{};
  args.tensors = tensors;
  args.stream = reinterpret_cast<bp_stream*>(uint64_t{64});
  EXPECT_EQ(device.kernel("add_loop")->launch(&args), BP_INVALID_ARGUMENT);
  EXPECT_THAT(device.host().last_message(), HasSubstr("no streams"));
}

}  // namespace
}  // namespace bp::cpu_test
