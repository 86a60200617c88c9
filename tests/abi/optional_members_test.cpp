// SPDX-License-Identifier: Apache-2.0
//
// Law 2: zero in a member means what a side that does not know it would do. One test for each
// member that a side may not know; the list comes from the ABI's description, so that an appended
// member without a test fails here, by name.
#include <map>

#include "core/device/collective_caps.hpp"
#include "core/device/kernel_list.hpp"
#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/plugin/loader.hpp"
#include "plugin_fixture.hpp"
#include "struct_table.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kDeadlineNs = 60'000'000'000;

/// The member, and the test that says what its absence means.
const std::map<std::string_view, std::string_view>& tests_of_members() {
  static const std::map<std::string_view, std::string_view> tests = {
      {"bp_device_props.name", "DeviceProps_NoneFilled_AreAPlainQueuedDevice"},
      {"bp_device_props.vendor", "DeviceProps_NoneFilled_AreAPlainQueuedDevice"},
      {"bp_device_props.driver", "DeviceProps_NoneFilled_AreAPlainQueuedDevice"},
      {"bp_device_props.dlpack_device_type", "DeviceProps_NoneFilled_AreAPlainQueuedDevice"},
      {"bp_device_props.dlpack_device_id", "DeviceProps_NoneFilled_AreAPlainQueuedDevice"},
      {"bp_arg_rule.strides", "ArgRule_Empty_DemandsContiguous"},
      {"bp_arg_rule.alignment_bytes", "ArgRule_Empty_DemandsContiguous"},
      {"bp_arg_info.host_data", "ArgInfo_WithoutHostData_IsAsWithNull"},
      {"bp_support.reason", "Support_WithoutReason_HasTheSameAnswer"},
      {"bp_support.ranges", "Support_WithoutRanges_HasTheSameAnswer"},
      {"bp_support.range_count", "Support_WithoutRanges_HasTheSameAnswer"},
      {"bp_plan_info.reason", "PlanInfo_WithoutReason_HasTheSameAnswer"},
      {"bp_plan_info.packed_inputs", "PlanInfo_WithoutPackedInputs_PacksNothing"},
      {"bp_plan_info.out_strides", "PlanInfo_WithoutOutStrides_ChoosesNoOrder"},
      {"bp_kernel.supports", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.plan", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.plan_free", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.state_create", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.state_destroy", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.prepack_query", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.prepack", "Kernel_WithLaunchAlone_Runs"},
      {"bp_kernel.in_place_inputs", "Kernel_WithLaunchAlone_Runs"},
      {"bp_alloc_args.usage", "AllocArgs_WithoutUsage_GiveMemory"},
      {"bp_memory_api.band FILL", "BandFill_Absent_IsStaged"},
      {"bp_memory_api.band PINNED", "BandPinned_Absent_IsAlignedMemory"},
      {"bp_memory_api.band MAP", "BandMap_Absent_IsStaged"},
      {"bp_stream_api.band ASYNC", "BandAsync_Absent_IsAWorker"},
      {"bp_stream_api.band TIMING", "BandTiming_Absent_IsHostTime"},
      {"bp_stream_api.band NATIVE", "BandNative_Absent_IsNoQueue"},
      {"bp_plugin.extensions", "Plugin_WithoutExtensions_HasNone"},
      {"bp_plugin.extension_count", "Plugin_WithoutExtensions_HasNone"},
      {"bp_plugin.collective", "Plugin_WithoutCollectives_HasNone"},
  };
  return tests;
}

TEST(OptionalMembers, List_EveryOptionalMember_HasItsTest) {
  std::string registered;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      registered += std::string(" ") + suite.GetTestInfo(j)->name();
    }
  }
  for (const std::string_view member : kOptionalMembers) {
    const auto at = tests_of_members().find(member);
    ASSERT_NE(at, tests_of_members().end())
        << member << " is optional: write a test of what zero in it means and name it above";
    EXPECT_NE(registered.find(" " + std::string(at->second)), std::string::npos) << at->second;
  }
  EXPECT_EQ(tests_of_members().size(), std::size(kOptionalMembers)) << "a test of no member";
}

// --- what a plugin may leave out ---

