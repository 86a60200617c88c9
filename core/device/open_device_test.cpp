// SPDX-License-Identifier: Apache-2.0
//
// Opening devices of the fake: what the slots hold, each defect of props, and that a device which
// is refused is closed again.
#include "core/device/open_device.hpp"

#include <gmock/gmock.h>

#include <cstring>

#include "core/device/kernel_list.hpp"
#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  Devices() : set_(load()) {}
  PluginSet load() {
    tree_.add("good");
    LoadOptions options = tree_.options();
    options.plugin_options = {{"good.devices", "2"}, {"good.memory", "1MiB"}};
    return load_plugins(options);
  }
  Result<DeviceTable> open(const std::vector<OptionSetting>& options, uint32_t index = 0) {
    return open_device(*set_.plugins.at(0), index, options);
  }
  PluginTree tree_;
  PluginSet set_;
};

std::string text(bp_str value) { return {value.ptr, value.len}; }

TEST_F(Devices, OpenDevice_GoodDevice_FillsSlotsAndMasksProps) {
  const auto table = open({}, 1);
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_NE(table->device, nullptr);
  EXPECT_EQ(table->props.struct_size, sizeof(bp_device_props));
  EXPECT_EQ(table->props.flags, BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT);
  EXPECT_EQ(table->props.features, 0u);
  EXPECT_EQ(table->props.execution, BP_EXECUTION_QUEUED);
  EXPECT_EQ(table->props.memory_bytes, 1u << 20);
  EXPECT_EQ(text(table->props.name), "fake accelerator");
  EXPECT_NE(table->memory.mem_alloc, nullptr);
  EXPECT_EQ(table->memory.mem_fill, nullptr);
  EXPECT_NE(table->kernel.kernel_list, nullptr);
  EXPECT_EQ(table->host, HostContext::api());
  EXPECT_EQ(table->host_ctx, &set_.plugins[0]->host());
  EXPECT_EQ(table->device_close(), BP_OK);
}

TEST_F(Devices, OpenDevice_OwnOptions_ComeOnTopOfThePluginsOnes) {
  const auto table = open({{"memory", "2MiB"}, {"inline", "true"}, {"host_memory", "false"}});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->props.memory_bytes, 2u << 20);
  EXPECT_EQ(table->props.execution, BP_EXECUTION_INLINE);
  EXPECT_EQ(table->props.flags, BP_DEVICE_ADDRESS_BIT);
  EXPECT_EQ(table->device_close(), BP_OK);
}

TEST_F(Devices, OpenDevice_BadArguments_AreNamed) {
  EXPECT_EQ(open({}, 2).status().to_string(),
            "INVALID_ARGUMENT: there is no device good:2: the plugin has 2");
  EXPECT_THAT(open({{"memori", "1"}}).status().message(), HasSubstr("did you mean 'memory'?"));
  EXPECT_THAT(open({{"devices", "1"}}).status().message(),
              HasSubstr("'good.devices' is for the plugin"));
  EXPECT_THAT(open({{"memory", "lots"}}).status().message(), HasSubstr("option 'good.memory'"));
}

TEST_F(Devices, OpenDevice_EachFault_IsRefusedAndTheDeviceClosed) {
  const std::pair<const char*, const char*> faults[] = {
      {"open_fails",
       "UNAVAILABLE: good:0: device_open: somebody else holds it (UNAVAILABLE, status 3)"},
      {"open_gives_nothing",
       "INTERNAL: good:0: device_open answered OK and NULL (INTERNAL, status 14)"},
      {"props_fail",
       "DEVICE_LOST: good:0: device_props: it fell off the bus (DEVICE_LOST, status 10)"},
      {"props_band",
       "INTERNAL: good:0: device_props: features 0x1 has bands that no table "
       "announces (0x0)"},
      {"props_execution", "UNSUPPORTED: good:0: device_props: execution 7 is new to this core"},
      {"props_alignment", "INTERNAL: good:0: device_props: alignment_bytes 48 is no power of two"},
      {"props_host_memory",
       "INTERNAL: good:0: device_props: BP_DEVICE_HOST_MEMORY_BIT needs "
       "BP_DEVICE_ADDRESS_BIT"},
      {"props_dlpack", "INTERNAL: good:0: device_props: dlpack_device_id -1 is below 0"},
      {"props_name",
       "INTERNAL: good:0: device_props: name, vendor or driver is no UTF-8 text of "
       "at most 4 KiB"}};
  for (const auto& [fault, words] : faults) {
    EXPECT_EQ(open({{"device_fault", fault}}).status().to_string(), words);
  }
  // The fake's shutdown complains about devices that are still open.
  LogCapture log;
  set_.plugins.clear();
  EXPECT_EQ(log.count(BP_LOG_WARNING, "shutdown with open devices"), 0);
}

