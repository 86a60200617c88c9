// SPDX-License-Identifier: Apache-2.0
//
// What a plugin hands to the core, at every size: tables, kernel descriptors, argument rules, rows
// of collectives, extensions, reports. Each is allocated at exactly the size it claims.
#include <gmock/gmock.h>

#include <vector>

#include "core/device/collective_caps.hpp"
#include "core/device/kernel_list.hpp"
#include "core/plugin/load_steps.hpp"
#include "struct_table.hpp"
#include "truncated.hpp"

namespace bp::abi {
namespace {

using testing::HasSubstr;

constexpr uint32_t kLargest = 64 * 1024;

/// Every slot set, to a value that nobody calls.
template <class Table>
Table whole_table(uint32_t flags) {
  Table table;
  std::memset(static_cast<void*>(&table), 0x5a, sizeof(table));
  table.struct_size = sizeof(table);
  table.flags = flags;
  return table;
}

struct Tables {
  Truncated<bp_root_api> root{whole_table<bp_root_api>(0), sizeof(bp_root_api)};
  Truncated<bp_device_api> device{whole_table<bp_device_api>(0), sizeof(bp_device_api)};
  Truncated<bp_memory_api> memory{whole_table<bp_memory_api>(0), sizeof(bp_memory_api)};
  Truncated<bp_kernel_api> kernel{whole_table<bp_kernel_api>(0), sizeof(bp_kernel_api)};
};

/// What the core makes of the offered tables.
Status validate(const bp_plugin& offered, PluginTables* out_tables) {
  const LoadOptions options;
  const PluginSet set;
  Attempt attempt{.options = options, .earlier = set, .entry_folder = "", .manifest_path = ""};
  attempt.offered = offered;
  Status status = validate_tables(&attempt);
  *out_tables = std::move(attempt.parts.tables);
  return status;
}

bp_plugin offer(Tables* tables) {
  bp_plugin offered{};
  offered.struct_size = sizeof(offered);
  offered.root = tables->root.get();
  offered.device = tables->device.get();
  offered.memory = tables->memory.get();
  offered.kernel = tables->kernel.get();
  return offered;
}

/// The same, as the description of the ABI has it: the required part is there, and each band that
/// the flags announce is whole, each other one whole or absent.
bool is_acceptable(std::string_view table, uint32_t bytes, bool announced) {
  if (bytes % 8 != 0 || bytes < 8) return false;
  std::string_view band;
  bool band_begins_inside = false;
  for (const SlotInfo& slot : kSlots) {
    if (slot.table != table) continue;
    const bool inside = slot.offset + 8 <= bytes;
    if (slot.band != band || slot.band.empty()) {
      band = slot.band;
      band_begins_inside = inside;
    }
    if (slot.is_required && !inside) return false;
    if (!band.empty() && announced && !inside) return false;
    if (!band.empty() && band_begins_inside && !inside) return false;
  }
  return true;
}

/// One table at every size; `use` puts it in the offer and `get` takes the core's copy.
template <class Table, class Use, class Get>
void expect_each_size(std::string_view name, uint32_t flags, Use use, Get get) {
  size_t accepted = 0;
  for (uint32_t bytes = 0; bytes <= sizeof(Table) + 32; bytes += 4) {
    Tables tables;
    bp_plugin offered = offer(&tables);
    Truncated<Table> truncated(whole_table<Table>(flags), bytes);
    use(&offered, truncated.get());
    PluginTables read;
    const Status status = validate(offered, &read);
    const bool expected = is_acceptable(name, bytes, flags != 0);
    EXPECT_EQ(status.ok(), expected) << name << " of " << bytes << ": " << status.to_string();
    if (!status.ok()) {
      EXPECT_THAT(status.message(), HasSubstr("table ")) << bytes;
      continue;
    }
    ++accepted;
    const Table& own = get(read);
    EXPECT_EQ(own.struct_size, sizeof(Table));
    for (const SlotInfo& slot : kSlots) {
      if (slot.table != name) continue;
      void* pointer = nullptr;
      std::memcpy(&pointer, reinterpret_cast<const std::byte*>(&own) + slot.offset, 8);
      const bool there = slot.offset + 8 <= bytes && (slot.band.empty() || flags != 0);
      EXPECT_EQ(pointer != nullptr, there) << slot.name << " with " << bytes;
    }
  }
  EXPECT_GT(accepted, 0u) << name;
}

TEST(TruncatedTables, Validate_RootTableOfEverySize_IsCopiedOrRefused) {
  expect_each_size<bp_root_api>(
      "bp_root_api", 0, [](bp_plugin* plugin, const bp_root_api* table) { plugin->root = table; },
      [](const PluginTables& tables) { return tables.root; });
}

TEST(TruncatedTables, Validate_DeviceTableOfEverySize_IsCopiedOrRefused) {
  expect_each_size<bp_device_api>(
      "bp_device_api", 0,
      [](bp_plugin* plugin, const bp_device_api* table) { plugin->device = table; },
      [](const PluginTables& tables) { return tables.device; });
}

TEST(TruncatedTables, Validate_KernelTableOfEverySize_IsCopiedOrRefused) {
  expect_each_size<bp_kernel_api>(
      "bp_kernel_api", 0,
      [](bp_plugin* plugin, const bp_kernel_api* table) { plugin->kernel = table; },
      [](const PluginTables& tables) { return tables.kernel; });
}

TEST(TruncatedTables, Validate_CollectiveTableOfEverySize_IsCopiedOrRefused) {
  expect_each_size<bp_collective_api>(
      "bp_collective_api", 0,
      [](bp_plugin* plugin, const bp_collective_api* table) { plugin->collective = table; },
      [](const PluginTables& tables) { return tables.collective; });
}

TEST(TruncatedTables, Validate_MemoryTableOfEverySize_HasWholeBands) {
  for (const uint32_t flags : {0u, kBandBits}) {
    expect_each_size<bp_memory_api>(
        "bp_memory_api", flags,
        [](bp_plugin* plugin, const bp_memory_api* table) { plugin->memory = table; },
        [](const PluginTables& tables) { return tables.memory; });
  }
}

TEST(TruncatedTables, Validate_StreamTableOfEverySize_HasWholeBands) {
  for (const uint32_t flags : {0u, kBandBits}) {
    expect_each_size<bp_stream_api>(
        "bp_stream_api", flags,
        [](bp_plugin* plugin, const bp_stream_api* table) { plugin->stream = table; },
        [](const PluginTables& tables) { return tables.stream; });
  }
}

TEST(TruncatedTables, Validate_TableOfOddSize_IsRefused) {
  for (uint32_t bytes = 1; bytes <= sizeof(bp_memory_api) + 16; bytes += 2) {
    Tables tables;
    bp_plugin offered = offer(&tables);
    Truncated<bp_memory_api> truncated(whole_table<bp_memory_api>(0), bytes);
    offered.memory = truncated.get();
    PluginTables read;
    EXPECT_THAT(validate(offered, &read).message(),
                HasSubstr("struct_size is " + std::to_string(bytes)));
  }
}

TEST(TruncatedTables, Validate_LargestAndTooLargeTable_OneIsANewerPlugin) {
  for (const uint32_t bytes : {kLargest, kLargest + 8}) {
    Tables tables;
    bp_plugin offered = offer(&tables);
    Truncated<bp_device_api> truncated(whole_table<bp_device_api>(0), bytes);
    offered.device = truncated.get();
    PluginTables read;
    EXPECT_EQ(validate(offered, &read).ok(), bytes == kLargest) << bytes;
  }
}

TEST(TruncatedExtension, Validate_ExtensionOfEverySize_IsReadOrRefused) {
  constexpr int kTable = 1;
  const bp_extension whole{.struct_size = sizeof(bp_extension),
                           .flags = 0,
                           .name = {"vendor.feature", 14},
                           .version = 2,
                           .reserved = 0,
                           .table = &kTable};
  for (uint32_t bytes = 0; bytes <= sizeof(bp_extension) + 32; bytes += 4) {
    Tables tables;
    bp_plugin offered = offer(&tables);
    Truncated<bp_extension> truncated(whole, bytes);
    const bp_extension* const list[] = {truncated.get()};
    offered.extensions = list;
    offered.extension_count = 1;
    PluginTables read;
    const bool whole_enough = bytes % 8 == 0 && bytes >= offsetof(bp_extension, table) + 8;
    EXPECT_EQ(validate(offered, &read).ok(), whole_enough) << bytes;
    EXPECT_EQ(read.extensions.size(), whole_enough ? 1u : 0u) << bytes;
  }
}

TEST(TruncatedExtension, Plugin_WithoutExtensions_HasNone) {
  Tables tables;
  bp_plugin offered = offer(&tables);
  PluginTables read;
  ASSERT_TRUE(validate(offered, &read).ok());
  EXPECT_TRUE(read.extensions.empty());
  // A plugin whose struct ends before the count.
  const bp_extension* const list[] = {nullptr};
  offered.extensions = list;
  ASSERT_TRUE(validate(offered, &read).ok());
  EXPECT_TRUE(read.extensions.empty());
}

// --- kernel descriptors ---

bp_status never_launch(const bp_launch_args*) { return BP_INTERNAL; }
bp_status never_create(bp_device*, const bp_kernel*, const bp_kernel_plan*, bp_kernel_state**) {
  return BP_INTERNAL;
}
void never_destroy(bp_device*, bp_kernel_state*) {}
bp_status never_query(bp_device*, const bp_kernel_plan*, uint32_t, bp_prepack_info*) {
  return BP_INTERNAL;
}
bp_status never_pack(bp_device*, const bp_prepack_args*) { return BP_INTERNAL; }

bp_kernel whole_kernel() {
  static constexpr uint64_t kMasks[] = {BP_DTYPE_BIT(BP_DTYPE_F32)};
  bp_kernel kernel{};
  kernel.name = {"relu_sample", 11};
  kernel.op = {"relu", 4};
  kernel.version_min = 1;
  kernel.version_max = 1;
  kernel.dtype_masks = kMasks;
  kernel.dtype_mask_count = 1;
  kernel.launch = never_launch;
  kernel.state_create = never_create;
  kernel.state_destroy = never_destroy;
  kernel.prepack_query = never_query;
  kernel.prepack = never_pack;
  return kernel;
}

KernelList validate_one(const bp_kernel* kernel) {
  const bp_kernel* const kernels[] = {kernel};
  const bp_kernel_list list{
      .struct_size = sizeof(bp_kernel_list), .flags = 0, .kernels = kernels, .kernel_count = 1};
  Result<KernelList> result = validate_kernels("sample", list);
  EXPECT_TRUE(result.ok());
  return std::move(result).value();
}

TEST(TruncatedKernel, ValidateKernels_DescriptorOfEverySize_IsCopiedOrLeftOut) {
  constexpr uint32_t kLaunchEnd = offsetof(bp_kernel, launch) + 8;
  constexpr uint32_t kHalfState = offsetof(bp_kernel, state_destroy);
  constexpr uint32_t kHalfPack = offsetof(bp_kernel, prepack);
  for (uint32_t bytes = 0; bytes <= sizeof(bp_kernel) + 32; bytes += 4) {
    Truncated<bp_kernel> truncated(whole_kernel(), bytes);
    const KernelList list = validate_one(truncated.get());
    const bool expected =
        bytes % 8 == 0 && bytes >= kLaunchEnd && bytes != kHalfState && bytes != kHalfPack;
    EXPECT_EQ(list.kernels.size(), expected ? 1u : 0u) << bytes;
    EXPECT_EQ(list.refused.size(), expected ? 0u : 1u) << bytes;
    if (!expected) continue;
    EXPECT_EQ(list.kernels[0].kernel.struct_size, sizeof(bp_kernel));
    EXPECT_EQ(list.kernels[0].kernel.state_create != nullptr, bytes > kHalfState) << bytes;
    EXPECT_EQ(list.kernels[0].kernel.prepack != nullptr, bytes > kHalfPack) << bytes;
  }
}

TEST(TruncatedKernel, ValidateKernels_ArgumentRuleOfEverySize_IsZeroBeyondItsEnd) {
  bp_kernel kernel = whole_kernel();
  kernel.struct_size = sizeof(kernel);
  kernel.arg_rule_count = 1;
  const bp_arg_rule whole{.struct_size = sizeof(bp_arg_rule),
                          .flags = BP_ARG_HOST_AT_PLAN_BIT,
                          .strides = BP_STRIDES_ANY,
                          .alignment_bytes = 64};
  for (uint32_t bytes = 0; bytes <= sizeof(bp_arg_rule) + 32; bytes += 4) {
    Truncated<bp_arg_rule> truncated(whole, bytes);
    const bp_arg_rule* const rules[] = {truncated.get()};
    kernel.arg_rules = rules;
    const KernelList list = validate_one(&kernel);
    const bool expected = bytes % 8 == 0 && bytes >= 8;
    ASSERT_EQ(list.kernels.size(), expected ? 1u : 0u) << bytes;
    if (!expected) continue;
    const bp_arg_rule& rule = list.kernels[0].arg_rules.at(0);
    EXPECT_EQ(rule.flags, BP_ARG_HOST_AT_PLAN_BIT);
    EXPECT_EQ(rule.strides, bytes >= 16 ? BP_STRIDES_ANY : BP_STRIDES_CONTIGUOUS) << bytes;
    EXPECT_EQ(rule.alignment_bytes, bytes >= 16 ? 64u : 0u) << bytes;
  }
}

// --- collectives ---

/// The rows of a device with the required kinds, each of so many bytes; the memory ends where the
/// last one does.
class RowsOf {
 public:
  explicit RowsOf(uint32_t bytes)
      : stride_(std::max<uint32_t>(bytes / 8 * 8, sizeof(bp_collective_row))),
        memory_(new std::byte[size_t{kCount - 1} * stride_ + std::max<size_t>(bytes, 4)]) {
    note_size<bp_collective_row>(bytes);
    for (uint32_t kind = 0; kind < kCount; ++kind) {
      const bp_collective_row row{.struct_size = bytes,
                                  .flags = BP_ROW_DETERMINISTIC_BIT,
                                  .kind = kind,
                                  .reserved = 0,
                                  .reductions = BP_REDUCTION_BIT(BP_REDUCTION_SUM),
                                  .dtypes = BP_DTYPE_BIT(BP_DTYPE_F32)};
      const size_t here = std::clamp<size_t>(bytes, 4, sizeof(row));
      std::memcpy(memory_.get() + size_t{kind} * stride_, &row, here);
    }
  }
  bp_collective_caps caps() const {
    bp_collective_caps caps{};
    caps.struct_size = sizeof(caps);
    caps.domain = "link";
    caps.domain_bytes = 4;
    caps.uid_bytes = 32;
    caps.rows = reinterpret_cast<const bp_collective_row*>(memory_.get());
    caps.row_count = kCount;
    caps.row_stride_bytes = stride_;
    return caps;
  }