/// A device whose core completes it: the plugin has the required functions, nothing else.
class OptionalBands : public testing::Test {
 protected:
  void SetUp() override {
    LoadOptions options;
    options.search_path = {BP_FAKES_DIR "/good"};
    options.install_directory.clear();
    set_ = std::make_unique<PluginSet>(load_plugins(options));
    ASSERT_NE(set_->find("good"), nullptr);
    Result<DeviceTable> opened = open_device(*set_->find("good"), 0, {});
    ASSERT_TRUE(opened.ok());
    table_ = *opened;
    EXPECT_EQ(table_.memory.mem_fill, nullptr);
    EXPECT_EQ(table_.memory.host_alloc, nullptr);
    EXPECT_EQ(table_.memory.mem_map, nullptr);
    EXPECT_EQ(table_.stream.stream_create, nullptr);
    emulation_ = emulate_missing(&table_);
    ASSERT_NE(emulation_, nullptr);
    bp_alloc_args args{};
    args.struct_size = sizeof(args);
    args.bytes = kBytes;
    ASSERT_EQ(table_.mem_alloc(args, &handle_), BP_OK);
  }
  void TearDown() override {
    if (handle_ != 0) {
      EXPECT_EQ(table_.mem_free(handle_), BP_OK);
    }
    emulation_.reset();
    if (table_.device != nullptr) {
      EXPECT_EQ(table_.device_close(), BP_OK);
    }
  }
  void fill(uint8_t byte) const {
    bp_fill_args args{};
    args.struct_size = sizeof(args);
    args.dst = {handle_, 0};
    args.bytes = kBytes;
    args.pattern = byte;
    args.pattern_bytes = 1;
    ASSERT_EQ(table_.mem_fill(args), BP_OK);
  }
  /// The device's memory; the fake's is the host's.
  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(handle_); }
  bp_event* recorded_event(bp_stream* stream) const {
    const bp_event_args args{.struct_size = sizeof(bp_event_args), .flags = BP_EVENT_TIMING_BIT};
    bp_event* event = nullptr;
    EXPECT_EQ(table_.event_create(args, &event), BP_OK);
    EXPECT_EQ(table_.event_record(event, stream), BP_OK);
    return event;
  }
  bp_stream* new_stream() const {
    const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    bp_stream* stream = nullptr;
    EXPECT_EQ(table_.stream_create(args, &stream), BP_OK);
    return stream;
  }

  static constexpr uint64_t kBytes = 512;
  std::unique_ptr<PluginSet> set_;
  DeviceTable table_;
  EmulationPtr emulation_{nullptr, nullptr};
  uint64_t handle_ = 0;
};

TEST_F(OptionalBands, BandFill_Absent_IsStaged) {
  fill(0x6b);
  EXPECT_EQ(bytes()[0], 0x6b);
  EXPECT_EQ(bytes()[kBytes - 1], 0x6b);
}

TEST_F(OptionalBands, BandPinned_Absent_IsAlignedMemory) {
  const bp_host_alloc_args args{
      .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = 100};
  void* pinned = nullptr;
  ASSERT_EQ(table_.host_alloc(args, &pinned), BP_OK);
  EXPECT_EQ(reinterpret_cast<uint64_t>(pinned) % 64, 0u);
  std::memset(pinned, 1, 100);
  EXPECT_EQ(table_.host_free(pinned), BP_OK);
}

TEST_F(OptionalBands, BandMap_Absent_IsStaged) {
  fill(3);
  bp_map_args args{};
  args.struct_size = sizeof(args);
  args.mem = {handle_, 8};
  args.bytes = 16;
  args.access = BP_MAP_READ_BIT | BP_MAP_WRITE_BIT;
  void* mapped = nullptr;
  ASSERT_EQ(table_.mem_map(args, &mapped), BP_OK);
  EXPECT_EQ(static_cast<uint8_t*>(mapped)[15], 3);
  std::memset(mapped, 9, 16);
  ASSERT_EQ(table_.mem_unmap(mapped), BP_OK);
  EXPECT_EQ(bytes()[7], 3);
  EXPECT_EQ(bytes()[8], 9);
  EXPECT_EQ(bytes()[24], 3);
}