/// The table's answer for a second object where the plugin gives the first one again, or NULL.
std::string second_event(const PluginSet& set, const DeviceTable& table, const char* action) {
  bp_event_args args{};
  args.struct_size = sizeof(args);
  bp_event* first = nullptr;
  bp_event* second = nullptr;
  EXPECT_EQ(table.event_create(args, &first), BP_OK);
  setenv("FAKE_HOSTILE", (std::string("event_create=") + action).c_str(), 1);
  const bp_status status = table.event_create(args, &second);
  unsetenv("FAKE_HOSTILE");
  EXPECT_EQ(second, nullptr);
  const Status told = set.plugins[0]->host().to_status(status, "");
  EXPECT_EQ(table.event_destroy(first), BP_OK);
  return told.to_string();
}

TEST(HostileDevices, Handles_NullOrGivenBefore_AreRefused) {
  PluginTree tree;
  tree.add("hostile");
  setenv("FAKE_HOSTILE", "event_create=same,stream_create=same", 1);  // notes what it gives
  const PluginSet set = load_plugins(tree.options());
  const auto table = open_device(*set.plugins.at(0), 0, {});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(second_event(set, *table, "same"),
            "INTERNAL: hostile:0: event_create answered an object that it gave before (INTERNAL, "
            "status 14)");
  EXPECT_EQ(second_event(set, *table, "null"),
            "INTERNAL: hostile:0: event_create answered OK and NULL (INTERNAL, status 14)");
  EXPECT_EQ(table->device_close(), BP_OK);
}

TEST_F(Devices, ListKernels_OfTheFake_LeavesTheBrokenOneOut) {
  const auto table = open({});
  ASSERT_TRUE(table.ok());
  LogCapture log;
  const auto list = list_kernels(*set_.plugins[0], *table);
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  ASSERT_EQ(list->kernels.size(), 3u);
  EXPECT_EQ(list->kernels[0].name, "relu_plain");
  EXPECT_EQ(list->kernels[0].op, "relu");
  EXPECT_EQ(list->kernels[1].name, "add_plain");
  EXPECT_EQ(list->kernels[2].name, "sub_dense");
  ASSERT_EQ(list->refused.size(), 1u);
  EXPECT_EQ(list->refused[0], "kernel 1 (broken): launch is missing");
  EXPECT_EQ(log.count(BP_LOG_WARNING, "good:0: left out: kernel 1 (broken): launch is missing"), 1);
  EXPECT_EQ(table->device_close(), BP_OK);
}

TEST_F(Devices, ListKernels_Faults_AreErrors) {
  const std::pair<const char*, const char*> faults[] = {
      {"list_fails", "INTERNAL: good:0: kernel_list: the kernels are lost (INTERNAL, status 14)"},
      {"list_null", "INTERNAL: kernel_list: expected an array of at most 65536, found 4 at 0x0"}};
  for (const auto& [fault, words] : faults) {
    const auto table = open({{"device_fault", fault}});
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(list_kernels(*set_.plugins[0], *table).status().to_string(), words);
    EXPECT_EQ(table->device_close(), BP_OK);
  }
}

TEST_F(Devices, Launch_OfTheFakesAdd_BroadcastsAndComputes) {
  const auto table = open({});
  ASSERT_TRUE(table.ok());
  const auto list = list_kernels(*set_.plugins[0], *table);
  ASSERT_TRUE(list.ok());
  float x[6] = {1, 2, 3, 4, 5, 6};
  float y[3] = {10, 20, 30};
  float out[6] = {};
  const int64_t sizes[] = {2, 3};
  const int64_t strides[] = {3, 1};
  bp_tensor tensors[3] = {};
  float* const data[] = {x, y, out};
  for (int i = 0; i < 3; ++i) {
    tensors[i].handle = reinterpret_cast<uint64_t>(data[i]);
    tensors[i].dtype = BP_DTYPE_F32;
    tensors[i].rank = i == 1 ? 1 : 2;
    tensors[i].sizes = i == 1 ? sizes + 1 : sizes;
    tensors[i].strides = i == 1 ? strides + 1 : strides;
  }
  const KernelRecord& add = list->kernels[1];
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = table->device;
  args.kernel = add.original;
  args.tensors = tensors;
  args.input_count = 2;
  args.output_count = 1;
  ASSERT_EQ(add.kernel.launch(&args), BP_OK);
  EXPECT_THAT(out, testing::ElementsAre(11, 22, 33, 14, 25, 36));
  EXPECT_EQ(table->device_close(), BP_OK);
}

}  // namespace
}  // namespace bp