  static constexpr uint32_t kCount = BP_COLLECTIVE_RECV + 1;

 private:
  const uint32_t stride_;
  const std::unique_ptr<std::byte[]> memory_;
};

TEST(TruncatedCollective, CheckCaps_RowsOfEverySize_AreReadOrRefused) {
  for (uint32_t bytes = 0; bytes <= sizeof(bp_collective_row) + 32; bytes += 4) {
    const RowsOf rows(bytes);
    const Result<CollectiveCaps> read = check_collective_caps("sample:0", rows.caps());
    const bool expected = bytes % 8 == 0 && bytes >= sizeof(bp_collective_row);
    ASSERT_EQ(read.ok(), expected) << bytes << ": " << as_status(read).to_string();
    if (!expected) {
      EXPECT_THAT(read.status().message(),
                  HasSubstr("row 0: struct_size is " + std::to_string(bytes)));
      continue;
    }
    ASSERT_EQ(read->rows.size(), size_t{RowsOf::kCount}) << bytes;
    for (uint32_t kind = 0; kind < RowsOf::kCount; ++kind) {
      EXPECT_EQ(read->rows[kind].kind, kind);
      EXPECT_EQ(read->rows[kind].dtypes, BP_DTYPE_BIT(BP_DTYPE_F32)) << bytes;
      EXPECT_TRUE(read->rows[kind].is_deterministic);
    }
  }
}

// --- reports ---

TEST(TruncatedReport, Report_InfoOfEverySize_IsTakenWholeOrNotAtAll) {
  const std::string words = "a sentence";
  const bp_report_info whole{.struct_size = sizeof(bp_report_info),
                             .flags = 0,
                             .status = BP_BUSY,
                             .reserved = 0,
                             .vendor_code = 7,
                             .op_seq = 9,
                             .stream = nullptr,
                             .message = {words.data(), words.size()}};
  constexpr uint32_t kRequired = offsetof(bp_report_info, message) + sizeof(bp_str);
  for (uint32_t bytes = 0; bytes <= sizeof(bp_report_info) + 32; bytes += 4) {
    HostContext context("sample");
    Truncated<bp_report_info> truncated(whole, bytes);
    HostContext::api()->report(&context, truncated.get());
    const auto report = context.take_report();
    ASSERT_EQ(report.has_value(), bytes >= kRequired) << bytes;
    if (report) {
      EXPECT_EQ(report->message, words);
    }
  }
}

}  // namespace
}  // namespace bp::abi