TEST_F(OptionalBands, BandAsync_Absent_IsAWorker) {
  EXPECT_TRUE(table_.stream_emulated());
  const uint8_t sent[4] = {1, 2, 3, 4};
  bp_stream* const stream = new_stream();
  ASSERT_NE(stream, nullptr);
  bp_copy_args args{};
  args.struct_size = sizeof(args);
  args.kind = BP_COPY_HOST_TO_DEVICE;
  args.dst = {handle_, 0};
  args.src = {reinterpret_cast<uint64_t>(sent), 0};
  args.bytes = sizeof(sent);
  EXPECT_EQ(table_.mem_copy_async(stream, args), BP_OK);
  bp_event* const event = recorded_event(stream);
  EXPECT_EQ(table_.event_sync(event, kDeadlineNs), BP_OK);
  EXPECT_EQ(std::memcmp(bytes(), sent, sizeof(sent)), 0);
  EXPECT_EQ(table_.event_destroy(event), BP_OK);
  EXPECT_EQ(table_.stream_destroy(stream), BP_OK);
}

TEST_F(OptionalBands, BandTiming_Absent_IsHostTime) {
  bp_stream* const stream = new_stream();
  ASSERT_NE(stream, nullptr);
  bp_event* const start = recorded_event(stream);
  bp_event* const end = recorded_event(stream);
  EXPECT_EQ(table_.stream_sync(stream, kDeadlineNs), BP_OK);
  uint64_t elapsed_ns = UINT64_MAX;
  EXPECT_EQ(table_.event_elapsed(start, end, &elapsed_ns), BP_OK);
  EXPECT_LT(elapsed_ns, kDeadlineNs);
  EXPECT_EQ(table_.event_destroy(start), BP_OK);
  EXPECT_EQ(table_.event_destroy(end), BP_OK);
  EXPECT_EQ(table_.stream_destroy(stream), BP_OK);
}

/// Nothing stands in for the table: a device that has all that collectives need has none.
TEST_F(OptionalBands, Plugin_WithoutCollectives_HasNone) {
  EXPECT_EQ(table_.collective.collective_caps, nullptr);
  table_.props.flags |= BP_DEVICE_CONCURRENT_BIT;
  table_.props.features |= BP_FEATURE_ASYNC_BIT;
  table_.emulated = 0;
  const auto caps = ask_collective_caps(*set_->find("good"), table_);
  ASSERT_TRUE(caps.ok()) << as_status(caps).to_string();
  EXPECT_FALSE(caps->has_value());
}

/// The one band that the core has nothing in the place of.
TEST_F(OptionalBands, BandNative_Absent_IsNoQueue) {
  EXPECT_EQ(table_.stream.stream_native_handle, nullptr);
  EXPECT_EQ(table_.stream.stream_wrap, nullptr);
  EXPECT_FALSE(table_.has_native(BP_FEATURE_NATIVE_BIT));
  EXPECT_EQ(table_.emulated & BP_FEATURE_NATIVE_BIT, 0u);
}

TEST_F(OptionalBands, Kernel_WithLaunchAlone_Runs) {
  Result<KernelList> list = list_kernels(*set_->find("good"), table_);
  ASSERT_TRUE(list.ok());
  ASSERT_FALSE(list->kernels.empty());
  const KernelRecord& relu = list->kernels[0];
  EXPECT_EQ(relu.kernel.supports, nullptr);
  EXPECT_EQ(relu.kernel.plan, nullptr);
  EXPECT_EQ(relu.kernel.plan_free, nullptr);
  EXPECT_EQ(relu.kernel.state_create, nullptr);
  EXPECT_EQ(relu.kernel.state_destroy, nullptr);
  EXPECT_EQ(relu.kernel.prepack_query, nullptr);
  EXPECT_EQ(relu.kernel.prepack, nullptr);
  EXPECT_EQ(relu.kernel.in_place_inputs, 0u);
  auto* const values = reinterpret_cast<float*>(handle_);
  values[0] = -2;
  values[1] = 2;
  const int64_t sizes[] = {2};
  const int64_t strides[] = {1};
  bp_tensor tensor{};
  tensor.handle = handle_;
  tensor.storage_bytes = kBytes;
  tensor.dtype = BP_DTYPE_F32;
  tensor.rank = 1;
  tensor.sizes = sizes;
  tensor.strides = strides;
  const bp_tensor tensors[] = {tensor, tensor};
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = table_.device;
  args.kernel = relu.original;
  args.tensors = tensors;
  args.input_count = 1;
  args.output_count = 1;
  EXPECT_EQ(call_launch(table_, nullptr, args, nullptr), BP_OK);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 2);
}

