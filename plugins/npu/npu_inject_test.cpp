// SPDX-License-Identifier: Apache-2.0
//
// The extension bp.test_inject through the raw tables: which call fails, what is counted, and what
// a lost device still does.
#include "backplane/sdk/test_inject.h"
#include "plugins/npu/npu_harness_test.hpp"

namespace bp::npu_test {
namespace {

using ::testing::HasSubstr;

const bp_test_inject_api& table() {
  const bp_plugin& tables = plugin();
  for (uint64_t i = 0; i < tables.extension_count; ++i) {
    const bp_extension& extension = *tables.extensions[i];
    if (sdk::view(extension.name) == BP_TEST_INJECT_NAME) {
      return *static_cast<const bp_test_inject_api*>(extension.table);
    }
  }
  throw std::runtime_error("no " BP_TEST_INJECT_NAME);
}

bp_status arm(const Device& device, uint32_t kind, uint64_t nth, bp_status status = BP_OK) {
  const bp_inject_args args{sizeof args, 0, kind, status, nth};
  return table().inject_arm(device.instance().get(), &args);
}

bp_inject_info counts(const Device& device) {
  bp_inject_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(table().inject_read(device.instance().get(), &info), BP_OK);
  return info;
}

TEST(NpuInject, Extension_IsVersionOneWithAWholeTable) {
  ASSERT_EQ(plugin().extension_count, 1u);
  EXPECT_EQ(plugin().extensions[0]->version, BP_TEST_INJECT_VERSION);
  EXPECT_EQ(table().struct_size, sizeof(bp_test_inject_api));
}

TEST(NpuInject, FailCall_FailsThatCallAloneWithTheStatusAndWords) {
  const Device device;
  uint64_t handle = 0;
  ASSERT_EQ(arm(device, BP_INJECT_FAIL_CALL, 2, BP_OUT_OF_MEMORY), BP_OK);
  const uint64_t first = device.alloc(16);
  EXPECT_EQ(device.try_alloc(16, &handle), BP_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 0u);
  EXPECT_THAT(device.host().last_message(), HasSubstr(BP_TEST_INJECT_NAME));
  device.free(device.alloc(16));
  EXPECT_EQ(counts(device).call_count, 3u);
  EXPECT_EQ(counts(device).failed_count, 1u);
  device.free(first);
}

TEST(NpuInject, FailFrom_FailsAllLaterCallsUntilDisarmed_ButNoFree) {
  const Device device;
  const uint64_t before = device.alloc(16);
  uint64_t handle = 0;
  ASSERT_EQ(arm(device, BP_INJECT_FAIL_FROM, 1), BP_OK);
  EXPECT_EQ(device.try_alloc(16, &handle), BP_INTERNAL);
  EXPECT_EQ(device.try_alloc(16, &handle), BP_INTERNAL);
  device.free(before);
  EXPECT_EQ(counts(device).failed_count, 2u);
  ASSERT_EQ(arm(device, BP_INJECT_NONE, 0), BP_OK);
  device.free(device.alloc(16));
  EXPECT_EQ(counts(device).call_count, 0u);  // nothing is counted while nothing is armed
}

TEST(NpuInject, FailCall_InQueuedWork_BreaksTheStreamAlone) {
  const Device device;
  const Stream stream(device);
  const uint64_t handle = device.alloc(4);
  const int32_t value = 7;
  // Call 1 pushes the copy, call 2 runs it.
  ASSERT_EQ(arm(device, BP_INJECT_FAIL_CALL, 2), BP_OK);
  const bp_copy_args args =
      copy_args(BP_COPY_HOST_TO_DEVICE, {handle, 0}, host_mem(&value), sizeof value);
  EXPECT_EQ(stream.copy(args), BP_OK);
  EXPECT_EQ(stream.sync(), BP_INTERNAL);
  EXPECT_EQ(stream.copy(args), BP_POISONED);
  const Stream other(device);
  EXPECT_EQ(other.copy(args), BP_OK);
  EXPECT_EQ(other.sync(), BP_OK);
  device.free(handle);
}

TEST(NpuInject, LoseDevice_EverythingButGivingBackAnswersDeviceLost) {
  const Device device;
  Stream stream(device);
  Stream busy(device);
  Event event(device);
  Gate gate(busy);
  const uint64_t handle = device.alloc(16);
  EXPECT_EQ(event.record(busy), BP_OK);
  EXPECT_EQ(event.let_wait(stream), BP_OK);
  uint64_t other = 0;
  ASSERT_EQ(arm(device, BP_INJECT_LOSE_DEVICE, 1), BP_OK);
  EXPECT_EQ(device.try_alloc(16, &other), BP_DEVICE_LOST);
  ASSERT_EQ(arm(device, BP_INJECT_NONE, 0), BP_OK);  // a lost device stays lost
  EXPECT_EQ(device.try_alloc(16, &other), BP_DEVICE_LOST);
  EXPECT_EQ(device.copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(&other), {handle, 0}, 8)),
            BP_DEVICE_LOST);
  // Work is pending, yet no wait lasts.
  EXPECT_EQ(busy.sync(), BP_DEVICE_LOST);
  EXPECT_EQ(stream.query(), BP_DEVICE_LOST);
  EXPECT_EQ(event.sync(), BP_DEVICE_LOST);
  EXPECT_EQ(event.record(stream), BP_DEVICE_LOST);
  const bp_stream_args args{sizeof args, 0};
  bp_stream* none = nullptr;
  EXPECT_EQ(plugin().stream->stream_create(device.get(), &args, &none), BP_DEVICE_LOST);
  EXPECT_EQ(none, nullptr);
  device.free(handle);
  event.destroy();
  gate.release();
  stream.destroy();
  busy.destroy();
}

TEST(NpuInject, Options_ArmFromTheFirstOpen) {
  const Instance instance({{"inject", "fail_call"}, {"inject_nth", "1"}, {"devices", "2"}});
  ASSERT_EQ(instance.status(), BP_OK);
  bp_device* device = nullptr;
  EXPECT_EQ(instance.open(0, kSmall, &device), BP_INTERNAL);
  EXPECT_EQ(device, nullptr);
  ASSERT_EQ(instance.open(0, kSmall, &device), BP_OK) << instance.host().last_message();
  EXPECT_EQ(plugin().device->device_close(device), BP_OK);
}

TEST(NpuInject, BadArguments_AreRefused) {
  const Device device;
  bp_inject_args args{sizeof args, 0, BP_INJECT_FAIL_CALL, BP_OK, 0};
  bp_inject_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(table().inject_arm(device.instance().get(), &args), BP_INVALID_ARGUMENT);
  EXPECT_EQ(table().inject_arm(nullptr, &args), BP_INVALID_ARGUMENT);
  EXPECT_EQ(table().inject_arm(device.instance().get(), nullptr), BP_INVALID_ARGUMENT);
  args.kind = BP_INJECT_LOSE_DEVICE + 1;
  EXPECT_EQ(table().inject_arm(device.instance().get(), &args), BP_UNSUPPORTED);
  EXPECT_EQ(table().inject_read(nullptr, &info), BP_INVALID_ARGUMENT);
  EXPECT_EQ(table().inject_read(device.instance().get(), nullptr), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp::npu_test