bp_status no_launch(const bp_launch_args*) { return BP_INTERNAL; }

TEST(OptionalMembers, ArgRule_Empty_DemandsContiguous) {
  bp_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = {"sample", 6};
  kernel.op = {"relu", 4};
  kernel.launch = no_launch;
  Truncated<bp_arg_rule> rule({}, 8);
  const bp_arg_rule* const rules[] = {rule.get()};
  kernel.arg_rules = rules;
  kernel.arg_rule_count = 1;
  const bp_kernel* const kernels[] = {&kernel};
  const bp_kernel_list list{
      .struct_size = sizeof(bp_kernel_list), .flags = 0, .kernels = kernels, .kernel_count = 1};
  const Result<KernelList> read = validate_kernels("sample", list);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->kernels.size(), 1u);
  EXPECT_EQ(read->kernels[0].arg_rules.at(0).strides, BP_STRIDES_CONTIGUOUS);
  EXPECT_EQ(read->kernels[0].arg_rules.at(0).alignment_bytes, 0u) << "the element's size";
}

/// A plugin that fills of its props nothing at all.
TEST(OptionalMembers, DeviceProps_NoneFilled_AreAPlainQueuedDevice) {
  static int device_object = 0;
  LoadedPlugin::Parts parts;
  parts.manifest.id = "sample";
  parts.host = HostContext::lend("sample");
  parts.gate = std::make_shared<CallGate>("plugin sample");
  parts.call_timeout = std::chrono::seconds(30);
  parts.device_count = 1;
  parts.tables.device.device_open = [](bp_instance*, const bp_open_args*, bp_device** out_device) {
    *out_device = reinterpret_cast<bp_device*>(&device_object);
    return BP_OK;
  };
  parts.tables.device.device_props = [](bp_device*, bp_device_props*) { return BP_OK; };
  parts.tables.device.device_close = [](bp_device*) { return BP_OK; };
  const LoadedPlugin plugin(std::move(parts));
  const Result<DeviceTable> table = open_device(plugin, 0, {});
  ASSERT_TRUE(table.ok()) << as_status(table).to_string();
  EXPECT_EQ(table->props.execution, BP_EXECUTION_QUEUED);
  EXPECT_EQ(table->props.features, 0u);
  EXPECT_EQ(table->props.flags, 0u);
  EXPECT_EQ(table->props.alignment_bytes, 1u);
  EXPECT_EQ(table->props.dlpack_device_type, 0u);
  EXPECT_EQ(table->props.dlpack_device_id, 0);
  EXPECT_EQ(table->props.name.len + table->props.vendor.len + table->props.driver.len, 0u);
}

// --- what a core may leave out ---

class OptionalForPlugins : public PluginTest {
 protected:
  static constexpr int64_t kSizes[] = {8};
  static constexpr int64_t kStrides[] = {1};

  /// Calls body(kernel, query) for each kernel that answers questions, with f32 vectors of which
  /// each argument has arg_bytes.
  template <class Body>
  void for_each_question(uint32_t arg_bytes, Body body) const {
    const std::pair<std::string_view, uint32_t> operators[] = {
        {"relu", 1}, {"add", 2}, {"cast", 1}, {"gather", 2}};
    for (const auto& [op, input_count] : operators) {
      const bp_kernel* const found = kernel(op);
      if (found == nullptr) continue;
      std::vector<bp_arg_info> args(input_count + 1);
      for (bp_arg_info& arg : args) {
        arg.struct_size = arg_bytes;
        arg.dtype = BP_DTYPE_F32;
        arg.rank = 1;
        arg.sizes = kSizes;
        arg.strides = kStrides;
      }
      bp_kernel_query query{};
      query.struct_size = sizeof(query);
      query.kernel = found;
      query.op_version = found->version_max;
      query.input_count = input_count;
      query.output_count = 1;
      query.arg_stride_bytes = sizeof(bp_arg_info);
      query.args = args.data();
      body(*found, query);
    }
  }
  /// Status and answer of a kernel's functions, with answers of these sizes.
  std::vector<uint64_t> answers(uint32_t arg_bytes, uint32_t support_bytes, uint32_t plan_bytes) {
    std::vector<uint64_t> found;
    for_each_question(arg_bytes, [&](const bp_kernel& kernel, const bp_kernel_query& query) {
      if (kernel.supports != nullptr) {
        Truncated<bp_support> support({}, support_bytes);
        found.push_back(static_cast<uint64_t>(kernel.supports(device(), &query, support.get())));
        found.push_back(support.whole().answer);
      }
      if (kernel.plan != nullptr) {
        Truncated<bp_plan_info> info({}, plan_bytes);
        bp_kernel_plan* plan = nullptr;
        found.push_back(static_cast<uint64_t>(kernel.plan(device(), &query, info.get(), &plan)));
        found.push_back(info.whole().workspace_bytes);
        if (plan != nullptr) kernel.plan_free(device(), plan);
      }
    });
    return found;
  }
  static constexpr uint32_t kArg = sizeof(bp_arg_info);
  static constexpr uint32_t kSupport = sizeof(bp_support);
  static constexpr uint32_t kPlan = sizeof(bp_plan_info);
};

TEST_P(OptionalForPlugins, ArgInfo_WithoutHostData_IsAsWithNull) {
  EXPECT_EQ(answers(offsetof(bp_arg_info, host_data), kSupport, kPlan),
            answers(kArg, kSupport, kPlan));
}

TEST_P(OptionalForPlugins, Support_WithoutReason_HasTheSameAnswer) {
  EXPECT_EQ(answers(kArg, offsetof(bp_support, reason), kPlan), answers(kArg, kSupport, kPlan));
}

/// A core that knows no ranges asks plan, which refuses what they exclude.
TEST_P(OptionalForPlugins, Support_WithoutRanges_HasTheSameAnswer) {
  for (const size_t bytes : {offsetof(bp_support, ranges), offsetof(bp_support, range_count)}) {
    EXPECT_EQ(answers(kArg, static_cast<uint32_t>(bytes), kPlan), answers(kArg, kSupport, kPlan));
  }
}

TEST_P(OptionalForPlugins, PlanInfo_WithoutReason_HasTheSameAnswer) {
  EXPECT_EQ(answers(kArg, kSupport, offsetof(bp_plan_info, reason)),
            answers(kArg, kSupport, kPlan));
}

/// A core that knows no packed inputs shows none as a constant, so that nothing is lost.
TEST_P(OptionalForPlugins, PlanInfo_WithoutPackedInputs_PacksNothing) {
  EXPECT_EQ(answers(kArg, kSupport, offsetof(bp_plan_info, packed_inputs)),
            answers(kArg, kSupport, kPlan));
}

/// A core that knows no orders lets no plan choose one, so that nothing is lost.
TEST_P(OptionalForPlugins, PlanInfo_WithoutOutStrides_ChoosesNoOrder) {
  EXPECT_EQ(answers(kArg, kSupport, offsetof(bp_plan_info, out_strides)),
            answers(kArg, kSupport, kPlan));
}

TEST_P(OptionalForPlugins, AllocArgs_WithoutUsage_GiveMemory) {
  bp_alloc_args whole{};
  whole.bytes = 256;
  Truncated<bp_alloc_args> args(whole, offsetof(bp_alloc_args, usage));
  uint64_t handle = 0;
  ASSERT_EQ(memory().mem_alloc(device(), args.get(), &handle), BP_OK);
  EXPECT_NE(handle, 0u);
  free(handle);
}

INSTANTIATE_TEST_SUITE_P(Plugins, OptionalForPlugins, testing::ValuesIn(plugin_folders()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bp::abi
